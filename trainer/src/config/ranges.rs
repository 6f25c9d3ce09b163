//! The numbers that each key may have: one table, from which the check and its words both come.
//!
//! The upper ends lie far beyond what a run can use. They keep products of sizes from overflowing, and a slip of the fingers from asking for all of the memory.

use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds as _;

use toml::{Table, Value};

use super::ConfigError;
use super::keys::{self, Kind};

/// Most threads of the cpu backend.
pub const MOST_THREADS: usize = 1024;
/// Most tokens of a prompt, and of a completion: the longest context that models have.
pub const MOST_TOKENS: usize = 1 << 20;
/// Most completions of one prompt.
pub const MOST_SAMPLES: usize = 10_000;
/// Most completions that are asked for at once.
pub const MOST_COMPLETIONS: usize = 10_000_000;
/// Highest rank of adapters: more than any matrix has rows.
pub const MOST_RANK: usize = 1 << 16;
/// Most MiB of activations: 16 TiB.
pub const MOST_MIB: u64 = 1 << 24;

/// Lowest temperature above 0 that the engine divides by.
pub(super) const MIN_TEMPERATURE: f64 = 1e-6;
/// More than there are tasks, evaluations or checkpoints in any run.
const MOST_COUNTED: usize = 1_000_000_000;
/// Largest of numbers that have no end of their own.
const LARGE: f64 = 1e6;
/// Seconds of a year.
const YEAR: usize = 365 * 24 * 60 * 60;

type Range = (Bound<f64>, Bound<f64>);

/// From `least` on.
const fn from(least: f64) -> Range {
    (Included(least), Unbounded)
}

/// Both ends included.
const fn between(least: f64, most: f64) -> Range {
    (Included(least), Included(most))
}

/// The upper end left out.
const fn below(least: f64, most: f64) -> Range {
    (Included(least), Excluded(most))
}

/// Above 0, the upper end included.
const fn above_zero(most: f64) -> Range {
    (Excluded(0.0), Included(most))
}

/// Whole numbers, both ends included.
const fn whole(least: usize, most: usize) -> Range {
    between(least as f64, most as f64)
}

const DEFAULT: &str = ", or leave the key out for the default";
const ALL: &str = ", or leave the key out for all of them";
const SHARE: &str =
    ", such as 0.5: it is a share of a mini-batch's completions, and 0 does without";

/// Section, key, range, and what else is to be said to one who has left it. Seeds may be any number.
const RANGES: &[(&str, &str, Range, &str)] = &[
    ("data", "max_prompt_tokens", whole(1, MOST_TOKENS), ""),
    ("data", "train_limit", whole(1, MOST_COUNTED), ALL),
    (
        "algorithm",
        "eta",
        from(1.0),
        ", or inf for no cap (the paper has 2): a cap below 1 would change on-policy samples, whose weight is 1",
    ),
    (
        "algorithm",
        "clip_low",
        above_zero(1.0),
        " (PPO has 0.2): a ratio is clipped at 1 − ε below 1",
    ),
    (
        "algorithm",
        "clip_high",
        above_zero(LARGE),
        " (PPO has 0.2, DAPO 0.28): a ratio is clipped at 1 + ε above 1",
    ),
    (
        "algorithm",
        "kl",
        between(0.0, LARGE),
        " (GRPO has 0.04): 0 does without, and below it the policy would be driven away from the reference",
    ),
    ("algorithm", "adaptive_eta", below(0.0, 1.0), SHARE),
    ("algorithm", "adaptive_h", below(0.0, 1.0), SHARE),
    ("algorithm", "dynamic_sampling", whole(0, 1000), ""),
    ("algorithm", "group_size", whole(1, MOST_SAMPLES), ""),
    ("algorithm", "n_step", whole(1, 1_000_000), ""),
    ("algorithm", "h", whole(1, 10_000), ""),
    (
        "sampling",
        "temperature",
        between(MIN_TEMPERATURE, 100.0),
        " (the paper has 0.9): training samples, and at 0 there is nothing to sample",
    ),
    ("sampling", "max_tokens", whole(1, MOST_TOKENS), ""),
    ("optimiser", "lr", between(0.0, 1.0), ""),
    ("optimiser", "warmup", whole(0, MOST_COUNTED), ""),
    ("optimiser", "final_lr", between(0.0, 1.0), ""),
    ("optimiser", "beta1", below(0.0, 1.0), ""),
    ("optimiser", "beta2", below(0.0, 1.0), ""),
    ("optimiser", "eps", above_zero(1.0), ""),
    ("optimiser", "weight_decay", between(0.0, LARGE), ""),
    ("optimiser", "clip_norm", between(0.0, LARGE), ""),
    ("lora", "rank", whole(0, MOST_RANK), ""),
    ("lora", "alpha", above_zero(LARGE), ""),
    ("run", "epochs", whole(1, 10_000), ""),
    (
        "run",
        "updates",
        whole(1, 10_000_000),
        "; `rapid eval` measures a model without training it",
    ),
    ("run", "checkpoint_every", whole(0, MOST_COUNTED), ""),
    ("run", "keep", whole(1, MOST_COUNTED), ""),
    ("eval", "every", whole(0, MOST_COUNTED), ""),
    ("eval", "samples", whole(0, MOST_SAMPLES), ""),
    ("eval", "temperature", between(0.0, 100.0), ""),
    ("eval", "top_p", above_zero(1.0), ""),
    ("eval", "top_k", whole(0, MOST_COUNTED), ""),
    ("eval", "min_p", below(0.0, 1.0), ""),
    (
        "eval",
        "max_tokens",
        whole(1, MOST_TOKENS),
        "; `eval.samples = 0` turns evaluation off",
    ),
    (
        "eval",
        "limit",
        whole(1, MOST_COUNTED),
        "; `eval.samples = 0` turns evaluation off",
    ),
    ("reward", "correct", between(-LARGE, LARGE), ""),
    ("reward", "share", between(-LARGE, LARGE), ""),
    ("reward", "format", between(-LARGE, LARGE), ""),
    ("reward", "length", between(-LARGE, LARGE), ""),
    ("reward", "overlong", between(-LARGE, LARGE), ""),
    ("reward", "overlong_margin", above_zero(1.0), ""),
    ("verifier", "batch", whole(1, 100_000), ""),
    ("verifier", "in_flight", whole(1, 10_000), ""),
    ("verifier", "patience_s", whole(0, YEAR), ""),
    ("verifier", "max_masked", between(0.0, 1.0), ""),
    ("engine", "threads", whole(1, MOST_THREADS), DEFAULT),
    ("engine", "kv_tokens", whole(1, MOST_COUNTED), DEFAULT),
    ("engine", "pack_tokens", whole(1, MOST_COUNTED), DEFAULT),
    ("engine", "max_sequences", whole(1, 1_000_000), DEFAULT),
    (
        "engine",
        "activations_mib",
        whole(0, MOST_MIB as usize),
        DEFAULT,
    ),
];

