//! A completion as the verifier's wire format has it: the task by its id, or whole.

use datasets::digest::Digest;
use datasets::{CodeTask, Compare, TaskSpec, Value};
use verifier_api::{CodeTest, InlineTask, Item, TaskRef};

use super::JudgeRequest;

/// The item of a completion; `id` is its place in the batch. Where the task goes by its id, `named` is the digest of what decides on it, so that the verifier judges by
/// that or not at all. With `all_tests`, its tests are counted beyond the first that fails.
pub(super) fn item(id: usize, ask: &JudgeRequest, named: Option<Digest>, all_tests: bool) -> Item {
    let task = match named {
        Some(_) => TaskRef::Named(ask.task.id.clone()),
        None => TaskRef::Inline(inline(&ask.task.spec)),
    };
    Item {
        id: id.to_string(),
        task,
        task_digest: named.map(|digest| digest.to_string()),
        prompt: ask.prompt.to_string(),
        completion: ask.completion.clone(),
        all_tests,
    }
}

fn inline(spec: &TaskSpec) -> InlineTask {
    match spec {
        TaskSpec::Math(math) => InlineTask::Math {
            answer: math.answer.clone(),
        },
        TaskSpec::Lean(lean) => InlineTask::Lean {
            header: lean.header.clone(),
            statement: lean.statement.clone(),
        },
        TaskSpec::Code(code) => inline_code(code),
    }
}

/// All but the example, which decides nothing.
fn inline_code(code: &CodeTask) -> InlineTask {
    let tests = code.tests.iter().map(|test| CodeTest {
        args: test.args.iter().map(Value::to_json).collect(),
        expected: test.expected.as_ref().map(Value::to_json),
    });
    InlineTask::Code {
        entry_point: code.entry_point.clone(),
        tests: tests.collect(),
        asserts: code.asserts.clone(),
        prefix: code.prefix.clone(),
        canonical: code.canonical.clone(),
        imports: code.imports.clone(),
        atol: code.atol,
        compare: match code.compare {
            Compare::Equal => verifier_api::Compare::Equal,
            Compare::Set => verifier_api::Compare::Set,
            Compare::NotNone => verifier_api::Compare::NotNone,
            Compare::PyramidSurface => verifier_api::Compare::PyramidSurface,
            Compare::DigitDistance => verifier_api::Compare::DigitDistance,
            Compare::Root => verifier_api::Compare::Root,
        },
    }
}
