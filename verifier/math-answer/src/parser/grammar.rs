//! Parses tokens into a tree, by recursive descent, for answers as people write them.
//!
//! ```text
//! answer    := statement ((',' | ';' | 'and' | 'or') statement)*
//! statement := [words] side (relation side)*  |  words
//! side      := combined  |  combined (':' sum)+
//! combined  := sum (('∪' | '∩' | '∖') sum)*
//! sum       := ['+' | '-' | '±' | '∓'] term (('+' | '-' | '±' | '∓') term)*
//! term      := factor (('·' | '/' | nothing) factor)*  [words]
//! factor    := atom ('!' | '^' argument | '_' argument | '%' | '°' | "'")*
//! ```
//!
//! Any other text is not parsed, and is compared as text.

mod atom;
mod function_call;
mod list_separators;
mod matrix;
mod number;
mod special_forms;
mod unit_suffix;

use crate::expression::{Expr, FullDebug, Relation, SetOperator, Side};
use crate::parser::assignment_target::is_assignable;
use crate::parser::lexer::{Kind, Token, counted_text, tokens};
use crate::parser::unit;
use crate::parser::word_answers;
use unit_suffix::{fraction, is_whole_amount, mixed};

/// Maximum nesting while parsing.
const MAX_DEPTH: usize = 48;
/// Maximum number of levels of a tree: 1/2/3/4/…
const MAX_LEVELS: usize = 128;

/// Maximum number of atoms that are begun, over all attempts at reading an answer.
const MAX_ATOMS: usize = 4096;

/// Maximum number of letters of a word that are read. No name of a unit or a function is longer.
const MAX_WORD: usize = 32;

/// How commas between digits are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commas {
    /// 1,234 is a number.
    Thousands,
    /// 1,234 is a list of two numbers.
    Lists,
}

/// How a letter after a number and a space is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Letters {
    /// A variable: 10 m is ten times m.
    Names,
    /// A unit, if there is one of that name: 0.1 m.
    Units,
}

/// The tree of an answer.
#[cfg(test)]
pub(crate) fn parse(text: &str, commas: Commas) -> Option<Expr> {
    parse_answer(text, commas, Letters::Names).map(|parsed| parsed.tree)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParsedAnswer {
    pub(crate) tree: Expr,
    /// Words after its numbers that are in no list.
    pub(crate) unlisted: Vec<String>,
}

/// The tree of an answer and the words in it. `None` if it cannot be parsed.
pub(crate) fn parse_answer(text: &str, commas: Commas, letters: Letters) -> Option<ParsedAnswer> {
    let text = trimmed(text);
    if let Some(tree) = special_forms::plain_words(text) {
        return Some(ParsedAnswer {
            tree,
            unlisted: Vec::new(),
        });
    }
    if let Some(counted) = counted_text(text)
        && let Some(parsed) = parse_tokens(&counted, commas, letters)
    {
        return Some(parsed);
    }
    parse_tokens(text, commas, letters)
}

fn parse_tokens(text: &str, commas: Commas, letters: Letters) -> Option<ParsedAnswer> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        atoms: 0,
        bars: 0,
        commas,
        letters,
        unlisted: Vec::new(),
    };
    let tree = parser.answer()?;
    let complete = parser.at == parser.tokens.len();
    (complete && tree.depth() <= MAX_LEVELS).then_some(ParsedAnswer {
        tree,
        unlisted: parser.unlisted,
    })
}

/// The text without punctuation at the end.
fn trimmed(text: &str) -> &str {
    // 0.333… is a repeating decimal.
    if text.trim_end().ends_with("..") {
        return text.trim();
    }
    text.trim()
        .trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';'))
}

