//! Whether an answer with the right value is simplified as far as the expected answer.
//!
//! A problem that asks for 27 + 45 has the right value in `\boxed{27 + 45}`. A grader that accepts it teaches a model to copy the problem.

mod counts;
mod distributive_law;
mod fractions;
mod notation;

use dashu_int::UBig;
use dashu_int::ops::BitTest as _;

use crate::hints::AskedUnit;
use crate::read::unit::Measure;
use crate::read::word_answers;
use crate::rule::Rule;
use crate::same::matching_rule;
use crate::same::plus_minus::variants;
use crate::same::quantity::split_measure;
use crate::same::real_sets::RealSet;
use crate::same::value::{ValueComparer, is_infinite};
use crate::simplified::counts::{Shape, Simplification, SimplificationCounts, shape};
use crate::simplified::distributive_law::{divides_evenly, same_terms};
use crate::simplified::fractions::is_less_reduced;
use crate::simplified::notation::{
    is_literal, is_plain_number, is_ratio_to_one, is_whole, is_whole_quotient, is_written_power,
    without_unit,
};
use crate::syntax::{Expr, Full, Relation, SetOperator};

/// Why an answer with the right value is not accepted; `detail.reason` states it.
const NOT_A_NUMBER: &str = "it is to be written as one number";
const NOT_A_FRACTION: &str = "it is to be written as a fraction";
const UNSOLVED: &str = "the inequality is left to be solved";
const FORM: &str = "it is to be multiplied out, or factored, as the right answer is";
const REDUCED_LESS: &str = "a fraction is left to be reduced";
const UNCOMBINED: &str = "the set is left to be put together";
const UNCONVERTED: &str = "it is to be converted into the unit that is asked for";
const TOO_MUCH: &str = "it takes too many steps";

/// The simplification that is missing in `answer` but present in `expected`, which it equals by `rule`. `None` if nothing is missing.
pub(crate) fn remaining_simplification(
    rule: Rule,
    expected: &Expr,
    answer: &Expr,
    comparer: &ValueComparer,
) -> Option<&'static str> {
    let meter = &comparer.meter;
    // All values of a ± are checked.
    let (Some(expected), Some(answer)) = (variants(expected, meter), variants(answer, meter))
    else {
        return Some(TOO_MUCH);
    };
    let (expected, answer): (&Expr, &Expr) = (&expected, &answer);
    let counts = |expr: &Expr| SimplificationCounts::from_expr(expr, meter);
    // −2y ≥ 6 is a step on the way to y ≤ −3.
    if is_unsolved(answer) && !is_unsolved(expected) {
        return Some(UNSOLVED);
    }
    if rule == Rule::Unit && is_unconverted(expected, answer, comparer) {
        return Some(UNCONVERTED);
    }
    match rule {
        Rule::Base | Rule::Text => return None,
        // Letters that form a word are not a product.
        Rule::Words if word_answers::word(answer).is_some() => return None,
        Rule::Set if is_uncombined(expected, answer, comparer) => return Some(UNCOMBINED),
        Rule::Relation if has_value_of_other_form(expected, answer, comparer) => return Some(FORM),
        Rule::Relation if has_less_reduced_side(expected, answer) => return Some(REDUCED_LESS),
        // x = 27 + 45 is no more simplified than 27 + 45.
        Rule::Words | Rule::Relation | Rule::Set => {
            return first_missing(counts(expected), counts(answer));
        }
        _ => {}
    }
    match (expected, answer) {
        (
            Expr::Tuple(_, a, _) | Expr::List(a) | Expr::Set(a),
            Expr::Tuple(_, b, _) | Expr::List(b) | Expr::Set(b),
        ) => {
            if a.iter().all(|item| matches!(item, Expr::Words(_))) {
                return None;
            }
            if a.iter().all(is_plain_number) {
                let plain = b.iter().all(|item| is_plain_number(without_unit(item)));
                if !plain {
                    return Some(NOT_A_NUMBER);
                }
            }
            // Each element is compared with the one that it equals.
            let max = a
                .iter()
                .map(counts)
                .fold(SimplificationCounts::default(), SimplificationCounts::max);
            b.iter().enumerate().find_map(|(at, item)| {
                let equal = |other: &&Expr| matching_rule(comparer, other, item).is_some();
                let candidates = if a.len() == b.len() {
                    a.as_slice()
                } else {
                    &[]
                };
                let partner = candidates
                    .get(at)
                    .filter(equal)
                    .or_else(|| candidates.iter().find(equal));
                let wrong_form = partner.is_some_and(|other| {
                    let functions = counts(other).count(Simplification::Functions);
                    divides_evenly(item, meter) && !divides_evenly(other, meter)
                        || is_less_reduced(other, item)
                        || !is_of_form(other, item, comparer, functions)
                });
                first_missing(max, counts(item)).or(wrong_form.then_some(FORM))
            })
        }
        (Expr::Matrix(_, a), Expr::Matrix(_, b)) => a
            .iter()
            .flatten()
            .zip(b.iter().flatten())
            .find_map(|(a, b)| remaining_simplification(rule, a, b, comparer)),
        _ => remaining_in_value(rule, without_unit(expected), without_unit(answer), comparer),
    }
}

