//! Compares the graders' settings that a recipe expects with those that the verifier states.

use verifier_api::{GraderInfo, ServiceInfo};

use super::RewardError;
use crate::config;

/// Compares the settings of the grader for tasks of a kind that a recipe expects with the stated ones. `info` is `None` if the verifier does not describe itself.
///
/// # Errors
/// [`RewardError::Policy`] if a setting differs, or is not stated.
pub(super) fn check(
    expected: &config::Verifier,
    url: &str,
    kind: &'static str,
    info: Option<&ServiceInfo>,
) -> Result<(), RewardError> {
    let grader = info.and_then(|info| info.graders.iter().find(|grader| grader.name == kind));
    let stated = grader.map_or_else(Vec::new, settings);
    let expected: &[(&'static str, &Option<String>)] = match kind {
        "math" => &[
            ("math_policy", &expected.math_policy),
            ("math_extraction", &expected.math_extraction),
        ],
        "code" => &[("code_extraction", &expected.code_extraction)],
        _ => &[],
    };
    for (key, expected) in expected {
        let Some(expected) = expected else { continue };
        let found = stated.iter().find(|(stated, _)| stated == key);
        let found = found.map(|(_, found)| (*found).to_owned());
        if found.as_ref() != Some(expected) {
            return Err(RewardError::Policy {
                url: url.to_owned(),
                kind,
                key,
                expected: expected.clone(),
                found,
            });
        }
    }
    Ok(())
}

/// The settings in a grader's `policy`, by the recipe's keys: mathematics has `boxed, standard`, code has `program`.
fn settings(grader: &GraderInfo) -> Vec<(&'static str, &str)> {
    let Some(policy) = grader.policy.as_deref() else {
        return Vec::new();
    };
    match (grader.name.as_str(), policy.split_once(", ")) {
        ("math", Some((extraction, policy))) => {
            vec![("math_extraction", extraction), ("math_policy", policy)]
        }
        ("code", None) => vec![("code_extraction", policy)],
        _ => Vec::new(),
    }
}

/// How a verifier differs from what a recipe expects of it, and what to do.
pub(super) fn difference(kind: &str, key: &str, expected: &str, found: Option<&str>) -> String {
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
