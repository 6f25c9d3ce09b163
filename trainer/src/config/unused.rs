//! The table of keys that have no effect in combination with another key, and the warnings about them.

use super::merge::value_of;
use super::{Config, LrSchedule, Preset};

/// A key, the condition under which it has no effect, and the reason.
type Row = (&'static str, fn(&Config) -> bool, &'static str);

const ONE_UPDATE: &str = "`algorithm.h` is 1, so a phase has one mini-batch, of fresh samples";
const NO_CAP: &str =
    "neither the factor nor the baseline caps weights; only the logged numbers about them change";
const NO_CLIP: &str = "`algorithm.factor` is neither token-ppo-clip nor cispo";
const GREEDY: &str = "`eval.temperature` is 0, which is greedy";

const UNUSED: &[Row] = &[
    ("data.chat_date", |c| !c.data.chat, "`data.chat` is false"),
    ("algorithm.eta", no_cap, NO_CAP),
    ("algorithm.adaptive_eta", no_cap, NO_CAP),
    ("algorithm.clip_low", no_clip, NO_CLIP),
    ("algorithm.clip_high", no_clip, NO_CLIP),
    ("algorithm.auto_h", one_update, ONE_UPDATE),
    ("algorithm.mix_groups", one_update, ONE_UPDATE),
    (
        "algorithm.sum_padding",
        |c| !c.algorithm.baseline.has_weights(),
        "the baseline has no weights that could include padding",
    ),
    (
        "sampling.temperature",
        |c| c.algorithm.preset == Preset::Sft,
        "supervised fine-tuning samples nothing, and trains the model at temperature 1",
    ),
    (
        "optimiser.final_lr",
        |c| c.optimiser.schedule == LrSchedule::Constant,
        "`optimiser.schedule` is constant, so the learning rate does not fall",
    ),
    ("lora.alpha", |c| c.lora.rank == 0, "`lora.rank` is 0"),
    ("eval.top_p", greedy, GREEDY),
    ("eval.top_k", greedy, GREEDY),
    ("eval.min_p", greedy, GREEDY),
    (
        "reward.overlong_margin",
        |c| c.reward.overlong == 0.0,
        "`reward.overlong` is 0",
    ),
];

fn no_cap(config: &Config) -> bool {
    let a = &config.algorithm;
    !a.factor.has_cap() && !a.baseline.has_cap()
}

fn no_clip(config: &Config) -> bool {
    !config.algorithm.factor.has_clip()
}

fn one_update(config: &Config) -> bool {
    config.algorithm.h == 1
}

fn greedy(config: &Config) -> bool {
    config.eval.temperature == 0.0
}

impl Config {
    /// The warnings about keys that differ from the preset and have no effect.
    pub fn unused(&self) -> Vec<String> {
        let (set, preset) = (self.to_table(), Self::of(self.algorithm.preset).to_table());
        let differs = |path: &str| value_of(&set, path) != value_of(&preset, path);
        UNUSED
            .iter()
            .filter(|(path, unused, _)| unused(self) && differs(path))
            .map(|(path, _, reason)| format!("`{path}` is set, and has no effect: {reason}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{built_in, load, parse};
    use super::*;

    fn unused(sets: &[&str]) -> Vec<String> {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let recipe = "[model]\nname = \"m\"\n[data]\ndataset = \"starter-math\"\n";
        parse("my.toml", recipe, &sets).unwrap().unused()
    }

    #[test]
    fn a_key_without_an_effect_is_named_and_a_key_with_one_is_not() {
        for (set, without, with) in [
            ("algorithm.eta=3", "preset=pg", "factor=w-capped"),
            ("algorithm.clip_low=0.3", "factor=w", "preset=dapo"),
            ("algorithm.mix_groups=true", "h=1", "h=2"),
        ] {
            let [without, with] = [without, with].map(|set| format!("algorithm.{set}"));
            let key = set.split('=').next().unwrap();
            let warnings = unused(&[&without, set]);
            let start = format!("`{key}` is set, and has no effect: ");
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].starts_with(&start), "{warnings:?}");
            assert_eq!(unused(&[&without]), [""; 0]);
            assert_eq!(unused(&[&with, set]), [""; 0]);
        }
    }

    #[test]
    fn no_preset_and_no_built_in_recipe_sets_a_key_without_an_effect() {
        for preset in Preset::ALL {
            assert_eq!(Config::of(preset).unused(), [""; 0], "{preset:?}");
        }
        for name in built_in() {
            assert_eq!(load(&name, &[]).unwrap().unused(), [""; 0], "{name}");
        }
    }
}
