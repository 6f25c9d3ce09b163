//! `[algorithm]`: the estimator, and the sizes of its batches. `algo` has the equation and the source of each factor and baseline.

use datasets::settings::{above, at_least, below, between, choice, settings, whole};

use super::limits::{MAX_NUMBER, MAX_SAMPLES};

/// The end of the error for a fraction out of range.
const FRACTION: &str =
    ", such as 0.5: it is a fraction of a mini-batch's completions, and 0 turns it off";

settings! {
    /// `[algorithm]`. The preset gives the defaults of all other keys.
    #[derive(Copy)]
    pub struct Algorithm {
        /// The defaults of the other keys of this section; each of them can still be set. The presets are:
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
        pub factor: Factor,
        /// The value that is subtracted from a completion's reward.
        pub baseline: Baseline,
        /// η: the cap on weights, for factors and baselines that cap them.
        pub eta: f64 => at_least(1.0)
            .hint(" (the paper has 2): a cap below 1 would change on-policy samples, which have the weight 1"),
        /// ε₋: token-ppo-clip and cispo clip r below 1 - clip_low.
        pub clip_low: f64 => above(0.0, 1.0).hint(" (PPO has 0.2): a ratio is clipped at 1 − ε below 1"),
        /// ε₊: token-ppo-clip and cispo clip r above 1 + clip_high.
        pub clip_high: f64 => above(0.0, MAX_NUMBER)
            .hint(" (PPO has 0.2, DAPO 0.28): a ratio is clipped at 1 + ε above 1"),
        /// The divisor of a token's term. N is the number of completions of the mini-batch, T the number of tokens of the completion.
        pub length_norm: LengthNorm,
        /// true divides an advantage by the standard deviation of its group's rewards, plus 1e-4. Only for the baselines group, loo and optimal-loo, since with the others
        /// a group with equal rewards has advantages.
        pub divide_by_std: bool,
        /// β: the weight of the divergence from the model that training began with; 0 does not use that model.
        pub kl: f64 => between(0.0, MAX_NUMBER)
            .hint(" (GRPO has 0.04): 0 turns it off, and a negative weight would drive the policy away from the reference"),
        /// Lower the cap η, but not below 1, until the effective sample size of a mini-batch is this fraction of its completions; 0 does not lower it.
        pub adaptive_eta: f64 => below(0.0, 1.0).hint(FRACTION),
        /// Choose the number of updates of each inference phase, up to h, so that the effective sample size of its last mini-batch is about this fraction of its
        /// completions. 0 gives every phase h updates. The first phase has 2. The next ones follow how fast the effective sample size fell in the phase before, and
        /// have at most twice its updates. The choices are in metrics.jsonl. (rapid-auto: 0.5.)
        pub auto_h: f64 => below(0.0, 1.0).hint(FRACTION),
        /// Maximum number of rounds in which groups of only correct or only incorrect completions are replaced by groups of other prompts. 0 keeps such groups, and
        /// is required if group_size is 1. Metrics are then those of the remaining groups, except drawn_reward, the mean reward of all sampled groups.
        pub dynamic_sampling: usize => whole(0, 1000),
        /// true shuffles the completions of a phase, as the authors' public code does. A baseline is then over each group_size completions that follow each other in
        /// the shuffled order, whatever their prompts.
        pub mix_groups: bool,
        /// true pads each completion with end tokens to the length of the phase's longest, and has the weights of the value term include them, as that code does. They
        /// get no gradient. Of the baselines, only weighted-group, weighted-loo and optimal-loo have such weights.
        pub sum_padding: bool,
        /// true drops the prompts at the end of each epoch that do not fill a whole phase, as the authors' public code does. They are neither sampled nor trained on
        /// in that epoch.
        pub drop_last_phase: bool,
        /// G: completions per prompt. 2 or more; 1 is allowed if baseline is none or batch. (sft: 1.)
        pub group_size: usize => whole(1, MAX_SAMPLES as u64),
        /// N_step: completions per update; a multiple of group_size. (sft: 96.)
        pub n_step: usize => whole(1, 1_000_000),
        /// H: updates per inference phase, so that N_inference = H × N_step completions are sampled at once. With auto_h it is the maximum. (1 for pg, pg-author, grpo,
        /// dapo-paper and sft; 16 for rapid-auto.)
        pub h: usize => whole(1, 10_000),
    }
    = Self::of(Preset::RapidPaper)
}

