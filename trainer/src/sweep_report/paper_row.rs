//! Which of the paper's rows stands beside one of ours.

use super::arms::ArmRuns;
use crate::config::{Algorithm, Config, LengthNorm, Preset};
use crate::paper::{PAPER, PaperCorrelation, PaperResult};

/// The model of the paper's Tables 1, 3 and 4. It stands beside models that the paper did not train.
const MAIN_MODEL: &str = "qwen2.5-0.5b";

/// The paper's data set with the same kind of task, as the recipes name it; `None` for a user's own file.
fn dataset(config: &Config) -> Option<&'static str> {
    match config.data.dataset.as_str() {
        "mbppplus" | "humaneval" | "starter-code" => Some("mbppplus"),
        "math" | "gsm8k" | "starter-math" | "starter-math-400" => Some("math"),
        "minif2f" | "starter-lean" => Some("minif2f"),
        _ => None,
    }
}

/// The paper's model: the same one if it has results on the data set, else [`MAIN_MODEL`].
fn model(config: &Config, dataset: &str) -> &'static str {
    let ours = config.model.name.as_deref().unwrap_or_default();
    let mut rows = PAPER.results.iter().filter(|row| row.dataset == dataset);
    rows.find(|row| ours.starts_with(row.model.as_str()))
        .map_or(MAIN_MODEL, |row| row.model.as_str())
}

/// The paper's row of an arm: that of its algorithm and H. `None` if the paper does not have the algorithm, or has it with other settings.
pub(super) fn of(arm: &ArmRuns<'_>) -> Option<&'static PaperResult> {
    let algorithm = &arm.config.algorithm;
    let mut expected = Algorithm {
        group_size: algorithm.group_size,
        n_step: algorithm.n_step,
        h: algorithm.h,
        dynamic_sampling: algorithm.dynamic_sampling,
        mix_groups: algorithm.mix_groups,
        sum_padding: algorithm.sum_padding,
        drop_last_phase: algorithm.drop_last_phase,
        ..Algorithm::of(algorithm.preset)
    };
    if algorithm.preset == Preset::RapidAuthor && dataset(arm.config) == Some("math") {
        expected.length_norm = LengthNorm::BatchTokens;
    }
    if *algorithm != expected {
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

/// The row of a rung of H: from Table 3, which has the staleness, else from another table.
pub(super) fn by_h(rung: &ArmRuns<'_>) -> Option<&'static PaperResult> {
    let row = of(rung)?;
    let in_table_3 = PAPER.by_h(&row.dataset, rung.h());
    in_table_3
        .filter(|found| (&found.model, &found.algorithm) == (&row.model, &row.algorithm))
        .or(Some(row))
}

/// The row of Table 4 beside these rungs of H; `None` unless each is in Table 3.
pub(super) fn correlation(
    rungs: &[&ArmRuns<'_>],
    metric: &str,
) -> Option<&'static PaperCorrelation> {
    let is_in_table_3 = |rung: &&ArmRuns<'_>| by_h(rung).is_some_and(|row| row.table == 3);
    let dataset = dataset(rungs.first()?.config)?;
    rungs
        .iter()
        .all(is_in_table_3)
        .then(|| PAPER.correlation(dataset, metric))?
}

/// The paper's row of an algorithm, or of `base`, beside runs with these settings.
pub(super) fn row(config: &Config, algorithm: &str) -> Option<&'static PaperResult> {
    let dataset = dataset(config)?;
    PAPER.row(model(config, dataset), dataset, algorithm)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{built_in, load_as_written};

    /// Has `arm` of a recipe with these settings on top.
    fn with_arm<T>(recipe: &str, sets: &[&str], look: impl FnOnce(&ArmRuns<'_>) -> T) -> T {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        look(&ArmRuns {
            arm: recipe,
            point: &BTreeMap::new(),
            config: &load_as_written(recipe, &sets).unwrap(),
            runs: Vec::new(),
            is_reference: false,
        })
    }

    #[test]
    fn every_recipe_of_a_row_has_that_row_beside_it() {
        let recipes: Vec<String> = built_in().collect();
        let rows = recipes.iter().filter_map(|recipe| recipe.split_once('/'));
        assert!(rows.clone().count() > 40);
        for (folder, row) in rows {
            let recipe = format!("{folder}/{row}");
            let found = with_arm(&recipe, &[], |arm| of(arm).and_then(PaperResult::recipe));
            assert_eq!(found.as_deref(), Some(row), "{recipe}");
        }
    }

    #[test]
    fn table_3_is_beside_its_own_estimator_only() {
        let (qwen, gemma) = ("qwen2.5-0.5b-math", "gemma3-1b-mbppplus");
        for (row, set, table) in [
            (qwen, "algorithm.h=4", Some(3)),
            (qwen, "algorithm.eta=3.0", None),
            (qwen, "algorithm.preset=rapid-loo", None),
            // Table 3 does not have the models of Table 2.
            (gemma, "algorithm.h=4", Some(2)),
        ] {
            let recipe = format!("paper/{row}-rapid-h4");
            let (found, correlated) = with_arm(&recipe, &[set], |arm| {
                let correlated = correlation(&[arm], "Pass@1").is_some();
                (by_h(arm).map(|row| row.table), correlated)
            });
            assert_eq!((found, correlated), (table, table == Some(3)), "{set}");
        }
    }
}
