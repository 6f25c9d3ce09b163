//! Errors of settings.

/// An error in one paragraph, which names the key and the remedy. `origin` is the file, or `--set …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Not TOML.
    #[error("{origin} is not valid TOML: {reason}")]
    Syntax {
        /// The file or setting.
        origin: String,
        /// The position and the error.
        reason: String,
    },
    /// A setting without its section, or without a value.
    #[error("--set {set} is not a setting: write section.key=value, such as --set {example}")]
    Shape {
        /// The setting.
        set: String,
        /// An example in the right form.
        example: String,
    },
    /// No such key.
    #[error("{origin}: there is no key `{key}`{hint}")]
    UnknownKey {
        /// The file or setting.
        origin: String,
        /// Section and key.
        key: String,
        /// The nearest known key, or the section's keys.
        hint: String,
    },
    /// A value of another kind than the key's.
    #[error("{origin}: `{key}` {reason}")]
    Kind {
        /// The file or setting.
        origin: String,
        /// Section and key.
        key: String,
        /// What the key takes, and the given value.
        reason: String,
    },
    /// A value that the key cannot have, or keys that exclude each other.
    #[error("`{key}`: {reason}")]
    Value {
        /// Section and key.
        key: String,
        /// What is wrong, and the remedy.
        reason: String,
    },
}

impl SettingError {
    /// The parser's error about `origin`, in one line.
    pub fn syntax(origin: &str, error: &toml::de::Error) -> Self {
        SettingError::Syntax {
            origin: origin.to_owned(),
            reason: error.to_string().trim_end().replace('\n', " "),
        }
    }

    /// A value that `key` cannot have.
    pub fn value(key: &str, reason: impl Into<String>) -> Self {
        SettingError::Value {
            key: key.to_owned(),
            reason: reason.into(),
        }
    }
}