choice! {
    /// An algorithm by its name.
    pub enum Preset {
        /// RAPID as the paper prints it: Eqs. 3 and 5.
        #[default]
        RapidPaper = "rapid-paper",
        /// RAPID as its authors' public code runs it on MBPP+ and MiniF2F: weights only in the value term, PPO's clip in place of Eq. 3's weight, completions of equal weight.
        RapidAuthor = "rapid-author",
        /// RAPID with a capped weight and the mean of the other completions: lower variance, biased by the cap.
        RapidLoo = "rapid-loo",
        /// RAPID without a size to tune: `rapid-loo`, with phases as long as the effective sample size allows.
        RapidAuto = "rapid-auto",
        /// Group-relative policy gradient: Eq. 2 in Eq. 1. On policy at H = 1.
        Pg = "pg",
        /// The policy gradient as the authors' public code runs it: advantages divided by the group's standard deviation, completions of equal weight.
        PgAuthor = "pg-author",
        /// GRPO (Shao et al. 2024) on policy: advantages divided by the group's standard deviation, completions of equal weight, and a KL term to the model that training
        /// began with.
        Grpo = "grpo",
        /// The algorithm of the paper's DAPO row: on policy, advantages divided by the group's standard deviation, tokens of equal weight.
        DapoPaper = "dapo-paper",
        /// DAPO (Yu et al. 2025): off policy with an asymmetric clip, tokens of equal weight. Groups that are all correct or all wrong are replaced by newly sampled ones,
        /// and completions that are nearly too long lose reward.
        Dapo = "dapo",
        /// GRPO off policy as its authors do it: PPO's clip in place of importance weights; no KL term. The control that the paper lacks.
        GrpoClip = "grpo-clip",
        /// Supervised fine-tuning on a teacher's completions that the verifier found correct: it maximises the mean log-probability of their tokens. As a policy gradient,
        /// each completion has the reward 1, and there is no baseline.
        Sft = "sft",
    }
}

choice! {
    /// The factor of a completion's advantage.
    pub enum Factor {
        One = "one" => "1",
        #[default]
        W = "w" => "w",
        WCapped = "w-capped" => "min(w, eta)",
        TokenPpoClip = "token-ppo-clip" => "each token's r; but 0 if PPO's clip stops the gradient: for an advantage above 0, if r > 1 + clip_high; else if r < 1 - clip_low",
        TokenCapped = "token-capped" => "each token's min(r, eta)",
        TokenMasked = "token-masked" => "each token's r, but 0 if r > eta",
        Cispo = "cispo" => "each token's r, clipped to 1 - clip_low … 1 + clip_high",
        Geometric = "geometric" => "w^(1/T) for a completion of T tokens",
    }
}

choice! {
    /// The estimate of a prompt's value, which is subtracted from a completion's reward.
    pub enum Baseline {
        None = "none" => "nothing",
        Batch = "batch" => "the mean reward of the mini-batch",
        Group = "group" => "the mean reward of all of the prompt's completions",
        Loo = "loo" => "the mean reward of the prompt's other completions (leave one out)",
        #[default]
        WeightedGroup = "weighted-group" => "as group, each reward times min(w, eta)",
        WeightedLoo = "weighted-loo" => "as loo, each reward times min(w, eta)",
        OptimalLoo = "optimal-loo" => "as loo, but the mean is weighted by w^2, for the least variance of w times the advantage",
    }
}

