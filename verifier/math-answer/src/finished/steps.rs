//! What is left to do in an expression: the steps by which it would become shorter, counted by kind.
//!
//! Every kind stands in `docs/math-policy.md`. What is counted is how an expression is written, not what it is worth: 26 + 1 has two terms that are one, and
//! √180 a square under its root.

mod angle;
mod count;
mod product;

use dashu_ratio::RBig;

use crate::meter::Meter;
use crate::syntax::Expr;
use count::Counter;

/// What can be left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Numbers that could be one number.
    Numbers,
    /// Terms that could be one term: 2x + 3x, √2 + √8, π + π/2.
    Terms,
    /// Factors that could be one factor, or cancel: x·x², (x²)³, t³/t⁴, √2·√3.
    Factors,
    /// Roots of what holds a power: √180, √(x³).
    Roots,
    /// Arithmetic with i.
    Complex,
    /// Sums that stand in a product, and that product in a sum: x(x + 1) + 2.
    Brackets,
    /// Sums below a fraction.
    Denominators,
    /// Functions.
    Functions,
    /// Logarithms.
    Logarithms,
    /// Roots under roots.
    Nested,
}

const KINDS: usize = 10;

impl Step {
    const ALL: [Step; KINDS] = [
        Step::Numbers,
        Step::Terms,
        Step::Factors,
        Step::Roots,
        Step::Complex,
        Step::Brackets,
        Step::Denominators,
        Step::Functions,
        Step::Logarithms,
        Step::Nested,
    ];

    /// As `detail` writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::Numbers => "numbers are left to be worked out",
            Step::Terms => "like terms are left to be added",
            Step::Factors => "factors are left to be multiplied or cancelled",
            Step::Roots => "a root is left to be simplified",
            Step::Complex => "arithmetic with i is left to be done",
            Step::Brackets => "brackets are left to be multiplied out",
            Step::Denominators => "a sum is left below a fraction",
            Step::Functions => "a function is left to be evaluated",
            Step::Logarithms => "logarithms are left to be put together",
            Step::Nested => "a root is left under a root",
        }
    }
}

/// How often each step could be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Steps([usize; KINDS]);

impl Steps {
    /// Those of an expression.
    pub(crate) fn of(expr: &Expr, meter: &Meter) -> Self {
        let mut counter = Counter {
            steps: Self::default(),
            meter,
        };
        counter.visit(expr);
        counter.steps
    }

    fn add(&mut self, step: Step, times: usize) {
        self.0[step as usize] += times;
    }

    /// The larger count of each kind.
    pub(crate) fn most(self, other: Self) -> Self {
        let mut most = self;
        for (one, other) in most.0.iter_mut().zip(other.0) {
            *one = (*one).max(other);
        }
        most
    }

    /// A step of which there are more than in `right`.
    pub(crate) fn beyond(self, right: Self) -> Option<Step> {
        Step::ALL
            .into_iter()
            .find(|step| self.0[*step as usize] > right.0[*step as usize])
    }

    /// How often this one could be done.
    pub(crate) fn times(self, step: Step) -> usize {
        self.0[step as usize]
    }

    /// Whether there is nothing left to do.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// What a product has sums in for factors, once numbers and signs are taken away from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No sum.
    Term,
    /// One sum.
    Sum,
    /// Factors of which so many are sums, each counted as often as its power says.
    Product(usize),
}

/// The shape of an expression.
pub(crate) fn shape(expr: &Expr, meter: &Meter) -> Shape {
    let mut counter = Counter {
        steps: Steps::default(),
        meter,
    };
    let terms = counter.spread(expr);
    let [term] = terms.as_slice() else {
        return Shape::Sum;
    };
    let monomial = counter.monomial(term);
    let sums: usize = monomial
        .sums
        .iter()
        .filter_map(|sum| usize::try_from(sum.power.trunc()).ok())
        .fold(0, usize::saturating_add);
    let below = monomial.sums.iter().any(|sum| sum.power < RBig::ZERO);
    if sums == 0 && !below {
        Shape::Term
    } else if sums == 1 && !below && monomial.atoms.is_empty() {
        Shape::Sum
    } else {
        Shape::Product(sums)
    }
}
