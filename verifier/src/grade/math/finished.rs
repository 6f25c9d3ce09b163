//! Whether an answer is finished: whether its arithmetic is done.
//!
//! A problem that asks for 27 + 45 has the right value in `\boxed{27 + 45}`. A grader that accepts it teaches a model to copy the problem.

use num_rational::BigRational;
use num_traits::One as _;

use super::Rule;
use super::distributed::same_terms;
use super::exact::rational;
use super::meter::Meter;
use super::signs::variants;
use super::syntax::{Expr, Function, Relation};
use super::value::Judge;

/// Whether `given`, which equals `right` by a rule, is worked out as far as `right` is.
pub(super) fn finished(rule: Rule, right: &Expr, given: &Expr, judge: &Judge) -> bool {
    let meter = &judge.meter;
    // Each of the values that ± stands for is looked at.
    let (Some(right), Some(given)) = (variants(right, meter), variants(given, meter)) else {
        return false;
    };
    let (right, given): (&Expr, &Expr) = (&right, &given);
    let undone = |expr: &Expr| undone(expr, meter);
    // -2y ≥ 6 is a step on the way to y ≤ -3.
    if is_unsolved(given) && !is_unsolved(right) {
        return false;
    }
    match rule {
        Rule::Base | Rule::Text => return true,
        // x = 27 + 45 is no more done than 27 + 45.
        Rule::Words | Rule::Relation | Rule::Set => return undone(given) <= undone(right),
        _ => {}
    }
    match (right, given) {
        (
            Expr::Tuple(_, a, _) | Expr::List(a) | Expr::Set(a),
            Expr::Tuple(_, b, _) | Expr::List(b) | Expr::Set(b),
        ) => {
            let most = a.iter().map(undone).max().unwrap_or(0);
            if a.iter().all(|item| matches!(item, Expr::Words(_))) {
                return true;
            }
            let literal = a.iter().all(is_written);
            b.iter().all(|item| {
                if literal {
                    is_written(bare(item))
                } else {
                    undone(item) <= most
                }
            })
        }
        (Expr::Matrix(_, a), Expr::Matrix(_, b)) => a
            .iter()
            .flatten()
            .zip(b.iter().flatten())
            .all(|(a, b)| finished(rule, a, b, judge)),
        _ => {
            let (right, given) = (bare(right), bare(given));
            // An angle may be in radians instead of degrees.
            let radians = rule == Rule::Unit && undone(given) == 0;
            if is_written(right) && !radians {
                return is_written(given)
                    && (is_whole_quotient(right, meter)
                        || is_ratio_to_one(given)
                        || !is_whole_quotient(given, meter));
            }
            undone(given) <= undone(right)
                && (!is_polynomial(right)
                    || !is_polynomial(given)
                    || is_sum(right) == is_sum(given)
                    || same_terms(judge, right, given))
        }
    }
}

/// Without units and names, and the last of several that are equal.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Quantity(inner, _)
        | Expr::Money(_, inner)
        | Expr::Degrees(inner)
        | Expr::Percent(inner) => bare(inner),
        // 27 + 45 = 72 says 72 in the end.
        Expr::Relation(parts, relations)
            if relations
                .iter()
                .all(|relation| *relation == Relation::Equal) =>
        {
            parts.last().map_or(expr, bare)
        }
        other => other,
    }
}

/// A number as one writes it down: digits, a fraction, a mixed number, a power of ten.
fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) | Expr::Mixed(..) | Expr::Based(..) | Expr::Words(_) => true,
        Expr::Negative(inner) | Expr::Percent(inner) | Expr::Degrees(inner) => is_written(inner),
        Expr::Quantity(inner, _) | Expr::Money(_, inner) => is_written(inner),
        Expr::Quotient(above, below) => is_literal(above) && is_literal(below),
        Expr::Power(base, power) => is_ten(base) && is_literal(power),
        Expr::Product(factors) => match factors.as_slice() {
            [mantissa, Expr::Power(base, power)] => {
                is_literal(mantissa) && is_ten(base) && is_literal(power)
            }
            _ => false,
        },
        Expr::Ratio(parts) => parts.iter().all(is_literal),
        _ => false,
    }
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) => true,
        Expr::Negative(inner) => is_literal(inner),
        _ => false,
    }
}

fn is_ten(expr: &Expr) -> bool {
    matches!(expr, Expr::Number(ten) if *ten == BigRational::from_integer(10.into()))
}

/// 12/4 and 12:4, which are 3.
fn is_whole_quotient(expr: &Expr, meter: &Meter) -> bool {
    match expr {
        Expr::Negative(inner) => is_whole_quotient(inner, meter),
        Expr::Quotient(..) => rational(expr, meter).is_some_and(|value| value.is_integer()),
        Expr::Ratio(parts) => match parts.as_slice() {
            [a, b] => is_whole_quotient(
                &Expr::Quotient(Box::new(a.clone()), Box::new(b.clone())),
                meter,
            ),
            _ => false,
        },
        _ => false,
    }
}

