//! Forms that are recognised by their beginning: names before an equals sign, choices before their values, set-builder notation, and answers in plain words.

use super::{Parser, product};
use crate::expression::{Bracket, Constant, Expr, Relation, SetOperator};
use crate::parser::assignment_target::is_assignable;
use crate::parser::lexer::Kind;
use crate::parser::{contains_word, word_answers};

/// Maximum length in bytes of plain words for a number or a set.
const MAX_PLAIN_WORDS_LENGTH: usize = 32;

/// Words before a name that add nothing to it.
const NEUTRAL_WORDS: &str = "ratio quantity value measure";

/// Words for a quantity of the thing named after them. Its area is another quantity than its perimeter.
const QUANTITY_KINDS: &str = "length distance area perimeter volume slope probability number sum \
    difference product quotient angle";

/// Words with which a name denotes another value: twice the number = 12.
const NAME_CHANGING_WORDS: &str = "not no half twice thrice double triple opposite negative minus \
    wrong incorrect reciprocal inverse squared cubed plus times divided multiplied more less \
    fewer than";

/// An answer in plain words that is a number, a day, all real numbers, infinity or no solution.
pub(super) fn plain_words(text: &str) -> Option<Expr> {
    if text.len() > MAX_PLAIN_WORDS_LENGTH {
        return None;
    }
    let bare = ["\\text{", "\\mbox{", "\\textrm{"]
        .into_iter()
        .find_map(|open| text.strip_prefix(open)?.strip_suffix('}'))
        .unwrap_or(text)
        .trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | ',' | '.');
    if !bare.contains(|c: char| c.is_ascii_alphabetic()) || !bare.chars().all(plain) {
        return None;
    }
    match bare.to_ascii_lowercase().as_str() {
        "all real numbers" | "all reals" | "the real numbers" | "all real" | "real numbers" => {
            Some(Expr::Symbol("Reals".into()))
        }
        "infinity" => Some(Expr::Constant(Constant::Infinity)),
        "no solution"
        | "no solutions"
        | "there is no solution"
        | "there are no solutions"
        | "empty set"
        | "the empty set"
        | "no real solution"
        | "no real solutions"
        | "there are no real solutions" => Some(Expr::Set(Vec::new())),
        _ => word_answers::is_number_or_date(bare).then(|| Expr::Words(bare.to_owned())),
    }
}

/// A sum that is a difference of sets: ℝ - {2}.
pub(super) fn set_difference(sum: Expr) -> Expr {
    let Expr::Sum(terms) = sum else { return sum };
    let is_set = |term: &Expr| match term {
        Expr::Set(_) => true,
        Expr::Tuple(open, items, close) => {
            items.len() == 2 && (*open != Bracket::Angle && *close != Bracket::Angle)
        }
        _ => false,
    };
    let from = matches!(terms.first(), Some(Expr::Symbol(name)) if name == "Reals");
    let without = |term: &Expr| matches!(term, Expr::Negative(inner) if is_set(inner));
    if !from || !terms[1..].iter().all(without) {
        return Expr::Sum(terms);
    }
    terms
        .into_iter()
        .reduce(|left, right| match right {
            Expr::Negative(right) => Expr::Combine(Box::new(left), SetOperator::Difference, right),
            other => product(vec![left, other]),
        })
        .unwrap_or(Expr::Set(Vec::new()))
}

