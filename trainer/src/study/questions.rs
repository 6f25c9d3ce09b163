//! The questions about the estimators that the study answers, and which estimators each of them compares.

use super::grid::{Eta, Names};
use super::quality::Quality;
use crate::report::axis::Unit;

/// One question: what is compared, and by which numbers.
pub(super) struct Question {
    pub(super) title: &'static str,
    pub(super) text: &'static str,
    pub(super) lines: &'static [Line],
    pub(super) measures: &'static [&'static Measure],
}

/// An estimator that is compared.
pub(super) enum Line {
    /// By its choices.
    Choices(&'static str, &'static str, Option<f64>),
    /// By its preset.
    Preset(&'static str),
}

impl Line {
    pub(super) fn is(&self, names: &Names) -> bool {
        match self {
            Line::Choices(factor, baseline, eta) => {
                let plain = !matches!(names.preset, Some("dapo-paper" | "grpo-clip"));
                plain
                    && (names.factor, names.baseline, names.eta) == (factor, baseline, eta.map(Eta))
            }
            Line::Preset(name) => names.preset == Some(name),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Line::Choices(factor, baseline, eta) => {
                let eta = eta.map(|eta| format!(", η = {}", Eta(eta).text()));
                format!("{factor}, {baseline}{}", eta.unwrap_or_default())
            }
            Line::Preset(name) => (*name).to_owned(),
        }
    }
}

/// A number that is drawn.
pub(super) struct Measure {
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    pub(super) unit: Unit,
    pub(super) of: fn(&Quality) -> f64,
    /// From standard errors; none where what is drawn has none of its own.
    pub(super) error: fn(&Quality) -> Option<f64>,
}

const BIAS: &Measure = &Measure {
    title: "Bias",
    note: "of the gradient's length, over updates behind",
    unit: Unit::Share,
    of: |q| q.bias,
    error: |e| Some(e.bias),
};
const COSINE: &Measure = &Measure {
    title: "Cosine",
    note: "between the expected estimate and the gradient",
    unit: Unit::Number,
    of: |q| q.cosine,
    error: |e| Some(e.cosine),
};
const SCALE: &Measure = &Measure {
    title: "Scale",
    note: "of the expected estimate along the gradient; 1 is right",
    unit: Unit::Number,
    of: |q| q.scale,
    error: |e| Some(e.scale),
};
const VARIANCE: &Measure = &Measure {
    title: "Variance, as a power of ten",
    note: "log₁₀ of the trace of one group's, over |∇J|²",
    unit: Unit::Number,
    of: |q| q.variance.log10(),
    error: |_| None,
};
const ERROR: &Measure = &Measure {
    title: "Error of an update",
    note: "bias and variance together, in the mean of 32 completions",
    unit: Unit::Share,
    of: |q| q.update_error,
    error: |e| Some(e.update_error),
};
const ESS: &Measure = &Measure {
    title: "Effective sample size",
    note: "of the factors, as a share of the completions",
    unit: Unit::Share,
    of: |q| q.ess,
    error: |e| Some(e.ess),
};

use Line::{Choices, Preset};

const INF: f64 = f64::INFINITY;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        title: "What does the weighted value term do?",
        text: "The paper's Eq. 5 weights the rewards in the baseline, and counts the completion itself among them. A baseline needs no weights to leave the estimate unbiased: it needs to \
               be independent of the completion. Under the whole weight w, the plain mean of the group (itself included) shortens the gradient to 1 − 1/G of it at any staleness and turns \
               it nowhere; with weights, the completion's own weight stands in its own baseline, which turns the estimate as well. With the others only (loo), neither is biased, weighted or not.",
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
        text: "min(w, η) in place of w, with the mean of the others as baseline. A lower cap loses more of the completions that the policy has come to like, which is a bias; it bounds what one \
               completion can do, which is less variance. The error of an update says which of the two counts for more.",
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
        title: "How does η = 2 compare where the paper has it, in the value term alone?",
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
        text: "Self-included against leave-one-out, for the whole weight, the capped one and none at all.",
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
        text: "All with the mean of the others. A token's ratio leaves what comes before and after it as μ drew it: less variance, and a bias that no cap explains. The geometric mean of the ratios \
               and PPO's clip are further from ∇J in theory; how far depends on the staleness.",
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
        text: "The algorithms as they are run. dapo-paper and grpo-clip divide by a length and by the rewards' deviation, so that their scale is their own; compare their cosines.",
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
    fn every_line_is_one_estimator_of_the_study() {
        let all: Vec<Names> = grid()
            .iter()
            .map(super::super::grid::Setting::names)
            .collect();
        for question in QUESTIONS {
            for line in question.lines {
                let found = all.iter().filter(|names| line.is(names)).count();
                assert_eq!(found, 1, "{}: {}", question.title, line.name());
            }
        }
    }
}
