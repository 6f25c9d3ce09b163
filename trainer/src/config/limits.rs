//! The ends of ranges that several keys, or the command line, have too.
//!
//! The upper ends lie far beyond what a run can use. They keep products of sizes from overflowing, and a slip of the fingers from asking for all of the memory.

/// Most threads of the cpu backend.
pub const MAX_THREADS: usize = 1024;
/// Most tokens of a prompt, and of a completion: the longest context that models have.
pub const MAX_TOKENS: usize = 1 << 20;
/// Most completions of one prompt.
pub const MAX_SAMPLES: usize = 10_000;
/// Most completions that are asked for at once.
pub const MAX_COMPLETIONS: usize = 10_000_000;
/// Highest rank of adapters: more than any matrix has rows.
pub const MAX_RANK: usize = 1 << 16;
/// Most MiB of activations: 16 TiB.
pub const MAX_MIB: u64 = 1 << 24;

/// Lowest temperature above 0 that the engine divides by.
pub(super) const MIN_TEMPERATURE: f64 = 1e-6;
/// More than there are tasks, evaluations or checkpoints in any run.
pub(super) const MAX_COUNTED: u64 = 1_000_000_000;
/// Largest of numbers that have no end of their own.
pub(super) const LARGE: f64 = 1e6;

#[cfg(test)]
mod tests {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    use datasets::settings::{Kind, Limit};

    use super::*;
    use crate::config::{Config, KEYS, Preset, parse};

    const RECIPE: &str = "[model]\nname = \"m\"\n[data]\ndataset = \"starter-math\"\n";

    fn refusal(set: String) -> String {
        let result = parse("my.toml", RECIPE, &[set]);
        result.expect_err("this must be refused").to_string()
    }

    #[test]
    fn every_number_but_a_seed_has_its_range() {
        let unlimited: Vec<_> = KEYS
            .paths()
            .into_iter()
            .filter(|(_, key)| matches!(key.kind, Kind::Whole | Kind::Number))
            .filter(|(_, key)| !matches!(key.limit, Limit::Range(..)))
            .map(|(path, _)| path)
            .collect();
        assert_eq!(unlimited, ["run.seed", "eval.seed"]);
    }

    #[test]
    fn the_lowest_temperature_is_the_engines() {
        assert_eq!(MIN_TEMPERATURE as f32, engine::sample::MIN_TEMPERATURE);
    }

    #[test]
    fn every_default_is_in_its_range() {
        for preset in Preset::ALL {
            let table = toml::Table::try_from(Config::of(preset)).unwrap();
            KEYS.check_limits(&table).unwrap();
        }
    }

    #[test]
    fn what_is_beyond_an_end_is_refused_with_both() {
        for (path, key) in KEYS.paths() {
            let Limit::Range(min, max, _) = key.limit else {
                continue;
            };
            let mut beyond = Vec::new();
            match min {
                // No whole number that is written is below 0.
                Included(0.0) if matches!(key.kind, Kind::Whole) => {}
                Included(min) => beyond.push(min - 1.0),
                Excluded(min) => beyond.push(min),
                Unbounded => {}
            }
            match max {
                Included(max) => beyond.push(max + 1.0),
                Excluded(max) => beyond.push(max),
                Unbounded => {}
            }
            for value in beyond {
                let said = refusal(format!("{path}={value}"));
                let begins = format!("`{path}`: {value} is out of its range; give a ");
                assert!(said.starts_with(&begins), "{said}");
            }
        }
    }

    #[test]
    fn a_refusal_says_the_range() {
        for (set, says) in [
            (
                "optimiser.lr=-1",
                "`optimiser.lr`: -1 is out of its range; give a number of at least 0 and at most 1",
            ),
            (
                "optimiser.beta1=1",
                "`optimiser.beta1`: 1 is out of its range; give a number of at least 0 and below 1",
            ),
            (
                "optimiser.eps=0",
                "`optimiser.eps`: 0 is out of its range; give a number above 0 and at most 1",
            ),
            (
                "algorithm.n_step=9223372036854775800",
                "`algorithm.n_step`: 9223372036854775800 is out of its range; give a whole number of at least 1 and at most 1000000",
            ),
            (
                "engine.threads=100000",
                "`engine.threads`: 100000 is out of its range; give a whole number of at least 1 and at most 1024, or leave the key out for the default",
            ),
        ] {
            assert_eq!(refusal(set.to_owned()), says);
        }
    }
}
