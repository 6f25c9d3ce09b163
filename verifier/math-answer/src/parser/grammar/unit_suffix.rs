//! Text after a value: units, words for what is counted, a.m. and p.m., a base.

use dashu_int::ops::UnsignedAbs as _;
use dashu_ratio::RBig;

use super::{Parser, is_separator, is_whole, number::based_number};
use crate::expression::{Expr, FullDebug};
use crate::parser::lexer::Kind;
use crate::parser::unit::{self, Measure, measure};
use crate::parser::word_answers;
use crate::parser::words_after_number::parse_trailing_words;

impl Parser<'_> {
    /// The term with the unit or the words after it. `None` if the words may mean more than what is counted.
    pub(super) fn with_unit(&mut self, term: Expr) -> Option<Expr> {
        let mut words = self.trailing_words();
        // 52\text{ base }8
        if words.ends_with("base")
            && let Some(Kind::Number(digits)) = self.peek()
        {
            self.at += 1;
            push_word(&mut words, digits);
        }
        if words.is_empty() {
            return Some(term);
        }
        if let Expr::Degrees(inner) = &term
            && let Some(scale) = temperature(&words)
        {
            return Some(Expr::Quantity(inner.clone(), scale.into()));
        }
        if let Expr::Number(FullDebug(number)) = &term
            && number.is_int()
        {
            if let Some(base) = base(&words) {
                return based_number(&number.to_string(), &base);
            }
            let day = format!("{number} {words}");
            if word_answers::is_number_or_date(&day) {
                return Some(Expr::Words(day));
            }
        }
        let trailing = parse_trailing_words(&words)?;
        self.unlisted.extend(trailing.unlisted);
        Some(
            trailing
                .layers
                .into_iter()
                .fold(term, |inner, layer| Expr::Quantity(Box::new(inner), layer)),
        )
    }

    fn trailing_words(&mut self) -> String {
        let is_sign = |c: char| !c.is_ascii_alphabetic();
        let mut words = String::new();
        loop {
            let start = self.at;
            let before = words.len();
            match self.peek() {
                Some(Kind::Text(text)) if !is_separator(text) => {
                    self.at += 1;
                    push_word(&mut words, text);
                }
                Some(next @ Kind::Currency(sign))
                    if !self.begins_factor(next) && !words.ends_with(is_sign) =>
                {
                    self.at += 1;
                    push_word(&mut words, sign.encode_utf8(&mut [0; 4]));
                }
                Some(Kind::Letter(_)) if words.is_empty() && self.noon().is_some() => {
                    let (length, noon) = self.noon().unwrap_or_default();
                    self.at += length;
                    push_word(&mut words, noon);
                }
                Some(Kind::Letter(_)) if self.unit().is_some() => {
                    let (unit, length) = self.unit().unwrap_or_default();
                    self.at += length;
                    push_word(&mut words, &unit);
                }
                Some(Kind::Letter(_)) if !words.is_empty() && self.is_per_unit() => {
                    self.at += "per".len();
                    push_word(&mut words, "per");
                }
                Some(Kind::Char('/')) if !words.is_empty() => {
                    self.at += 1;
                    let follows = matches!(self.peek(), Some(Kind::Text(_)))
                        || unit::is_unit_without_markup(&self.word())
                        || matches!(self.word().as_str(), "s" | "h" | "m");
                    if !follows {
                        self.at = start;
                        break;
                    }
                    push_word(&mut words, "per");
                    if let Some(Kind::Letter(letter)) = self.peek()
                        && self.word().len() == 1
                    {
                        self.at += 1;
                        push_word(&mut words, &letter.to_string());
                    }
                }
                _ => break,
            }
            // cm^2, \text{units}^{2}
            if self.eat(Kind::Char('^')) {
                match self.argument() {
                    Some(Expr::Number(FullDebug(power))) if power.is_int() => {
                        words.push_str(&format!("^{power}"));
                    }
                    _ => {
                        self.at = start;
                        words.truncate(before);
                        break;
                    }
                }
            }
        }
        words
    }

    /// `p.m.` and similar: its number of tokens, and "am" or "pm".
    pub(super) fn noon(&self) -> Option<(usize, &'static str)> {
        let Some(Kind::Letter(first)) = self.peek() else {
            return None;
        };
        let noon = match first.to_ascii_lowercase() {
            'a' => "am",
            'p' => "pm",
            _ => return None,
        };
        let dot = |ahead: usize| usize::from(self.kind_at(ahead) == Some(Kind::Char('.')));
        let mut length = 1 + dot(1);
        let Some(Kind::Letter('m' | 'M')) = self.kind_at(length) else {
            return None;
        };
        length += 1;
        length += dot(length);
        let ends = !matches!(
            self.kind_at(length),
            Some(Kind::Letter(_) | Kind::Char('^'))
        );
        // 5am may be a product of letters; 5 a.m. and 5 AM are not.
        let plain = length == 2 && first.is_ascii_lowercase();
        (ends && !plain).then_some((length, noon))
    }

    /// `^{\text{th}}` after a whole number; returns the suffix.
    pub(super) fn ordinal(&mut self, expr: &Expr) -> Option<&'static str> {
        let Expr::Number(FullDebug(number)) = expr else {
            return None;
        };
        let braced = usize::from(self.peek() == Some(Kind::Open));
        let (suffix, length) = match (self.peek_at(braced)?.kind, self.peek_at(braced + 1)) {
            (Kind::Text(text), _) => (text.to_owned(), 1),
            (Kind::Letter(one), Some(token)) if braced == 1 => match token.kind {
                Kind::Letter(other) => (format!("{one}{other}"), 2),
                _ => return None,
            },
            _ => return None,
        };
        let closed = braced == 0 || self.kind_at(braced + length) == Some(Kind::Close);
        let expected = ordinal_suffix(number)?;
        if !closed || suffix != expected {
            return None;
        }
        self.at += length + 2 * braced;
        Some(expected)
    }

    /// `1\text{ hour }30\text{ minutes}`: combines a quantity with the smaller one after it. The sum is in the smaller unit, and the larger unit is around it. 7
    /// hours 0 minutes are 7 hours.
    pub(super) fn compound(&mut self, first: Expr) -> Option<Expr> {
        let Expr::Quantity(larger, words) = &first else {
            return Some(first);
        };
        let (Expr::Number(FullDebug(larger)), Measure::Unit(size, dimension)) =
            (&**larger, measure(words))
        else {
            return Some(first);
        };
        if !matches!(self.peek(), Some(Kind::Number(_))) {
            return Some(first);
        }
        let number = self.number()?;
        let Expr::Quantity(smaller, unit) = self.with_unit(number)? else {
            return None;
        };
        let (Expr::Number(FullDebug(smaller)), Measure::Unit(other_size, other)) =
            (*smaller, measure(&unit))
        else {
            return None;
        };
        let ratio = size / other_size;
        if dimension != other || !larger.is_int() || smaller >= ratio {
            return None;
        }
        if smaller.is_zero() {
            return Some(first);
        }
        let sum = Expr::Quantity(Box::new(Expr::number(larger * ratio + smaller)), unit);
        Some(Expr::Quantity(Box::new(sum), words.clone()))
    }
}

