//! Parses numbers and strings of Python and JSON, and computes which values are equal as Python dict keys.

use dashu_int::IBig;

use super::parse::{ParseError, Parser, parse_digits};
use super::{MAX_DIGITS, Value};

/// Parses a text like Python's `float(text)`.
pub(super) fn float_from_text(text: &str) -> Option<f64> {
    let text = text.trim();
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match magnitude.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        "nan" => Some(f64::NAN),
        digits if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            digits.parse::<f64>().ok().map(|x| sign * x)
        }
        _ => None,
    }
}

/// A number without a sign: `12`, `0x1f`, `1_000`, `1.5e3`, `2j`.
pub(super) fn python_number(parser: &mut Parser<'_>) -> Result<Value, ParseError> {
    let start = parser.at;
    let rest = parser.rest().as_bytes();
    let radix = match rest {
        [b'0', b'x' | b'X', ..] => Some(16),
        [b'0', b'o' | b'O', ..] => Some(8),
        [b'0', b'b' | b'B', ..] => Some(2),
        _ => None,
    };
    let is_part = |at: &usize| match rest[*at] {
        b'+' | b'-' => radix.is_none() && matches!(rest[at - 1], b'e' | b'E'),
        b => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'),
    };
    let end = 1 + (1..rest.len()).take_while(is_part).count();
    let text: String = parser.rest()[..end].chars().filter(|c| *c != '_').collect();
    parser.at += end;
    let wrong = |reason: &str| parser.error_at(start, reason);
    if let Some(radix) = radix {
        if text.len() > MAX_DIGITS {
            return Err(wrong("the integer is too long"));
        }
        return IBig::from_str_radix(&text[2..], radix)
            .map(Value::Int)
            .map_err(|_| wrong("the integer has no digits, or wrong ones"));
    }
    let is_whole = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !is_whole(&text) {
        let real = text.strip_suffix(['j', 'J']);
        let number: Option<f64> = real.unwrap_or(&text).parse().ok();
        let number = number.ok_or_else(|| wrong("this is not a number"))?;
        return Ok(match real {
            Some(_) => Value::Complex(0.0, number),
            None => Value::Float(number),
        });
    }
    if text.starts_with('0') && text.bytes().any(|b| b != b'0') {
        return Err(wrong("a decimal integer cannot begin with 0"));
    }
    let number = parse_digits(&text).map(Value::Int);
    number.ok_or_else(|| wrong("the integer is too long"))
}

/// A JSON number. Without a point and an exponent it is an integer of any size.
pub(super) fn json_number(parser: &mut Parser<'_>) -> Result<Value, ParseError> {
    let start = parser.at;
    let rest = parser.rest();
    if parser.take("-Infinity") {
        return Ok(Value::Float(f64::NEG_INFINITY));
    }
    let is_part = |b: &u8| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    let length = rest.bytes().take_while(is_part).count();
    let text = &rest[..length];
    parser.at += length;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let well_formed = digits.starts_with(|c: char| c.is_ascii_digit())
        && !(digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit())
        && !text.contains(".e")
        && !text.contains(".E");
    if !well_formed {
        return Err(parser.error_at(start, "this is not a number"));
    }
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let n = parse_digits(digits)
            .ok_or_else(|| parser.error_at(start, "the integer is too long"))?;
        return Ok(Value::Int(if text.starts_with('-') { -n } else { n }));
    }
    text.parse()
        .map(Value::Float)
        .map_err(|_| parser.error_at(start, "this is not a number"))
}

/// Whether the text begins with a string or bytes literal, with or without a prefix such as `rb`.
pub(super) fn begins_string(text: &str) -> bool {
    let quote = text.bytes().take(3).position(|b| matches!(b, b'"' | b'\''));
    let prefix = quote.map(|at| text[..at].to_ascii_lowercase());
    prefix.is_some_and(|prefix| ["", "r", "u", "b", "br", "rb"].contains(&&*prefix))
}

/// One string or bytes literal, or several side by side, which Python joins.
pub(super) fn python_strings(parser: &mut Parser<'_>) -> Result<Value, ParseError> {
    let (mut text, is_bytes) = python_string(parser)?;
    loop {
        let after = parser.at;
        parser.skip_space();
        if !begins_string(parser.rest()) {
            parser.at = after;
            return Ok(match is_bytes {
                true => Value::Bytes(text.chars().map(|c| c as u8).collect()),
                false => Value::Str(text),
            });
        }
        let start = parser.at;
        let (more, more_is_bytes) = python_string(parser)?;
        if more_is_bytes != is_bytes {
            return Err(parser.error_at(start, "bytes and text cannot be joined"));
        }
        text.push_str(&more);
    }
}

