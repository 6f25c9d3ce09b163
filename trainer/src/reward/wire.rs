//! A completion in the verifier's wire format, with its task by id or inline.

use datasets::digest::Digest;
use datasets::{CodeTask, Compare, TaskSpec, Value};
use verifier_api::{CodeTest, InlineTask, Item, ProgramTest, TaskRef};

use crate::data::Prompt;

/// The item of a prompt and the text after it; `id` is its place in the batch. If the task is sent by its id, `digest` is the digest of the content that decides its
/// verdicts, so that a verifier with another content refuses the item. With `all_tests`, all tests run, also after the first that fails.
pub(super) fn item(
    id: usize,
    prompt: &Prompt,
    text: &str,
    digest: Option<Digest>,
    all_tests: bool,
) -> Item {
    let task = match digest {
        Some(_) => TaskRef::Named(prompt.task.id.clone()),
        None => TaskRef::Inline(inline(&prompt.task.spec)),
    };
    Item {
        id: id.to_string(),
        task,
        task_digest: digest.map(|digest| digest.to_string()),
        prompt: prompt.text.to_string(),
        completion: text.to_owned(),
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
        TaskSpec::Own(task) => InlineTask::Own(task.fields.clone()),
        TaskSpec::Code(code) => inline_code(code),
        TaskSpec::Program(program) => InlineTask::Program {
            tests: program
                .tests
                .iter()
                .map(|test| ProgramTest {
                    stdin: test.stdin.clone(),
                    stdout: test.stdout.clone(),
                })
                .collect(),
            time_limit: program.time_limit.map(|limit| limit.as_secs_f64()),
        },
    }
}

/// The whole task, except the example, which decides nothing.
fn inline_code(code: &CodeTask) -> InlineTask {
    let tests = code.tests.iter().map(|test| CodeTest {
        args: test.args.iter().map(Value::to_json).collect(),
        expected: test.expected.as_ref().map(Value::to_json),
    });
    InlineTask::Code {
        entry_point: code.entry_point.clone(),
        class_name: None,
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
        time_limit: code.time_limit.map(|limit| limit.as_secs_f64()),
    }
}
