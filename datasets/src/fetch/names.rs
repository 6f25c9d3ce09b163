//! What a name on the command line means: `kind:name`, a name that only one kind has, or a repository of the hub.

use std::collections::BTreeMap;

use super::folder::is_inside;
use super::{ArtifactKind, FetchError};
use crate::did_you_mean::nearest;
use crate::manifest::{self, Manifest, Source};

/// The files of a model repository on a hub that are needed to run and to train the model.
const MODEL_FILES: [&str; 4] = ["*.json", "*.safetensors", "tokenizer.model*", "*.jinja"];

/// The files of a data set's repository that can have records.
pub(super) fn data_files() -> Vec<String> {
    let texts = ["jsonl", "json", "csv"];
    let texts = texts.map(|end| ["", ".gz", ".zst"].map(|packed| format!("**.{end}{packed}")));
    let texts = texts.into_iter().flatten();
    texts.chain(["**.parquet".to_owned()]).collect()
}

/// Parses `kind:name`, or a name that only one kind has. A name with a slash is of the hub: a model, unless its kind is written.
///
/// # Errors
/// [`FetchError::Unknown`] with the nearest known name and all known names.
pub fn named(text: &str) -> Result<(ArtifactKind, String), FetchError> {
    let (word, name) = text.split_once(':').unwrap_or(("", text));
    let known = manifest::all().unwrap_or_default();
    let mut fits = known
        .iter()
        .filter(|m| m.name == name && (word.is_empty() || word == m.kind.word()));
    match (fits.next(), fits.next()) {
        (Some(only), None) => Ok((only.kind, name.to_owned())),
        (Some(_), Some(_)) => Err(FetchError::Unknown(format!(
            "`{text}` is the name of several things; write model:{text}, dataset:{text} or sandbox:{text}"
        ))),
        _ if !name.contains('/') => Err(unknown(text)),
        _ => match word {
            "" | "model" => Ok((ArtifactKind::Model, name.to_owned())),
            "dataset" => Ok((ArtifactKind::Dataset, name.to_owned())),
            _ => Err(unknown(text)),
        },
    }
}

/// The error for `name` or `kind:name`, with the nearest known name and all known names, of that kind if it has one.
fn unknown(text: &str) -> FetchError {
    let known = manifest::all().unwrap_or_default();
    let (word, name) = text.split_once(':').unwrap_or(("", text));
    let of_kind = |m: &&Manifest| word == m.kind.word();
    let any = !known.iter().any(|m| of_kind(&m));
    let known: Vec<&Manifest> = known.iter().filter(|m| any || of_kind(m)).collect();
    let full_name = |m: &Manifest| format!("{}:{}", m.kind.word(), m.name);
    let near = nearest(name, known.iter().map(|m| m.name.as_str()));
    let near = known.iter().find(|m| Some(m.name.as_str()) == near);
    let hint = near.map(|m| format!(" (did you mean `{}`?)", full_name(m)));
    let names: Vec<String> = known.iter().map(|m| full_name(m)).collect();
    FetchError::Unknown(format!(
        "nothing is called `{text}`{}; known are {}, and any model of the hub as owner/name, or data set as dataset:owner/name",
        hint.unwrap_or_default(),
        names.join(", ")
    ))
}

/// The manifest of a name, or one created for a repository of the hub: `owner/name` or `owner/name@revision`.
pub(super) fn wanted(kind: ArtifactKind, name: &str) -> Result<Manifest, FetchError> {
    if let Some(manifest) = manifest::find(kind, name) {
        return Ok(manifest);
    }
    let (repo, revision) = name.split_once('@').unwrap_or((name, "main"));
    let is_repository = repo.matches('/').count() == 1 && is_inside(repo) && is_inside(revision);
    let include = match kind {
        ArtifactKind::Model if is_repository => MODEL_FILES.map(str::to_owned).to_vec(),
        ArtifactKind::Dataset if is_repository => data_files(),
        _ => return Err(unknown(&format!("{}:{name}", kind.word()))),
    };
    Ok(Manifest {
        kind,
        name: name.to_owned(),
        about: String::new(),
        licence: String::new(),
        template: None,
        split: None,
        files: Vec::new(),
        sources: vec![Source::Hub {
            repo: repo.to_owned(),
            revision: revision.to_owned(),
            include,
            dataset: kind == ArtifactKind::Dataset,
            rename: BTreeMap::new(),
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_may_be_left_out_and_an_unknown_one_is_refused() {
        for (text, meant) in [
            ("model:smollm2-135m-instruct", "model smollm2-135m-instruct"),
            ("smollm2-135m-instruct", "model smollm2-135m-instruct"),
            ("python-wasi", "sandbox python-wasi"),
            ("dataset:gsm8k", "dataset gsm8k"),
            ("owner/name", "model owner/name"),
            ("model:owner/name@v1", "model owner/name@v1"),
            ("dataset:owner/name", "dataset owner/name"),
        ] {
            let (kind, name) = named(text).unwrap();
            assert_eq!(format!("{} {name}", kind.word()), meant);
        }
        for (text, says) in [
            ("zzz", "nothing is called `zzz`; known are dataset:gsm8k"),
            (
                "model:smolm2",
                "(did you mean `model:smollm2-135m-instruct`?)",
            ),
            (
                "dataset:",
                "nothing is called `dataset:`; known are dataset:gsm8k",
            ),
            ("sandbox:a/b", "nothing is called `sandbox:a/b`"),
        ] {
            let error = named(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
