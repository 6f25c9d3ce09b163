//! Compares the graders' settings that a recipe expects with those that the verifier states.

use verifier_api::ServiceInfo;

use super::RewardError;
use crate::config;

/// Compares the settings of the grader for tasks of a kind that a recipe expects with those in the grader's `policy`: mathematics has `boxed, standard`, code has
/// `program`. `info` is `None` if the verifier does not describe itself.
///
/// # Errors
/// [`RewardError::GraderSettings`] if a setting differs, or is not stated.
pub(super) fn check(
    expected: &config::Verifier,
    url: &str,
    kind: &str,
    info: Option<&ServiceInfo>,
) -> Result<(), RewardError> {
    let grader = info.and_then(|info| info.graders.iter().find(|grader| grader.name == kind));
    let stated = grader.and_then(|grader| grader.policy.as_deref());
    let pair = stated.and_then(|stated| stated.split_once(", "));
    let (extraction, policy) = pair.unzip();
    let settings = match kind {
        "math" => vec![
            ("math_policy", &expected.math_policy, policy),
            ("math_extraction", &expected.math_extraction, extraction),
        ],
        "code" => vec![(
            "code_extraction",
            &expected.code_extraction,
            stated.filter(|_| pair.is_none()),
        )],
        _ => Vec::new(),
    };
    for (key, expected, found) in settings {
        if let Some(expected) = expected
            && found != Some(expected.as_str())
        {
            let difference = difference(kind, key, expected, found);
            let message = format!("the verifier at {url} {difference}");
            return Err(RewardError::GraderSettings(message));
        }
    }
    Ok(())
}

/// How a verifier differs from what a recipe expects of it, and what to do.
fn difference(kind: &str, key: &str, expected: &str, found: Option<&str>) -> String {
    let option = key.replace('_', "-");
    let start = format!("start it with `rapid-verifier serve --{option} {expected}`");
    if let Some(found) = found {
        return format!(
            "judges {kind} tasks with `{found}`, and the recipe expects `{expected}` (verifier.{key}); {start}, or set `verifier.{key} = \"{found}\"`"
        );
    }
    let what = match key {
        "math_policy" => "which answers it counts as the same",
        "math_extraction" => "where it looks for an answer",
        _ => "how it finds the program",
    };
    format!(
        "does not say {what}, and the recipe expects `{expected}`; update it and {start}, or remove verifier.{key}"
    )
}
