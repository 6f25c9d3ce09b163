//! Names of Python functions, and of methods as entry points.

use crate::Value;

const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// The reason why `text` cannot be the name of a function; `None` if it can.
#[must_use]
pub fn invalid_name_reason(text: &str) -> Option<String> {
    if is_keyword(text) {
        return Some(format!(
            "`{text}` is a keyword of Python, so it cannot be the name of a function; give the name that the completion must define"
        ));
    }
    let mut characters = text.chars();
    let is_name = characters
        .next()
        .is_some_and(|first| first == '_' || first.is_alphabetic())
        && characters.all(|c| c == '_' || c.is_alphanumeric());
    (!is_name).then(|| format!("`{text}` is not the name of a Python function"))
}

/// The class, the arguments of its instance and the name of the method that an entry point such as `Solution().add` names; `None` if it names a function.
#[must_use]
pub fn method(entry_point: &str) -> Option<(&str, &str, &str)> {
    let (class, rest) = entry_point.split_once('(')?;
    let (arguments, name) = rest.rsplit_once(").")?;
    Some((class, arguments, name))
}

/// The reason why `text` can be neither the name of a function nor a method as an entry point.
#[must_use]
pub fn invalid_entry_point_reason(text: &str) -> Option<String> {
    let Some((class, arguments, name)) = method(text) else {
        let reason = invalid_name_reason(text)?;
        let parts = text.split_once('.');
        let remedy = parts.map(|(class, name)| format!("; write a method as `{class}().{name}`"));
        return Some(reason + &remedy.unwrap_or_default());
    };
    let literals = Value::parse_python(&format!("[{arguments}]"));
    let why = |_| format!("the arguments of `{text}` are not literals of Python");
    let names = invalid_name_reason(class).or_else(|| invalid_name_reason(name));
    names.or_else(|| literals.err().map(why))
}

/// The entry point that a task's fields `entry_point` and `class_name` name. `sources` are Python of the task's own.
///
/// # Errors
/// The reason why they name none, such as that a source defines the function in a class.
pub fn entry_point(
    name: &str,
    class_name: Option<&str>,
    sources: &[Option<&str>],
) -> Result<String, String> {
    let entry_point = match class_name {
        Some(class) if method(name).is_none_or(|(of, ..)| of != class) => {
            format!("{class}().{name}")
        }
        _ => name.to_owned(),
    };
    let mut sources = sources.iter().flatten();
    let in_class = || sources.find_map(|source| class_of_method(source, &entry_point));
    match invalid_entry_point_reason(&entry_point).or_else(in_class) {
        Some(reason) => Err(reason),
        None => Ok(entry_point),
    }
}

/// If the Python text `source` defines the function `name` only in a class: that it does, and what to write.
#[must_use]
pub fn class_of_method(source: &str, name: &str) -> Option<String> {
    let is_method = |line: &str| {
        let inside = line.trim_start();
        inside.len() < line.len() && inside.contains("def ") && line_defines(inside, name)
    };
    let is_import = |line: &str| line.contains("import ") && line.contains(name);
    let before = source.lines().take(source.lines().position(is_method)?);
    let class = before
        .filter_map(|line| line.strip_prefix("class "))
        .last()?;
    let class = class.split(['(', ':', '[']).next()?.trim();
    let mut lines = source.lines();
    (!lines.any(|line| line_defines(line, name) || is_import(line))).then(|| {
        format!("`{name}` is a method of `{class}`; write `{class}().{name}`, or add `class_name`")
    })
}

/// If a question shows a `class Solution` to complete, as those of LeetCode do, and in it the method `name`: that it is one, and what to write.
#[must_use]
pub fn asks_for_method(question: &str, name: &str) -> Option<String> {
    if !question.contains("class Solution") {
        return None;
    }
    class_of_method(question, name)
}

/// Whether `line`, from its first character, begins a definition of `name`, or assigns it.
#[must_use]
pub fn line_defines(line: &str, name: &str) -> bool {
    let after = ["def ", "async def ", "class "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))
        .map(str::trim_start);
    let rest = after.unwrap_or(line).strip_prefix(name);
    rest.map(str::trim_start).is_some_and(|rest| {
        if after.is_some() {
            rest.starts_with(['(', ':', '['])
        } else {
            rest.starts_with('=') && !rest.starts_with("==")
        }
    })
}

/// Whether a word is a keyword, which cannot be a name.
#[must_use]
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_letters_digits_and_underscores_and_not_a_keyword() {
        for name in ["f", "_f2", "für", "match", "type", "Class"] {
            assert_eq!(invalid_name_reason(name), None, "{name}");
        }
        for (text, why) in [
            ("class", "keyword"),
            ("None", "keyword"),
            ("f()", "not the name"),
            ("2f", "not the name"),
            ("a b", "not the name"),
            ("", "not the name"),
        ] {
            let reason = invalid_name_reason(text).unwrap();
            assert!(reason.contains(why), "{text}: {reason}");
        }
    }
}
