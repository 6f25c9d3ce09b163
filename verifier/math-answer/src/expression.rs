//! The tree of a parsed answer.

use std::fmt;

use dashu_int::UBig;
use dashu_ratio::RBig;

/// An answer, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    /// A number in digits: an integer, a decimal or a repeating decimal. It is not negative; [`Expr::Negative`] has the sign.
    Number(FullDebug<RBig>),
    /// A mixed number, a whole number and a proper fraction: 1⅘.
    Mixed(FullDebug<UBig>, Box<Expr>),
    /// A variable, or a name of several letters.
    Symbol(String),
    Constant(Constant),
    /// A sum of at least two terms.
    Sum(Vec<Expr>),
    /// The negation of a term.
    Negative(Box<Expr>),
    /// A product of at least two factors.
    Product(Vec<Expr>),
    /// A fraction or a division.
    Quotient(Box<Expr>, Box<Expr>),
    Power(Box<Expr>, Box<Expr>),
    /// A root: index and radicand.
    Root(Box<Expr>, Box<Expr>),
    /// A call of a known function.
    Call(Function, Vec<Expr>),
    /// A call of an unknown function: f(2).
    Apply(String, Vec<Expr>),
    /// An angle in degrees.
    Degrees(Box<Expr>),
    Percent(Box<Expr>),
    /// ± or ∓ before a term.
    PlusMinus(Side, Box<Expr>),
    /// A number with a unit, or with words for what is counted.
    Quantity(Box<Expr>, String),
    /// An amount of money: currency and number.
    Money(char, Box<Expr>),
    /// Digits and their base.
    Based(String, u32),
    /// Elements in brackets: a point, a vector, an interval.
    Tuple(Bracket, Vec<Expr>, Bracket),
    /// Elements in braces.
    Set(Vec<Expr>),
    /// Elements without brackets, in any order.
    List(Vec<Expr>),
    /// Rows of a matrix, or of a determinant (`true`).
    Matrix(bool, Vec<Vec<Expr>>),
    /// A union, intersection or difference of sets.
    Combine(Box<Expr>, SetOperator, Box<Expr>),
    /// A chain of equations or inequalities. It has one more expression than relations.
    Relation(Vec<Expr>, Vec<Relation>),
    /// `a : b : c`.
    Ratio(Vec<Expr>),
    Words(String),
}

/// A number with all its digits in its Debug form. The library's own Debug form omits the middle of a long number, so two numbers may share it. The Debug forms serve
/// as keys of terms, and their length is charged to the meter.
#[derive(Clone, PartialEq)]
pub(crate) struct FullDebug<T>(pub(crate) T);

impl fmt::Debug for FullDebug<UBig> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for FullDebug<RBig> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (above, below) = (self.0.numerator(), self.0.denominator());
        write!(f, "Ratio {{ numer: {above}, denom: {below} }}")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Constant {
    Pi,
    E,
    I,
    Infinity,
}

/// Which sign is on top: ± or ∓.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    PlusMinus,
    MinusPlus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bracket {
    Round,
    Square,
    Angle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetOperator {
    Union,
    Intersection,
    Difference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    /// ≈
    Near,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Relation {
    /// The relation with its sides swapped: > for <.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            other => other,
        }
    }
}

/// Functions that the comparison can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    /// The natural logarithm.
    Ln,
    /// The logarithm. Its arguments are the base and the number.
    Log,
    Exp,
    Abs,
    Floor,
    Ceiling,
    Factorial,
    Binomial,
    Gcd,
    Lcm,
    Min,
    Max,
}

