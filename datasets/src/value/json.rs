//! Converts values from and to the tagged JSON form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value as Json;

use super::literal::to_f64;
use super::parse::parse_digits;
use super::{MAX_DEPTH, Value, ValueError};

pub(super) fn from_json(json: &Json) -> Result<Value, ValueError> {
    untag(plain(json, 0)?)
}

/// The value of a JSON tree, with tags left as dicts. A tagged dict takes three levels, so the limit is three times [`MAX_DEPTH`].
fn plain(json: &Json, depth: usize) -> Result<Value, ValueError> {
    if depth > 3 * MAX_DEPTH {
        return Err(ValueError::Depth);
    }
    Ok(match json {
        Json::Null => Value::None,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => {
            if let Some(i) = n.as_i64() {
                Value::Int(i.into())
            } else if let Some(u) = n.as_u64() {
                Value::Int(u.into())
            } else {
                Value::Float(n.as_f64().unwrap_or(f64::NAN))
            }
        }
        Json::String(s) => Value::Str(s.clone()),
        Json::Array(items) => Value::List(
            items
                .iter()
                .map(|item| plain(item, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        Json::Object(map) => Value::Dict(
            map.iter()
                .map(|(k, v)| Ok((Value::Str(k.clone()), plain(v, depth + 1)?)))
                .collect::<Result<_, ValueError>>()?,
        ),
    })
}

pub(super) fn untag(value: Value) -> Result<Value, ValueError> {
    untag_at(value, 0)
}

fn untag_at(value: Value, depth: usize) -> Result<Value, ValueError> {
    if depth > MAX_DEPTH {
        return Err(ValueError::Depth);
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
                        .map(|(k, v)| Ok((k, untag_at(v, depth + 1)?)))
                        .collect::<Result<_, ValueError>>()?,
                )),
                Some(tag) => match (entries.pop(), entries.is_empty()) {
                    (Some((_, content)), true) => from_tag(&tag, content, depth),
                    _ => Err(wrong(
                        &tag,
                        "must be the only key of its object; a dict with such a key is written {\"$dict\":[[key,value],…]}",
                    )),
                },
            }
        }
        other => Ok(other),
    }
}

fn untag_all(items: Vec<Value>, depth: usize) -> Result<Vec<Value>, ValueError> {
    items
        .into_iter()
        .map(|item| untag_at(item, depth + 1))
        .collect()
}

fn wrong(tag: &str, reason: &'static str) -> ValueError {
    ValueError::Tag {
        tag: tag.to_owned(),
        reason,
    }
}

fn from_tag(tag: &str, content: Value, depth: usize) -> Result<Value, ValueError> {
    match (tag, content) {
        ("$tuple", Value::List(items)) => Ok(Value::Tuple(untag_all(items, depth)?)),
        ("$set", Value::List(items)) => Ok(Value::Set(untag_all(items, depth)?)),
        ("$frozenset", Value::List(items)) => Ok(Value::FrozenSet(untag_all(items, depth)?)),
        ("$tuple" | "$set" | "$frozenset", _) => Err(wrong(tag, "takes an array")),
        ("$bytes", Value::Str(text)) => BASE64
            .decode(text)
            .map(Value::Bytes)
            .map_err(|_| wrong(tag, "takes text in base64 with padding")),
        ("$bytes", _) => Err(wrong(tag, "takes text in base64 with padding")),
        ("$float", Value::Str(text)) => match text.as_str() {
            "nan" => Ok(Value::Float(f64::NAN)),
            "inf" => Ok(Value::Float(f64::INFINITY)),
            "-inf" => Ok(Value::Float(f64::NEG_INFINITY)),
            _ => Err(wrong(tag, "takes \"nan\", \"inf\" or \"-inf\"")),
        },
        ("$float", _) => Err(wrong(tag, "takes \"nan\", \"inf\" or \"-inf\"")),
        ("$complex", Value::List(parts)) => {
            let mut reals = Vec::with_capacity(2);
            for part in parts.into_iter().take(3) {
                match untag_at(part, depth + 1)? {
                    Value::Float(x) => reals.push(x),
                    Value::Int(n) => reals.push(to_f64(&n)),
                    _ => return Err(wrong(tag, "takes two numbers")),
                }
            }
            match reals[..] {
                [re, im] => Ok(Value::Complex(re, im)),
                _ => Err(wrong(tag, "takes two numbers")),
            }
        }
        ("$complex", _) => Err(wrong(tag, "takes two numbers")),
        ("$int", Value::Str(text)) => {
            let (negative, digits) = match text.strip_prefix('-') {
                Some(digits) => (true, digits),
                None => (false, text.as_str()),
            };
            let n = parse_digits(digits)
                .ok_or_else(|| wrong(tag, "takes decimal digits, at most 100,000 of them"))?;
            Ok(Value::Int(if negative { -n } else { n }))
        }
        ("$int", _) => Err(wrong(tag, "takes decimal digits, as a string")),
        ("$dict", Value::List(items)) => {
            let mut entries = Vec::with_capacity(items.len());
            for item in items {
                let pair = match item {
                    Value::List(pair) => <[Value; 2]>::try_from(pair).ok(),
                    _ => None,
                };
                let [key, value] =
                    pair.ok_or_else(|| wrong(tag, "takes an array of [key,value] pairs"))?;
                entries.push((untag_at(key, depth + 1)?, untag_at(value, depth + 1)?));
            }
            Ok(Value::Dict(entries))
        }
        ("$dict", _) => Err(wrong(tag, "takes an array of [key,value] pairs")),
        ("$opaque", Value::Str(name)) => Ok(Value::Opaque(name)),
        ("$opaque", _) => Err(wrong(tag, "takes a type's name")),
        _ => Err(wrong(
            tag,
            "is not a tag ($tuple, $set, $frozenset, $bytes, $complex, $float, $int, $dict, $opaque); a dict with such a key is written {\"$dict\":[[key,value],…]}",
        )),
    }
}

pub(super) fn to_json(value: &Value) -> Json {
    serde_json::to_value(Tagged(value)).expect("every key is a text, and numbers are finite")
}

pub(super) fn to_json_text(value: &Value) -> String {
    serde_json::to_string(&Tagged(value)).expect("every key is a text, and numbers are finite")
}

/// A value that is serialised in the tagged form.
struct Tagged<'a>(&'a Value);

impl Serialize for Tagged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
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
            Value::List(items) => Items(items).serialize(serializer),
            Value::Tuple(items) => object(serializer, "$tuple", &Items(items)),
            Value::Set(items) => object(serializer, "$set", &Items(items)),
            Value::FrozenSet(items) => object(serializer, "$frozenset", &Items(items)),
            Value::Dict(entries) => match plain_keys(entries) {
                Some(keys) => {
                    let values = entries.iter().map(|(_, value)| Tagged(value));
                    serializer.collect_map(keys.into_iter().zip(values))
                }
                None => object(serializer, "$dict", &Pairs(entries)),
            },
            Value::Opaque(name) => object(serializer, "$opaque", name),
        }
    }
}

/// Items as an array.
struct Items<'a>(&'a [Value]);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Tagged))
    }
}

/// Entries of a dict as an array of pairs.
struct Pairs<'a>(&'a [(Value, Value)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = self.0.iter();
        serializer.collect_seq(pairs.map(|(key, value)| [Tagged(key), Tagged(value)]))
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

/// The keys of a dict that is written as a JSON object: distinct strings in sorted order, of which none begins with `$`. `None` for any other dict.
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
