//! Parses numbers and strings of Python and JSON, and computes which values are equal as Python dict keys.

use dashu_int::IBig;

use super::parse::{ParseError, Parser, parse_digits};
use super::{MAX_DIGITS, Value};

/// The nearest float, or an infinity.
pub(super) fn to_f64(n: &IBig) -> f64 {
    n.to_f64().value()
}

/// The value as a float, if it is a real number.
pub(super) fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Int(n) => Some(to_f64(n)),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

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
    if let [b'0', letter @ (b'x' | b'X' | b'o' | b'O' | b'b' | b'B'), ..] = rest {
        let radix = match letter.to_ascii_lowercase() {
            b'x' => 16,
            b'o' => 8,
            _ => 2,
        };
        let length = rest[2..]
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
            .count();
        let digits: String = rest[2..2 + length]
            .iter()
            .filter(|b| **b != b'_')
            .map(|b| char::from(*b))
            .collect();
        parser.at += 2 + length;
        if digits.len() > MAX_DIGITS {
            return Err(parser.error_at(start, "the integer is too long"));
        }
        return IBig::from_str_radix(&digits, radix)
            .map(Value::Int)
            .map_err(|_| parser.error_at(start, "the integer has no digits, or wrong ones"));
    }
    let digits = |from: usize| {
        rest[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit() || **b == b'_')
            .count()
    };
    let mut end = digits(0);
    let mut is_float = false;
    if rest.get(end) == Some(&b'.') {
        is_float = true;
        end += 1;
        end += digits(end);
    }
    if let Some(b'e' | b'E') = rest.get(end) {
        let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            is_float = true;
            end += 1 + sign + exponent;
        }
    }
    let imaginary = matches!(rest.get(end), Some(b'j' | b'J'));
    let text: String = parser.rest()[..end].chars().filter(|c| *c != '_').collect();
    parser.at += end + usize::from(imaginary);
    if let Some(b) = parser.peek()
        && (b.is_ascii_alphanumeric() || b == b'_')
    {
        return Err(parser.error("a number is followed by a letter"));
    }
    if is_float || imaginary {
        let x: f64 = text
            .parse()
            .map_err(|_| parser.error_at(start, "this is not a number"))?;
        return Ok(if imaginary {
            Value::Complex(0.0, x)
        } else {
            Value::Float(x)
        });
    }
    if text.len() > 1 && text.starts_with('0') && text.bytes().any(|b| b != b'0') {
        return Err(parser.error_at(start, "a decimal integer cannot begin with 0"));
    }
    parse_digits(&text)
        .map(Value::Int)
        .ok_or_else(|| parser.error_at(start, "the integer is too long"))
}