choice! {
    /// The divisor of a token's term.
    pub enum LengthNorm {
        #[default]
        None = "none" => "N",
        Length = "length" => "N times T",
        MaxLength = "max-length" => "N times sampling.max_tokens",
        BatchTokens = "batch-tokens" => "the number of tokens of the mini-batch",
    }
}

impl Factor {
    /// Whether it caps ratios or weights at η, or masks those above.
    pub fn has_cap(self) -> bool {
        matches!(
            self,
            Factor::WCapped | Factor::TokenCapped | Factor::TokenMasked
        )
    }

    /// Whether it clips ratios to 1 − ε₋ … 1 + ε₊.
    pub fn has_clip(self) -> bool {
        matches!(self, Factor::TokenPpoClip | Factor::Cispo)
    }
}

impl Baseline {
    /// Whether it needs at least two completions with a reward in each group.
    pub fn is_of_the_group(self) -> bool {
        !matches!(self, Baseline::None | Baseline::Batch)
    }

    /// Whether it multiplies rewards by min(w, η).
    pub fn has_cap(self) -> bool {
        matches!(self, Baseline::WeightedGroup | Baseline::WeightedLoo)
    }

    /// Whether it depends on importance weights.
    pub fn has_weights(self) -> bool {
        self.has_cap() || self == Baseline::OptimalLoo
    }
}

impl Algorithm {
    /// The values of a preset, which are the paper's where it states them.
    pub const fn of(preset: Preset) -> Self {
        use {Baseline as B, Factor as F, LengthNorm as L, Preset as P};
        let (factor, baseline, length_norm, divide_by_std) = match preset {
            P::RapidPaper => (F::W, B::WeightedGroup, L::None, false),
            P::RapidAuthor => (F::TokenPpoClip, B::WeightedGroup, L::Length, false),
            P::RapidLoo | P::RapidAuto => (F::WCapped, B::Loo, L::None, false),
            P::Pg => (F::One, B::Group, L::None, false),
            P::PgAuthor | P::Grpo => (F::One, B::Group, L::Length, true),
            P::DapoPaper => (F::One, B::Group, L::BatchTokens, true),
            P::Dapo => (F::TokenPpoClip, B::Group, L::BatchTokens, true),
            P::GrpoClip => (F::TokenPpoClip, B::Group, L::Length, true),
            P::Sft => (F::One, B::None, L::BatchTokens, false),
        };
        let mut values = Self {
            preset,
            factor,
            baseline,
            eta: 2.0,
            clip_low: 0.2,
            clip_high: 0.2,
            length_norm,
            divide_by_std,
            kl: 0.0,
            adaptive_eta: 0.0,
            auto_h: 0.0,
            dynamic_sampling: 0,
            mix_groups: false,
            sum_padding: false,
            drop_last_phase: false,
            group_size: 4,
            n_step: 32,
            // Presets without a correction for staleness stay on policy.
            h: if matches!(factor, F::One) { 1 } else { 4 },
        };
        match preset {
            P::Grpo => values.kl = 0.04,
            P::Dapo => {
                values.clip_high = 0.28;
                // DAPO's own code (verl) has `max_num_gen_batches` 10, which counts the first sampling, so 9 replacements.
                values.dynamic_sampling = 9;
            }
            P::RapidAuto => {
                values.auto_h = 0.5;
                // The largest of the paper's.
                values.h = 16;
            }
            P::Sft => (values.group_size, values.n_step) = (1, 96),
            _ => {}
        }
        values
    }

    /// Whether completions of one prompt are compared with each other. If so, a group gives no gradient if it has one completion or if all its rewards are equal.
    pub fn compares_within_groups(&self) -> bool {
        self.baseline.is_of_the_group() || self.divide_by_std
    }

    /// Rewards that a group needs for a gradient.
    pub fn min_rewards(&self) -> usize {
        if self.compares_within_groups() { 2 } else { 1 }
    }

    /// Whether the gradient depends on the log-probabilities of completions with the advantage 0.
    pub fn reads_all(&self) -> bool {
        self.kl > 0.0 || self.adaptive_eta > 0.0
    }
}
