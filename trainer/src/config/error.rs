//! Errors of recipes and settings.

use datasets::settings::SettingError;

/// A recipe or a setting that cannot be used: one paragraph that names the key and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The recipe's file cannot be read.
    #[error(
        "the recipe {path} cannot be read ({reason}); give a TOML file, or one of the built-in recipes: {built_in}"
    )]
    Unreadable {
        /// The given path or name.
        path: String,
        /// The system's error.
        reason: String,
        /// The names of the built-in recipes.
        built_in: String,
    },
    /// A key that does not exist, or a value that it cannot have.
    #[error(transparent)]
    Setting(#[from] SettingError),
}
