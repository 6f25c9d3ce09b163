//! What is said of settings that cannot be used.

/// One paragraph that names the key and the remedy. `origin` is the file, or `--set …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Not TOML.
    #[error("{origin} is not valid TOML: {reason}")]
    Syntax {
        /// The file or setting.
        origin: String,
        /// Where and what.
        reason: String,
    },
    /// A setting without its section, or without a value.
    #[error("--set {set} is no setting: write section.key=value, such as --set {example}")]
    Shape {
        /// The setting.
        set: String,
        /// How it could be written.
        example: String,
    },
    /// No such key.
    #[error("{origin}: there is no key `{key}`{hint}")]
    UnknownKey {
        /// The file or setting.
        origin: String,
        /// Section and key.
        key: String,
        /// The nearest known one, or the section's keys.
        hint: String,
    },
    /// A value of another kind than the key takes.
    #[error("{origin}: `{key}` {reason}")]
    Kind {
        /// The file or setting.
        origin: String,
        /// Section and key.
        key: String,
        /// What it takes, and what was given.
        reason: String,
    },
    /// A value that the key cannot have, or keys that do not go together.
    #[error("`{key}`: {reason}")]
    Value {
        /// Section and key.
        key: String,
        /// What is wrong, and the remedy.
        reason: String,
    },
}

impl SettingError {
    /// What the parser says of `origin`, in one line.
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
