//! Numbers: decimals, separators, repeating digits, digits in a base.

use dashu_int::UBig;
use dashu_ratio::RBig;

use super::{Commas, Parser};
use crate::expression::{Expr, FullDebug};
use crate::parser::lexer::Kind;
use crate::parser::word_answers::{number_expr, word_answer};

/// Maximum number of digits.
const MAX_DIGITS: usize = 1024;

impl Parser<'_> {
    pub(super) fn number(&mut self) -> Option<Expr> {
        let mut whole = String::new();
        if let Some(Kind::Number(digits)) = self.peek() {
            self.at += 1;
            whole.push_str(digits);
            // Digits of a base above ten: 152A_{11}.
            if let Some(based) = self.letter_digits(digits) {
                return Some(based);
            }
            let short = digits.len() <= 3 && !digits.starts_with('0');
            while short && self.eat_thousands_group(&mut whole) {}
        }
        let mut decimals = String::new();
        let mut repeating = String::new();
        let point = self.peek() == Some(Kind::Char('.'));
        let digits_follow = matches!(self.peek_at(1), Some(token) if !token.spaced && matches!(token.kind, Kind::Number(_)));
        let bar_follows = matches!(self.peek_at(1), Some(token) if matches!(token.kind, Kind::Command("overline" | "bar" | "dot")));
        if point && (digits_follow || bar_follows) {
            self.at += 1;
            if let Some(Kind::Number(digits)) = self.peek() {
                self.at += 1;
                decimals.push_str(digits);
            }
            if let Some(Kind::Command(bar @ ("overline" | "bar" | "dot"))) = self.peek() {
                self.at += 1;
                repeating = self.digits_argument()?;
                // Two dots mark the first and the last digit of a period.
                if bar == "dot"
                    && (repeating.len() > 1
                        || matches!(self.peek(), Some(Kind::Number(_) | Kind::Command("dot"))))
                {
                    return None;
                }
            }
        } else if point {
            if whole.is_empty() {
                return None;
            }
            self.at += 1;
        }
        let number = Expr::number(literal(&whole, &decimals, &repeating)?);
        Some(match self.exponent() {
            Some(power) => Expr::Product(vec![number, power]),
            None => number,
        })
    }

    /// `e8` directly after digits is a power of ten.
    fn exponent(&mut self) -> Option<Expr> {
        let (letter, digits) = (self.peek_at(0)?, self.peek_at(1)?);
        let Kind::Number(power) = digits.kind else {
            return None;
        };
        let joined = letter.kind == Kind::Letter('e') && !letter.spaced && !digits.spaced;
        let ends = !matches!(
            self.kind_at(2),
            Some(Kind::Letter(_) | Kind::Char('.' | '^' | '_') | Kind::Open)
        );
        if !joined || !ends {
            return None;
        }
        let power = literal(power, "", "")?;
        self.at += 2;
        let ten = Expr::number(10);
        Some(Expr::Power(Box::new(ten), Box::new(Expr::number(power))))
    }

    /// Consumes three more digits of a number, after a comma or a space.
    fn eat_thousands_group(&mut self, whole: &mut String) -> bool {
        let (kind, ahead) = match (self.peek(), self.kind_at(1), self.kind_at(2)) {
            (Some(Kind::Char(',')), _, _) => (Kind::Char(','), 1),
            (Some(Kind::Open), Some(Kind::Char(',')), Some(Kind::Close)) => (Kind::Open, 3),
            (Some(Kind::Number(_)), _, _) if self.spaced() => (Kind::Number(""), 0),
            _ => return false,
        };
        let Some(token) = self.peek_at(ahead) else {
            return false;
        };
        let Kind::Number(digits) = token.kind else {
            return false;
        };
        let begins_element =
            kind == Kind::Char(',') && (token.spaced || self.commas == Commas::Lists);
        let begins_fraction = ahead == 0 && self.kind_at(1) == Some(Kind::Char('/'));
        if digits.len() != 3 || begins_element || begins_fraction {
            return false;
        }
        self.at += ahead + 1;
        whole.push_str(digits);
        true
    }

    /// `152A_{11}`: digits and letters without spaces, and a subscript.
    pub(super) fn letter_digits(&mut self, digits: &str) -> Option<Expr> {
        let mut text = digits.to_owned();
        let mut ahead = 0;
        while let Some(token) = self.peek_at(ahead) {
            match token.kind {
                Kind::Letter(letter) if !token.spaced && letter.is_ascii_uppercase() => {
                    text.push(letter);
                }
                Kind::Number(more) if !token.spaced => text.push_str(more),
                _ => break,
            }
            ahead += 1;
        }
        let digit = text.contains(|c: char| c.is_ascii_digit());
        if ahead == 0 || !digit || self.kind_at(ahead) != Some(Kind::Char('_')) {
            return None;
        }
        let start = self.at;
        self.at += ahead + 1;
        let parsed = self.argument().and_then(|base| based_number(&text, &base));
        if parsed.is_none() {
            self.at = start;
        }
        parsed
    }

    fn digits_argument(&mut self) -> Option<String> {
        let braced = self.eat(Kind::Open);
        let Some(Kind::Number(digits)) = self.peek() else {
            return None;
        };
        self.at += 1;
        (!braced || self.eat(Kind::Close)).then(|| digits.to_owned())
    }

    /// The number before the subscript that begins at token `end`, as written.
    pub(super) fn literal_before(&self, end: usize) -> Option<String> {
        let mut start = end - 1;
        while start > 0
            && matches!(
                self.tokens[start - 1].kind,
                Kind::Number(_) | Kind::Char('.')
            )
        {
            start -= 1;
        }
        let mut text = String::new();
        for token in &self.tokens[start..end - 1] {
            match token.kind {
                Kind::Number(digits) => text.push_str(digits),
                Kind::Char(c) => text.push(c),
                _ => return None,
            }
        }
        Some(text)
    }
}

/// The number with these digits.
pub(super) fn literal(whole: &str, decimals: &str, repeating: &str) -> Option<RBig> {
    if whole.len() + decimals.len() + repeating.len() > MAX_DIGITS {
        return None;
    }
    let integer = |digits: &str| -> Option<UBig> {
        if digits.is_empty() {
            return Some(UBig::ZERO);
        }
        digits.parse().ok()
    };
    let ten = |power: usize| UBig::from(10_u8).pow(power);
    let (finite, below) = (integer(&format!("{whole}{decimals}"))?, ten(decimals.len()));
    if repeating.is_empty() {
        return Some(RBig::from_parts(finite.into(), below));
    }
    // A period of n digits is that many (10ⁿ − 1)-ths of the last decimal place.
    let parts = ten(repeating.len()) - UBig::ONE;
    let above = finite * &parts + integer(repeating)?;
    Some(RBig::from_parts(above.into(), below * parts))
}

pub(super) fn based_number(digits: &str, base: &Expr) -> Option<Expr> {
    let number_in_words = match base {
        Expr::Words(_) => word_answer(base).as_ref().and_then(number_expr),
        _ => None,
    };
    let Expr::Number(FullDebug(base)) = number_in_words.as_ref().unwrap_or(base) else {
        return None;
    };
    let base: u32 = base.clone().try_into().ok()?;
    let valid = (2..=36).contains(&base)
        && digits.len() <= MAX_DIGITS
        && digits.chars().all(|c| c == '.' || c.is_digit(base));
    let trimmed = digits.trim_start_matches('0');
    let digits = if trimmed.is_empty() || trimmed.starts_with('.') {
        format!("0{trimmed}")
    } else {
        trimmed.to_owned()
    };
    valid.then_some(Expr::Based(digits, base))
}
