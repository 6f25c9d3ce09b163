//! Errors of settings.

/// An error in one paragraph, which names the key and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No such key.
    #[error("{origin}: there is no key `{key}`{hint}")]
    UnknownKey {
        /// The file, or `--set …`.
        origin: String,
        /// Section and key.
        key: String,
        /// The nearest known key, or the section's keys.
        hint: String,
    },
    /// Anything else: what is wrong, and the remedy.
    #[error("{0}")]
    Refused(String),
}

impl SettingError {
    /// The parser's error about `origin`, in one line.
    pub fn syntax(origin: &str, error: &toml::de::Error) -> Self {
        let reason = error.to_string().trim_end().replace('\n', " ");
        Self::Refused(format!("{origin} is not valid TOML: {reason}"))
    }

    /// A value that `key` cannot have, or keys that exclude each other.
    pub fn value(key: &str, reason: impl Into<String>) -> Self {
        Self::Refused(format!("`{key}`: {}", reason.into()))
    }
}
