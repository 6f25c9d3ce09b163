//! Sums of which a number multiplies or divides all: (a − 5)/3 and a/3 − 5/3 say the same, and neither leaves anything to be worked out.

use dashu_ratio::RBig;
use dashu_ratio::ops::Abs as _;

use crate::arithmetic::exact::{bounded, rational};
use crate::finished::written::{holds_sum, is_constant};
use crate::meter::{Meter, arithmetic};
use crate::same::unordered;
use crate::same::value::Judge;
use crate::syntax::Expr;

/// Steps that a look at a node costs, or a copy of it.
const NODE: u64 = 10;

/// Whether `right` and `given` are sums of the same terms, once each number that multiplies or divides a sum is brought to its terms.
///
/// The terms are compared one by one, so that nothing else may be left to do: 2(3(x + 1) − 4) is not 6x − 2, since 6 − 8 is not carried out.
pub(crate) fn same_terms(judge: &Judge, right: &Expr, given: &Expr) -> bool {
    let (Some(right), Some(given)) = (
        Spread::of(right, &judge.meter),
        Spread::of(given, &judge.meter),
    ) else {
        return false;
    };
    // (4k + 8)/4 is k + 2 as 12/4 is 3: the division comes out.
    if given.comes_out() && !right.comes_out() {
        return false;
    }
    let (right, given): (Vec<&Expr>, Vec<&Expr>) =
        (right.terms.iter().collect(), given.terms.iter().collect());
    unordered(judge, &right, &given, false)
}

/// Whether a division of a sum is left that leaves whole numbers: (4 + 2√3)/2.
pub(crate) fn comes_out(expr: &Expr, meter: &Meter) -> bool {
    Spread::of(expr, meter).is_some_and(|spread| spread.comes_out())
}

/// The terms of a sum, each times the numbers before the brackets that it stands in.
#[derive(Debug, Default)]
struct Spread {
    terms: Vec<Expr>,
    /// Whether a number divides.
    divided: bool,
    /// Whether a term has a fraction before it.
    fraction: bool,
}

/// What multiplies a term: its rational part, and constants such as π.
#[derive(Debug, Clone)]
struct Factor {
    number: RBig,
    constants: Vec<Expr>,
    /// Numbers that multiply, and that divide, since the last bracket that holds a sum.
    times: usize,
    over: usize,
}

impl Factor {
    /// `None` where two numbers multiply, or two divide, with no sum between them: those are to be worked out.
    fn carried_out(&self) -> Option<()> {
        (self.times < 2 && self.over < 2).then_some(())
    }
}

impl Spread {
    fn of(expr: &Expr, meter: &Meter) -> Option<Self> {
        let mut spread = Self::default();
        let one = Factor {
            number: RBig::ONE,
            constants: Vec::new(),
            times: 0,
            over: 0,
        };
        spread.add(expr, one, meter)?;
        Some(spread)
    }

    /// Whether all divisions leave whole numbers.
    fn comes_out(&self) -> bool {
        self.divided && !self.fraction
    }

    fn add(&mut self, expr: &Expr, mut factor: Factor, meter: &Meter) -> Option<()> {
        meter.spend(NODE)?;
        match expr {
            Expr::Sum(terms) => {
                factor.carried_out()?;
                (factor.times, factor.over) = (0, 0);
                for term in terms {
                    self.add(term, factor.clone(), meter)?;
                }
                return Some(());
            }
            Expr::Negative(inner) => {
                factor.number = -factor.number;
                return self.add(inner, factor, meter);
            }
            Expr::Quotient(above, below) if holds_sum(above) => {
                let below = rational(below, meter).filter(|below| !below.is_zero())?;
                factor.over += 1;
                self.divided = true;
                factor.number = times(&factor.number, &below.pow(-1), meter)?;
                return self.add(above, factor, meter);
            }
            Expr::Product(factors) => {
                let (constant, mut rest): (Vec<&Expr>, Vec<&Expr>) =
                    factors.iter().partition(|one| is_constant(one));
                if let [sum] = rest.as_slice()
                    && holds_sum(sum)
                {
                    for one in constant {
                        match rational(one, meter) {
                            Some(number) => {
                                factor.times += usize::from(!number.is_one());
                                factor.number = times(&factor.number, &number, meter)?;
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
        factor.carried_out()?;
        let number = times(&coefficient(term, meter)?, &factor.number, meter)?;
        self.divided |= !factor.number.is_int();
        self.fraction |= !number.is_int();
        let mut product = vec![Expr::number(factor.number.clone().abs()), term.clone()];
        product.extend(factor.constants.iter().cloned());
        let product = Expr::Product(product);
        self.terms.push(if factor.number < RBig::ZERO {
            Expr::Negative(Box::new(product))
        } else {
            product
        });
        Some(())
    }
}

fn times(a: &RBig, b: &RBig, meter: &Meter) -> Option<RBig> {
    meter.spend(arithmetic(a, b))?;
    bounded(a * b)
}

/// The number before a term without sums: 3/2 of 3x/2.
fn coefficient(term: &Expr, meter: &Meter) -> Option<RBig> {
    let number = |expr: &Expr| {
        if is_constant(expr) {
            rational(expr, meter)
        } else {
            None
        }
    };
    Some(match term {
        Expr::Negative(inner) => -coefficient(inner, meter)?,
        Expr::Quotient(above, below) => match number(below) {
            Some(below) if !below.is_zero() => {
                times(&coefficient(above, meter)?, &below.pow(-1), meter)?
            }
            _ => coefficient(above, meter)?,
        },
        Expr::Product(factors) => factors.first().and_then(number).unwrap_or(RBig::ONE),
        other => number(other).unwrap_or(RBig::ONE),
    })
}