/// The suffix of an ordinal: "st", "nd", "rd" or "th".
fn ordinal_suffix(number: &RBig) -> Option<&'static str> {
    if !number.is_int() {
        return None;
    }
    let whole = number.numerator().unsigned_abs();
    Some(match (&whole % 10_u8, &whole % 100_u8) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    })
}

fn temperature(words: &str) -> Option<&'static str> {
    match words.to_ascii_lowercase().as_str() {
        "f" | "fahrenheit" => Some("degrees fahrenheit"),
        "c" | "celsius" => Some("degrees celsius"),
        _ => None,
    }
}

/// The base in "(base 8)" or "in base eight".
fn base(words: &str) -> Option<Expr> {
    let words = words.trim_matches(['(', ')']).to_ascii_lowercase();
    let words = words.strip_prefix("in ").unwrap_or(&words);
    let base = words.strip_prefix("base")?.trim();
    match base.parse::<u32>() {
        Ok(base) => Some(Expr::number(base)),
        Err(_) => Some(Expr::Words(base.to_owned())),
    }
}

fn push_word(words: &mut String, word: &str) {
    if !words.is_empty() {
        words.push(' ');
    }
    words.push_str(&word.trim().replace('~', " "));
}

/// A mixed number. A sign of degrees or percent after its fraction applies to the whole: 22½°.
pub(super) fn mixed(whole: &Expr, fraction: &Expr) -> Option<Expr> {
    match (whole, fraction) {
        (Expr::Money(sign, whole), _) => {
            let amount = mixed(whole, fraction)?;
            matches!(amount, Expr::Mixed(..)).then(|| Expr::Money(*sign, Box::new(amount)))
        }
        (_, Expr::Degrees(fraction)) => {
            mixed(whole, fraction).map(|amount| Expr::Degrees(Box::new(amount)))
        }
        (_, Expr::Percent(fraction)) => {
            mixed(whole, fraction).map(|amount| Expr::Percent(Box::new(amount)))
        }
        _ => plain_mixed(whole, fraction),
    }
}

/// `above/below`. A sign of degrees or percent after the denominator applies to the whole.
pub(super) fn fraction(above: Expr, below: Expr) -> Expr {
    match below {
        Expr::Degrees(below) => Expr::Degrees(Box::new(fraction(above, *below))),
        Expr::Percent(below) => Expr::Percent(Box::new(fraction(above, *below))),
        below => Expr::Quotient(Box::new(above), Box::new(below)),
    }
}

/// A whole number before a proper fraction of whole numbers is a mixed number.
fn plain_mixed(whole: &Expr, fraction: &Expr) -> Option<Expr> {
    let (Expr::Number(FullDebug(whole)), Expr::Quotient(above, below)) = (whole, fraction) else {
        return None;
    };
    let (Expr::Number(FullDebug(above)), Expr::Number(FullDebug(below))) = (&**above, &**below)
    else {
        return None;
    };
    let proper = whole.is_int() && above.is_int() && below.is_int() && above < below;
    proper.then(|| {
        Expr::Mixed(
            FullDebug(whole.numerator().unsigned_abs()),
            Box::new(fraction.clone()),
        )
    })
}

/// Whether it is a whole number, or an amount of money that is one.
pub(super) fn is_whole_amount(expr: &Expr) -> bool {
    match expr {
        Expr::Money(_, amount) => is_whole(amount),
        other => is_whole(other),
    }
}