/// Refuses a number that its key may not have, and says which ones it may.
pub(super) fn check(table: &Table) -> Result<(), ConfigError> {
    for (section, key, range, more) in RANGES {
        let content = table.get(*section).and_then(Value::as_table);
        let Some(value) = content.and_then(|content| content.get(*key)) else {
            continue;
        };
        if number(value).is_some_and(|number| !range.contains(&number)) {
            return Err(ConfigError::Value {
                key: format!("{section}.{key}"),
                reason: format!(
                    "{value} is out of its range; give {}{more}",
                    words(section, key, range)
                ),
            });
        }
    }
    Ok(())
}

/// The whole numbers that a key takes, in words; `None` where it takes others, or any.
pub(super) fn of_whole(section: &str, key: &str) -> Option<String> {
    keys::kind(section, key).filter(|kind| *kind == Kind::Whole)?;
    let (_, _, range, _) = RANGES.iter().find(|row| (row.0, row.1) == (section, key))?;
    Some(words(section, key, range))
}

fn number(value: &Value) -> Option<f64> {
    let whole = value.as_integer().map(|whole| whole as f64);
    value.as_float().or(whole)
}

fn words(section: &str, key: &str, (least, most): &Range) -> String {
    let kind = match keys::kind(section, key) {
        Some(Kind::Whole) => "a whole number",
        _ => "a number",
    };
    let least = match least {
        Included(least) => format!(" of at least {least}"),
        Excluded(least) => format!(" above {least}"),
        Unbounded => String::new(),
    };
    let most = match most {
        Included(most) => format!(" and at most {most}"),
        Excluded(most) => format!(" and below {most}"),
        Unbounded => String::new(),
    };
    format!("{kind}{least}{most}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::parse;

    const RECIPE: &str = "[model]\nname = \"m\"\n[data]\ndataset = \"starter-math\"\n";

    fn refusal(set: String) -> String {
        let result = parse("my.toml", RECIPE, &[set]);
        result.expect_err("this must be refused").to_string()
    }

    #[test]
    fn every_number_but_a_seed_has_its_range() {
        let of_keys: BTreeSet<_> = keys::KEYS
            .iter()
            .filter(|(_, key, _)| *key != "seed")
            .filter(|(_, _, kind)| matches!(kind, Kind::Whole | Kind::Number | Kind::Cap))
            .map(|(section, key, _)| (*section, *key))
            .collect();
        let of_ranges: BTreeSet<_> = RANGES.iter().map(|row| (row.0, row.1)).collect();
        assert_eq!(of_keys, of_ranges);
        assert_eq!(of_ranges.len(), RANGES.len());
    }

    #[test]
    fn the_lowest_temperature_is_the_engines() {
        assert_eq!(MIN_TEMPERATURE as f32, engine::sample::MIN_TEMPERATURE);
    }

    #[test]
    fn every_default_is_in_its_range() {
        let config = parse("my.toml", RECIPE, &[]).unwrap();
        let table: Table = config.to_toml().parse().unwrap();
        check(&table).unwrap();
    }

    #[test]
    fn what_is_beyond_an_end_is_refused_with_both() {
        for (section, key, (least, most), _) in RANGES {
            let mut beyond = Vec::new();
            match least {
                // No whole number that is written is below 0.
                Included(least)
                    if *least == 0.0 && keys::kind(section, key) == Some(Kind::Whole) => {}
                Included(least) => beyond.push(least - 1.0),
                Excluded(least) => beyond.push(*least),
                Unbounded => {}
            }
            match most {
                Included(most) => beyond.push(most + 1.0),
                Excluded(most) => beyond.push(*most),
                Unbounded => {}
            }
            for value in beyond {
                let said = refusal(format!("{section}.{key}={value}"));
                let begins = format!("`{section}.{key}`: {value} is out of its range; give a ");
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
