//! Whether an answer with the right value is simplified as far as the expected answer.
//!
//! A problem that asks for 27 + 45 has the right value in `\boxed{27 + 45}`. A grader that accepts it teaches a model to copy the problem.

mod distributive_law;
mod lowest_terms;
mod step_counts;
mod written_form;

use dashu_int::UBig;
use dashu_int::ops::BitTest as _;

use crate::equivalence::assignments::last_of_chain;
use crate::equivalence::intervals::RealSet;
use crate::equivalence::matching_rule;
use crate::equivalence::plus_minus::variants;
use crate::equivalence::quantities::{angle_unit, dozens, larger_unit, split_measure};
use crate::equivalence::value_equality::{ValueComparer, is_infinite};
use crate::expression::{Expr, FullDebug, Relation, SetOperator};
use crate::match_rule::Rule;
use crate::parser::unit::Measure;
use crate::parser::word_answers;
use crate::question_hints::AskedUnit;
use crate::simplification::distributive_law::{divides_evenly, same_terms};
use crate::simplification::lowest_terms::is_less_reduced;
use crate::simplification::step_counts::{Shape, Simplification, SimplificationCounts, shape};
use crate::simplification::written_form::{
    is_literal, is_plain_number, is_ratio_to_one, is_whole, is_whole_quotient, is_written_power,
    without_unit,
};

/// Why an answer with the right value is not accepted; `detail.reason` states it.
const NOT_A_NUMBER: &str = "it is to be written as one number";
const NOT_A_FRACTION: &str = "it is to be written as a fraction";
const UNSOLVED: &str = "the inequality is left to be solved";
const FORM: &str = "it is to be multiplied out, or factored, as the right answer is";
const EQUATION_FORM: &str = "the equation is to have the form of the right answer";
const REDUCED_LESS: &str = "a fraction is left to be reduced";
const UNCOMBINED: &str = "the set is left to be put together";
const UNCONVERTED: &str = "it is to be converted into the unit that is asked for";
const COPIED: &str = "it is copied from the question, and the right answer has another form";
const TOO_MUCH: &str = "it takes too many steps";

/// The simplification that `expected` has and `answer` lacks. The two are equal by `rule`. `None` if nothing is missing.
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
    if is_unconverted(expected, answer, comparer) {
        return Some(UNCONVERTED);
    }
    match rule {
        Rule::Base | Rule::Text => return None,
        // Letters that form a word are not a product.
        Rule::Words if word_answers::word(answer).is_some() => return None,
        Rule::Set if is_uncombined(expected, answer, comparer) => return Some(UNCOMBINED),
        Rule::Relation if !is_equation_of_form(expected, answer, comparer) => {
            return Some(EQUATION_FORM);
        }
        Rule::Relation if has_less_reduced_side(expected, answer) => return Some(REDUCED_LESS),
        // x = 27 + 45 is no more simplified than 27 + 45.
        Rule::Words | Rule::Relation | Rule::Set => {
            return counts(answer).first_exceeding(counts(expected));
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
                let candidates = if a.len() == b.len() { &a[..] } else { &[] };
                let partner = candidates
                    .get(at)
                    .filter(equal)
                    .or_else(|| candidates.iter().find(equal));
                let wrong_form = partner.is_some_and(|other| {
                    divides_evenly(item, meter) && !divides_evenly(other, meter)
                        || is_less_reduced(other, item)
                        || !is_of_form(other, item, comparer)
                        || !is_equation_of_form(other, item, comparer)
                });
                if partner.is_some_and(|other| is_unconverted(other, item, comparer)) {
                    return Some(UNCONVERTED);
                }
                counts(item)
                    .first_exceeding(max)
                    .or(wrong_form.then_some(FORM))
            })
        }
        (Expr::Matrix(_, a), Expr::Matrix(_, b)) => a
            .iter()
            .flatten()
            .zip(b.iter().flatten())
            .find_map(|(a, b)| remaining_simplification(rule, a, b, comparer)),
        _ => {
            let (expected, answer) = (without_unit(expected), without_unit(answer));
            remaining_in_value(rule, expected, answer, comparer).or_else(|| {
                let copied = rule != Rule::Elements
                    && !has_same_symbols(expected, answer)
                    && comparer.hints.has_expression(answer);
                copied.then_some(COPIED)
            })
        }
    }
}

/// Whether both have the same symbols, in any order: 2x + 3 and 3 + 2x.
fn has_same_symbols(expected: &Expr, answer: &Expr) -> bool {
    let [expected, answer] = [expected, answer].map(|expr| {
        let mut symbols = format!("{expr:?}").into_bytes();
        symbols.sort_unstable();
        symbols
    });
    expected == answer
}

/// [`remaining_simplification`] for a single value.
fn remaining_in_value(
    rule: Rule,
    expected: &Expr,
    answer: &Expr,
    comparer: &ValueComparer,
) -> Option<&'static str> {
    let meter = &comparer.meter;
    let expected_counts = SimplificationCounts::from_expr(expected, meter);
    let answer_counts = SimplificationCounts::from_expr(answer, meter);
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
    answer_counts
        .first_exceeding(expected_counts)
        .or_else(|| (!is_of_form(expected, answer, comparer)).then_some(FORM))
}

