//! Limits that several keys share with each other or with the command line.
//!
//! The upper limits are far above the needs of any run. They keep products of sizes from overflowing, and a typing mistake from requesting all of the memory.

/// Maximum threads of the CPU backend.
pub const MAX_THREADS: usize = 1024;
/// Maximum tokens of a prompt, and of a completion: the longest context of any model.
pub const MAX_TOKENS: usize = 1 << 20;
/// Maximum completions of one prompt.
pub const MAX_SAMPLES: usize = 10_000;
/// Maximum completions of a command, and of a phase.
pub const MAX_COMPLETIONS: usize = 10_000_000;
/// Maximum rank of adapters: more than the rows of any matrix.
pub const MAX_RANK: usize = 1 << 16;
/// Maximum MiB of activations: 16 TiB.
pub const MAX_MIB: u64 = 1 << 24;
/// Maximum number of tasks, evaluations, checkpoints or tokens: more than any run has.
pub const MAX_COUNT: u64 = 1_000_000_000;

/// Minimum temperature above 0: the engine divides by it.
pub(super) const MIN_TEMPERATURE: f64 = 1e-6;
/// Maximum of numbers without a limit of their own.
pub(super) const MAX_NUMBER: f64 = 1e6;

#[cfg(test)]
mod tests {
    use datasets::settings::{Limit, ValueKind};

    use super::*;
    use crate::config::{Config, KEYS, Preset};

    #[test]
    fn every_number_except_seeds_has_a_range() {
        let unlimited: Vec<_> = KEYS
            .paths()
            .into_iter()
            .filter(|(_, key)| matches!(key.kind, ValueKind::Whole | ValueKind::Number))
            .filter(|(_, key)| !matches!(key.limit, Limit::Range(..)))
            .map(|(path, _)| path)
            .collect();
        assert_eq!(unlimited, ["run.seed", "eval.seed"]);
    }

    #[test]
    fn the_minimum_temperature_is_that_of_the_engine() {
        assert_eq!(MIN_TEMPERATURE as f32, engine::sample::MIN_TEMPERATURE);
    }

    #[test]
    fn every_default_is_within_its_range() {
        for preset in Preset::ALL {
            let table = toml::Table::try_from(Config::of(preset)).unwrap();
            KEYS.check_limits(&table).unwrap();
        }
    }
}
