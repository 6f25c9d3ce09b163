//! Which of the paper's rows stands beside one of ours.

use super::arms::ArmRuns;
use crate::algo::Preset;
use crate::config::{Algorithm, Config};
use crate::paper::{PAPER, PaperResult};

/// The model of the paper's Tables 1, 3 and 4, which stands beside models that the paper did not train.
const MAIN_MODEL: &str = "qwen2.5-0.5b";

/// The paper's data set of the same kind of task, as the recipes name it; `None` for a file of the user's.
pub(super) fn dataset(config: &Config) -> Option<&'static str> {
    match config.data.dataset.as_str() {
        "mbppplus" | "humaneval" | "starter-code" => Some("mbppplus"),
        "math" | "gsm8k" | "starter-math" | "starter-math-400" => Some("math"),
        "minif2f" | "starter-lean" => Some("minif2f"),
        _ => None,
    }
}

/// The paper's name of a data set.
pub(super) fn title(dataset: &str) -> &str {
    match dataset {
        "mbppplus" => "MBPP+",
        "math" => "MATH",
        "minif2f" => "MiniF2F",
        other => other,
    }
}

/// The paper's model: the same one if it has results on the data set, else [`MAIN_MODEL`].
pub(super) fn model(config: &Config, dataset: &str) -> &'static str {
    let ours = config.model.name.as_deref().unwrap_or_default();
    let mut rows = PAPER.results.iter().filter(|row| row.dataset == dataset);
    rows.find(|row| ours.starts_with(row.model.as_str()))
        .map_or(MAIN_MODEL, |row| row.model.as_str())
}

/// The paper's row of an arm: that of its algorithm and H. `None` for an algorithm that the paper does not have, or one whose settings differ from it.
pub(super) fn of(arm: &ArmRuns<'_>) -> Option<&'static PaperResult> {
    let algorithm = &arm.config.algorithm;
    let same = algorithm.estimator() == Algorithm::of(algorithm.preset).estimator();
    if !same || algorithm.auto_h > 0.0 {
        return None;
    }
    let name = match algorithm.preset {
        Preset::Sft => "sft".to_owned(),
        Preset::Grpo => "grpo".to_owned(),
        Preset::Pg | Preset::PgAuthor => "pg".to_owned(),
        Preset::DapoPaper => "dapo".to_owned(),
        Preset::RapidPaper | Preset::RapidAuthor => format!("rapid-h{}", algorithm.h),
        _ => return None,
    };
    let has_h = name.starts_with("rapid") || algorithm.h == 1;
    row(arm.config, &name).filter(|_| has_h)
}

/// The paper's row of an algorithm, or of `base`, beside runs with these settings.
pub(super) fn row(config: &Config, algorithm: &str) -> Option<&'static PaperResult> {
    let dataset = dataset(config)?;
    PAPER.result(model(config, dataset), dataset, algorithm)
}
