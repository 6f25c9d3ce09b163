//! `[algorithm]`: the estimator, and the sizes of its batches.

use datasets::settings::{Setting, ValueKind, above, at_least, below, between, settings, whole};

use super::limits::{MAX_NUMBER, MAX_SAMPLES};
use crate::algo::{Baseline, Estimator, Factor, LengthNorm, Preset};

/// The end of the error for a fraction out of range.
const FRACTION: &str =
    ", such as 0.5: it is a fraction of a mini-batch's completions, and 0 turns it off";

settings! {
    /// `[algorithm]`. The preset gives the defaults of all other keys.
    pub struct Algorithm {
        /// The defaults of the other keys of this section, each of which can still be set. The presets are:
        ///
        ///   preset        factor          baseline        length_norm   divide_by_std  h  and
        ///   rapid-paper   w               weighted-group  none          false          4
        ///   rapid-author  token-ppo-clip  weighted-group  length        false          4
        ///   rapid-loo     w-capped        loo             none          false          4
        ///   rapid-auto    w-capped        loo             none          false          16 auto_h = 0.5
        ///   pg            one             group           none          false          1
        ///   pg-author     one             group           length        true           1
        ///   grpo          one             group           length        true           1  kl = 0.04
        ///   dapo-paper    one             group           batch-tokens  true           1
        ///   dapo          token-ppo-clip  group           batch-tokens  true           4  clip_high = 0.28, dynamic_sampling = 9, reward.overlong = 0.5
        ///   grpo-clip     token-ppo-clip  group           length        true           4
        ///   sft           one             none            batch-tokens  false          1  group_size = 1, n_step = 96, optimiser.lr = 2e-5
        ///
        /// rapid-paper is the paper's algorithm as printed: importance weights w in the gradient (Eq. 3) and, capped at eta, in the value term (Eq. 5). pg is the same
        /// without weights (Eq. 2), on policy. rapid-author and pg-author are what the authors' public code ran on MBPP+ and MiniF2F.
        /// docs/algorithms.md states the source of each. With sft, factor, baseline, length_norm, divide_by_std, h and group_size cannot be changed, and eta,
        /// adaptive_eta, clip_low, clip_high, auto_h, dynamic_sampling, mix_groups, sum_padding, drop_last_phase, kl, sampling.behaviour_logprob and `[reward]`
        /// cannot be set.
        pub preset: Preset,
        /// The factor of a completion's advantage. r is the ratio of a token's probabilities under the new and the behaviour policy, w the product over a completion.
        ///   one             1
        ///   w               w
        ///   w-capped        min(w, eta)
        ///   token-ppo-clip  each token's r; but 0 if PPO's clip stops the gradient: for an advantage above 0, if r > 1 + clip_high; else if r < 1 - clip_low
        ///   token-capped    each token's min(r, eta)
        ///   token-masked    each token's r, but 0 if r > eta
        ///   cispo           each token's r, clipped to 1 - clip_low … 1 + clip_high
        ///   geometric       w^(1/T) for a completion of T tokens
        pub factor: Factor,
        /// The value that is subtracted from a completion's reward.
        ///   none            nothing
        ///   batch           the mean reward of the mini-batch
        ///   group           the mean reward of all of the prompt's completions
        ///   loo             the mean reward of the prompt's other completions (leave one out)
        ///   weighted-group  as group, each reward times min(w, eta)
        ///   weighted-loo    as loo, each reward times min(w, eta)
        ///   optimal-loo     as loo, but the mean is weighted by w^2, for the least variance of w times the advantage
        pub baseline: Baseline,
        /// η: the cap on weights, for factors and baselines that cap them.
        pub eta: f64 => at_least(1.0)
            .hint(" (the paper has 2): a cap below 1 would change on-policy samples, whose weight is 1"),
        /// ε₋: token-ppo-clip and cispo clip r below 1 - clip_low.
        pub clip_low: f64 => above(0.0, 1.0).hint(" (PPO has 0.2): a ratio is clipped at 1 − ε below 1"),
        /// ε₊: token-ppo-clip and cispo clip r above 1 + clip_high.
        pub clip_high: f64 => above(0.0, MAX_NUMBER)
            .hint(" (PPO has 0.2, DAPO 0.28): a ratio is clipped at 1 + ε above 1"),
        /// The divisor of a token's term. N is the number of completions of the mini-batch, T the number of tokens of the completion.
        ///   none            N
        ///   length          N times T
        ///   max-length      N times sampling.max_tokens
        ///   batch-tokens    the number of tokens of the mini-batch
        pub length_norm: LengthNorm,
        /// true divides an advantage by the standard deviation of its group's rewards, plus 1e-4. Only for the baselines group, loo and optimal-loo, since with the others
        /// a group with equal rewards has advantages.
        pub divide_by_std: bool,
        /// β: the weight of the divergence from the model that training began with; 0 does not use that model.
        pub kl: f64 => between(0.0, MAX_NUMBER)
            .hint(" (GRPO has 0.04): 0 turns it off, and a negative weight would drive the policy away from the reference"),
        /// Lower the cap η, but not below 1, until the effective sample size of a mini-batch is this fraction of its completions; 0 does not lower it.
        pub adaptive_eta: f64 => below(0.0, 1.0).hint(FRACTION),
        /// Choose the number of updates of each inference phase, up to h, so that the effective sample size of its last mini-batch is about this fraction of its completions;
        /// 0 gives every phase h updates. The first phase has 2. The next ones follow how fast the effective sample size fell in the phase before, and have at most twice
        /// its updates. The choices are in metrics.jsonl. (rapid-auto: 0.5.)
        pub auto_h: f64 => below(0.0, 1.0).hint(FRACTION),
        /// Maximum number of rounds in which groups of only correct or only incorrect completions are replaced by groups of other prompts. 0 keeps such groups, and
        /// is required if group_size is 1. Metrics are then those of the remaining groups, except drawn_reward, the mean reward of all sampled groups.
        pub dynamic_sampling: usize => whole(0, 1000),
        /// true shuffles the completions of a phase, as the authors' public code does: a baseline is over each group_size completions that follow each other in the
        /// shuffled order, whatever their prompts.
        pub mix_groups: bool,
        /// true pads each completion with end tokens to the length of the phase's longest, and has the weights of the value term include them, as that code does. They
        /// get no gradient. Of the baselines, only weighted-group, weighted-loo and optimal-loo have such weights.
        pub sum_padding: bool,
        /// true drops the prompts at the end of each epoch that do not fill a whole phase, as the authors' public code does: they are neither sampled nor trained on in
        /// that epoch.
        pub drop_last_phase: bool,
        /// G: completions per prompt. 2 or more; 1 is allowed if baseline is none or batch. (sft: 1.)
        pub group_size: usize => whole(1, MAX_SAMPLES as u64),
        /// N_step: completions per update; a multiple of group_size. (sft: 96.)
        pub n_step: usize => whole(1, 1_000_000),
        /// H: updates per inference phase, so that N_inference = H × N_step completions are sampled at once. With auto_h it is the maximum. (1 for pg, pg-author, grpo,
        /// dapo-paper and sft; 16 for rapid-auto.)
        pub h: usize => whole(1, 10_000),
    }
    = Self::of(Preset::default())
}

