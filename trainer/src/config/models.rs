//! What a text is that should be a model's name.

use std::path::Path;

use datasets::fetch::{self, Kind};
use datasets::manifest;
use datasets::nearest::{hint, nearest};
use datasets::settings::SettingError;

/// What a text is that should be a model's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedModel {
    /// A name that a model has, or may have on the hub.
    Possible,
    /// The path of a file or folder.
    Path,
    /// No model's name; what is to be said of it, with the nearest name and all known ones.
    Unknown(String),
}

/// Tells a name that a model may have from a path and from a slip of the fingers.
#[must_use]
pub fn named_model(text: &str) -> NamedModel {
    if is_path(text) {
        return NamedModel::Path;
    }
    let known: Vec<String> = manifest::all()
        .unwrap_or_default()
        .into_iter()
        .filter(|manifest| manifest.kind == Kind::Model)
        .map(|manifest| manifest.name)
        .collect();
    if text.contains('/')
        || known.iter().any(|name| name == text)
        || fetch::locate(Kind::Model, text).is_some()
    {
        return NamedModel::Possible;
    }
    let meant = hint(nearest(text, known.iter().map(String::as_str)));
    NamedModel::Unknown(format!(
        "no model is called `{text}`{meant}; known are {}, and any model of the hub as owner/name",
        known.join(", ")
    ))
}

/// Refuses a `model.name` that no model can have.
pub(super) fn check(name: &str) -> Result<(), SettingError> {
    let reason = match named_model(name) {
        NamedModel::Possible => return Ok(()),
        NamedModel::Path => {
            format!("`{name}` is a path and no model's name; give it as `model.path`")
        }
        NamedModel::Unknown(what) => {
            format!("{what}; the path of a GGUF file or a Hugging Face folder is `model.path`")
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
    fn a_name_is_told_from_a_path_and_from_a_slip() {
        for name in [
            "smollm2-135m-instruct",
            "Qwen/Qwen2.5-0.5B",
            "Qwen/Qwen2.5-0.5B@refs/pr/1",
        ] {
            assert_eq!(named_model(name), NamedModel::Possible, "{name}");
        }
        for path in [
            "nothere.gguf",
            "models/m.gguf",
            "./folder",
            "/folder",
            "runs/a/checkpoints/best",
            "folder/",
        ] {
            assert_eq!(named_model(path), NamedModel::Path, "{path}");
        }
        for (slip, meant) in [
            ("smolm2", "did you mean `smollm2-135m-instruct"),
            ("smollm2", "did you mean `smollm2-135m-instruct"),
            ("zzz", "no model is called `zzz`; known are"),
        ] {
            let NamedModel::Unknown(said) = named_model(slip) else {
                panic!("{slip} is a model's name")
            };
            assert!(said.contains(meant), "{said}");
        }
    }

    #[test]
    fn a_recipe_is_told_where_a_path_goes() {
        let said = |name| check(name).unwrap_err().to_string();
        assert_eq!(
            said("nothere.gguf"),
            "`model.name`: `nothere.gguf` is a path and no model's name; give it as `model.path`"
        );
        assert!(said("smolm2").ends_with("folder is `model.path`"));
        assert_eq!(check("smollm2-135m-instruct"), Ok(()));
    }
}
