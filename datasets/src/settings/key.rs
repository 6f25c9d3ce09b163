//! A key: its name, its kind and range, and its help.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds as _;
use std::path::PathBuf;

use toml::{Table, Value};

/// A key, or a section of keys.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name within its section.
    pub name: &'static str,
    /// Its doc comment.
    pub help: &'static str,
    /// The kind of its values.
    pub kind: ValueKind,
    /// Restriction of its values.
    pub limit: Limit,
}

/// The kind of values that a type takes.
#[derive(Debug, Clone, Copy)]
pub enum ValueKind {
    /// True or false.
    Flag,
    /// A whole number, 0 or more.
    Whole,
    /// A number. Infinity is allowed only if the limit has no upper end.
    Number,
    /// A text.
    Text,
    /// Whole numbers.
    Wholes,
    /// Texts.
    Texts,
    /// Texts under names of their own.
    Variables,
    /// A text in a certain form: the form's description, and a check.
    Form(&'static str, fn(&str) -> bool),
    /// A text that its type reads: the error and the remedy for a text that it refuses.
    Parsed(fn(&str) -> Result<(), String>),
    /// One of these names. If they are explained, the second list says what each is.
    Choice(&'static [&'static str], &'static [&'static str]),
    /// A table of these keys.
    Section(&'static [Key]),
    /// Tables of these keys, under names that the user chooses, and the defaults of each.
    Sections(&'static [Key], fn() -> Table),
}

/// A type that a setting can have.
pub trait Setting {
    /// The kind of its values.
    const KIND: ValueKind;
}

/// A struct that [`settings!`](crate::settings!) declares.
pub trait Section {
    /// Its keys.
    const KEYS: &'static [Key];

    /// The keys that have a default, with it.
    fn defaults() -> Table;
}

macro_rules! kinds {
    ($($type:ty => $kind:ident),* $(,)?) => {
        $(impl Setting for $type { const KIND: ValueKind = ValueKind::$kind; })*
    };
}

kinds! {
    bool => Flag,
    usize => Whole,
    u64 => Whole,
    f64 => Number,
    String => Text,
    PathBuf => Text,
    Vec<usize> => Wholes,
    Vec<String> => Texts,
    BTreeMap<String, String> => Variables,
}

impl<T: Setting> Setting for Option<T> {
    const KIND: ValueKind = T::KIND;
}

/// Sections under names that the user chooses.
impl<T: Section> Setting for BTreeMap<String, T> {
    const KIND: ValueKind = ValueKind::Sections(T::KEYS, T::defaults);
}

/// A restriction of a key's values.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    /// No restriction.
    None,
    /// Numbers in a range, and a remedy for the error about other numbers.
    Range(Bound<f64>, Bound<f64>, &'static str),
    /// One of these names.
    Names(&'static [&'static str]),
}

/// A range with both ends included.
#[must_use]
pub const fn between(min: f64, max: f64) -> Limit {
    Limit::Range(Included(min), Included(max), "")
}

/// A range of whole numbers, both ends included.
#[must_use]
pub const fn whole(min: u64, max: u64) -> Limit {
    between(min as f64, max as f64)
}

/// A range without its upper end.
#[must_use]
pub const fn below(min: f64, max: f64) -> Limit {
    Limit::Range(Included(min), Excluded(max), "")
}

/// A range without its lower end.
#[must_use]
pub const fn above(min: f64, max: f64) -> Limit {
    Limit::Range(Excluded(min), Included(max), "")
}

/// All numbers above `min`.
#[must_use]
pub const fn any_above(min: f64) -> Limit {
    Limit::Range(Excluded(min), Unbounded, "")
}

/// All numbers from `min` on.
#[must_use]
pub const fn at_least(min: f64) -> Limit {
    Limit::Range(Included(min), Unbounded, "")
}

/// Texts that are one of these names.
#[must_use]
pub const fn one_of(names: &'static [&'static str]) -> Limit {
    Limit::Names(names)
}

impl Limit {
    /// Adds `remedy` after the range in the error about a number outside it.
    #[must_use]
    pub const fn hint(self, remedy: &'static str) -> Limit {
        match self {
            Limit::Range(min, max, _) => Limit::Range(min, max, remedy),
            other => other,
        }
    }
}

