//! The simplifications that an expression still needs, counted by kind.
//!
//! `docs/math-policy.md` lists every kind. The count depends on how an expression is written, not on its value: 26 + 1 has two terms instead of one, and √180 has a
//! square in its radicand.

mod monomial;
mod perfect_powers;
mod right_angles;
mod sum;

use dashu_ratio::RBig;

use crate::expression::Expr;
use crate::meter::Meter;
use sum::StepCounter;

/// A kind of simplification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Simplification {
    /// Numbers that could be one number.
    Numbers,
    /// Terms that could be one term: 2x + 3x, √2 + √8, π + π/2.
    Terms,
    /// Factors that could be one factor, or cancel: x·x², (x²)³, t³/t⁴, √2·√3.
    Factors,
    /// Roots with a power in the radicand: √180, √(x³).
    Roots,
    /// Arithmetic with i that could be done.
    Complex,
    /// Sums in a product that is a term of a sum: x(x + 1) + 2.
    Brackets,
    /// Sums in a denominator.
    Denominators,
    /// Functions that could be evaluated.
    Functions,
    /// Logarithms that could be put together.
    Logarithms,
    /// Roots under roots.
    Nested,
}

/// The text for each kind in a verdict's `detail`, in the order of the kinds.
const NAMES: [&str; 10] = [
    "numbers are left to be worked out",
    "like terms are left to be added",
    "factors are left to be multiplied or cancelled",
    "a root is left to be simplified",
    "arithmetic with i is left to be done",
    "brackets are left to be multiplied out",
    "a sum is left below a fraction",
    "a function is left to be evaluated",
    "logarithms are left to be put together",
    "a root is left under a root",
];

impl Simplification {
    /// The text in a verdict's `detail`.
    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// The number of simplifications of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SimplificationCounts([usize; NAMES.len()]);

impl SimplificationCounts {
    /// Counts the simplifications of an expression.
    pub(crate) fn from_expr(expr: &Expr, meter: &Meter) -> Self {
        let mut counter = StepCounter {
            counts: Self::default(),
            meter,
        };
        counter.visit(expr);
        counter.counts
    }

    fn add(&mut self, kind: Simplification, count: usize) {
        self.0[kind as usize] += count;
    }

    /// The larger count of each kind.
    pub(crate) fn max(self, other: Self) -> Self {
        let mut larger = self;
        for (count, other) in larger.0.iter_mut().zip(other.0) {
            *count = (*count).max(other);
        }
        larger
    }

    /// The name of the first kind with a larger count than in `expected`.
    pub(crate) fn first_exceeding(self, expected: Self) -> Option<&'static str> {
        let mut counts = self.0.into_iter().zip(expected.0).zip(NAMES);
        counts.find_map(|((own, other), name)| (own > other).then_some(name))
    }

    pub(crate) fn count(self, kind: Simplification) -> usize {
        self.0[kind as usize]
    }

    /// Whether every count is 0.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Whether an expression is a term, a sum or a product of sums. Numbers and signs do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No sum.
    Term,
    /// One sum.
    Sum,
    /// Several factors. The number counts those that are sums, each as often as its power says.
    Product(usize),
}

/// The shape of an expression.
pub(crate) fn shape(expr: &Expr, meter: &Meter) -> Shape {
    let mut counter = StepCounter {
        counts: SimplificationCounts::default(),
        meter,
    };
    let terms = counter.expand_terms(expr);
    let [term] = terms.as_slice() else {
        return Shape::Sum;
    };
    let monomial = counter.monomial(term);
    let sums: usize = monomial
        .sums
        .iter()
        .filter_map(|sum| usize::try_from(sum.power.trunc()).ok())
        .fold(0, usize::saturating_add);
    let has_denominator = monomial.sums.iter().any(|sum| sum.power < RBig::ZERO);
    if sums == 0 && !has_denominator {
        Shape::Term
    } else if sums == 1 && !has_denominator && monomial.atoms.is_empty() {
        Shape::Sum
    } else {
        Shape::Product(sums)
    }
}