/// [`remaining_simplification`] for a single value.
fn remaining_in_value(
    rule: Rule,
    expected: &Expr,
    answer: &Expr,
    comparer: &ValueComparer,
) -> Option<&'static str> {
    let meter = &comparer.meter;
    let (expected_counts, answer_counts) = (
        SimplificationCounts::from_expr(expected, meter),
        SimplificationCounts::from_expr(answer, meter),
    );
    // An angle may be in radians instead of degrees.
    let radians = rule == Rule::Unit && answer_counts.is_empty();
    if is_plain_number(expected) && !radians {
        let plain = is_plain_number(answer)
            && (is_whole_quotient(expected, meter)
                || is_ratio_to_one(answer)
                || !is_whole_quotient(answer, meter));
        if plain && is_repeating(answer) && !is_repeating(expected) {
            return Some(NOT_A_FRACTION);
        }
        return (!plain).then_some(NOT_A_NUMBER);
    }
    // 2⁵⁰/2 is not accepted for 2⁴⁹.
    if is_written_power(expected) && !is_written_power(answer) {
        let plain = is_plain_number(answer) && !is_whole_quotient(answer, meter);
        return (!plain).then_some(NOT_A_NUMBER);
    }
    if is_less_reduced(expected, answer) {
        return Some(REDUCED_LESS);
    }
    if divides_evenly(answer, meter) && !divides_evenly(expected, meter) {
        return Some(Simplification::Numbers.name());
    }
    first_missing(expected_counts, answer_counts).or_else(|| {
        let same_form = is_of_form(
            expected,
            answer,
            comparer,
            expected_counts.count(Simplification::Functions),
        );
        (!same_form).then_some(FORM)
    })
}

/// Whether `answer` is multiplied out if `expected` is, and factored if `expected` is. `functions` is the number of functions in `expected`.
fn is_of_form(expected: &Expr, answer: &Expr, comparer: &ValueComparer, functions: usize) -> bool {
    if !expected.has_variable() {
        return true;
    }
    let polynomials = is_polynomial(expected) && is_polynomial(answer);
    let shapes = (
        shape(expected, &comparer.meter),
        shape(answer, &comparer.meter),
    );
    match shapes {
        // A number may be distributed over a sum or not.
        (Shape::Term | Shape::Sum, Shape::Term | Shape::Sum)
            if is_rational(expected) && is_rational(answer) =>
        {
            same_terms(comparer, expected, answer)
        }
        // An answer may have more factors than the expected one, but not fewer.
        (Shape::Product(min), Shape::Product(factors)) if polynomials => {
            factors >= min && (has_common_factor(expected) || !has_common_factor(answer))
        }
        (Shape::Product(_), _) | (_, Shape::Product(_)) if polynomials => false,
        // sin 4x + sin 6x is not accepted for 2 sin 5x cos x.
        (Shape::Term, Shape::Sum) => functions < 2,
        _ => true,
    }
}

