//! The differences between the configurations of several runs.

use std::collections::{BTreeMap, BTreeSet};

use super::flat;
use super::run_data::RunData;

/// Keys that change an evaluation: prompts, sampling and verdicts. If they differ, the figures of the same model may differ.
const EVALUATION_KEYS: &[&str] = &[
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

/// The keys that differ between the runs, in alphabetical order, each with its value in each run; `None` if a run does not set it.
pub(super) fn differing_keys(runs: &[&RunData]) -> Vec<(String, Vec<Option<String>>)> {
    // A text that is not TOML has no keys.
    let keys = |run: &&RunData| flat(&run.config_text.parse::<toml::Table>().ok(), "");
    let all: Vec<BTreeMap<String, String>> = runs.iter().map(keys).collect();
    let keys: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let values = |key: &String| all.iter().map(|run| run.get(key).cloned()).collect();
    let settings = keys.into_iter().map(|key| (key.clone(), values(key)));
    let differs = |(_, values): &(_, Vec<_>)| values.windows(2).any(|it| it[0] != it[1]);
    settings.filter(differs).collect()
}

/// The differing keys that change the evaluation of two runs.
pub(crate) fn evaluation_differences(a: &RunData, b: &RunData) -> Vec<String> {
    let differing = differing_keys(&[a, b]).into_iter().map(|(key, _)| key);
    let is_of_evaluation = |key: &String| {
        let is_of_prompts = key.ends_with(".template") || key.ends_with(".system");
        is_of_prompts || EVALUATION_KEYS.contains(&key.as_str())
    };
    let mut keys: Vec<String> = differing.filter(is_of_evaluation).collect();
    // The maximum may be training's.
    let min = |run: &RunData| Some(run.config.as_ref()?.eval.min_tokens);
    let max = |run: &RunData| {
        let config = run.config.as_ref()?;
        Some(config.eval.max_tokens.unwrap_or(config.sampling.max_tokens))
    };
    keys.extend((min(a) != min(b)).then(|| "eval.min_tokens".to_owned()));
    keys.extend((max(a) != max(b)).then(|| "eval.max_tokens".to_owned()));
    if a.graders != b.graders && !a.graders.is_empty() && !b.graders.is_empty() {
        keys.push("the verifier's graders".to_owned());
    }
    keys
}
