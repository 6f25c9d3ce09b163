//! Converts values from and to the tagged JSON form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value as Json, json};

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
    let array = |items: &[Value]| Json::Array(items.iter().map(to_json).collect());
    match value {
        Value::None => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(n) => {
            if let Ok(i) = i64::try_from(n) {
                json!(i)
            } else if let Ok(u) = u64::try_from(n) {
                json!(u)
            } else {
                json!({ "$int": n.to_string() })
            }
        }
        Value::Float(x) => float(*x),
        Value::Complex(re, im) => json!({ "$complex": [float(*re), float(*im)] }),
        Value::Str(s) => Json::String(s.clone()),
        Value::Bytes(b) => json!({ "$bytes": BASE64.encode(b) }),
        Value::List(items) => array(items),
        Value::Tuple(items) => json!({ "$tuple": array(items) }),
        Value::Set(items) => json!({ "$set": array(items) }),
        Value::FrozenSet(items) => json!({ "$frozenset": array(items) }),
        Value::Dict(entries) => plain_object(entries).unwrap_or_else(|| {
            let pairs: Vec<Json> = entries
                .iter()
                .map(|(k, v)| Json::Array(vec![to_json(k), to_json(v)]))
                .collect();
            json!({ "$dict": pairs })
        }),
        Value::Opaque(name) => json!({ "$opaque": name }),
    }
}

/// A dict as a JSON object, if its keys are distinct strings in sorted order and none begins with `$`.
fn plain_object(entries: &[(Value, Value)]) -> Option<Json> {
    let mut map = serde_json::Map::new();
    let mut last: Option<&str> = None;
    for (key, value) in entries {
        let Value::Str(key) = key else { return None };
        if key.starts_with('$') || last.is_some_and(|last| last >= key.as_str()) {
            return None;
        }
        last = Some(key);
        map.insert(key.clone(), to_json(value));
    }
    Some(Json::Object(map))
}

fn float(x: f64) -> Json {
    match serde_json::Number::from_f64(x) {
        Some(n) => Json::Number(n),
        None if x.is_nan() => json!({ "$float": "nan" }),
        None if x > 0.0 => json!({ "$float": "inf" }),
        None => json!({ "$float": "-inf" }),
    }
}
