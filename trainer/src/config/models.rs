//! Checks of model names.

use std::path::Path;

use datasets::did_you_mean::{hint, nearest};
use datasets::fetch::{self, ArtifactKind};
use datasets::manifest;
use datasets::settings::SettingError;

/// What a text that is given as a model's name can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedModel {
    /// A name that a model has, or may have on the hub.
    Possible,
    /// The path of a file or folder.
    Path,
    /// Neither; the error, with the nearest name and all known names.
    Unknown(String),
}

/// Distinguishes possible names from paths and from unknown names.
pub fn named_model(text: &str) -> NamedModel {
    if is_path(text) {
        return NamedModel::Path;
    }
    let known = manifest::all().unwrap_or_default().into_iter();
    let known = known.filter(|manifest| manifest.kind == ArtifactKind::Model);
    let known: Vec<String> = known.map(|manifest| manifest.name).collect();
    if text.contains('/')
        || known.iter().any(|name| name == text)
        || fetch::locate(ArtifactKind::Model, text).is_some()
    {
        return NamedModel::Possible;
    }
    let suggestion = hint(nearest(text, known.iter().map(String::as_str)));
    NamedModel::Unknown(format!(
        "no model is called `{text}`{suggestion}; known are {}, and any model of the hub as owner/name",
        known.join(", ")
    ))
}

/// Refuses a `model.name` that no model can have.
pub(super) fn check(name: &str) -> Result<(), SettingError> {
    let reason = match named_model(name) {
        NamedModel::Possible => return Ok(()),
        NamedModel::Path => {
            format!("`{name}` is a path, not a model's name; give it as `model.path`")
        }
        NamedModel::Unknown(reason) => {
            format!("{reason}; the path of a GGUF file or a Hugging Face folder is `model.path`")
        }
    };
    Err(SettingError::value("model.name", reason))
}

/// Whether this can only be a path: a repository of the hub is `owner/name`, with or without `@revision`.
fn is_path(text: &str) -> bool {
    let repository = text.split_once('@').map_or(text, |(name, _)| name);
    let weights = Path::new(text)
        .extension()
        .is_some_and(|extension| extension == "gguf" || extension == "safetensors");
    weights
        || text.contains('\\')
        || text.starts_with(['.', '~', '/'])
        || repository.ends_with('/')
        || repository.matches('/').count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_paths_and_unknown_names_are_distinguished() {
        const POSSIBLE: &str =
            "smollm2-135m-instruct Qwen/Qwen2.5-0.5B Qwen/Qwen2.5-0.5B@refs/pr/1";
        const PATHS: &str =
            "nothere.gguf models/m.gguf ./folder /folder runs/a/checkpoints/best folder/";
        for name in POSSIBLE.split(' ') {
            assert_eq!(named_model(name), NamedModel::Possible, "{name}");
        }
        for path in PATHS.split(' ') {
            assert_eq!(named_model(path), NamedModel::Path, "{path}");
        }
        let NamedModel::Unknown(error) = named_model("smollm2") else {
            panic!("smollm2 was accepted as a model's name")
        };
        assert!(error.contains("did you mean `smollm2-135m-"), "{error}");
    }
}