impl Function {
    /// The function with this name in LaTeX or plain text.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sin" => Self::Sin,
            "cos" => Self::Cos,
            "tan" | "tg" => Self::Tan,
            "cot" | "ctg" => Self::Cot,
            "sec" => Self::Sec,
            "csc" | "cosec" => Self::Csc,
            "arcsin" | "asin" => Self::Arcsin,
            "arccos" | "acos" => Self::Arccos,
            "arctan" | "atan" => Self::Arctan,
            "sinh" => Self::Sinh,
            "cosh" => Self::Cosh,
            "tanh" => Self::Tanh,
            "ln" => Self::Ln,
            "log" => Self::Log,
            "exp" => Self::Exp,
            "gcd" => Self::Gcd,
            "lcm" => Self::Lcm,
            "min" => Self::Min,
            "max" => Self::Max,
            _ => return None,
        })
    }

    /// The inverse function, if `f^{-1}` denotes it.
    pub(crate) fn inverse(self) -> Option<Self> {
        Some(match self {
            Self::Sin => Self::Arcsin,
            Self::Cos => Self::Arccos,
            Self::Tan => Self::Arctan,
            _ => return None,
        })
    }
}

impl Expr {
    /// A number. `value` is not negative.
    pub(crate) fn number(value: impl Into<RBig>) -> Self {
        Self::Number(FullDebug(value.into()))
    }

    /// The negation of the expression if `negative`, otherwise the expression itself.
    pub(crate) fn negated_if(self, negative: bool) -> Self {
        if negative {
            Self::Negative(Box::new(self))
        } else {
            self
        }
    }

    /// The direct parts of the expression.
    pub(crate) fn parts(&self) -> Vec<&Expr> {
        match self {
            Expr::Sum(items)
            | Expr::Product(items)
            | Expr::List(items)
            | Expr::Set(items)
            | Expr::Tuple(_, items, _)
            | Expr::Call(_, items)
            | Expr::Apply(_, items)
            | Expr::Relation(items, _)
            | Expr::Ratio(items) => items.iter().collect(),
            Expr::Quotient(a, b)
            | Expr::Power(a, b)
            | Expr::Root(a, b)
            | Expr::Combine(a, _, b) => vec![a, b],
            Expr::Negative(inner)
            | Expr::Degrees(inner)
            | Expr::Percent(inner)
            | Expr::PlusMinus(_, inner)
            | Expr::Quantity(inner, _)
            | Expr::Money(_, inner)
            | Expr::Mixed(_, inner) => vec![inner],
            Expr::Matrix(_, rows) => rows.iter().flatten().collect(),
            Expr::Number(_)
            | Expr::Symbol(_)
            | Expr::Constant(_)
            | Expr::Based(..)
            | Expr::Words(_) => Vec::new(),
        }
    }

    /// Whether it or a part of it passes `test`.
    pub(crate) fn contains(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        test(self) || self.parts().into_iter().any(|part| part.contains(test))
    }

    /// Whether it contains a variable.
    pub(crate) fn has_variable(&self) -> bool {
        self.contains(&|part| matches!(part, Expr::Symbol(_)))
    }

    /// The sides of an equation; `None` for a chain of several and for other expressions.
    pub(crate) fn equation(&self) -> Option<(&Expr, &Expr)> {
        let Expr::Relation(sides, relations) = self else {
            return None;
        };
        match (sides.as_slice(), relations.as_slice()) {
            ([left, right], [Relation::Equal]) => Some((left, right)),
            _ => None,
        }
    }

    /// The number of nested levels.
    pub(crate) fn depth(&self) -> usize {
        1 + self.parts().into_iter().map(Expr::depth).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_in_one_digit_have_different_debug_texts() {
        let long = |middle: &str| -> UBig {
            let digits = "7".repeat(500);
            format!("{digits}{middle}{digits}").parse().unwrap()
        };
        let [first, second] = ["1", "2"].map(long);
        let debug_text = |number: &UBig| {
            let tree = Box::new(Expr::number(number.clone()));
            format!("{:?}", Expr::Mixed(FullDebug(number.clone()), tree))
        };
        assert_ne!(debug_text(&first), debug_text(&second));
        assert!(debug_text(&first).matches(&first.to_string()).count() == 2);
    }
}
