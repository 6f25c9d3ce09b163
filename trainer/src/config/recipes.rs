//! The recipes that the binary carries, and finding the one meant.

use std::path::Path;

use super::{ConfigError, keys};

/// Name and text of each built-in recipe.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("quickstart", include_str!("../../recipes/quickstart.toml")),
    (
        "smollm2-gsm8k",
        include_str!("../../recipes/smollm2-gsm8k.toml"),
    ),
    (
        "smollm2-mbppplus",
        include_str!("../../recipes/smollm2-mbppplus.toml"),
    ),
    (
        "qwen2.5-0.5b-mbppplus",
        include_str!("../../recipes/qwen2.5-0.5b-mbppplus.toml"),
    ),
    (
        "qwen2.5-0.5b-math",
        include_str!("../../recipes/qwen2.5-0.5b-math.toml"),
    ),
];

/// Text of a built-in recipe.
#[must_use]
pub fn source(name: &str) -> Option<&'static str> {
    BUILT_IN
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, text)| *text)
}

/// Where the recipe comes from, for errors, and its text. A file goes before a built-in recipe of the same name.
pub(super) fn find(recipe: &str) -> Result<(String, String), ConfigError> {
    let path = Path::new(recipe);
    if !path.is_file()
        && let Some(text) = source(recipe)
    {
        return Ok((format!("the built-in recipe {recipe}"), text.to_owned()));
    }
    std::fs::read_to_string(path)
        .map(|text| (recipe.to_owned(), text))
        .map_err(|error| {
            let names = BUILT_IN.iter().map(|(name, _)| *name);
            let meant = keys::nearest(recipe, names.clone())
                .map(|name| format!(" (did you mean {name}?)"))
                .unwrap_or_default();
            ConfigError::Unreadable {
                path: recipe.to_owned(),
                reason: error.to_string(),
                built_in: names.collect::<Vec<_>>().join(", ") + &meant,
            }
        })
}
