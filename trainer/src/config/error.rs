//! Why a recipe cannot be used.

use datasets::settings::SettingError;

/// A recipe or a setting that cannot be used: one paragraph that names the key and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The recipe's file cannot be read.
    #[error(
        "the recipe {path} cannot be read ({reason}); give a TOML file, or one of the built-in recipes: {built_in}"
    )]
    Unreadable {
        /// What was given.
        path: String,
        /// What the system said.
        reason: String,
        /// The built-in names.
        built_in: String,
    },
    /// A key that there is not, or a value that it cannot have.
    #[error(transparent)]
    Setting(#[from] SettingError),
}