impl Setting for Preset {
    const KIND: ValueKind = ValueKind::Choice(&Preset::NAMES);
}

impl Setting for Factor {
    const KIND: ValueKind = ValueKind::Choice(&Factor::NAMES);
}

impl Setting for Baseline {
    const KIND: ValueKind = ValueKind::Choice(&Baseline::NAMES);
}

impl Setting for LengthNorm {
    const KIND: ValueKind = ValueKind::Choice(&LengthNorm::NAMES);
}

impl Algorithm {
    /// The values of a preset: its estimator and its sizes, which are the paper's where it states them.
    #[must_use]
    pub fn of(preset: Preset) -> Self {
        let estimator = preset.estimator();
        let (group_size, n_step) = match preset {
            Preset::Sft => (1, 96),
            _ => (4, 32),
        };
        Self {
            preset,
            factor: estimator.factor,
            baseline: estimator.baseline,
            eta: estimator.eta,
            clip_low: estimator.clip_low,
            clip_high: estimator.clip_high,
            length_norm: estimator.length_norm,
            divide_by_std: estimator.divide_by_std,
            kl: estimator.kl,
            adaptive_eta: estimator.adaptive_eta,
            auto_h: if preset == Preset::RapidAuto {
                0.5
            } else {
                0.0
            },
            // DAPO's own code (verl) has `max_num_gen_batches` 10, which counts the first sampling, so 9 replacements.
            dynamic_sampling: if preset == Preset::Dapo { 9 } else { 0 },
            mix_groups: false,
            sum_padding: false,
            drop_last_phase: false,
            group_size,
            n_step,
            h: match preset {
                // The largest of the paper's.
                Preset::RapidAuto => 16,
                // Presets without a correction for staleness stay on policy.
                _ if estimator.factor == Factor::One => 1,
                _ => 4,
            },
        }
    }

    /// The options of the estimator.
    #[must_use]
    pub fn estimator(&self) -> Estimator {
        Estimator {
            factor: self.factor,
            baseline: self.baseline,
            eta: self.eta,
            clip_low: self.clip_low,
            clip_high: self.clip_high,
            length_norm: self.length_norm,
            divide_by_std: self.divide_by_std,
            kl: self.kl,
            adaptive_eta: self.adaptive_eta,
        }
    }
}
