//! Separators of the elements of a list.

use super::{Parser, is_separator};
use crate::expression::{Expr, Relation, SetOperator};
use crate::parser::lexer::Kind;

/// How two elements are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Join {
    Comma,
    And,
    Or,
}

impl Parser<'_> {
    /// Consumes commas, semicolons, "and" and "or". Of several, a word takes precedence over a comma.
    pub(super) fn join(&mut self) -> Option<Join> {
        let mut joined = None;
        loop {
            let (join, length) = match self.peek() {
                Some(Kind::Char(',' | ';')) => (Join::Comma, 1),
                Some(Kind::Command("and" | "wedge")) => (Join::And, 1),
                Some(Kind::Command("or" | "vee")) => (Join::Or, 1),
                Some(Kind::Text(text)) if is_separator(text) => (join_of(text), 1),
                Some(Kind::Letter('a')) if self.begins_word() && self.word() == "and" => {
                    (Join::And, 3)
                }
                Some(Kind::Letter('o')) if self.begins_word() && self.word() == "or" => {
                    (Join::Or, 2)
                }
                _ => return joined,
            };
            self.at += length;
            joined = joined.max(Some(join));
        }
    }
}

fn join_of(separator: &str) -> Join {
    let lower = separator.to_ascii_lowercase();
    if lower.contains("or") {
        Join::Or
    } else if lower.contains("and") {
        Join::And
    } else {
        Join::Comma
    }
}

/// The list of the items. If all are inequalities or equations with words between them, it is the set that they form. "And" binds more tightly than "or". A comma means
/// the same as the word after it.
pub(super) fn join_items(mut items: Vec<Expr>, joins: &[Join]) -> Option<Expr> {
    if joins.is_empty() {
        return items.pop();
    }
    let relation = |item: &Expr| matches!(item, Expr::Relation(..));
    let inequality = |item: &Expr| {
        matches!(item, Expr::Relation(_, relations)
            if relations.iter().any(|relation| !matches!(relation, Relation::Equal | Relation::Near)))
    };
    let has = |join| joins.contains(&join);
    let sets = items.iter().all(relation) && items.iter().any(inequality);
    match (has(Join::And), has(Join::Or)) {
        (false, false) => return Some(Expr::List(items)),
        _ if !sets => return Some(Expr::List(items)),
        // The meaning of the comma is ambiguous.
        (true, true) if has(Join::Comma) => return None,
        _ => {}
    }
    let mut ends = joins
        .iter()
        .map(|join| *join == Join::Or || !has(Join::And));
    let (mut union, mut group): (Option<Expr>, Option<Expr>) = (None, None);
    for item in items {
        group = combine(group, SetOperator::Intersection, item);
        if ends.next().unwrap_or(true) {
            union = combine(union, SetOperator::Union, group.take()?);
        }
    }
    union
}

fn combine(left: Option<Expr>, operator: SetOperator, right: Expr) -> Option<Expr> {
    Some(match left {
        None => right,
        Some(left) => Expr::Combine(Box::new(left), operator, Box::new(right)),
    })
}
