//! What a recipe expects of the verifier's graders, and what the verifier says of them.

use verifier_api::{GraderInfo, ServiceInfo};

use super::RewardError;
use crate::config;

/// Settings of the graders that change verdicts, as a recipe names them; each may be left open.
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

    /// Compares what is expected of the grader for tasks of a kind with what the verifier says of it; `info` is `None` where it says nothing of itself.
    ///
    /// # Errors
    /// [`RewardError::Policy`] where it says another, [`RewardError::Unsaid`] where it says none.
    pub(super) fn check(
        &self,
        url: &str,
        kind: &'static str,
        info: Option<&ServiceInfo>,
    ) -> Result<(), RewardError> {
        let grader = info.and_then(|info| info.graders.iter().find(|grader| grader.name == kind));
        let said = grader.map_or_else(Vec::new, |grader| settings(grader));
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
            let found = said.iter().find(|(said, _)| *said == key);
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
                    return Err(RewardError::Unsaid {
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

/// What a grader's `policy` says, by the recipe's keys: `boxed, standard` of math, `program` of code.
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
        "math_policy" => "which answers it takes for the same",
        "math_extraction" => "where it looks for an answer",
        _ => "how it finds the program",
    }
}

/// The verifier's own option for a key of `[verifier]`.
pub(super) fn flag(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}
