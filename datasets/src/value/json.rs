//! Converts values from and to the tagged JSON form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::parse::parse_digits;
use super::{MAX_DEPTH, Value};

impl Value {
    /// The text of the tagged JSON form, without spaces. [`Value::parse_json`] returns an equal value.
    #[must_use]
    pub fn to_json_text(&self) -> String {
        serde_json::to_string(self).expect("every key is a text, and numbers are finite")
    }
}

/// Interprets the `$` keys of a value from [`Value::parse_plain_json`]. The error says what is wrong with one of them.
pub(super) fn untag(value: Value, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err(format!("the value nests deeper than {MAX_DEPTH} levels"));
    }
    match value {
        Value::List(items) => Ok(Value::List(untag_all(items, depth)?)),
        Value::Dict(mut entries) => {
            let tagged = entries.iter().find_map(|(key, _)| match key {
                Value::Str(k) if k.starts_with('$') => Some(k.clone()),
                _ => None,
            });
            match tagged {
                None => Ok(Value::Dict(
                    entries
                        .into_iter()
                        .map(|(k, v)| Ok((k, untag(v, depth + 1)?)))
                        .collect::<Result<_, String>>()?,
                )),
                Some(tag) => match (entries.pop(), entries.is_empty()) {
                    (Some((_, content)), true) => from_tag(&tag, content, depth),
                    _ => Err(format!(
                        "`{tag}` must be the only key of its object; a dict with such a key is written {{\"$dict\":[[key,value],…]}}"
                    )),
                },
            }
        }
        other => Ok(other),
    }
}

fn untag_all(items: Vec<Value>, depth: usize) -> Result<Vec<Value>, String> {
    let items = items.into_iter().map(|item| untag(item, depth + 1));
    items.collect()
}

fn from_tag(tag: &str, content: Value, depth: usize) -> Result<Value, String> {
    let takes = match tag {
        "$tuple" | "$set" | "$frozenset" => "takes an array",
        "$bytes" => "takes text in base64 with padding",
        "$float" => "takes \"nan\", \"inf\" or \"-inf\"",
        "$complex" => "takes two numbers",
        "$int" => "takes decimal digits, at most 100,000 of them, as a string",
        "$dict" => "takes an array of [key,value] pairs",
        "$opaque" => "takes a type's name",
        _ => {
            return Err(format!(
                "`{tag}` is not a tag ($tuple, $set, $frozenset, $bytes, $complex, $float, $int, $dict, $opaque); a dict with such a key is written {{\"$dict\":[[key,value],…]}}"
            ));
        }
    };
    tagged(tag, content, depth)?.ok_or_else(|| format!("`{tag}` {takes}"))
}

/// The value of a tag's content; `None` if the tag does not take it.
fn tagged(tag: &str, content: Value, depth: usize) -> Result<Option<Value>, String> {
    let pair = |item: Value| match item {
        Value::List(pair) => <[Value; 2]>::try_from(pair).ok(),
        _ => None,
    };
    Ok(match (tag, content) {
        ("$tuple", Value::List(items)) => Some(Value::Tuple(untag_all(items, depth)?)),
        ("$set", Value::List(items)) => Some(Value::Set(untag_all(items, depth)?)),
        ("$frozenset", Value::List(items)) => Some(Value::FrozenSet(untag_all(items, depth)?)),
        ("$bytes", Value::Str(text)) => BASE64.decode(text).ok().map(Value::Bytes),
        ("$float", Value::Str(text)) => match text.as_str() {
            "nan" => Some(Value::Float(f64::NAN)),
            "inf" => Some(Value::Float(f64::INFINITY)),
            "-inf" => Some(Value::Float(f64::NEG_INFINITY)),
            _ => None,
        },
        ("$complex", Value::List(parts)) if parts.len() == 2 => {
            let parts = untag_all(parts, depth)?;
            let mut reals = parts.iter().map(Value::real);
            let (re, im) = (reals.next().flatten(), reals.next().flatten());
            re.zip(im).map(|(re, im)| Value::Complex(re, im))
        }
        ("$int", Value::Str(text)) => match text.strip_prefix('-') {
            Some(digits) => parse_digits(digits).map(|n| Value::Int(-n)),
            None => parse_digits(&text).map(Value::Int),
        },
        ("$dict", Value::List(items)) => {
            let Some(pairs) = items.into_iter().map(pair).collect::<Option<Vec<_>>>() else {
                return Ok(None);
            };
            let untagged =
                |[key, value]: [Value; 2]| Ok((untag(key, depth + 1)?, untag(value, depth + 1)?));
            let entries = pairs.into_iter().map(untagged);
            Some(Value::Dict(entries.collect::<Result<_, String>>()?))
        }
        ("$opaque", Value::Str(name)) => Some(Value::Opaque(name)),
        _ => None,
    })
}

/// In the tagged form.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::None => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Int(n) => {
                if let Ok(i) = i64::try_from(n) {
                    serializer.serialize_i64(i)
                } else if let Ok(u) = u64::try_from(n) {
                    serializer.serialize_u64(u)
                } else {
                    object(serializer, "$int", &n.to_string())
                }
            }
            Value::Float(x) => Real(*x).serialize(serializer),
            Value::Complex(re, im) => object(serializer, "$complex", &[Real(*re), Real(*im)]),
            Value::Str(s) => serializer.serialize_str(s),
            Value::Bytes(b) => object(serializer, "$bytes", &BASE64.encode(b)),
            Value::List(items) => items.serialize(serializer),
            Value::Tuple(items) => object(serializer, "$tuple", items),
            Value::Set(items) => object(serializer, "$set", items),
            Value::FrozenSet(items) => object(serializer, "$frozenset", items),
            Value::Dict(entries) => match plain_keys(entries) {
                Some(keys) => {
                    let values = entries.iter().map(|(_, value)| value);
                    serializer.collect_map(keys.into_iter().zip(values))
                }
                None => object(serializer, "$dict", entries),
            },
            Value::Opaque(name) => object(serializer, "$opaque", name),
        }
    }
}

/// A real number, with a tag if JSON has none like it.
struct Real(f64);

impl Serialize for Real {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_finite() => serializer.serialize_f64(x),
            x if x.is_nan() => object(serializer, "$float", "nan"),
            x if x > 0.0 => object(serializer, "$float", "inf"),
            _ => object(serializer, "$float", "-inf"),
        }
    }
}

/// An object with one key.
fn object<S: Serializer, T: Serialize + ?Sized>(
    serializer: S,
    tag: &str,
    content: &T,
) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(1))?;
    object.serialize_entry(tag, content)?;
    object.end()
}

/// The keys of a dict that is written as a JSON object: distinct strings in sorted order, none of them with a `$` at its beginning. `None` for any other dict.
fn plain_keys(entries: &[(Value, Value)]) -> Option<Vec<&str>> {
    let mut keys: Vec<&str> = Vec::with_capacity(entries.len());
    for (key, _) in entries {
        let Value::Str(key) = key else { return None };
        if key.starts_with('$') || keys.last().is_some_and(|last| *last >= key.as_str()) {
            return None;
        }
        keys.push(key);
    }
    Some(keys)
}
