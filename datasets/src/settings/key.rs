//! A key: its name, what it takes, and its help.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds as _;
use std::path::PathBuf;

use toml::Value;

/// A key, or a section of keys.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Within its section.
    pub name: &'static str,
    /// Its doc comment.
    pub help: &'static str,
    /// What its type takes.
    pub kind: Kind,
    /// What of that it takes.
    pub limit: Limit,
}

/// What a type takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// True or false.
    Flag,
    /// A whole number, 0 or more.
    Whole,
    /// A number; infinity only where the limit has no upper end.
    Number,
    /// A text.
    Text,
    /// Whole numbers.
    Wholes,
    /// Texts.
    Texts,
    /// Texts by name.
    Variables,
    /// A text of a form: its description, and whether a text has it.
    Form(&'static str, fn(&str) -> bool),
    /// One of these names.
    Choice(&'static [&'static str]),
    /// A table of these keys.
    Section(&'static [Key]),
}

/// A type that a setting can have.
pub trait Setting {
    /// What it takes.
    const KIND: Kind;
}

macro_rules! kinds {
    ($($type:ty => $kind:ident),* $(,)?) => {
        $(impl Setting for $type { const KIND: Kind = Kind::$kind; })*
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
    const KIND: Kind = T::KIND;
}

/// What a key takes of what its type takes.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    /// All of it.
    None,
    /// Numbers of a range, and what else to say of others.
    Range(Bound<f64>, Bound<f64>, &'static str),
    /// One of these names.
    Names(&'static [&'static str]),
}

/// Both ends included.
#[must_use]
pub const fn between(min: f64, max: f64) -> Limit {
    Limit::Range(Included(min), Included(max), "")
}

/// Whole numbers, both ends included.
#[must_use]
pub const fn whole(min: u64, max: u64) -> Limit {
    between(min as f64, max as f64)
}

/// The upper end left out.
#[must_use]
pub const fn below(min: f64, max: f64) -> Limit {
    Limit::Range(Included(min), Excluded(max), "")
}

/// The lower end left out.
#[must_use]
pub const fn above(min: f64, max: f64) -> Limit {
    Limit::Range(Excluded(min), Included(max), "")
}

/// No upper end, and the lower end left out.
#[must_use]
pub const fn any_above(min: f64) -> Limit {
    Limit::Range(Excluded(min), Unbounded, "")
}

/// No upper end.
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
    /// With `remedy` behind the range, in what is said of a number out of it.
    #[must_use]
    pub const fn or(self, remedy: &'static str) -> Limit {
        match self {
            Limit::Range(min, max, _) => Limit::Range(min, max, remedy),
            other => other,
        }
    }
}

impl Key {
    /// The keys of a section; none where it is no section.
    #[must_use]
    pub fn keys(&self) -> &'static [Key] {
        match self.kind {
            Kind::Section(keys) => keys,
            _ => &[],
        }
    }

    /// The names that it takes, where it takes names.
    #[must_use]
    pub fn names(&self) -> Option<&'static [&'static str]> {
        match (self.kind, self.limit) {
            (Kind::Choice(names), _) | (_, Limit::Names(names)) => Some(names),
            _ => None,
        }
    }

    /// Whether a value is of its kind, in its range or not.
    pub(super) fn takes(&self, value: &Value) -> bool {
        let whole = |value: &Value| value.as_integer().is_some_and(|number| number >= 0);
        let endless = matches!(self.limit, Limit::Range(_, Unbounded, _));
        match self.kind {
            Kind::Flag => value.is_bool(),
            Kind::Whole => whole(value),
            Kind::Number => {
                number(value).is_some_and(|x| x.is_finite() || (endless && !x.is_nan()))
            }
            Kind::Text | Kind::Choice(_) => value.is_str(),
            Kind::Wholes => value.as_array().is_some_and(|list| list.iter().all(whole)),
            Kind::Texts => value
                .as_array()
                .is_some_and(|list| list.iter().all(Value::is_str)),
            Kind::Variables => value
                .as_table()
                .is_some_and(|table| table.values().all(Value::is_str)),
            Kind::Form(_, fits) => value.as_str().is_some_and(fits),
            Kind::Section(_) => value.is_table(),
        }
    }

    /// What it takes, in words.
    pub(super) fn words(&self) -> String {
        if let Some(names) = self.names() {
            return format!("one of `{}`", names.join("`, `"));
        }
        let text = match self.kind {
            Kind::Flag => "true or false",
            Kind::Whole | Kind::Number => return self.range(),
            Kind::Text => "a text, as in \"…\"",
            Kind::Wholes => "a list of whole numbers, as in [1, 8]",
            Kind::Texts => "a list of texts, as in [\"…\"]",
            Kind::Variables => "texts by name, as in { NAME = \"…\" }",
            Kind::Form(form, _) => form,
            Kind::Choice(_) | Kind::Section(_) => "a section",
        };
        text.to_owned()
    }

    fn range(&self) -> String {
        let is_whole = matches!(self.kind, Kind::Whole);
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

    /// What is wrong with a value of its kind that its limit does not have, and the remedy.
    pub(super) fn beyond(&self, value: &Value) -> Option<String> {
        if let (Some(names), Some(name)) = (self.names(), value.as_str()) {
            let near = crate::nearest::nearest(name, names.iter().copied());
            let near = crate::nearest::hint(near);
            let known = names.join(", ");
            return (!names.contains(&name))
                .then(|| format!("this version has no `{name}`; it has {known}{near}"));
        }
        let Limit::Range(min, max, remedy) = self.limit else {
            return None;
        };
        let outside = number(value).is_some_and(|number| !(min, max).contains(&number));
        outside.then(|| {
            let words = self.words();
            format!("{value} is out of its range; give {words}{remedy}")
        })
    }
}

fn number(value: &Value) -> Option<f64> {
    let whole = value.as_integer().map(|whole| whole as f64);
    value.as_float().or(whole)
}