/// Whether both give a value to one name, and the values have different forms: y = (x + 1)² and y = x² + 2x + 1.
fn has_value_of_other_form(expected: &Expr, answer: &Expr, comparer: &ValueComparer) -> bool {
    let value = |expr: &Expr| match expr {
        Expr::Relation(sides, relations) if *relations == [Relation::Equal] => {
            match sides.as_slice() {
                [name @ (Expr::Symbol(_) | Expr::Apply(..)), value] => {
                    Some((name.clone(), value.clone()))
                }
                _ => None,
            }
        }
        _ => None,
    };
    let (Some((name, expected)), Some((other, answer))) = (value(expected), value(answer)) else {
        return false;
    };
    let functions = SimplificationCounts::from_expr(&expected, &comparer.meter)
        .count(Simplification::Functions);
    name == other && !is_of_form(&expected, &answer, comparer, functions)
}

/// Whether a side of the equation `answer` has a fraction that is less reduced than in `expected`.
fn has_less_reduced_side(expected: &Expr, answer: &Expr) -> bool {
    let (Expr::Relation(sides, _), Expr::Relation(others, _)) = (expected, answer) else {
        return false;
    };
    let mut pairs = sides.iter().zip(others);
    sides.len() == others.len() && pairs.any(|(side, other)| is_less_reduced(side, other))
}

/// Whether a factor is a sum with a common variable: x² + x in (x² + x)(x + 2).
fn has_common_factor(expr: &Expr) -> bool {
    fn variables(term: &Expr) -> Vec<&Expr> {
        match term {
            Expr::Symbol(_) => vec![term],
            Expr::Power(base, power) if is_whole(power) => variables(base),
            Expr::Negative(inner) => variables(inner),
            Expr::Quotient(above, _) => variables(above),
            Expr::Product(factors) => factors.iter().flat_map(variables).collect(),
            _ => Vec::new(),
        }
    }
    match expr {
        Expr::Sum(terms) => {
            let first = terms.first().map(variables).unwrap_or_default();
            let divides =
                |variable: &&Expr| terms.iter().all(|term| variables(term).contains(variable));
            first.iter().any(divides)
        }
        Expr::Product(factors) => factors.iter().any(has_common_factor),
        Expr::Negative(inner) | Expr::Power(inner, _) | Expr::Quotient(inner, _) => {
            has_common_factor(inner)
        }
        _ => false,
    }
}

/// Whether `answer` is written with more end points than the set has: [0, 2] ∩ [−1, 1], x > 2 or x > 5.
fn is_uncombined(expected: &Expr, answer: &Expr, comparer: &ValueComparer) -> bool {
    let set =
        RealSet::from_expr(comparer, expected).or_else(|| RealSet::from_expr(comparer, answer));
    let max = set
        .map_or(0, |set| set.end_count())
        .max(end_count(expected));
    end_count(answer) > max || (has_intersection(answer) && !has_intersection(expected))
}

/// The number of finite end points that a set is written with.
fn end_count(expr: &Expr) -> usize {
    let finite = |part: &&Expr| !is_infinite(part);
    match expr {
        Expr::Tuple(_, items, _) | Expr::Set(items) => items.iter().filter(finite).count(),
        Expr::Relation(parts, relations) if *relations == [Relation::In] => {
            parts.last().map_or(0, end_count)
        }
        Expr::Relation(parts, _) => parts.iter().filter(finite).count().saturating_sub(1),
        Expr::Combine(a, _, b) => end_count(a) + end_count(b),
        Expr::List(items) => items.iter().map(end_count).sum(),
        Expr::Symbol(name) if name == "Reals" => 0,
        _ => 1,
    }
}