pub(crate) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: usize,
    /// The number of atoms begun, including those of attempts that failed.
    atoms: usize,
    /// The number of absolute values that are open.
    bars: usize,
    commas: Commas,
    letters: Letters,
    /// Words after numbers that are in no list, including those of attempts that failed.
    unlisted: Vec<String>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Kind<'a>> {
        self.kind_at(0)
    }

    fn kind_at(&self, ahead: usize) -> Option<Kind<'a>> {
        self.peek_at(ahead).map(|token| token.kind)
    }

    fn peek_at(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).copied()
    }

    /// Whether a space precedes the next token.
    fn spaced(&self) -> bool {
        self.tokens.get(self.at).is_some_and(|token| token.spaced)
    }

    fn eat(&mut self, kind: Kind<'_>) -> bool {
        let eaten = self.peek() == Some(kind);
        self.at += usize::from(eaten);
        eaten
    }

    /// Parses one level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// [`Self::deeper`], between brackets: a bar opens an absolute value there.
    fn enclosed<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let bars = std::mem::take(&mut self.bars);
        let parsed = self.deeper(parse);
        self.bars = bars;
        parsed
    }

    fn answer(&mut self) -> Option<Expr> {
        self.deeper(|parser| {
            let (mut items, mut joins) = (vec![parser.statement()?], Vec::new());
            while let Some(join) = parser.join() {
                joins.push(join);
                items.push(parser.statement()?);
            }
            list_separators::join_items(items, &joins)
        })
    }

    /// The letters from here on without a space between them, at most [`MAX_WORD`].
    fn word(&self) -> String {
        self.word_at(0)
    }

    /// [`Self::word`], from `ahead` tokens further on.
    fn word_at(&self, ahead: usize) -> String {
        let mut word = String::new();
        let from = (self.at + ahead).min(self.tokens.len());
        for (ahead, token) in self.tokens[from..].iter().enumerate().take(MAX_WORD) {
            match token.kind {
                Kind::Letter(letter) if ahead == 0 || !token.spaced => word.push(letter),
                _ => break,
            }
        }
        word
    }

    /// Whether a word may begin here: no letter precedes directly.
    fn begins_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        self.spaced() || !matches!(before.map(|token| token.kind), Some(Kind::Letter(_)))
    }

    /// The unit that begins here, and its number of letters.
    fn unit(&self) -> Option<(String, usize)> {
        if !self.begins_word() {
            return None;
        }
        let word = self.word();
        if word == "per" && self.word_at(word.len()) == "cent" {
            return Some(("percent".into(), "percent".len()));
        }
        let is_unit = unit::is_unit_without_markup(&word)
            || (self.letters == Letters::Units && self.spaced() && unit::is_letter_unit(&word));
        let length = word.chars().count();
        is_unit.then_some((word, length))
    }

    /// Whether "per" and a unit begin here, as in 60 miles per hour.
    fn is_per_unit(&self) -> bool {
        self.begins_word()
            && self.word() == "per"
            && unit::is_unit_without_markup(&self.word_at("per".len()))
    }

    fn statement(&mut self) -> Option<Expr> {
        self.eat(Kind::Command("approx"));
        if let Some(words) = self.words() {
            return Some(words);
        }
        let first = match self.introduced_name().or_else(|| self.left_side()) {
            Some(left) => left,
            None => self.combined()?,
        };
        let first = self.compound(first)?;
        let first = self.ratio(first)?;
        let (mut parts, mut relations) = (vec![first], Vec::new());
        loop {
            if self.eat(Kind::Command("approx")) {
                // x ≈ 5 gives the value of x. 22/7 ≈ 3.14 means that the answer is near 3.14.
                let assigns = relations.is_empty() && is_assignable(&parts[0]);
                relations.push(if assigns {
                    Relation::Equal
                } else {
                    Relation::Near
                });
                parts.push(self.combined()?);
            } else if let Some(relation) = self.relation() {
                relations.push(relation);
                let side = self.combined()?;
                let side = self.compound(side)?;
                parts.push(self.ratio(side)?);
            } else {
                break;
            }
        }
        if relations.is_empty() {
            return parts.pop();
        }
        Some(Expr::Relation(parts, relations))
    }

    /// `first`, or the ratio that begins with it.
    fn ratio(&mut self, first: Expr) -> Option<Expr> {
        if self.peek() != Some(Kind::Char(':')) {
            return Some(first);
        }
        let mut parts = vec![first];
        while self.eat(Kind::Char(':')) {
            parts.push(self.sum()?);
        }
        // A unit after the last part applies to all.
        if let Some(Expr::Quantity(..)) = parts.last()
            && let Some(Expr::Quantity(last, words)) = parts.pop()
        {
            parts.push(*last);
            return Some(Expr::Quantity(Box::new(Expr::Ratio(parts)), words));
        }
        self.with_unit(Expr::Ratio(parts))
    }

    /// Text that is a whole statement: `\text{east}`, `\text{June 20}`, `\text{(C)}`.
    fn words(&mut self) -> Option<Expr> {
        let Some(Kind::Text(text)) = self.peek() else {
            return None;
        };
        if is_separator(text) {
            return None;
        }
        let mut words = text.to_owned();
        let mut ahead = 1;
        while let Some(token) = self.peek_at(ahead) {
            match token.kind {
                Kind::Text(more) if !is_separator(more) => {
                    words.push(' ');
                    words.push_str(more);
                }
                Kind::Number(digits) => {
                    words.push(' ');
                    words.push_str(digits);
                }
                _ => break,
            }
            ahead += 1;
        }
        let ends = match self.kind_at(ahead) {
            None
            | Some(
                Kind::Char(',' | ';' | ')' | ']')
                | Kind::SetClose
                | Kind::Close
                | Kind::Command("and" | "or")
                | Kind::Text(_),
            ) => true,
            Some(_) => false,
        };
        if !ends || word_answers::is_choice(text) {
            return self.choice(text);
        }
        self.at += ahead;
        let list: Vec<Expr> = words
            .split([',', ';'])
            .map(|one| one.trim().trim_start_matches("and ").trim())
            .filter(|one| !one.is_empty())
            .map(|one| Expr::Words(one.to_owned()))
            .collect();
        match list.len() {
            0 => None,
            1 => list.into_iter().next(),
            _ => Some(Expr::List(list)),
        }
    }

    fn relation(&mut self) -> Option<Relation> {
        let relation = match self.peek()? {
            Kind::Char('=') | Kind::Command("equiv") => Relation::Equal,
            Kind::Char('<') | Kind::Command("<") => Relation::Less,
            Kind::Char('>') | Kind::Command(">") => Relation::Greater,
            Kind::Command("le") => Relation::LessOrEqual,
            Kind::Command("ge") => Relation::GreaterOrEqual,
            Kind::Command("ne") => Relation::Unequal,
            Kind::Command("in") => Relation::In,
            _ => return None,
        };
        self.at += 1;
        if self.eat(Kind::Char('=')) {
            return Some(match relation {
                Relation::Less => Relation::LessOrEqual,
                Relation::Greater => Relation::GreaterOrEqual,
                other => other,
            });
        }
        Some(relation)
    }

    fn combined(&mut self) -> Option<Expr> {
        let mut left = special_forms::set_difference(self.sum()?);
        loop {
            let operator = match self.peek() {
                Some(Kind::Command("cup")) => SetOperator::Union,
                Some(Kind::Command("cap")) => SetOperator::Intersection,
                Some(Kind::Command("backslash")) => SetOperator::Difference,
                _ => break,
            };
            self.at += 1;
            let right = self.sum()?;
            left = Expr::Combine(Box::new(left), operator, Box::new(right));
        }
        Some(left)
    }

    fn sum(&mut self) -> Option<Expr> {
        self.deeper(|parser| {
            let mut terms = Vec::new();
            let first = parser.sign();
            terms.push(signed(first.unwrap_or(Sign::Plus), parser.term()?));
            while let Some(sign) = parser.sign() {
                terms.push(signed(sign, parser.term()?));
            }
            if terms.len() == 1 {
                return terms.pop();
            }
            // A unit after the last term applies to the sum.
            let bare = |term: &Expr| !matches!(term, Expr::Quantity(..) | Expr::Money(..));
            if terms[..terms.len() - 1].iter().all(bare)
                && let Some(Expr::Quantity(..)) = terms.last()
                && let Some(Expr::Quantity(last, words)) = terms.pop()
            {
                terms.push(*last);
                return Some(Expr::Quantity(Box::new(Expr::Sum(terms)), words));
            }
            Some(Expr::Sum(terms))
        })
    }

    fn sign(&mut self) -> Option<Sign> {
        let sign = match self.peek()? {
            Kind::Char('+') => {
                // A plus and a minus with a slash between them: +/-.
                if self.kind_at(1) == Some(Kind::Char('/'))
                    && self.kind_at(2) == Some(Kind::Char('-'))
                {
                    self.at += 2;
                    Sign::PlusMinus
                } else {
                    Sign::Plus
                }
            }
            Kind::Char('-') => Sign::Minus,
            Kind::Command("pm") => Sign::PlusMinus,
            Kind::Command("mp") => Sign::MinusPlus,
            _ => return None,
        };
        self.at += 1;
        Some(sign)
    }

    fn term(&mut self) -> Option<Expr> {
        // A sign follows another sign: 3 - -2.
        if let Some(sign) = self.sign() {
            return Some(signed(sign, self.deeper(Self::term)?));
        }
        let mut factors = vec![self.factor()?];
        loop {
            match self.peek() {
                Some(Kind::Command("cdot") | Kind::Char('*')) => {
                    self.at += 1;
                    self.eat(Kind::Char('*'));
                    factors.push(self.operand()?);
                }
                Some(Kind::Char('/') | Kind::Command("div")) => {
                    self.at += 1;
                    let below = self.operand()?;
                    let above = product(std::mem::take(&mut factors));
                    factors.push(Expr::Quotient(Box::new(above), Box::new(below)));
                }
                Some(next) if self.begins_factor(next) => {
                    let spaced = self.spaced();
                    let bare = matches!(next, Kind::Number(_));
                    let bracketed = matches!(next, Kind::Char('(' | '['));
                    let factor = self.factor()?;
                    if !bracketed
                        && let Some(whole) = factors.last()
                        && let Some(mixed) = mixed(whole, &factor)
                    {
                        factors.pop();
                        factors.push(mixed);
                        continue;
                    }
                    if bare && spaced && is_whole_amount(factors.last()?) && is_whole(&factor) {
                        // 1 4/5: the fraction follows.
                        if !self.eat(Kind::Char('/')) {
                            return None;
                        }
                        let below = self.factor()?;
                        let whole = factors.pop()?;
                        factors.push(mixed(&whole, &fraction(factor, below))?);
                        continue;
                    }
                    if bare && is_literal(factors.last()?) {
                        return None;
                    }
                    factors.push(factor);
                }
                _ => break,
            }
        }
        let term = product(factors);
        self.with_unit(term)
    }

    /// The factor after an operator, with its own sign if it has one.
    fn operand(&mut self) -> Option<Expr> {
        match self.sign() {
            Some(sign) => Some(signed(sign, self.factor()?)),
            None => self.factor(),
        }
    }
}

/// Whether the text is "and", "or" or commas between elements.
fn is_separator(text: &str) -> bool {
    let bare = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
    matches!(bare.to_ascii_lowercase().as_str(), "" | "and" | "or")
}

#[derive(Debug, Clone, Copy)]
enum Sign {
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
}

fn signed(sign: Sign, term: Expr) -> Expr {
    match sign {
        Sign::Plus => term,
        Sign::Minus => Expr::Negative(Box::new(term)),
        Sign::PlusMinus => Expr::PlusMinus(Side::PlusMinus, Box::new(term)),
        Sign::MinusPlus => Expr::PlusMinus(Side::MinusPlus, Box::new(term)),
    }
}

fn product(mut factors: Vec<Expr>) -> Expr {
    match factors.len() {
        1 => factors.remove(0),
        _ => Expr::Product(factors),
    }
}

fn is_whole(expr: &Expr) -> bool {
    matches!(expr, Expr::Number(FullDebug(number)) if number.is_int())
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Number(_) | Expr::Mixed(..))
}

#[cfg(test)]
mod tests;
