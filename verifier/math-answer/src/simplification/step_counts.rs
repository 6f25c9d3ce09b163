//! The simplifications that an expression still needs, counted by kind.
//!
//! `docs/math-policy.md` lists every kind. The count depends on how an expression is written, not on its value: 26 + 1 has two terms instead of one, and √180 has a
//! square in its radicand.

mod right_angles;
mod monomial;
mod sum;

use dashu_ratio::RBig;

use crate::meter::Meter;
use crate::expression::Expr;
use sum::Counter;

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

const KINDS: usize = 10;

impl Simplification {
    const ALL: [Simplification; KINDS] = [
        Simplification::Numbers,
        Simplification::Terms,
        Simplification::Factors,
        Simplification::Roots,
        Simplification::Complex,
        Simplification::Brackets,
        Simplification::Denominators,
        Simplification::Functions,
        Simplification::Logarithms,
        Simplification::Nested,
    ];

    /// The text in a verdict's `detail`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Simplification::Numbers => "numbers are left to be worked out",
            Simplification::Terms => "like terms are left to be added",
            Simplification::Factors => "factors are left to be multiplied or cancelled",
            Simplification::Roots => "a root is left to be simplified",
            Simplification::Complex => "arithmetic with i is left to be done",
            Simplification::Brackets => "brackets are left to be multiplied out",
            Simplification::Denominators => "a sum is left below a fraction",
            Simplification::Functions => "a function is left to be evaluated",
            Simplification::Logarithms => "logarithms are left to be put together",
            Simplification::Nested => "a root is left under a root",
        }
    }
}

/// The number of simplifications of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SimplificationCounts([usize; KINDS]);

impl SimplificationCounts {
    /// Counts the simplifications of an expression.
    pub(crate) fn from_expr(expr: &Expr, meter: &Meter) -> Self {
        let mut counter = Counter {
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

    /// The first kind with a larger count than in `expected`.
    pub(crate) fn first_exceeding(self, expected: Self) -> Option<Simplification> {
        Simplification::ALL
            .into_iter()
            .find(|kind| self.0[*kind as usize] > expected.0[*kind as usize])
    }

    pub(crate) fn count(self, kind: Simplification) -> usize {
        self.0[kind as usize]
    }

    /// Whether every count is 0.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The number of sums among a product's factors, without numbers and signs.
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
    let mut counter = Counter {
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