/// 2:1, which is as far as a ratio goes.
fn is_ratio_to_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Ratio(parts)
        if matches!(parts.as_slice(), [_, Expr::Number(one)] if one.is_one()))
}

/// Sums, products and functions of numbers that could be one number.
fn undone(expr: &Expr, meter: &Meter) -> usize {
    let undone = |expr: &Expr| undone(expr, meter);
    let rational = |expr: &Expr| rational(expr, meter);
    let below = |parts: &[Expr]| parts.iter().map(undone).sum::<usize>();
    let several = |parts: &[Expr], counts: &dyn Fn(&BigRational) -> bool| {
        let numbers = parts.iter().filter_map(rational).filter(counts).count();
        usize::from(numbers > 1)
    };
    match expr {
        _ if is_written(expr) => 0,
        Expr::Sum(terms) => several(terms, &|_| true) + below(terms),
        Expr::Product(factors) => several(factors, &|value| !value.is_one()) + below(factors),
        Expr::Negative(inner)
        | Expr::Degrees(inner)
        | Expr::Percent(inner)
        | Expr::PlusMinus(_, inner) => undone(inner),
        Expr::Quantity(inner, _) | Expr::Money(_, inner) => undone(inner),
        Expr::Quotient(above, below) => {
            let parts = undone(above) + undone(below);
            let number = rational(expr).is_some() && !(is_literal(above) && is_literal(below));
            parts.max(usize::from(number))
        }
        Expr::Power(base, power) => {
            let number = rational(expr).is_some() && !is_ten(base);
            usize::from(number) + undone(base) + undone(power)
        }
        Expr::Root(_, inner) => usize::from(rational(expr).is_some()) + undone(inner),
        Expr::Call(function, arguments) => {
            let constant = !arguments.iter().any(has_variable);
            usize::from(
                constant && !matches!(function, Function::Ln | Function::Log | Function::Exp),
            ) + below(arguments)
        }
        Expr::Tuple(_, parts, _)
        | Expr::List(parts)
        | Expr::Set(parts)
        | Expr::Ratio(parts)
        | Expr::Relation(parts, _) => below(parts),
        Expr::Combine(a, _, b) => undone(a) + undone(b),
        Expr::Matrix(_, rows) => rows.iter().map(|row| below(row)).sum(),
        _ => 0,
    }
}

/// Whether there is an inequality in it that is not solved for a name: the name alone on one side, or between two bounds, and no variable on the others.
fn is_unsolved(expr: &Expr) -> bool {
    match expr {
        Expr::Relation(parts, relations) => {
            let is_name = |part: &&Expr| matches!(part, Expr::Symbol(_) | Expr::Apply(..));
            let names = parts.iter().filter(is_name).count();
            let others = parts.iter().filter(|part| !is_name(part));
            let inequality =
                |relation: &Relation| !matches!(relation, Relation::Equal | Relation::In);
            relations.iter().any(inequality) && (names != 1 || others.into_iter().any(has_variable))
        }
        Expr::List(parts) | Expr::Set(parts) => parts.iter().any(is_unsolved),
        Expr::Combine(a, _, b) => is_unsolved(a) || is_unsolved(b),
        _ => false,
    }
}

fn is_sum(expr: &Expr) -> bool {
    matches!(expr, Expr::Sum(_))
}

/// A sum or product of powers of variables, in any form.
fn is_polynomial(expr: &Expr) -> bool {
    fn plain(expr: &Expr) -> bool {
        match expr {
            Expr::Number(_) | Expr::Symbol(_) | Expr::Constant(_) => true,
            Expr::Sum(parts) | Expr::Product(parts) => parts.iter().all(plain),
            Expr::Negative(inner) => plain(inner),
            Expr::Power(base, power) => plain(base) && is_literal(power),
            Expr::Quotient(above, below) => plain(above) && is_literal(below),
            _ => false,
        }
    }
    has_variable(expr) && plain(expr)
}

fn has_variable(expr: &Expr) -> bool {
    match expr {
        Expr::Symbol(_) => true,
        Expr::Sum(parts) | Expr::Product(parts) | Expr::Call(_, parts) => {
            parts.iter().any(has_variable)
        }
        Expr::Negative(inner) | Expr::Degrees(inner) | Expr::Percent(inner) => has_variable(inner),
        Expr::Quotient(a, b) | Expr::Power(a, b) | Expr::Root(a, b) => {
            has_variable(a) || has_variable(b)
        }
        _ => false,
    }
}
