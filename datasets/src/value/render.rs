//! Renders values as Python source.

use super::Value;

impl Value {
    /// The value as a Python literal. [`Value::parse_python`] returns an equal value, except for an [`Value::Opaque`].
    #[must_use]
    pub fn to_python(&self) -> String {
        let list = |items: &[Value]| {
            let items: Vec<String> = items.iter().map(Value::to_python).collect();
            items.join(", ")
        };
        match self {
            Value::None => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Int(n) => n.to_string(),
            Value::Float(x) => float(*x),
            Value::Complex(re, im) => format!("complex({}, {})", float(*re), float(*im)),
            Value::Str(s) => string(s),
            Value::Bytes(bytes) => {
                let body: String = bytes
                    .iter()
                    .map(|b| match b {
                        b'\'' | b'\\' => format!("\\{}", char::from(*b)),
                        0x20..=0x7e => char::from(*b).to_string(),
                        _ => format!("\\x{b:02x}"),
                    })
                    .collect();
                format!("b'{body}'")
            }
            Value::List(items) => format!("[{}]", list(items)),
            Value::Tuple(items) if items.len() == 1 => format!("({},)", list(items)),
            Value::Tuple(items) => format!("({})", list(items)),
            Value::Set(items) if items.is_empty() => "set()".to_owned(),
            Value::Set(items) => format!("{{{}}}", list(items)),
            Value::FrozenSet(items) if items.is_empty() => "frozenset()".to_owned(),
            Value::FrozenSet(items) => format!("frozenset([{}])", list(items)),
            Value::Dict(entries) => {
                let body: Vec<String> = entries
                    .iter()
                    .map(|(k, v)| format!("{}: {}", k.to_python(), v.to_python()))
                    .collect();
                format!("{{{}}}", body.join(", "))
            }
            Value::Opaque(name) => format!("<{name} object>"),
        }
    }
}

fn float(x: f64) -> String {
    if x.is_nan() {
        "float('nan')".to_owned()
    } else if x.is_infinite() {
        format!("float('{}inf')", if x < 0.0 { "-" } else { "" })
    } else {
        // Rust's shortest form parses to the same bits, and has a point or an exponent.
        format!("{x:?}")
    }
}

fn string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x20 || u32::from(c) == 0x7f => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}
