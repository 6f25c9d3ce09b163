//! The digest of a model's files: the weights, the configuration, the tokenizer and the chat template.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use blake3::Hasher;

use crate::run::TrainError;

/// Extensions of files with weights.
const WEIGHTS: [&str; 2] = ["safetensors", "gguf"];
/// The other files that the engine reads.
const OTHERS: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
];

/// The digest of a GGUF file, or of the files in a model's folder: of names, sizes and contents. It reads all files, at some GB per second if they are in memory.
///
/// # Errors
/// [`TrainError::Io`].
pub fn digest(model: &Path) -> Result<String, TrainError> {
    let mut hasher = Hasher::new_derive_key("rapid trainer model 1");
    for path in files(model)? {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
        File::open(&path)
            .and_then(|file| {
                hasher.update(&file.metadata()?.len().to_le_bytes());
                hasher.update_reader(file)?;
                Ok(())
            })
            .map_err(|source| TrainError::io(&path, source))?;
    }
    Ok(hasher.finalize().to_string())
}

/// The files of a model, in the order of their names.
fn files(model: &Path) -> Result<Vec<PathBuf>, TrainError> {
    if model.is_file() {
        return Ok(vec![model.to_owned()]);
    }
    let entries = std::fs::read_dir(model).map_err(|source| TrainError::io(model, source))?;
    let is_one = |part: Option<&OsStr>, names: &[&str]| {
        part.is_some_and(|part| names.iter().any(|name| part == *name))
    };
    let is_model_file = |path: &PathBuf| {
        let is_known = is_one(path.extension(), &WEIGHTS) || is_one(path.file_name(), &OTHERS);
        is_known && path.is_file()
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths.filter(is_model_file).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_digest_depends_only_on_the_files_that_the_engine_reads() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("config.json", "{}");
        write("model.safetensors", "weights");
        let original = digest(folder.path()).unwrap();
        // Files of a checkpoint, and one of the user.
        write("state.bin", "moments");
        write("run.json", "{}");
        write("notes.md", "mine");
        assert_eq!(digest(folder.path()).unwrap(), original);
        let mut digests = HashSet::from([original]);
        for (name, text) in [
            ("config.json", "{ }"),
            ("model.safetensors", "weighty"),
            ("tokenizer.json", "{}"),
        ] {
            write(name, text);
            assert!(digests.insert(digest(folder.path()).unwrap()), "{name}");
        }
        let file = folder.path().join("m.gguf");
        for text in ["one", "two"] {
            write("m.gguf", text);
            assert!(digests.insert(digest(&file).unwrap()), "{text}");
        }
    }
}