/// Whether `answer` is multiplied out if `expected` is, and factored if `expected` is.
fn is_of_form(expected: &Expr, answer: &Expr, comparer: &ValueComparer) -> bool {
    if !expected.has_variable() {
        return true;
    }
    let polynomials = is_polynomial(expected) && is_polynomial(answer);
    match (
        shape(expected, &comparer.meter),
        shape(answer, &comparer.meter),
    ) {
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
        (Shape::Term, Shape::Sum) => {
            let counts = SimplificationCounts::from_expr(expected, &comparer.meter);
            counts.count(Simplification::Functions) < 2
        }
        _ => true,
    }
}

/// Whether the equation `answer` is solved for the same name as `expected`, or has the same standard form. Such a form is a sum of squares or of fractions that equals
/// 1. The order of the sides is free.
fn is_equation_of_form(expected: &Expr, answer: &Expr, comparer: &ValueComparer) -> bool {
    let [expected, answer] = [expected, answer].map(|expr| last_of_chain(comparer, expr));
    let (Some((left, right)), Some((other_left, other_right))) =
        (expected.equation(), answer.equation())
    else {
        return true;
    };
    let sides = [(left, right), (right, left)];
    let solved = sides.iter().find(|(name, value)| is_solved(name, value));
    let turned = [(other_left, other_right), (other_right, other_left)];
    if let Some((name, value)) = solved {
        let mut values = turned
            .into_iter()
            .filter(|(other, of)| other == name && is_solved(other, of));
        return values.any(|(_, other)| is_of_form(value, other, comparer));
    }
    let asked = comparer.hints.form;
    if asked && turned.iter().any(|(name, value)| is_solved(name, value)) {
        return false;
    }
    let is_number = |side: &Expr, number: u8| *side == Expr::number(number);
    // An equation with 0 may be multiplied by a number.
    let zero = is_number(right, 0) || is_number(left, 0);
    let fraction = |term: &Expr| matches!(term, Expr::Quotient(above, _) if above.has_variable());
    let fractions = sides
        .iter()
        .any(|(one, sum)| is_number(one, 1) && sum.parts().into_iter().any(fraction));
    let factored = |side: &Expr| has_factored_sum(side, asked && !zero);
    if !fractions && !factored(left) && !factored(right) {
        return true;
    }
    let same = |a: &Expr, b: &Expr| {
        (zero || matching_rule(comparer, a, b).is_some()) && is_of_form(a, b, comparer)
    };
    turned.iter().any(|(a, b)| same(left, a) && same(right, b))
}

/// Whether `value` gives a name its value.
fn is_solved(name: &Expr, value: &Expr) -> bool {
    matches!(name, Expr::Symbol(_) | Expr::Apply(..)) && !value.contains(&|part| part == name)
}

/// Whether it has a power or a product of a sum with variables: (x − 1)², x(y + 1). With `any`, also a square of a variable and a number before a sum.
fn has_factored_sum(expr: &Expr, any: bool) -> bool {
    let is_sum = |expr: &Expr| matches!(expr, Expr::Sum(_)) && expr.has_variable();
    expr.contains(&|part| match part {
        Expr::Power(base, _) => is_sum(base) || any && base.has_variable(),
        Expr::Product(factors) => {
            let variables = factors.iter().filter(|one| one.has_variable()).count();
            factors.iter().any(is_sum) && (any || variables > 1)
        }
        _ => false,
    })
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

/// Whether it contains a repeating decimal such as 0.333…, which no finite decimal equals.
fn is_repeating(expr: &Expr) -> bool {
    expr.contains(&|part| {
        let Expr::Number(FullDebug(number)) = part else {
            return false;
        };
        let below = number.denominator();
        let odd = below >> below.trailing_zeros().unwrap_or(0);
        !(UBig::from(5_u8).pow(odd.bit_len()) % odd).is_zero()
    })
}

/// Whether the question asks for one unit and `answer` is in another. If it asks for feet per second, 60 miles per hour is the question. 1 hour 30 minutes are two
/// units. 7 dozen is a number only if dozens are counted.
fn is_unconverted(expected: &Expr, answer: &Expr, comparer: &ValueComparer) -> bool {
    let hints = &comparer.hints;
    let [expected, answer] =
        [expected, answer].map(|expr| expr.equation().map_or(expr, |(_, value)| value));
    if dozens(answer).is_some() && dozens(expected).is_none() && !hints.dozens {
        return true;
    }
    if let (Some(asked), Some(unit)) = (&hints.angle, angle_unit(answer))
        && *asked != unit
    {
        return angle_unit(expected).is_none_or(|unit| unit == *asked);
    }
    let Some(Measure::Unit(size, dimension)) = split_measure(answer).1 else {
        return false;
    };
    if let Some(larger) = larger_unit(answer) {
        let is_other = |size| matches!(hints.asked_unit(size, dimension), AskedUnit::OtherSize(_));
        return larger_unit(expected).is_none() && [&larger, &size].into_iter().any(is_other);
    }
    let AskedUnit::OtherSize(asked) = hints.asked_unit(&size, dimension) else {
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

/// A sum or product of powers of variables. Denominators must satisfy `below`.
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
