//! The Hugging Face hub: the commit of a revision, its files and their checksums.

use std::collections::HashSet;

use futures::StreamExt as _;
use reqwest::Client;
use serde::Deserialize;

use super::download::{refusal, request, unreachable_host};
use super::error::{Failure, explain};
use super::folder::{RECEIPT, is_inside};

/// The longest listing that is read, in bytes. Repositories with thousands of files stay far below.
pub(super) const MAX_LISTING: usize = 32 << 20;

#[derive(Clone, Copy)]
pub(super) struct Repository<'a> {
    /// `https://huggingface.co`, or the value of `HF_ENDPOINT`.
    pub(super) endpoint: &'a str,
    pub(super) token: Option<&'a str>,
    pub(super) repo: &'a str,
    pub(super) revision: &'a str,
    pub(super) dataset: bool,
}

/// A commit and files of it: the hub's answer, what the cache of Hugging Face knows, or the selected ones.
#[derive(Deserialize)]
pub(super) struct Listing {
    #[serde(rename = "sha")]
    pub(super) commit: String,
    #[serde(rename = "siblings")]
    pub(super) files: Vec<Listed>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Listed {
    #[serde(rename = "rfilename")]
    pub(super) name: String,
    pub(super) size: Option<u64>,
    /// The hub publishes it for large files only.
    pub(super) lfs: Option<Lfs>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Lfs {
    pub(super) sha256: String,
}

impl Listed {
    /// A file that is known only by its name.
    pub(super) fn named(name: String) -> Listed {
        Listed {
            name,
            size: None,
            lfs: None,
        }
    }
}

impl Repository<'_> {
    /// The word for its kind in the hub's addresses, and in names of folders.
    pub(super) fn kind(&self) -> &'static str {
        if self.dataset { "datasets" } else { "models" }
    }

    /// The address of a file.
    pub(super) fn url(&self, commit: &str, name: &str) -> String {
        let base = if self.dataset { "datasets/" } else { "" };
        let Repository { endpoint, repo, .. } = self;
        format!("{endpoint}/{base}{repo}/resolve/{commit}/{name}")
    }
}

/// Whether a revision is the full digest of a commit, which never moves.
pub(super) fn is_commit(revision: &str) -> bool {
    is_digest(revision, 40)
}

/// Whether a text consists of `digits` lower-case hexadecimal digits.
pub(super) fn is_digest(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The files in `include`, without a request to the hub. The revision has to be a full commit, and every entry a file name
/// (no pattern) for which `is_known` has a checksum.
pub(super) fn pinned(
    repository: &Repository<'_>,
    include: &[String],
    is_known: impl Fn(&str) -> bool,
) -> Option<Listing> {
    let commit = repository.revision;
    let all = is_commit(commit)
        && !include.is_empty()
        && include.iter().all(|name| is_inside(name) && is_known(name));
    all.then(|| Listing {
        commit: commit.to_owned(),
        files: include.iter().cloned().map(Listed::named).collect(),
    })
}

/// Requests from the hub the list of the files that match `include`: names, or patterns with one `*` or `**`, which may match nothing.
pub(super) async fn list(
    client: &Client,
    repository: &Repository<'_>,
    include: &[String],
) -> Result<Listing, Failure> {
    let Repository { repo, revision, .. } = *repository;
    let (endpoint, token) = (repository.endpoint, repository.token);
    let kind = repository.kind();
    let url = format!("{endpoint}/api/{kind}/{repo}/revision/{revision}?blobs=true");
    let failure = |reason: String| {
        Failure::Source(format!("The hub's list of the files of {repo} {reason}."))
    };
    let unread = |e| failure(format!("could not be read ({})", explain(e)));
    let response = request(client, &url, token).send().await;
    let response = response.map_err(|e| match e.is_connect() || e.is_timeout() {
        true => Failure::Source(unreachable_host(&url, &e)),
        false => unread(e),
    })?;
    if !response.status().is_success() {
        let repository = format!("The hub's repository {repo}@{revision}");
        return Err(Failure::Source(refusal(&repository, response.status())));
    }
    let mut text = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(chunk) = body.next().await {
        text.extend_from_slice(&chunk.map_err(unread)?);
        if text.len() > MAX_LISTING {
            return Err(failure(format!("is longer than {MAX_LISTING} bytes")));
        }
    }
    let answer: Listing = serde_json::from_slice(&text).map_err(|e| {
        failure(format!(
            "does not have the expected form ({e}); check HF_ENDPOINT"
        ))
    })?;
    select(answer, repository, include, "The hub").map_err(|e| Failure::Source(format!("{e}.")))
}

/// The files of `holder` that match `include`. The error is a sentence without its full stop. It names `HF_ENDPOINT` where only a
/// hub's answer can be wrong.
pub(super) fn select(
    mut listing: Listing,
    repository: &Repository<'_>,
    include: &[String],
    holder: &str,
) -> Result<Listing, String> {
    let Repository { repo, revision, .. } = *repository;
    let (commit, files) = (&listing.commit, &mut listing.files);
    if commit.is_empty() || !commit.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!(
            "{holder} names no commit for {repo}; check HF_ENDPOINT"
        ));
    }
    let mut exact = include.iter().filter(|pattern| !pattern.contains('*'));
    if let Some(missing) = exact.find(|name| !files.iter().any(|file| file.name == **name)) {
        return Err(format!(
            "{holder} has no file {missing} of {repo}@{revision}"
        ));
    }
    // This name belongs to the receipt.
    let is_wanted = |name: &str| name != RECEIPT && include.iter().any(|p| matches(p, name));
    files.retain(|file| is_wanted(&file.name));
    let mut names = HashSet::new();
    for Listed { name, lfs, .. } in files.iter_mut() {
        if !is_inside(name) {
            return Err(format!(
                "{holder} has a file of {repo} with a forbidden name: {name:?}"
            ));
        }
        if let Some(Lfs { sha256 }) = lfs {
            sha256.make_ascii_lowercase();
            if !is_digest(sha256, 64) {
                return Err(format!(
                    "{holder} has no SHA-256 for {name} of {repo}@{revision}, but {sha256:?}; check HF_ENDPOINT"
                ));
            }
        }
        if !names.insert(&*name) {
            return Err(format!(
                "{holder} lists {name} of {repo}@{revision} twice; check HF_ENDPOINT"
            ));
        }
    }
    if files.is_empty() {
        let include = include.join(", ");
        return Err(format!(
            "{holder} has none of the files {include} of {repo}@{revision}"
        ));
    }
    Ok(listing)
}