impl Key {
    /// The keys of a section, or of each of the sections under it. Empty if it is neither.
    #[must_use]
    pub fn keys(&self) -> &'static [Key] {
        match self.kind {
            ValueKind::Section(keys) | ValueKind::Sections(keys, _) => keys,
            _ => &[],
        }
    }

    /// Whether its sections have names of their own.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.kind, ValueKind::Sections(..))
    }

    /// Its path in lists and files: with a placeholder for the name of its section, if that is the user's.
    pub(super) fn path(&self, prefix: &str) -> String {
        match self.is_named() {
            true => format!("{prefix}{}.NAME", self.name),
            false => format!("{prefix}{}", self.name),
        }
    }

    /// The names that it takes, if its values are names.
    #[must_use]
    pub fn names(&self) -> Option<&'static [&'static str]> {
        match (self.kind, self.limit) {
            (ValueKind::Choice(names, _), _) | (_, Limit::Names(names)) => Some(names),
            _ => None,
        }
    }

    /// Whether a value is of the key's kind. The range is not checked.
    pub(super) fn accepts_type(&self, value: &Value) -> bool {
        let whole = |value: &Value| value.as_integer().is_some_and(|number| number >= 0);
        let endless = matches!(self.limit, Limit::Range(_, Unbounded, _));
        match self.kind {
            ValueKind::Flag => value.is_bool(),
            ValueKind::Whole => whole(value),
            ValueKind::Number => {
                number(value).is_some_and(|x| x.is_finite() || (endless && !x.is_nan()))
            }
            ValueKind::Text | ValueKind::Choice(..) | ValueKind::Parsed(_) => value.is_str(),
            ValueKind::Wholes => value.as_array().is_some_and(|list| list.iter().all(whole)),
            ValueKind::Texts => value
                .as_array()
                .is_some_and(|list| list.iter().all(Value::is_str)),
            ValueKind::Variables => value
                .as_table()
                .is_some_and(|table| table.values().all(Value::is_str)),
            ValueKind::Form(_, fits) => value.as_str().is_some_and(fits),
            ValueKind::Section(_) => value.is_table(),
            ValueKind::Sections(..) => value
                .as_table()
                .is_some_and(|table| table.values().all(Value::is_table)),
        }
    }

    /// Describes the values that it takes.
    pub(super) fn describe(&self) -> String {
        if let Some(names) = self.names() {
            return format!("one of `{}`", names.join("`, `"));
        }
        let text = match self.kind {
            ValueKind::Flag => "true or false",
            ValueKind::Whole | ValueKind::Number => return self.range(),
            ValueKind::Text | ValueKind::Parsed(_) => "a text, as in \"…\"",
            ValueKind::Wholes => "a list of whole numbers, as in [1, 8]",
            ValueKind::Texts => "a list of texts, as in [\"…\"]",
            ValueKind::Variables => "texts by name, as in { NAME = \"…\" }",
            ValueKind::Form(form, _) => form,
            ValueKind::Choice(..) | ValueKind::Section(_) => "a section",
            ValueKind::Sections(..) => "sections by name",
        };
        text.to_owned()
    }

    fn range(&self) -> String {
        let is_whole = matches!(self.kind, ValueKind::Whole);
        let kind = if is_whole {
            "a whole number"
        } else {
            "a number"
        };
        let Limit::Range(min, max, _) = self.limit else {
            return format!("{kind}{}", if is_whole { ", 0 or more" } else { "" });
        };
        let min = match min {
            Included(min) => format!(" of at least {min}"),
            Excluded(min) => format!(" above {min}"),
            Unbounded => String::new(),
        };
        let max = match max {
            Included(max) => format!(" and at most {max}"),
            Excluded(max) => format!(" and below {max}"),
            Unbounded if is_whole => String::new(),
            Unbounded => ", or inf for none".to_owned(),
        };
        format!("{kind}{min}{max}")
    }

    /// The error and the remedy for a value of the right kind that the limit excludes; `None` for other values.
    pub(super) fn violation(&self, value: &Value) -> Option<String> {
        if let (Some(names), Some(name)) = (self.names(), value.as_str()) {
            let near = crate::did_you_mean::nearest(name, names.iter().copied());
            let near = crate::did_you_mean::hint(near);
            let known = names.join(", ");
            return (!names.contains(&name))
                .then(|| format!("this version has no `{name}`; it has {known}{near}"));
        }
        if let (ValueKind::Parsed(parse), Some(text)) = (self.kind, value.as_str()) {
            return parse(text).err();
        }
        let Limit::Range(min, max, remedy) = self.limit else {
            return None;
        };
        let outside = number(value).is_some_and(|number| !(min, max).contains(&number));
        outside.then(|| {
            let words = self.describe();
            format!("{value} is out of its range; give {words}{remedy}")
        })
    }
}

fn number(value: &Value) -> Option<f64> {
    let whole = value.as_integer().map(|whole| whole as f64);
    value.as_float().or(whole)
}
