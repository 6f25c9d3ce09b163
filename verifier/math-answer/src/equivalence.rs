//! Whether two parsed answers are the same, compared by kind: words, lists, sets, relations, ratios, quantities.

pub(crate) mod assignments;
pub(crate) mod intervals;
mod linear_form;
pub(crate) mod plus_minus;
pub(crate) mod quantities;
pub(crate) mod value_equality;

use std::borrow::Borrow;

use dashu_ratio::RBig;

use crate::arithmetic::modular::FieldElement;
use crate::equivalence::assignments::{
    assigned_value, has_several_names, is_ambiguous, last_of_chain, solutions_as_points,
};
use crate::equivalence::intervals::RealSet;
use crate::equivalence::plus_minus::variants;
use crate::equivalence::quantities::{compare_quantities, split_measure};
use crate::equivalence::value_equality::ValueComparer;
use crate::expression::{Bracket, Expr, FullDebug, Relation, SetOperator};
use crate::match_rule::Rule;
use crate::parser::unit::{Measure, measure};
use crate::parser::word_answers::{WordAnswer, letters, number_expr, same_words, word_answer};
use crate::question_hints::Likelihood;

/// Maximum number of elements that are compared in any order. Longer lists are compared in order only.
const MAX_UNORDERED: usize = 48;
/// Meter steps that every comparison costs.
const PAIR_COST: u64 = 20;

/// The rule by which `answer` is the same as `expected`; `None` if it is not.
pub(crate) fn matching_rule(
    comparer: &ValueComparer,
    expected: &Expr,
    answer: &Expr,
) -> Option<Rule> {
    comparer.meter.spend(PAIR_COST)?;
    let expected = variants(expected, &comparer.meter)?;
    let answer = variants(answer, &comparer.meter)?;
    let expected = last_of_chain(comparer, &expected);
    let answer = last_of_chain(comparer, &answer);
    let (expected, answer): (&Expr, &Expr) = (&expected, &answer);
    if let (Expr::Relation(parts, relations), Expr::Relation(others, other_relations)) =
        (expected, answer)
    {
        // The comparison as sets is final.
        if RealSet::from_expr(comparer, expected).is_some()
            && RealSet::from_expr(comparer, answer).is_some()
        {
            return compare_sets(comparer, expected, answer);
        }
        return compare_relations(comparer, (parts, relations), (others, other_relations));
    }
    if is_ambiguous(expected, answer) || is_ambiguous(answer, expected) {
        return None;
    }
    let (expected, answer) = (
        solutions_as_points(expected, answer),
        solutions_as_points(answer, expected),
    );
    let (expected, answer): (&Expr, &Expr) = (&expected, &answer);
    let (expected, answer) = (
        assigned_value(expected, answer),
        assigned_value(answer, expected),
    );
    if let Some(rule) = compare_words(comparer, expected, answer) {
        return rule;
    }
    if let Some(rule) = compare_elements(comparer, expected, answer) {
        return rule;
    }
    if let Some(rule) = compare_sets(comparer, expected, answer) {
        return Some(rule);
    }
    if let (Some((operator, a)), Some((other, b))) =
        (joined_relations(expected), joined_relations(answer))
    {
        // The comparison as sets is final.
        if RealSet::from_expr(comparer, expected).is_some()
            && RealSet::from_expr(comparer, answer).is_some()
        {
            return None;
        }
        // A comma means "and". If all inequalities begin with the same expression, it may mean "or" too.
        let alike = match (operator, other) {
            (None, Some(SetOperator::Union)) | (Some(SetOperator::Union), None) => {
                have_same_first_side(&a) && have_same_first_side(&b)
            }
            (operator, other) => operator == other || operator.is_none() || other.is_none(),
        };
        let equal =
            alike && a.len() <= MAX_UNORDERED && equal_in_any_order(comparer, &a, &b, false);
        return equal.then_some(Rule::Elements);
    }
    match (expected, answer) {
        (Expr::Ratio(_), _) | (_, Expr::Ratio(_)) => compare_ratios(comparer, expected, answer),
        (Expr::Based(..), _) | (_, Expr::Based(..)) => (expected == answer).then_some(Rule::Base),
        (Expr::Negative(a), Expr::Negative(b)) if is_based(a) || is_based(b) => {
            matching_rule(comparer, a, b).filter(|rule| *rule == Rule::Base)
        }
        (Expr::Apply(name, arguments), Expr::Apply(other, others)) => {
            let equal = name == other && equal_in_order(comparer, arguments, others.iter());
            equal.then_some(Rule::Form)
        }
        _ => compare_quantities(comparer, expected, answer).or_else(|| {
            (is_spelled_out(expected, answer) || is_spelled_out(answer, expected))
                .then_some(Rule::Words)
        }),
    }
}

