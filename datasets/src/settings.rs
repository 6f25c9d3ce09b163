//! The settings of a program, each declared once.
//!
//! From one declaration, [`settings!`](crate::settings!) makes a struct, its `Default`, its serde implementations, and the list of its [`Key`]s, each with name, range
//! and help. [`Keys`] reads TOML files and `--set key=value` with that list, refuses wrong values, and writes the help.
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
//!         pub max_tokens: Option<usize> => whole(1, 4096).hint(", or leave the key out"),
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
    Key, Limit, Section, Setting, ValueKind, above, any_above, at_least, below, between, one_of,
    whole,
};
pub use set::put;

/// Declares a struct of settings; see the [module](mod@crate::settings).
///
/// A field is a key: `/// help`, `name: type`, then optionally `= default` (otherwise the type's default) and `=> limit`. A field of the type of such a struct is a
/// section, and one of type `BTreeMap<String, Struct>` is sections under the user's own names. A `#[serde(…)]` after the help is the field's. Fields in `beside { …
/// }` are not keys. `= expression` after the struct is the default of the whole struct.
#[macro_export]
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde($($serde:tt)*)])?
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
            $($(#[doc = $doc])+ $(#[serde($($serde)*)])? $field_visible $field: $type,)*
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
            const KIND: $crate::settings::ValueKind = $crate::settings::ValueKind::Section(Self::KEYS);
        }

        impl $crate::settings::Section for $name {
            const KEYS: &'static [$crate::settings::Key] = Self::KEYS;

            fn defaults() -> toml::Table {
                toml::Table::try_from(Self::default()).unwrap_or_default()
            }
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

/// Declares an enum with names for its variants in files of settings.
///
/// A variant is `Variant = "name"`, or `Variant = "name" => "what it is"` for each. What it is becomes its documentation, and a row in the help of a key that takes
/// one. The default is marked with `#[default]`. The enum has `NAMES`, `ALL`, `name()` and `named()`.
#[macro_export]
macro_rules! choice {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $text:literal $(=> $what:literal)?),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
        $visible enum $name {
            $($(#[$variant_attribute])* $(#[doc = $what])? #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// The names of the variants in files of settings.
            $visible const NAMES: &'static [&'static str] = &[$($text),*];

            /// All variants.
            #[allow(dead_code, reason = "not every program lists its choices")]
            $visible const ALL: [Self; Self::NAMES.len()] = [$(Self::$variant),*];

            /// The name of the variant in files of settings.
            #[must_use]
            $visible fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// The variant with this name.
            #[allow(dead_code, reason = "few programs read a choice outside of their settings")]
            #[must_use]
            $visible fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl $crate::settings::Setting for $name {
            const KIND: $crate::settings::ValueKind = $crate::settings::ValueKind::Choice(Self::NAMES, &[$($($what,)?)*]);
        }
    };
}
