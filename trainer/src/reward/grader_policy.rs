//! Compares the graders' settings that a recipe expects with those that the verifier states.

use verifier_api::{GraderInfo, ServiceInfo};

use super::RewardError;
use crate::config;

/// The settings of the graders that change verdicts, as a recipe names them. `None` accepts any.
#[derive(Debug, Clone, Default)]
pub(super) struct Expected {
    math_policy: Option<String>,
    math_extraction: Option<String>,
    code_extraction: Option<String>,
}

impl Expected {
    pub(super) fn of(settings: &config::Verifier) -> Self {
        Self {
            math_policy: settings.math_policy.clone(),
            math_extraction: settings.math_extraction.clone(),
            code_extraction: settings.code_extraction.clone(),
        }
    }

    /// Compares the expected settings of the grader for tasks of a kind with the stated ones. `info` is `None` if the verifier does not describe itself.
    ///
    /// # Errors
    /// [`RewardError::Policy`] if a stated setting differs, [`RewardError::UnknownPolicy`] if it is not stated.
    pub(super) fn check(
        &self,
        url: &str,
        kind: &'static str,
        info: Option<&ServiceInfo>,
    ) -> Result<(), RewardError> {
        let grader = info.and_then(|info| info.graders.iter().find(|grader| grader.name == kind));
        let stated = grader.map_or_else(Vec::new, |grader| settings(grader));
        let expected = match kind {
            "math" => vec![
                ("math_policy", &self.math_policy),
                ("math_extraction", &self.math_extraction),
            ],
            "code" => vec![("code_extraction", &self.code_extraction)],
            _ => Vec::new(),
        };
        for (key, expected) in expected {
            let Some(expected) = expected else { continue };
            let found = stated.iter().find(|(stated, _)| *stated == key);
            match found {
                Some((_, found)) if found == expected => {}
                Some((_, found)) => {
                    return Err(RewardError::Policy {
                        url: url.to_owned(),
                        kind,
                        key,
                        expected: expected.clone(),
                        found: (*found).to_owned(),
                    });
                }
                None => {
                    return Err(RewardError::UnknownPolicy {
                        url: url.to_owned(),
                        what: what(key),
                        key,
                        expected: expected.clone(),
                    });
                }
            }
        }
        Ok(())
    }
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

fn what(key: &str) -> &'static str {
    match key {
        "math_policy" => "which answers it counts as the same",
        "math_extraction" => "where it looks for an answer",
        _ => "how it finds the program",
    }
}

/// The option of `rapid-verifier serve` for a key of `[verifier]`.
pub(super) fn flag(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}