/// A JSON number. Without a point and an exponent it is an integer of any size.
pub(super) fn json_number(parser: &mut Parser<'_>) -> Result<Value, ParseError> {
    let start = parser.at;
    let rest = parser.rest();
    if parser.take("-Infinity") {
        return Ok(Value::Float(f64::NEG_INFINITY));
    }
    let length = rest
        .bytes()
        .take_while(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        .count();
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

pub(super) fn is_string_prefix(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "r" | "u" | "b" | "br" | "rb"
    )
}

/// One string or bytes literal, or several side by side, which Python joins.
pub(super) fn python_strings(parser: &mut Parser<'_>) -> Result<Value, ParseError> {
    let first = python_string(parser)?;
    let (mut text, mut bytes) = match first {
        Piece::Text(text) => (text, None),
        Piece::Bytes(bytes) => (String::new(), Some(bytes)),
    };
    loop {
        let after = parser.at;
        parser.skip_space();
        let start = parser.at;
        let prefix = parser
            .rest()
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .take(3)
            .count();
        let quoted = matches!(parser.rest().as_bytes().get(prefix), Some(b'"' | b'\''));
        if !quoted || !(prefix == 0 || is_string_prefix(&parser.rest()[..prefix])) {
            parser.at = after;
            return Ok(match bytes {
                Some(bytes) => Value::Bytes(bytes),
                None => Value::Str(text),
            });
        }
        match (python_string(parser)?, &mut bytes) {
            (Piece::Text(more), None) => text.push_str(&more),
            (Piece::Bytes(more), Some(bytes)) => bytes.extend(more),
            _ => return Err(parser.error_at(start, "bytes and text cannot be joined")),
        }
    }
}

enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

fn python_string(parser: &mut Parser<'_>) -> Result<Piece, ParseError> {
    let (mut raw, mut is_bytes) = (false, false);
    while let Some(letter) = parser.peek().filter(u8::is_ascii_alphabetic) {
        raw |= letter.eq_ignore_ascii_case(&b'r');
        is_bytes |= letter.eq_ignore_ascii_case(&b'b');
        parser.at += 1;
    }
    let start = parser.at;
    let quote = if parser.take("\"\"\"") {
        "\"\"\""
    } else if parser.take("'''") {
        "'''"
    } else if parser.take("\"") {
        "\""
    } else if parser.take("'") {
        "'"
    } else {
        return Err(parser.error("a string is missing"));
    };
    let mut text = String::new();
    let mut bytes = Vec::new();
    loop {
        if parser.take(quote) {
            return Ok(if is_bytes {
                Piece::Bytes(bytes)
            } else {
                Piece::Text(text)
            });
        }
        let at = parser.at;
        let Some(c) = parser.rest().chars().next() else {
            return Err(parser.error_at(start, "the string has no end"));
        };
        parser.at += c.len_utf8();
        let mut escaped = false;
        let c = match c {
            '\r' | '\n' if quote.len() == 1 => {
                return Err(parser.error_at(start, "the string has no end on its line"));
            }
            '\r' => {
                // Python reads every line break of its source as "\n".
                parser.take("\n");
                '\n'
            }
            '\\' => match python_escape(parser, raw, is_bytes)? {
                Escape::LineContinuation => continue,
                Escape::Character(c) => {
                    escaped = true;
                    c
                }
                Escape::Unrecognised(c) => {
                    text.push('\\');
                    bytes.push(b'\\');
                    c
                }
            },
            c => c,
        };
        if !is_bytes {
            text.push(c);
        } else {
            let byte = u8::try_from(u32::from(c))
                .ok()
                .filter(|byte| escaped || byte.is_ascii())
                .ok_or_else(|| {
                    parser.error_at(
                        at,
                        "a bytes literal holds only ASCII characters and escapes",
                    )
                })?;
            bytes.push(byte);
        }
    }
}

enum Escape {
    /// The character of the escape (in bytes, the byte with the same number).
    Character(char),
    /// Not an escape: the backslash and this character are literal.
    Unrecognised(char),
    /// A backslash before a line break: both are dropped.
    LineContinuation,
}

/// Reads the escape after a backslash.
fn python_escape(parser: &mut Parser<'_>, raw: bool, is_bytes: bool) -> Result<Escape, ParseError> {
    let start = parser.at.saturating_sub(1);
    let Some(c) = parser.rest().chars().next() else {
        return Err(parser.error("the string has no end"));
    };
    parser.at += c.len_utf8();
    if raw {
        return Ok(Escape::Unrecognised(c));
    }
    let simple = match c {
        '\n' => return Ok(Escape::LineContinuation),
        '\r' => {
            parser.take("\n");
            return Ok(Escape::LineContinuation);
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
                match parser.peek() {
                    Some(digit @ b'0'..=b'7') => {
                        n = n * 8 + u32::from(digit - b'0');
                        parser.at += 1;
                    }
                    _ => break,
                }
            }
            if is_bytes {
                n &= 0xff;
            }
            char::from_u32(n).unwrap_or('\0')
        }
        'x' => char::from(u8::try_from(hex(parser, 2, start)?).unwrap_or(0)),
        'u' if !is_bytes => character(parser, 4, start)?,
        'U' if !is_bytes => character(parser, 8, start)?,
        'N' if !is_bytes => {
            return Err(parser.error_at(
                start,
                "escapes by a character's name are not read; write \\u and its number",
            ));
        }
        other => return Ok(Escape::Unrecognised(other)),
    };
    Ok(Escape::Character(simple))
}

fn hex(parser: &mut Parser<'_>, digits: usize, start: usize) -> Result<u32, ParseError> {
    let number = parser
        .rest()
        .get(..digits)
        .filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))
        .and_then(|text| u32::from_str_radix(text, 16).ok())
        .ok_or_else(|| {
            parser.error_at(
                start,
                format!("the escape lacks its {digits} hexadecimal digits"),
            )
        })?;
    parser.at += digits;
    Ok(number)
}

fn character(parser: &mut Parser<'_>, digits: usize, start: usize) -> Result<char, ParseError> {
    let number = hex(parser, digits, start)?;
    char::from_u32(number).ok_or_else(|| {
        parser.error_at(
            start,
            "the escape is half of a surrogate pair, or no character at all",
        )
    })
}

/// A JSON string.
pub(super) fn json_string(parser: &mut Parser<'_>) -> Result<Value, ParseError> {
    let start = parser.at;
    parser.at += 1;
    let mut text = String::new();
    loop {
        let at = parser.at;
        let Some(c) = parser.rest().chars().next() else {
            return Err(parser.error_at(start, "the string has no end"));
        };
        parser.at += c.len_utf8();
        match c {
            '"' => return Ok(Value::Str(text)),
            '\\' => {
                let Some(escape) = parser.peek() else {
                    return Err(parser.error_at(start, "the string has no end"));
                };
                if !escape.is_ascii() {
                    return Err(parser.error_at(at, "this is not an escape"));
                }
                parser.at += 1;
                text.push(match escape {
                    b'"' | b'\\' | b'/' => char::from(escape),
                    b'b' => '\x08',
                    b'f' => '\x0c',
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    b'u' => {
                        let unit = hex(parser, 4, at)?;
                        let code = if (0xd800..0xdc00).contains(&unit) && parser.take("\\u") {
                            let low = hex(parser, 4, at)?;
                            if !(0xdc00..0xe000).contains(&low) {
                                return Err(
                                    parser.error_at(at, "the escape is half of a surrogate pair")
                                );
                            }
                            0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                        } else {
                            unit
                        };
                        char::from_u32(code).ok_or_else(|| {
                            parser.error_at(at, "the escape is half of a surrogate pair")
                        })?
                    }
                    _ => return Err(parser.error_at(at, "this is not an escape")),
                });
            }
            c if u32::from(c) < 0x20 => {
                return Err(parser.error_at(at, "a control character in a string must be escaped"));
            }
            c => text.push(c),
        }
    }
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