/// Whether `bare` spells the letters of a number and the words for what it counts: 14 apples, without `\text`.
fn is_spelled_out(counted: &Expr, bare: &Expr) -> bool {
    let (Expr::Quantity(number, text), Expr::Product(_)) = (counted, bare) else {
        return false;
    };
    let joined: String = text.split_whitespace().collect();
    let spelled = letters(number).map(|number| number + &joined);
    measure(text) == Measure::Words && spelled.is_some() && spelled == letters(bare)
}

fn is_based(expr: &Expr) -> bool {
    matches!(expr, Expr::Based(..))
}

/// Compares two answers if at least one is in words. Returns `None` if both are mathematics.
fn compare_words(comparer: &ValueComparer, expected: &Expr, answer: &Expr) -> Option<Option<Rule>> {
    let is_words = |expr: &Expr| {
        matches!(expr, Expr::Words(_))
            || matches!(expr, Expr::Quantity(_, words) if matches!(measure(words), Measure::Noon(_)))
    };
    if !is_words(expected) && !is_words(answer) {
        return None;
    }
    if let (Some(a), Some(b)) = (word_answer(expected), word_answer(answer))
        && same_words(&a, &b)
    {
        return Some(Some(Rule::Words));
    }
    // Four is 4. 9 is 9 a.m., since a.m. may be left out.
    let equals_number = |answer: Option<WordAnswer>, other: &Expr| -> bool {
        let Some(answer) = answer else { return false };
        match (&answer, other) {
            (WordAnswer::Time(parts, _), Expr::Ratio(others)) => {
                let others = others.iter().map(|other| comparer.rational(other));
                let others: Vec<Option<RBig>> = others.collect();
                let parts = parts.iter().map(|part| Some(RBig::from(*part)));
                parts.eq(others)
            }
            (WordAnswer::Time(parts, _), Expr::Number(FullDebug(hour))) => {
                *hour == RBig::from(parts[0]) && parts[1..].iter().all(|part| *part == 0)
            }
            _ => number_expr(&answer)
                .is_some_and(|number| comparer.equality(&number, other).is_some()),
        }
    };
    let equal = equals_number(word_answer(expected), answer)
        || equals_number(word_answer(answer), expected);
    Some(equal.then_some(Rule::Words))
}

/// Compares the elements of two answers. Returns `None` if one has no elements, or if they may still be equal as sets of numbers.
fn compare_elements(
    comparer: &ValueComparer,
    expected: &Expr,
    answer: &Expr,
) -> Option<Option<Rule>> {
    let each = |a: &[Expr], b: &[Expr]| equal_in_order(comparer, a, b.iter());
    match (expected, answer) {
        (Expr::Tuple(open, a, close), Expr::Tuple(other_open, b, other_close)) => {
            let round = |bracket: &Bracket| match bracket {
                Bracket::Angle => Bracket::Round,
                other => *other,
            };
            let alike = round(open) == round(other_open) && round(close) == round(other_close);
            Some((alike && each(a, b)).then_some(Rule::Elements))
        }
        (Expr::Matrix(kind, a), Expr::Matrix(other, b)) => {
            let alike =
                kind == other && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| each(a, b));
            Some(alike.then_some(Rule::Elements))
        }
        (Expr::Set(a) | Expr::List(a), Expr::Set(b) | Expr::List(b)) => {
            // If only one answer names its values, they are matched by order.
            if has_several_names(a) != has_several_names(b) {
                let lists = matches!((expected, answer), (Expr::List(_), Expr::List(_)));
                return Some((lists && each(a, b)).then_some(Rule::Elements));
            }
            if each(a, b) {
                return Some(Some(Rule::Elements));
            }
            // The question may ask for words in a certain order, but not for letters, numbers or pairs.
            let ordered = |items: &[Expr]| {
                items.iter().any(|item| matches!(item, Expr::Words(words) if words.chars().filter(|c| c.is_alphabetic()).count() > 1))
            };
            let any_order = a.len() <= MAX_UNORDERED && !ordered(a) && !ordered(b);
            let braces = matches!((expected, answer), (Expr::Set(_), Expr::Set(_)));
            if any_order && equal_in_any_order(comparer, a, b, braces) {
                return Some(Some(Rule::Elements));
            }
            // Inequalities in a list may form one set.
            let has_relation =
                |items: &[Expr]| items.iter().any(|item| matches!(item, Expr::Relation(..)));
            let may_be_set = has_relation(a) || has_relation(b);
            (!may_be_set).then_some(None)
        }
        (Expr::Matrix(..), _) | (_, Expr::Matrix(..)) => Some(None),
        _ => None,
    }
}

