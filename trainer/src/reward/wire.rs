//! A completion as the verifier's wire format has it: the task by its id, or whole.

use datasets::{CodeTask, Compare, Task, TaskSpec};
use verifier_api::{CodeTest, InlineTask, Item, TaskRef};

use super::{Ask, RewardError};

/// The item of a completion; `id` is its place in the batch. With `all_tests`, its tests are counted beyond the first that fails.
pub(super) fn item(
    id: usize,
    ask: &Ask,
    named: bool,
    all_tests: bool,
) -> Result<Item, RewardError> {
    let task = if named {
        TaskRef::Named(ask.task.id.clone())
    } else {
        TaskRef::Inline(inline(&ask.task)?)
    };
    Ok(Item {
        id: id.to_string(),
        task,
        prompt: ask.prompt.to_string(),
        completion: ask.completion.clone(),
        all_tests,
    })
}

/// `math`, `code` or `lean`.
pub(super) fn kind(task: &Task) -> &'static str {
    match task.spec {
        TaskSpec::Math(_) => "math",
        TaskSpec::Code(_) => "code",
        TaskSpec::Lean(_) => "lean",
    }
}

fn inline(task: &Task) -> Result<InlineTask, RewardError> {
    match &task.spec {
        TaskSpec::Math(math) => Ok(InlineTask::Math {
            answer: math.answer.clone(),
        }),
        TaskSpec::Lean(lean) => Ok(InlineTask::Lean {
            header: lean.header.clone(),
            statement: lean.statement.clone(),
        }),
        TaskSpec::Code(code) => inline_code(code).map_err(|reason| RewardError::Unknown {
            task: task.id.clone(),
            reason,
        }),
    }
}

/// Whole or not at all: a task that lost a tolerance on the way would be another task.
fn inline_code(code: &CodeTask) -> Result<InlineTask, &'static str> {
    if code.atol != 0.0 || code.compare != Compare::Equal {
        return Err("its results are compared with a tolerance or as sets");
    }
    if code.prefix.is_some() {
        return Err("its completions go on with a text of its own");
    }
    let tests = code
        .tests
        .iter()
        .map(|test| {
            let expected = test
                .expected
                .as_ref()
                .ok_or("its expected values are made from a reference program")?;
            Ok(CodeTest {
                args: test.args.iter().map(datasets::Value::to_json).collect(),
                expected: expected.to_json(),
            })
        })
        .collect::<Result<_, &'static str>>()?;
    let imports = code.imports.join("\n");
    let asserts = code
        .asserts
        .iter()
        .map(|assert| {
            if imports.is_empty() {
                assert.clone()
            } else {
                format!("{imports}\n{assert}")
            }
        })
        .collect();
    Ok(InlineTask::Code {
        entry_point: code.entry_point.clone(),
        tests,
        asserts,
    })
}
