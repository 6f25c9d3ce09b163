//! A completion in the verifier's wire format, with its task by id or inline.

use datasets::digest::Digest;
use verifier_api::{Item, TaskRef};

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
        None => TaskRef::Inline(prompt.task.spec.clone()),
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
