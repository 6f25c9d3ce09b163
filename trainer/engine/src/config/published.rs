//! Configurations of published models, for benchmarks, which need only a model's shape.

use super::ModelConfig;

/// Names, and the parts of `config.json` that determine sizes.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("published.tsv").lines();
    lines.filter_map(|line| line.split_once('\t'))
}

/// Names of the models in [`published`].
pub fn published_names() -> impl Iterator<Item = &'static str> {
    known().map(|(name, _)| name)
}

/// The configuration of a published model; `None` if the name is not one of [`published_names`].
pub fn published(name: &str) -> Option<ModelConfig> {
    let (_, json) = known().find(|(known, _)| *known == name)?;
    ModelConfig::from_json(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_models_have_the_published_numbers_of_weights() {
        let expected = [134.5, 494.0, 1543.7, 7615.6, 596.0, 1235.8, 268.1, 999.9];
        assert_eq!(published_names().count(), expected.len());
        for (name, expected) in published_names().zip(expected) {
            let millions = published(name).unwrap().parameters() as f64 / 1e6;
            assert!((millions - expected).abs() < 0.06, "{name}: {millions}");
        }
        assert_eq!(published("gpt-5"), None);
    }
}
