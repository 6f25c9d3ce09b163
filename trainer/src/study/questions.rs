//! The questions that the study answers, with the estimators and the measures that each of them compares.

use super::grid::{Eta, Names};
use super::quality::Quality;
use crate::report::axis::ValueFormat;

/// A question with the estimators and the measures that it compares.
pub(super) struct Question {
    pub(super) title: &'static str,
    pub(super) text: &'static str,
    pub(super) lines: &'static [Curve],
    pub(super) measures: &'static [&'static Metric],
}

/// A compared estimator.
pub(super) enum Curve {
    /// An estimator by its factor, baseline and η.
    Choices(&'static str, &'static str, Option<f64>),
    /// An estimator by its preset.
    Preset(&'static str),
}

impl Curve {
    pub(super) fn matches(&self, names: &Names) -> bool {
        match self {
            Curve::Choices(factor, baseline, eta) => {
                let plain = !matches!(
                    names.preset,
                    Some("rapid-author" | "dapo-paper" | "grpo-clip")
                );
                plain
                    && (names.factor, names.baseline, names.eta) == (factor, baseline, eta.map(Eta))
            }
            Curve::Preset(name) => names.preset == Some(name),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Curve::Choices(factor, baseline, eta) => {
                let eta = eta.map(|eta| format!(", η = {}", Eta(eta).text()));
                format!("{factor}, {baseline}{}", eta.unwrap_or_default())
            }
            Curve::Preset(name) => (*name).to_owned(),
        }
    }
}

/// A number that a chart shows.
pub(super) struct Metric {
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    pub(super) unit: ValueFormat,
    pub(super) value: fn(&Quality) -> f64,
    /// The standard error of the value, from the standard errors of a [`Quality`]; `None` if the value has none.
    pub(super) error: fn(&Quality) -> Option<f64>,
}

const BIAS: &Metric = &Metric {
    title: "Bias",
    note: "of the gradient's length, over updates behind",
    unit: ValueFormat::Share,
    value: |q| q.bias,
    error: |e| Some(e.bias),
};
const COSINE: &Metric = &Metric {
    title: "Cosine",
    note: "between the expected estimate and the gradient",
    unit: ValueFormat::Number,
    value: |q| q.cosine,
    error: |e| Some(e.cosine),
};
const SCALE: &Metric = &Metric {
    title: "Scale",
    note: "of the expected estimate along the gradient; 1 is right",
    unit: ValueFormat::Number,
    value: |q| q.scale,
    error: |e| Some(e.scale),
};
const VARIANCE: &Metric = &Metric {
    title: "Variance, as a power of ten",
    note: "log₁₀ of the trace for one group, over |∇J|²",
    unit: ValueFormat::Number,
    value: |q| q.variance.log10(),
    error: |_| None,
};
const ERROR: &Metric = &Metric {
    title: "Error of an update",
    note: "bias and variance together, for the mean of 32 completions",
    unit: ValueFormat::Share,
    value: |q| q.update_error,
    error: |e| Some(e.update_error),
};
const ESS: &Metric = &Metric {
    title: "Effective sample size",
    note: "of the factors, as a fraction of the completions",
    unit: ValueFormat::Share,
    value: |q| q.ess,
    error: |e| Some(e.ess),
};

use Curve::{Choices, Preset};

const INF: f64 = f64::INFINITY;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        title: "What does the weighted value term do?",
        text: "The paper's Eq. 5 weights the rewards in the baseline, and includes the completion itself. For an unbiased estimate a baseline needs no weights: it needs to be independent of \
               the completion. With the whole weight w, the plain mean of the group (the completion included) scales the gradient by 1 − 1/G at any staleness and keeps its direction; with \
               weights, the baseline contains the completion's own weight, which changes the direction as well. Without the completion (loo), both baselines are unbiased.",
        lines: &[
            Choices("w", "none", None),
            Choices("w", "group", None),
            Choices("w", "loo", None),
            Choices("w", "weighted-group", Some(2.0)),
            Choices("w", "weighted-loo", Some(2.0)),
        ],
        measures: &[BIAS, COSINE, VARIANCE, ERROR],
    },
    Question {
        title: "What does clipping cost, and what does it buy?",
        text: "min(w, η) in place of w, with the mean of the others as baseline. A lower cap loses more of the completions that became likelier, which is a bias; it bounds the effect of one \
               completion, which lowers the variance. The error of an update shows which of the two matters more.",
        lines: &[
            Choices("w-capped", "loo", Some(1.0)),
            Choices("w-capped", "loo", Some(1.5)),
            Choices("w-capped", "loo", Some(2.0)),
            Choices("w-capped", "loo", Some(4.0)),
            Choices("w-capped", "loo", Some(INF)),
        ],
        measures: &[BIAS, COSINE, VARIANCE, ERROR, ESS],
    },
    Question {
        title: "How does η = 2 compare in the value term alone, as in the paper?",
        text: "Eqs. 3 and 5 as printed: the whole weight as factor, weights up to η in the baseline.",
        lines: &[
            Choices("w", "weighted-group", Some(1.0)),
            Choices("w", "weighted-group", Some(1.5)),
            Choices("w", "weighted-group", Some(2.0)),
            Choices("w", "weighted-group", Some(4.0)),
            Choices("w", "weighted-group", Some(INF)),
        ],
        measures: &[BIAS, COSINE, VARIANCE, ERROR],
    },
    Question {
        title: "Should the completion be in its own baseline?",
        text: "Group mean with the completion against leave-one-out, for the whole weight, the capped weight and no weight.",
        lines: &[
            Choices("w", "group", None),
            Choices("w", "loo", None),
            Choices("w-capped", "group", Some(2.0)),
            Choices("w-capped", "loo", Some(2.0)),
            Choices("one", "group", None),
            Choices("one", "loo", None),
        ],
        measures: &[SCALE, COSINE, VARIANCE, ERROR],
    },
    Question {
        title: "A weight for the sequence, or one for each token?",
        text: "All with the mean of the others. A token's ratio leaves the tokens before and after it as μ sampled them: less variance, and a bias that does not come from a cap. The geometric mean \
               of the ratios and PPO's clip are further from ∇J in theory; the distance depends on the staleness.",
        lines: &[
            Choices("one", "loo", None),
            Choices("w", "loo", None),
            Choices("w-capped", "loo", Some(2.0)),
            Choices("token-capped", "loo", Some(2.0)),
            Choices("token-ppo-clip", "loo", None),
            Choices("geometric", "loo", None),
        ],
        measures: &[BIAS, COSINE, VARIANCE, ERROR, ESS],
    },
    Question {
        title: "The presets",
        text: "The algorithms as they are run. rapid-author, dapo-paper and grpo-clip divide by a length, and the latter two by the rewards' deviation, so their scales are not comparable; compare their cosines.",
        lines: &[
            Preset("rapid-paper"),
            Preset("rapid-author"),
            Preset("rapid-loo"),
            Preset("pg"),
            Preset("dapo-paper"),
            Preset("grpo-clip"),
        ],
        measures: &[COSINE, VARIANCE, ERROR],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::grid;

    #[test]
    fn every_line_matches_one_estimator_of_the_study() {
        let all: Vec<Names> = grid()
            .iter()
            .map(super::super::grid::Setting::names)
            .collect();
        for question in QUESTIONS {
            for line in question.lines {
                let count = all.iter().filter(|names| line.matches(names)).count();
                assert_eq!(count, 1, "{}: {}", question.title, line.name());
            }
        }
    }
}
