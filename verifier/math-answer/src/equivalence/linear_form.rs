//! Linear forms in one variable, such as −2y + 1.

use dashu_ratio::RBig;

use crate::arithmetic::exact::{add, multiply, rational};
use crate::expression::Expr;
use crate::meter::Meter;

/// Meter steps for visiting a node.
const NODE_COST: u64 = 4;

/// `slope` times a variable and `constant`, both rational.
#[derive(Debug, Clone)]
pub(crate) struct LinearForm<'a> {
    /// The variable. `None` if there is none; the slope is 0 then.
    pub(crate) variable: Option<&'a Expr>,
    pub(crate) slope: RBig,
    pub(crate) constant: RBig,
}

impl<'a> LinearForm<'a> {
    /// The linear form of `expr`. `None` if it is not linear, has two variables, or has coefficients that are not rational or too large.
    pub(crate) fn from_expr(expr: &'a Expr, meter: &Meter) -> Option<Self> {
        meter.spend(NODE_COST)?;
        match expr {
            Expr::Symbol(name) if name != "Reals" => Some(Self {
                variable: Some(expr),
                slope: RBig::ONE,
                constant: RBig::ZERO,
            }),
            Expr::Sum(terms) => terms
                .iter()
                .try_fold(Self::constant(RBig::ZERO), |sum, term| {
                    sum.plus(&Self::from_expr(term, meter)?, meter)
                }),
            Expr::Negative(inner) => Self::from_expr(inner, meter)?.times(&RBig::NEG_ONE, meter),
            Expr::Product(factors) => {
                let mut product = Self::constant(RBig::ONE);
                for factor in factors {
                    let factor = Self::from_expr(factor, meter)?;
                    product = match (&product.variable, &factor.variable) {
                        (_, None) => product.times(&factor.constant, meter)?,
                        (None, Some(_)) => factor.times(&product.constant, meter)?,
                        (Some(_), Some(_)) => return None,
                    };
                }
                Some(product)
            }
            Expr::Quotient(above, below) => {
                let below =
                    Self::from_expr(below, meter).filter(|below| below.variable.is_none())?;
                if below.constant.is_zero() {
                    return None;
                }
                Self::from_expr(above, meter)?.times(&below.constant.pow(-1), meter)
            }
            // Powers and functions of numbers. With a variable these are not linear.
            other => rational(other, meter).map(Self::constant),
        }
    }

    pub(crate) fn difference(left: &'a Expr, right: &'a Expr, meter: &Meter) -> Option<Self> {
        let right = Self::from_expr(right, meter)?.times(&RBig::NEG_ONE, meter)?;
        Self::from_expr(left, meter)?.plus(&right, meter)
    }

    fn constant(constant: RBig) -> Self {
        Self {
            variable: None,
            slope: RBig::ZERO,
            constant,
        }
    }

    fn plus(self, other: &Self, meter: &Meter) -> Option<Self> {
        let variable = match (self.variable, other.variable) {
            (Some(one), Some(another)) if one != another => return None,
            (one, another) => one.or(another),
        };
        Some(Self {
            variable,
            slope: add(&self.slope, &other.slope, meter)?,
            constant: add(&self.constant, &other.constant, meter)?,
        })
    }

    fn times(self, number: &RBig, meter: &Meter) -> Option<Self> {
        Some(Self {
            slope: multiply(&self.slope, number, meter)?,
            constant: multiply(&self.constant, number, meter)?,
            variable: self.variable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::grammar::{Commas, parse};

    fn read(text: &str) -> Option<(String, String)> {
        let tree = parse(text, Commas::Thousands).unwrap();
        LinearForm::from_expr(&tree, &Meter::new())
            .map(|linear| (linear.slope.to_string(), linear.constant.to_string()))
    }

    #[test]
    fn numbers_are_distributed_and_like_terms_are_added() {
        for (text, slope, constant) in [
            ("-2y", "-2", "0"),
            (r"3 - \frac{x-1}{2}", "-1/2", "7/2"),
            ("2(x+3)+x", "3", "6"),
            ("x-x+1", "0", "1"),
            ("5", "0", "5"),
            (r"\sqrt{4}\cdot x", "2", "0"),
        ] {
            let expected = Some((slope.to_owned(), constant.to_owned()));
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn expressions_that_are_not_linear_in_one_variable_have_no_linear_form() {
        for text in [
            "x^2", "x+y", "xy", "1/x", r"\sqrt2x", r"|x|", "x/0", r"\pi x",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