/// A list of relations, and the operator that joins them, if there is one.
fn joined_relations(expr: &Expr) -> Option<(Option<SetOperator>, Vec<&Expr>)> {
    let is_relation = |item: &&Expr| matches!(item, Expr::Relation(..));
    let (operator, items) = match expr {
        Expr::List(items) => (None, items.iter().collect()),
        Expr::Combine(_, operator, _) => {
            let (mut items, mut left) = (Vec::new(), expr);
            while let Expr::Combine(before, same, last) = left
                && same == operator
            {
                items.push(&**last);
                left = before;
            }
            items.push(left);
            (Some(*operator), items)
        }
        _ => return None,
    };
    items.iter().all(is_relation).then_some((operator, items))
}

fn have_same_first_side(items: &[&Expr]) -> bool {
    let first = |item: &Expr| match item {
        Expr::Relation(parts, _) => parts.first().cloned(),
        _ => None,
    };
    items.windows(2).all(|two| first(two[0]) == first(two[1]))
}

/// Whether there are as many elements, and each is the same as the other at its place.
fn equal_in_order<'a>(
    comparer: &ValueComparer,
    expected: &[Expr],
    answer: impl ExactSizeIterator<Item = &'a Expr>,
) -> bool {
    expected.len() == answer.len()
        && expected
            .iter()
            .zip(answer)
            .all(|(a, b)| matching_rule(comparer, a, b).is_some())
}

/// Whether the elements are the same in any order. In braces, repetitions do not count.
pub(crate) fn equal_in_any_order<E: Borrow<Expr>>(
    comparer: &ValueComparer,
    expected: &[E],
    answer: &[E],
    braces: bool,
) -> bool {
    if expected.len().max(answer.len()) > MAX_UNORDERED
        || (!braces && expected.len() != answer.len())
    {
        return false;
    }
    // Fingerprints distinguish most elements that differ.
    let fingerprints = |items: &[E]| -> Vec<Option<FieldElement>> {
        let items = items.iter();
        items
            .map(|item| fingerprint(comparer, item.borrow()))
            .collect()
    };
    let (expected_prints, answer_prints) = (fingerprints(expected), fingerprints(answer));
    let alike = |a: usize, b: usize| {
        let apart = matches!((expected_prints[a], answer_prints[b]), (Some(one), Some(other)) if one != other);
        comparer.meter.spend(1).is_some()
            && !apart
            && matching_rule(comparer, expected[a].borrow(), answer[b].borrow()).is_some()
    };
    if braces {
        return (0..expected.len()).all(|a| (0..answer.len()).any(|b| alike(a, b)))
            && (0..answer.len()).all(|b| (0..expected.len()).any(|a| alike(a, b)));
    }
    let mut unmatched: Vec<usize> = (0..answer.len()).collect();
    (0..expected.len()).all(|a| {
        let at = unmatched.iter().position(|b| alike(a, *b));
        at.map(|at| unmatched.swap_remove(at)).is_some()
    })
}

/// A fingerprint of a plain expression. Different values almost always have different ones.
fn fingerprint(comparer: &ValueComparer, item: &Expr) -> Option<FieldElement> {
    let plain = !matches!(item, Expr::Symbol(name) if name == "Reals");
    let bare = split_measure(item).1.is_none();
    (plain && bare).then(|| comparer.fingerprint(item))?
}