/// One literal, and whether it is of bytes: then each character stands for the byte with its number.
fn python_string(parser: &mut Parser<'_>) -> Result<(String, bool), ParseError> {
    let (mut raw, mut is_bytes) = (false, false);
    while let Some(letter) = parser.peek().filter(u8::is_ascii_alphabetic) {
        raw |= letter.eq_ignore_ascii_case(&b'r');
        is_bytes |= letter.eq_ignore_ascii_case(&b'b');
        parser.at += 1;
    }
    let start = parser.at;
    let quotes = ["\"\"\"", "\'\'\'", "\"", "\'"];
    let Some(quote) = quotes.into_iter().find(|quote| parser.take(quote)) else {
        return Err(parser.error("a string is missing"));
    };
    let mut text = String::new();
    while !parser.take(quote) {
        let at = parser.at;
        let Some(c) = parser.rest().chars().next() else {
            return Err(parser.error_at(start, "the string has no end"));
        };
        parser.at += c.len_utf8();
        match c {
            '\r' | '\n' if quote.len() == 1 => {
                return Err(parser.error_at(start, "the string has no end on its line"));
            }
            '\r' => {
                // Python reads every line break of its source as "\n".
                parser.take("\n");
                text.push('\n');
            }
            '\\' => python_escape(parser, raw, is_bytes, &mut text)?,
            c if is_bytes && !c.is_ascii() => {
                let reason = "a bytes literal holds only ASCII characters and escapes";
                return Err(parser.error_at(at, reason));
            }
            c => text.push(c),
        }
    }
    Ok((text, is_bytes))
}

/// Reads the escape after a backslash, and adds what it stands for to `text`. What is no escape stands for itself.
fn python_escape(
    parser: &mut Parser<'_>,
    raw: bool,
    is_bytes: bool,
    text: &mut String,
) -> Result<(), ParseError> {
    let start = parser.at.saturating_sub(1);
    let Some(c) = parser.rest().chars().next() else {
        return Err(parser.error("the string has no end"));
    };
    parser.at += c.len_utf8();
    let character = match c {
        c if is_bytes && !c.is_ascii() => {
            let reason = "a bytes literal holds only ASCII characters and escapes";
            return Err(parser.error_at(start, reason));
        }
        _ if raw => {
            text.push('\\');
            c
        }
        // A line break after a backslash is dropped.
        '\n' => return Ok(()),
        '\r' => {
            parser.take("\n");
            return Ok(());
        }
        '\\' | '\'' | '"' => c,
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '0'..='7' => {
            let mut n = u32::from(c) - u32::from('0');
            for _ in 0..2 {
                let Some(digit @ b'0'..=b'7') = parser.peek() else {
                    break;
                };
                n = n * 8 + u32::from(digit - b'0');
                parser.at += 1;
            }
            let n = if is_bytes { n & 0xff } else { n };
            char::from_u32(n).unwrap_or('\0')
        }
        'x' => char::from(u8::try_from(hex(parser, 2, start)?).unwrap_or(0)),
        'u' if !is_bytes => character(parser, 4, start)?,
        'U' if !is_bytes => character(parser, 8, start)?,
        'N' if !is_bytes => {
            let reason = "escapes by a character's name are not read; write \\u and its number";
            return Err(parser.error_at(start, reason));
        }
        other => {
            text.push('\\');
            other
        }
    };
    text.push(character);
    Ok(())
}

fn hex(parser: &mut Parser<'_>, digits: usize, start: usize) -> Result<u32, ParseError> {
    let number = parser
        .rest()
        .get(..digits)
        .filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))
        .and_then(|text| u32::from_str_radix(text, 16).ok())
        .ok_or_else(|| {
            let reason = format!("the escape lacks its {digits} hexadecimal digits");
            parser.error_at(start, reason)
        })?;
    parser.at += digits;
    Ok(number)
}

fn character(parser: &mut Parser<'_>, digits: usize, start: usize) -> Result<char, ParseError> {
    let number = hex(parser, digits, start)?;
    let reason = "the escape is half of a surrogate pair, or no character at all";
    char::from_u32(number).ok_or_else(|| parser.error_at(start, reason))
}

/// A JSON string.
pub(super) fn json_string(parser: &mut Parser<'_>) -> Result<Value, ParseError> {
    let rest = parser.rest();
    let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let read = strings.next().transpose().map_err(|error| {
        let reason = error.to_string();
        // A string has one line.
        let place = rest.floor_char_boundary(error.column().saturating_sub(1));
        let reason = reason.split(" at line ").next().unwrap_or_default();
        parser.error_at(parser.at + place, reason)
    })?;
    parser.at += strings.byte_offset();
    Ok(Value::Str(read.unwrap_or_default()))
}

/// A text that is the same for two values exactly if Python treats them as the same key of a dict (as `1`, `1.0` and `True`);
/// `None` if the value cannot be hashed.
pub(super) fn hash_key(value: &Value) -> Option<String> {
    let number = |x: f64| match IBig::try_from(x) {
        Ok(n) if x.fract() == 0.0 => format!("n{n}"),
        _ => format!("f{:x}", x.to_bits()),
    };
    let all = |items: &[Value]| items.iter().map(hash_key).collect::<Option<Vec<_>>>();
    Some(match value {
        Value::None => "None".to_owned(),
        Value::Bool(b) => format!("n{}", u8::from(*b)),
        Value::Int(n) => format!("n{n}"),
        Value::Float(x) => number(*x),
        Value::Complex(re, 0.0) => number(*re),
        Value::Complex(re, im) => format!("c{:x},{:x}", re.to_bits(), im.to_bits()),
        Value::Str(s) => format!("s{}:{s}", s.len()),
        Value::Bytes(b) => format!("b{b:?}"),
        Value::Tuple(items) => format!("({})", all(items)?.join(",")),
        Value::FrozenSet(items) => {
            let mut keys = all(items)?;
            keys.sort_unstable();
            keys.dedup();
            format!("{{{}}}", keys.join(","))
        }
        Value::List(_) | Value::Set(_) | Value::Dict(_) | Value::Opaque(_) => return None,
    })
}