impl Parser<'_> {
    /// `(A)`, with the value of the choice after it or without.
    pub(super) fn choice(&mut self, text: &str) -> Option<Expr> {
        if !word_answers::is_choice(text) {
            return None;
        }
        let start = self.at;
        self.at += 1;
        let ends = |parser: &Self| {
            matches!(
                parser.peek(),
                None | Some(
                    Kind::Char(',' | ';' | ')' | ']')
                        | Kind::SetClose
                        | Kind::Close
                        | Kind::Command("and" | "or")
                )
            ) || matches!(parser.peek(), Some(Kind::Text(text)) if super::is_separator(text))
        };
        // A letter after it may be another choice.
        let value = self.at;
        if ends(self) || (self.combined().is_some() && ends(self)) {
            let hedged = self.tokens[value..self.at]
                .iter()
                .any(|token| matches!(token.kind, Kind::Letter('A'..='E') | Kind::Text(_)));
            if !hedged {
                return Some(Expr::Words(text.to_owned()));
            }
        }
        self.at = start;
        None
    }

    /// A name before an equals sign, with words before it that state its kind: `the ratio x:y =`, `\text{The area of } ABC =`.
    pub(super) fn introduced_name(&mut self) -> Option<Expr> {
        let start = self.at;
        let (mut kind, mut neutral) = (None, false);
        loop {
            let (text, length) = match self.peek() {
                Some(Kind::Text(text)) => (text.to_lowercase(), 1),
                Some(Kind::Letter(_)) => {
                    let word = self.word();
                    let length = word.chars().count();
                    (word.to_lowercase(), length)
                }
                _ => break,
            };
            let words: Vec<&str> = text.split_whitespace().collect();
            let known = |word: &&str| {
                contains_word(QUANTITY_KINDS, word)
                    || contains_word(NEUTRAL_WORDS, word)
                    || matches!(*word, "the" | "of")
            };
            if words.is_empty() || !words.iter().all(known) {
                break;
            }
            neutral |= words.iter().any(|word| contains_word(NEUTRAL_WORDS, word));
            let last = words
                .iter()
                .rfind(|word| contains_word(QUANTITY_KINDS, word));
            kind = last.map(|word| (*word).to_owned()).or(kind);
            self.at += length;
        }
        let named = match (&kind, self.peek()) {
            (None, _) if !neutral => None,
            (_, Some(Kind::Char('='))) => Some(None),
            _ => self
                .sum()
                .and_then(|first| self.ratio(first))
                .filter(is_assignable)
                .map(Some),
        };
        let ends = self.peek() == Some(Kind::Char('='));
        match named.filter(|_| ends) {
            Some(None) => Some(Expr::Symbol(kind.unwrap_or_else(|| "value".into()))),
            Some(Some(name)) => Some(match kind {
                Some(kind) => Expr::Apply(kind, vec![name]),
                None => name,
            }),
            None => {
                self.at = start;
                None
            }
        }
    }

    /// A name, or a name applied to simple arguments, before an equals sign: `\text{Area} =`, `p(x) =`, `f^{-1}(x) =`.
    pub(super) fn left_side(&mut self) -> Option<Expr> {
        let start = self.at;
        let left = match self.peek()? {
            Kind::Text(text) => {
                self.at += 1;
                let name = text
                    .chars()
                    .all(|c| c.is_alphabetic() || matches!(c, ' ' | '-' | '(' | ')'));
                let other = text
                    .split(|c: char| !c.is_alphabetic())
                    .any(|word| contains_word(NAME_CHANGING_WORDS, &word.to_lowercase()));
                (name && !other).then(|| Expr::Symbol(text.to_owned()))
            }
            Kind::Letter(letter) => {
                self.at += 1;
                self.applied_name(letter)
            }
            Kind::Command("Pr") => {
                self.at += 1;
                self.applied_name('P')
            }
            // \mathbb{P}(A)
            Kind::Command("mathbb") => match self.kind_at(2) {
                Some(Kind::Letter(letter)) => {
                    self.at += 4;
                    self.applied_name(letter)
                }
                _ => None,
            },
            _ => None,
        };
        if left.is_none() || self.peek() != Some(Kind::Char('=')) {
            self.at = start;
            return None;
        }
        left
    }

    /// After a letter: marks of an inverse or a derivative, and simple arguments in brackets.
    fn applied_name(&mut self, letter: char) -> Option<Expr> {
        let mut name = letter.to_string();
        while self.eat(Kind::Char('\'')) {
            name.push('\'');
        }
        if self.eat(Kind::Char('^')) {
            let inverse = [Kind::Open, Kind::Char('-'), Kind::Number("1"), Kind::Close];
            if !inverse.into_iter().all(|kind| self.eat(kind)) {
                return None;
            }
            name.push_str("^-1");
        }
        if !self.eat(Kind::Char('(')) {
            return None;
        }
        let mut arguments = Vec::new();
        loop {
            arguments.push(match self.peek()? {
                // x(x+1) = 6 and n(n) = 4 are equations with products.
                Kind::Letter(argument) if argument != letter => Expr::Symbol(argument.to_string()),
                Kind::Text(text) => Expr::Words(text.to_owned()),
                Kind::Number(_) => {
                    let number = self.number()?;
                    arguments.push(number);
                    if self.eat(Kind::Char(',')) {
                        continue;
                    }
                    break;
                }
                _ => return None,
            });
            self.at += 1;
            if !self.eat(Kind::Char(',')) {
                break;
            }
        }
        self.eat(Kind::Char(')'))
            .then_some(Expr::Apply(name, arguments))
    }

    /// After `\{`: `x \mid 0<x<1`. The condition is an inequality of the letter.
    pub(super) fn set_builder(&mut self) -> Option<Expr> {
        let start = self.at;
        let built = self.set_builder_body();
        if built.is_none() {
            self.at = start;
        }
        built
    }

    fn set_builder_body(&mut self) -> Option<Expr> {
        let Some(Kind::Letter(letter)) = self.peek() else {
            return None;
        };
        self.at += 1;
        if self.eat(Kind::Command("in")) && !self.eat(Kind::Command("Reals")) {
            let reals = [
                Kind::Command("mathbb"),
                Kind::Open,
                Kind::Letter('R'),
                Kind::Close,
            ];
            if !reals.into_iter().all(|kind| self.eat(kind)) {
                return None;
            }
        }
        if !(self.eat(Kind::Char('|')) || self.eat(Kind::Command("|")) || self.eat(Kind::Char(':')))
        {
            return None;
        }
        let Some(Expr::Relation(parts, relations)) = self.enclosed(Self::statement) else {
            return None;
        };
        let name = Expr::Symbol(letter.to_string());
        let named = parts.iter().filter(|part| **part == name).count() == 1;
        let between = relations
            .iter()
            .all(|relation| !matches!(relation, Relation::Equal | Relation::Near | Relation::In));
        (named && between && self.eat(Kind::SetClose)).then_some(Expr::Relation(parts, relations))
    }
}