/// Whether a name equals the pattern, or begins and ends as the pattern does around its `*` or `**`. Only `**` matches a `/`.
fn matches(pattern: &str, name: &str) -> bool {
    let whole = pattern.split_once("**").map(|parts| (parts, true));
    let parts = whole.or_else(|| Some((pattern.split_once('*')?, false)));
    match parts {
        None => pattern == name,
        Some(((start, end), any)) => name
            .strip_prefix(start)
            .and_then(|rest| rest.strip_suffix(end))
            .is_some_and(|middle| any || !middle.contains('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> Repository<'static> {
        Repository {
            endpoint: "http://hub",
            token: None,
            repo: "o/r",
            revision: "main",
            dataset: true,
        }
    }

    fn selected(siblings: &str, include: &[&str]) -> Result<Listing, String> {
        let answer = format!(r#"{{"sha":"abc123","siblings":[{siblings}]}}"#);
        let include: Vec<String> = include.iter().map(ToString::to_string).collect();
        let answer = serde_json::from_str(&answer).unwrap();
        select(answer, &repository(), &include, "The hub")
    }

    #[test]
    fn a_listing_is_pinned_to_the_commit_that_the_hub_names() {
        let siblings = r#"{"rfilename":"a.jsonl","size":3},{"rfilename":"README.md"},
            {"rfilename":"w.safetensors","size":9,"lfs":{"sha256":"DIGEST","size":9}}"#
            .replace("DIGEST", &"FE".repeat(32));
        let listing = selected(&siblings, &["a.jsonl", "*.safetensors"]);
        let Listing { commit, files } = listing.ok().unwrap();
        let sha256 = "fe".repeat(32);
        let file = |name: &str, size, lfs| Listed {
            name: name.to_owned(),
            size: Some(size),
            lfs,
        };
        let weights = file("w.safetensors", 9, Some(Lfs { sha256 }));
        assert_eq!(files, [file("a.jsonl", 3, None), weights]);
        let url = repository().url(&commit, &files[0].name);
        assert_eq!(url, "http://hub/datasets/o/r/resolve/abc123/a.jsonl");
    }

    #[test]
    fn a_list_with_a_wrong_file_is_refused_without_its_control_characters() {
        let digest_of =
            |text: &str| format!(r#"{{"rfilename":"a.safetensors","lfs":{{"sha256":"{text}"}}}}"#);
        let wrong_digest = "has no SHA-256 for a.safetensors of o/r@main, but ";
        let twice = r#"{"rfilename":"a.safetensors"},{"rfilename":"a.safetensors"}"#.to_owned();
        let named = |name: &str| format!(r#"{{"rfilename":"{name}.safetensors"}}"#);
        for (siblings, reason) in [
            (named("../a"), "forbidden name"),
            (named(r"\u001b[2J"), "forbidden name"),
            (named(r"\u009b2J"), "forbidden name"),
            (digest_of(r"\u001b[2J"), wrong_digest),
            (digest_of(""), wrong_digest),
            (digest_of("ff"), wrong_digest),
            (digest_of(&"g".repeat(64)), wrong_digest),
            (twice, "lists a.safetensors of o/r@main twice"),
        ] {
            let error = selected(&siblings, &["*.safetensors", "../*.safetensors"]).err();
            let error = error.unwrap();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn a_named_file_must_exist_and_a_pattern_may_match_nothing() {
        let config = r#"{"rfilename":"config.json"}"#;
        assert!(selected(config, &["config.json", "*.index.json"]).is_ok());
        assert!(selected(config, &["tokenizer.json"]).is_err());
        assert!(matches("*.safetensors", "model-00001-of-00002.safetensors"));
        assert!(!matches("*.safetensors", "original/model.safetensors"));
        assert!(matches("**.parquet", "main/train.parquet"));
        assert!(!matches("ab*ba", "aba"));
    }
}
