//! Checks the arguments that the host is about to send. The guest would fail to decode wrong arguments, and the program would be blamed for it.

use serde_json::Value;

use crate::SandboxError;

/// Checks that the arguments of each call can be sent.
///
/// # Errors
/// [`SandboxError::Unusable`] if they cannot: the task is wrong.
pub(crate) fn check_calls(calls: &[String]) -> Result<(), SandboxError> {
    calls.iter().enumerate().try_for_each(|(index, call)| {
        check(call).map_err(|problem| {
            SandboxError::Unusable(format!(
                "the arguments of call {index} cannot be sent ({problem}); correct the task"
            ))
        })
    })
}

/// Checks that `text` is a JSON array of encoded values. The error states what is wrong with it.
fn check(text: &str) -> Result<(), String> {
    match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items.iter().try_for_each(value),
        Ok(_) => Err("not an array".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn value(json: &Value) -> Result<(), String> {
    match json {
        Value::Array(items) => items.iter().try_for_each(value),
        Value::Object(fields) => match fields.iter().next() {
            Some((tag, body)) if tag.starts_with('$') && fields.len() == 1 => tagged(tag, body),
            _ => fields.values().try_for_each(value),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn tagged(tag: &str, body: &Value) -> Result<(), String> {
    let valid = match (tag, body) {
        ("$tuple", Value::Array(items)) => return items.iter().try_for_each(value),
        ("$set" | "$frozenset", Value::Array(items)) => return items.iter().try_for_each(hashable),
        ("$dict", Value::Array(pairs)) => {
            return pairs
                .iter()
                .try_for_each(|pair| match pair.as_array().map(Vec::as_slice) {
                    Some([key, item]) => hashable(key).and_then(|()| value(item)),
                    _ => Err("a $dict whose elements are not pairs".to_owned()),
                });
        }
        ("$bytes", Value::String(text)) => {
            text.len() % 4 == 0
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
        }
        ("$int", Value::String(text)) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        ("$float", Value::String(text)) => matches!(text.as_str(), "nan" | "inf" | "-inf"),
        ("$complex", Value::Array(parts)) => parts.len() == 2 && parts.iter().all(real),
        ("$opaque", _) => return Err("an object that has no encoding".to_owned()),
        _ => false,
    };
    if valid {
        Ok(())
    } else {
        Err(format!("an invalid {tag}"))
    }
}

fn real(json: &Value) -> bool {
    json.is_number() || json.get("$float").is_some_and(|_| value(json).is_ok())
}

fn hashable(json: &Value) -> Result<(), String> {
    let is_hashable = match json {
        Value::Array(_) => false,
        Value::Object(fields) => match fields.iter().next() {
            Some((tag, Value::Array(items))) if tag == "$tuple" => {
                return items.iter().try_for_each(hashable);
            }
            Some((tag, _)) => matches!(
                tag.as_str(),
                "$frozenset" | "$bytes" | "$int" | "$float" | "$complex"
            ),
            None => false,
        },
        _ => true,
    };
    if is_hashable {
        value(json)
    } else {
        Err("an unhashable element of a set or key of a dict".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_values_are_accepted() {
        for text in [
            "[]",
            r#"[1,2.5,"a",null,true,[{}],{"a":{"$x":1,"b":2}}]"#,
            r#"[{"$tuple":[{"$set":[1,{"$tuple":["a",{"$frozenset":[2]}]}]}]}]"#,
            r#"[{"$dict":[[{"$int":"-12345678901234567890"},{"$bytes":"AAE="}]]},{"$float":"-inf"},{"$complex":[1,{"$float":"nan"}]}]"#,
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn arguments_that_the_guest_could_not_decode_are_refused() {
        for text in [
            "",
            "1",
            "[NaN]",
            "{}",
            "[1",
            r#"[{"$tuple":1}]"#,
            r#"[{"$set":[[1]]}]"#,
            r#"[{"$set":[{"$tuple":[{}]}]}]"#,
            r#"[{"$dict":[[1]]}]"#,
            r#"[{"$dict":[[{"$set":[]},1]]}]"#,
            r#"[{"$int":"1.5"}]"#,
            r#"[{"$int":"-"}]"#,
            r#"[{"$float":"1"}]"#,
            r#"[{"$complex":[1]}]"#,
            r#"[{"$complex":["1",2]}]"#,
            r#"[{"$bytes":"A"}]"#,
            r#"[{"$opaque":"x"}]"#,
            r#"[{"$other":1}]"#,
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