/// Compares both as sets of real numbers, if one is a combined set, a relation, a list or ℝ.
fn compare_sets(comparer: &ValueComparer, expected: &Expr, answer: &Expr) -> Option<Rule> {
    let set = |expr: &Expr| {
        matches!(expr, Expr::Combine(..) | Expr::Relation(..) | Expr::List(_))
            || matches!(expr, Expr::Symbol(name) if name == "Reals")
    };
    if !set(expected) && !set(answer) {
        return None;
    }
    let a = RealSet::from_expr(comparer, expected)?;
    let b = RealSet::from_expr(comparer, answer)?;
    a.is_same_set(comparer, &b).then_some(Rule::Set)
}

/// Compares equations and inequalities.
fn compare_relations(
    comparer: &ValueComparer,
    (parts, relations): (&[Expr], &[Relation]),
    (others, other_relations): (&[Expr], &[Relation]),
) -> Option<Rule> {
    if relations == other_relations && equal_in_order(comparer, parts, others.iter()) {
        return Some(Rule::Relation);
    }
    let turned = other_relations.iter().rev().map(|one| one.mirrored());
    if relations.iter().copied().eq(turned) && equal_in_order(comparer, parts, others.iter().rev())
    {
        return Some(Rule::Relation);
    }
    let ([left_side, right_side], [other_left, other_right]) = (parts, others) else {
        return None;
    };
    let ([relation], [other]) = (relations, other_relations) else {
        return None;
    };
    let equations = (relation, other) == (&Relation::Equal, &Relation::Equal);
    // BC:AB = 4:3 is AB:BC = 3:4.
    if let (true, Expr::Ratio(a), Expr::Ratio(b)) = (equations, left_side, other_left)
        && let ([_, _], [first, second]) = (a.as_slice(), b.as_slice())
    {
        let swapped = Expr::Ratio(vec![second.clone(), first.clone()]);
        let inverse = matching_rule(comparer, left_side, &swapped).is_some()
            && matching_rule(comparer, right_side, &inverted(other_right)).is_some();
        return inverse.then_some(Rule::Relation);
    }
    // x = 5 is an answer, and 2x = 10 is a step on the way to it. Two answers have been compared above.
    if equations && (is_solved(left_side, right_side) || is_solved(other_left, other_right)) {
        return None;
    }
    let difference =
        |a: &Expr, b: &Expr| Expr::Sum(vec![a.clone(), Expr::Negative(Box::new(b.clone()))]);
    let factor = comparer.proportional(
        &difference(left_side, right_side),
        &difference(other_left, other_right),
    )?;
    let agree = match (relation, other) {
        (Relation::Equal, Relation::Equal) | (Relation::Unequal, Relation::Unequal) => true,
        (Relation::Equal | Relation::Near | Relation::Unequal | Relation::In, _)
        | (_, Relation::Near | Relation::In) => false,
        (a, b) if factor > 0.0 => a == b,
        (a, b) => *a == b.mirrored(),
    };
    agree.then_some(Rule::Relation)
}

fn inverted(value: &Expr) -> Expr {
    match value {
        Expr::Ratio(parts) => Expr::Ratio(parts.iter().rev().cloned().collect()),
        other => Expr::Quotient(Box::new(Expr::number(1)), Box::new(other.clone())),
    }
}

/// Whether it gives a name its value.
fn is_solved(left: &Expr, value: &Expr) -> bool {
    matches!(left, Expr::Symbol(_)) && !value.has_variable()
}

/// Compares ratios, or a ratio of two with a fraction.
fn compare_ratios(comparer: &ValueComparer, expected: &Expr, answer: &Expr) -> Option<Rule> {
    // 2:15 has half the value of 4:30, and is not the same time.
    if comparer.hints.time == Likelihood::Yes {
        return (expected == answer).then_some(Rule::Ratio);
    }
    let quotient = |a: &Expr, b: &Expr| Expr::Quotient(Box::new(a.clone()), Box::new(b.clone()));
    let equal = match (expected, answer) {
        (Expr::Ratio(a), Expr::Ratio(b)) => {
            a.len() == b.len()
                && a.windows(2).zip(b.windows(2)).all(|(a, b)| {
                    a == b
                        || comparer
                            .equality(&quotient(&a[0], &a[1]), &quotient(&b[0], &b[1]))
                            .is_some()
                })
        }
        (Expr::Ratio(parts), value) | (value, Expr::Ratio(parts)) => {
            matches!(parts.as_slice(), [a, b] if comparer.equality(&quotient(a, b), value).is_some())
        }
        _ => false,
    };
    equal.then_some(Rule::Ratio)
}
