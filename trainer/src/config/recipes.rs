//! The recipes that the binary carries, and finding the one meant.

use std::path::Path;

use datasets::nearest::nearest;

use super::error::ConfigError;

/// Names and texts, from the files of the recipes' folder.
macro_rules! built_in {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../recipes/", $name, ".toml"))),)*]
    };
}

/// Name and text of each built-in recipe: those for a CPU, then one for each row of the paper's tables.
pub const BUILT_IN: &[(&str, &str)] = built_in![
    "quickstart",
    "smollm2-gsm8k",
    "smollm2-mbppplus",
    "smollm2-sft",
    "paper/gemma3-1b-mbppplus-dapo",
    "paper/gemma3-1b-mbppplus-grpo",
    "paper/gemma3-1b-mbppplus-pg",
    "paper/gemma3-1b-mbppplus-rapid-h4",
    "paper/gemma3-1b-mbppplus-sft",
    "paper/llama3.2-1b-mbppplus-dapo",
    "paper/llama3.2-1b-mbppplus-grpo",
    "paper/llama3.2-1b-mbppplus-pg",
    "paper/llama3.2-1b-mbppplus-rapid-h4",
    "paper/llama3.2-1b-mbppplus-sft",
    "paper/qwen2.5-0.5b-math-dapo",
    "paper/qwen2.5-0.5b-math-grpo",
    "paper/qwen2.5-0.5b-math-pg",
    "paper/qwen2.5-0.5b-math-rapid-h16",
    "paper/qwen2.5-0.5b-math-rapid-h2",
    "paper/qwen2.5-0.5b-math-rapid-h4",
    "paper/qwen2.5-0.5b-math-rapid-h8",
    "paper/qwen2.5-0.5b-math-sft",
    "paper/qwen2.5-0.5b-mbppplus-dapo",
    "paper/qwen2.5-0.5b-mbppplus-grpo",
    "paper/qwen2.5-0.5b-mbppplus-pg",
    "paper/qwen2.5-0.5b-mbppplus-rapid-h16",
    "paper/qwen2.5-0.5b-mbppplus-rapid-h2",
    "paper/qwen2.5-0.5b-mbppplus-rapid-h4",
    "paper/qwen2.5-0.5b-mbppplus-rapid-h8",
    "paper/qwen2.5-0.5b-mbppplus-sft",
    "paper/qwen2.5-0.5b-minif2f-dapo",
    "paper/qwen2.5-0.5b-minif2f-grpo",
    "paper/qwen2.5-0.5b-minif2f-pg",
    "paper/qwen2.5-0.5b-minif2f-rapid-h16",
    "paper/qwen2.5-0.5b-minif2f-rapid-h2",
    "paper/qwen2.5-0.5b-minif2f-rapid-h4",
    "paper/qwen2.5-0.5b-minif2f-rapid-h8",
    "paper/qwen2.5-0.5b-minif2f-sft",
    "paper/qwen2.5-1.5b-mbppplus-dapo",
    "paper/qwen2.5-1.5b-mbppplus-grpo",
    "paper/qwen2.5-1.5b-mbppplus-pg",
    "paper/qwen2.5-1.5b-mbppplus-rapid-h4",
    "paper/qwen2.5-1.5b-mbppplus-sft",
];

/// Text of a built-in recipe.
#[must_use]
pub fn source(name: &str) -> Option<&'static str> {
    BUILT_IN
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, text)| *text)
}

/// The built-in names in a line: those of the paper by their pattern.
fn listed() -> String {
    let short: Vec<&str> = BUILT_IN
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !name.starts_with("paper/"))
        .collect();
    short.join(", ")
        + ", and paper/MODEL-DATASET-ALGORITHM for each row of the paper's tables, such as paper/qwen2.5-0.5b-mbppplus-rapid-h4"
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
            let meant = nearest(recipe, names)
                .map(|name| format!(" (did you mean {name}?)"))
                .unwrap_or_default();
            ConfigError::Unreadable {
                path: recipe.to_owned(),
                reason: error.to_string(),
                built_in: listed() + &meant,
            }
        })
}
