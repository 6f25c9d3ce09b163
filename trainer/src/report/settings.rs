//! The differences between the configurations of several runs.

use std::collections::{BTreeMap, BTreeSet};

use super::flat;
use super::run_data::RunData;

/// Keys that change an evaluation: prompts, sampling and verdicts. If they differ, the figures of the same model may differ.
const EVALUATION_KEYS: &[&str] = &[
    "data.template",
    "data.chat",
    "data.chat_date",
    "data.stop",
    "eval.temperature",
    "eval.top_p",
    "eval.top_k",
    "eval.min_p",
    "verifier.math_policy",
    "verifier.math_extraction",
    "verifier.code_extraction",
];

/// A key with its value in each run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// `section.key`.
    pub(super) key: String,
    /// In the order of the runs; `None` if a run does not set the key.
    pub(super) values: Vec<Option<String>>,
}

/// The keys that differ between the runs, in alphabetical order.
pub(super) fn differing(runs: &[&RunData]) -> Vec<Setting> {
    // A text that is not TOML has no keys.
    let keys = |run: &&RunData| flat(&run.config_text.parse::<toml::Table>().ok(), "");
    let all: Vec<BTreeMap<String, String>> = runs.iter().map(keys).collect();
    let keys: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    keys.into_iter()
        .map(|key| Setting {
            key: key.clone(),
            values: all.iter().map(|run| run.get(key).cloned()).collect(),
        })
        .filter(|setting| setting.values.windows(2).any(|pair| pair[0] != pair[1]))
        .collect()
}

/// The differing keys that change the evaluation of two runs.
pub(crate) fn evaluation_differences(a: &RunData, b: &RunData) -> Vec<String> {
    // Configurations of earlier versions have no minimum, and the maximum may be training's.
    let length = |run: &RunData| {
        let config = run.config.as_ref()?;
        let max_tokens = config.eval.max_tokens.unwrap_or(config.sampling.max_tokens);
        Some([config.eval.min_tokens, max_tokens])
    };
    let differing = differing(&[a, b]).into_iter().map(|setting| setting.key);
    let is_of_evaluation = |key: &String| EVALUATION_KEYS.contains(&key.as_str());
    let mut keys: Vec<String> = differing.filter(is_of_evaluation).collect();
    let [first, second] = [length(a), length(b)];
    for (number, key) in ["eval.min_tokens", "eval.max_tokens"].iter().enumerate() {
        let [a, b] = [first, second].map(|length| length.map(|length| length[number]));
        keys.extend((a != b).then(|| (*key).to_owned()));
    }
    if a.graders != b.graders && !a.graders.is_empty() && !b.graders.is_empty() {
        keys.push("the verifier's graders".to_owned());
    }
    keys
}
