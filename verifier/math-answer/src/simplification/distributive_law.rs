//! Sums that a number multiplies or divides: (a − 5)/3 and a/3 − 5/3 are the same, and both are simplified.

use dashu_ratio::RBig;
use dashu_ratio::ops::Abs as _;

use crate::arithmetic::exact::{multiply, rational};
use crate::equivalence::equal_in_any_order;
use crate::equivalence::value_equality::ValueComparer;
use crate::expression::Expr;
use crate::meter::Meter;
use crate::simplification::written_form::{has_sum_factor, is_constant};

/// Meter steps for visiting or copying a node.
const NODE_COST: u64 = 10;

/// Whether `expected` and `answer` are sums of the same terms, after each number that multiplies or divides a sum is distributed over its terms.
///
/// The terms are compared one by one, so nothing else may remain to be simplified. 2(3(x + 1) − 4) is not accepted for 6x − 2, since 6 − 8 is not carried out.
pub(crate) fn same_terms(comparer: &ValueComparer, expected: &Expr, answer: &Expr) -> bool {
    let (Some(expected), Some(answer)) = (
        Expanded::from_expr(expected, &comparer.meter),
        Expanded::from_expr(answer, &comparer.meter),
    ) else {
        return false;
    };
    // (4k + 8)/4 is not accepted for k + 2, as 12/4 is not for 3.
    if answer.divides_evenly() && !expected.divides_evenly() {
        return false;
    }
    equal_in_any_order(comparer, &expected.terms, &answer.terms, false)
}

/// Whether a sum is divided by a number that divides all its terms: (4 + 2√3)/2.
pub(crate) fn divides_evenly(expr: &Expr, meter: &Meter) -> bool {
    Expanded::from_expr(expr, meter).is_some_and(|expanded| expanded.divides_evenly())
}

/// The terms of a sum, each multiplied by the numbers before the brackets around it.
#[derive(Debug, Default)]
struct Expanded {
    terms: Vec<Expr>,
    /// Whether a number divides the sum.
    divided: bool,
    /// Whether a term has a coefficient that is not an integer.
    fraction: bool,
}

/// The factor before a term: its rational part, and constants such as π.
#[derive(Debug, Clone)]
struct Factor {
    number: RBig,
    constants: Vec<Expr>,
    /// The number of multipliers and of divisors since the last bracket around a sum.
    multipliers: usize,
    divisors: usize,
}

impl Factor {
    /// Returns `None` if two numbers multiply or two divide, with no sum between them. Those could be one number.
    fn check_worked_out(&self) -> Option<()> {
        (self.multipliers < 2 && self.divisors < 2).then_some(())
    }
}

impl Expanded {
    fn from_expr(expr: &Expr, meter: &Meter) -> Option<Self> {
        let mut expanded = Self::default();
        let unit = Factor {
            number: RBig::ONE,
            constants: Vec::new(),
            multipliers: 0,
            divisors: 0,
        };
        expanded.add(expr, unit, meter)?;
        Some(expanded)
    }

    /// Whether the sum is divided and every coefficient is an integer.
    fn divides_evenly(&self) -> bool {
        self.divided && !self.fraction
    }

    fn add(&mut self, expr: &Expr, mut factor: Factor, meter: &Meter) -> Option<()> {
        meter.spend(NODE_COST)?;
        match expr {
            Expr::Sum(terms) => {
                factor.check_worked_out()?;
                (factor.multipliers, factor.divisors) = (0, 0);
                for term in terms {
                    self.add(term, factor.clone(), meter)?;
                }
                return Some(());
            }
            Expr::Negative(inner) => {
                factor.number = -factor.number;
                return self.add(inner, factor, meter);
            }
            Expr::Quotient(above, below) if has_sum_factor(above) => {
                let below = rational(below, meter).filter(|below| !below.is_zero())?;
                factor.divisors += 1;
                self.divided = true;
                factor.number = multiply(&factor.number, &below.pow(-1), meter)?;
                return self.add(above, factor, meter);
            }
            Expr::Product(factors) => {
                let (constant, mut rest): (Vec<&Expr>, Vec<&Expr>) =
                    factors.iter().partition(|one| is_constant(one));
                if let [sum] = rest.as_slice()
                    && has_sum_factor(sum)
                {
                    for one in constant {
                        match rational(one, meter) {
                            Some(number) => {
                                factor.multipliers += usize::from(!number.is_one());
                                factor.number = multiply(&factor.number, &number, meter)?;
                            }
                            None => factor.constants.push(one.clone()),
                        }
                    }
                    return self.add(rest.pop()?, factor, meter);
                }
            }
            _ => {}
        }
        self.term(expr, &factor, meter)
    }

    fn term(&mut self, term: &Expr, factor: &Factor, meter: &Meter) -> Option<()> {
        factor.check_worked_out()?;
        let number = multiply(&coefficient(term, meter)?, &factor.number, meter)?;
        self.divided |= !factor.number.is_int();
        self.fraction |= !number.is_int();
        let mut product = vec![Expr::number(factor.number.clone().abs()), term.clone()];
        product.extend(factor.constants.iter().cloned());
        let negative = factor.number < RBig::ZERO;
        self.terms.push(Expr::Product(product).negated_if(negative));
        Some(())
    }
}

/// The coefficient of a term without sums: 3/2 in 3x/2.
fn coefficient(term: &Expr, meter: &Meter) -> Option<RBig> {
    let number = |expr: &Expr| is_constant(expr).then(|| rational(expr, meter)).flatten();
    Some(match term {
        Expr::Negative(inner) => -coefficient(inner, meter)?,
        Expr::Quotient(above, below) => match number(below) {
            Some(below) if !below.is_zero() => {
                multiply(&coefficient(above, meter)?, &below.pow(-1), meter)?
            }
            _ => coefficient(above, meter)?,
        },
        Expr::Product(factors) => factors.first().and_then(number).unwrap_or(RBig::ONE),
        other => number(other).unwrap_or(RBig::ONE),
    })
}