/// Whether intervals still have to be intersected or subtracted, or finite sets such as {1} and {2} united. Inequalities joined by "and" may stay, and so may ℝ
/// without single numbers.
fn has_intersection(expr: &Expr) -> bool {
    let interval = |part: &Expr| matches!(part, Expr::Tuple(..));
    let finite = |part: &Expr| matches!(part, Expr::Set(_));
    let empty = |part: &Expr| matches!(part, Expr::Set(items) if items.is_empty());
    match expr {
        Expr::Combine(a, operator, b) => {
            let unfinished = match operator {
                SetOperator::Intersection => interval(a) || interval(b),
                SetOperator::Difference => interval(b) || empty(b),
                SetOperator::Union => finite(a) && finite(b) || empty(a) || empty(b),
            };
            unfinished || has_intersection(a) || has_intersection(b)
        }
        _ => false,
    }
}

fn first_missing(
    expected: SimplificationCounts,
    answer: SimplificationCounts,
) -> Option<&'static str> {
    Some(answer.first_exceeding(expected)?.name())
}

/// Whether it contains a repeating decimal such as 0.333…, which no finite decimal equals.
fn is_repeating(expr: &Expr) -> bool {
    match expr {
        Expr::Number(Full(number)) => {
            let below = number.denominator();
            let odd = below >> below.trailing_zeros().unwrap_or(0);
            !(UBig::from(5_u8).pow(odd.bit_len()) % odd).is_zero()
        }
        other => other.parts().into_iter().any(is_repeating),
    }
}

/// Whether the question asks for the unit of `expected` and `answer` is in another: 60 miles per hour is the question where it asks for feet per second.
fn is_unconverted(expected: &Expr, answer: &Expr, comparer: &ValueComparer) -> bool {
    let Some(Measure::Unit(size, dimension)) = split_measure(answer).1 else {
        return false;
    };
    let AskedUnit::OtherSize(asked) = comparer.hints.asked_unit(&size, dimension) else {
        return false;
    };
    match split_measure(expected).1 {
        Some(Measure::Unit(size, _)) => size == *asked,
        _ => true,
    }
}

/// Whether it contains an unsolved inequality. A solved one has a name alone on one side or between two bounds, and no variable on the other sides.
fn is_unsolved(expr: &Expr) -> bool {
    match expr {
        Expr::Relation(parts, relations) => {
            let is_name = |part: &&Expr| matches!(part, Expr::Symbol(_) | Expr::Apply(..));
            let names = parts.iter().filter(is_name).count();
            let others = parts.iter().filter(|part| !is_name(part));
            let inequality = |relation: &Relation| {
                !matches!(relation, Relation::Equal | Relation::Near | Relation::In)
            };
            relations.iter().any(inequality)
                && (names != 1 || others.into_iter().any(Expr::has_variable))
        }
        Expr::List(parts) | Expr::Set(parts) => parts.iter().any(is_unsolved),
        Expr::Combine(a, _, b) => is_unsolved(a) || is_unsolved(b),
        _ => false,
    }
}

/// A sum or product of powers of variables, factored or not.
fn is_polynomial(expr: &Expr) -> bool {
    is_algebraic(expr, &is_literal)
}

/// Like [`is_polynomial`], but variables may be in denominators.
fn is_rational(expr: &Expr) -> bool {
    is_algebraic(expr, &|below| is_algebraic(below, &|_| false))
}

/// A sum or product of powers of variables, whose denominators satisfy `below`.
fn is_algebraic(expr: &Expr, below: &dyn Fn(&Expr) -> bool) -> bool {
    let plain = |expr: &Expr| is_algebraic(expr, below);
    match expr {
        Expr::Number(_) | Expr::Symbol(_) | Expr::Constant(_) => true,
        Expr::Sum(parts) | Expr::Product(parts) => parts.iter().all(plain),
        Expr::Negative(inner) => plain(inner),
        Expr::Power(base, power) => plain(base) && is_literal(power),
        Expr::Quotient(above, under) => plain(above) && below(under),
        _ => false,
    }
}
