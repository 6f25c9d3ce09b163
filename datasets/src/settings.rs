//! Settings of a program, each declared once.
//!
//! [`settings!`](crate::settings!) makes of one declaration a struct, its `Default`, its reading with serde, and the list of its [`Key`]s: the name of each, what it
//! takes, and its help. [`Keys`] reads TOML files and `--set key=value` by that list, refuses what a key does not take, and writes the help.
//!
//! ```
//! use datasets::settings::{Keys, between, settings, whole};
//!
//! settings! {
//!     /// How completions are sampled.
//!     pub struct Sampling {
//!         /// The softmax is of logits over this.
//!         pub temperature: f64 = 0.9 => between(0.0, 100.0),
//!         /// Tokens of a completion; no limit unless set.
//!         pub max_tokens: Option<usize> => whole(1, 4096).or(", or leave the key out"),
//!     }
//! }
//!
//! let keys = Keys::new(Sampling::KEYS, "temperature=1");
//! let table = keys.read("my.toml", "max_tokens = 0").unwrap();
//! assert_eq!(
//!     keys.check_limits(&table).unwrap_err().to_string(),
//!     "`max_tokens`: 0 is out of its range; give a whole number of at least 1 and at most 4096, or leave the key out"
//! );
//! ```

mod check;
mod error;
mod explain;
mod key;
mod set;
#[cfg(test)]
mod tests;

pub use crate::{choice, settings};
pub use check::Keys;
pub use error::SettingError;
pub use key::{
    Key, Kind, Limit, Setting, above, any_above, at_least, below, between, one_of, whole,
};
pub use set::put;

/// Declares a struct of settings; see the [module](mod@crate::settings).
///
/// A field is a key: `/// help`, `name: type`, then `= default` (that of the type unless given) and `=> limit`. A field whose type is such a struct is a section. Fields
/// in `beside { … }` are no keys. `= expression` after the struct is the default of the whole.
#[macro_export]
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $field_visible:vis $field:ident: $type:ty $(= $default:expr)? $(=> $limit:expr)?
            ),* $(,)?
        }
        $(beside { $($(#[$other_attribute:meta])* $other_visible:vis $other:ident: $other_type:ty),* $(,)? })?
        $(= $whole:expr)?
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        $visible struct $name {
            $($(#[doc = $doc])+ $field_visible $field: $type,)*
            $($($(#[$other_attribute])* #[serde(skip)] $other_visible $other: $other_type,)*)?
        }

        impl $name {
            /// Its keys, in order.
            $visible const KEYS: &'static [$crate::settings::Key] = &[$(
                $crate::settings::Key {
                    name: stringify!($field),
                    help: concat!($($doc, "\n"),+),
                    kind: <$type as $crate::settings::Setting>::KIND,
                    limit: $crate::settings!(@last $crate::settings::Limit::None $(, $limit)?),
                }
            ),*];
        }

        impl $crate::settings::Setting for $name {
            const KIND: $crate::settings::Kind = $crate::settings::Kind::Section(Self::KEYS);
        }

        impl Default for $name {
            fn default() -> Self {
                $crate::settings!(@last Self {
                    $($field: $crate::settings!(@last Default::default() $(, $default)?),)*
                    $($($other: Default::default(),)*)?
                } $(, $whole)?)
            }
        }
    };
    (@last $only:expr) => { $only };
    (@last $first:expr, $last:expr) => { $last };
}

/// Declares an enum whose variants are names in a file of settings.
///
/// `Variant = "name"`; the default is marked with `#[default]`. The enum has `NAMES` and `name()`.
#[macro_export]
macro_rules! choice {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $text:literal),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
        $visible enum $name {
            $($(#[$variant_attribute])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// As files of settings write them.
            $visible const NAMES: &'static [&'static str] = &[$($text),*];

            /// As files of settings write it.
            #[must_use]
            $visible fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        impl $crate::settings::Setting for $name {
            const KIND: $crate::settings::Kind = $crate::settings::Kind::Choice(Self::NAMES);
        }
    };
}
