//! The Hugging Face hub: the commit of a revision, its files and their checksums.

use std::collections::HashSet;

use futures::StreamExt as _;
use reqwest::Client;
use reqwest::header::AUTHORIZATION;
use serde::Deserialize;

use super::download::{refusal, unreachable_host};
use super::error::{Failure, explain};
use super::folder::{RECEIPT, is_inside};

/// The longest listing that is read, in bytes. Repositories with thousands of files stay far below.
pub(super) const MAX_LISTING: usize = 32 << 20;

/// A repository on a hub.
#[derive(Clone, Copy)]
pub(super) struct Repository<'a> {
    /// `https://huggingface.co`, or the value of `HF_ENDPOINT`.
    pub(super) endpoint: &'a str,
    pub(super) token: Option<&'a str>,
    pub(super) repo: &'a str,
    pub(super) revision: &'a str,
    pub(super) dataset: bool,
}

/// The selected files of one commit.
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<Listed>,
}

/// One file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) size: Option<u64>,
    /// The hub publishes it for large files only.
    pub(super) sha256: Option<String>,
}

/// A repository's commit and files: the hub's answer, or as far as the cache of Hugging Face knows them.
#[derive(Deserialize)]
pub(super) struct Answer {
    pub(super) sha: String,
    pub(super) siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
pub(super) struct Sibling {
    pub(super) rfilename: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: Option<u64>,
}

impl Sibling {
    pub(super) fn new(name: String, size: Option<u64>, sha256: Option<String>) -> Sibling {
        Sibling {
            rfilename: name,
            size,
            lfs: sha256.map(|sha256| Lfs { sha256, size }),
        }
    }
}

impl Repository<'_> {
    /// The word for its kind in the hub's addresses, and in names of folders.
    pub(super) fn kind(&self) -> &'static str {
        if self.dataset { "datasets" } else { "models" }
    }

    fn file(&self, commit: &str, name: &str) -> Listed {
        let base = if self.dataset { "datasets/" } else { "" };
        Listed {
            name: name.to_owned(),
            url: format!(
                "{}/{base}{}/resolve/{commit}/{name}",
                self.endpoint, self.repo
            ),
            size: None,
            sha256: None,
        }
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
        files: include
            .iter()
            .map(|name| repository.file(commit, name))
            .collect(),
    })
}

/// Requests from the hub the list of the files that match `include`: names, or patterns with one `*`, which may match nothing.
pub(super) async fn list(
    client: &Client,
    repository: &Repository<'_>,
    include: &[String],
) -> Result<Listing, Failure> {
    let Repository {
        endpoint,
        token,
        repo,
        revision,
        ..
    } = repository;
    let kind = repository.kind();
    let url = format!("{endpoint}/api/{kind}/{repo}/revision/{revision}?blobs=true");
    let mut request = client.get(&url);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let failure = |reason: String| {
        Failure::Source(format!("The hub's list of the files of {repo} {reason}."))
    };
    let unread = |e| failure(format!("could not be read ({})", explain(e)));
    let response = request
        .send()
        .await
        .map_err(|e| match e.is_connect() || e.is_timeout() {
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
    let answer: Answer = serde_json::from_slice(&text).map_err(|e| {
        failure(format!(
            "does not have the expected form ({e}); check HF_ENDPOINT"
        ))
    })?;
    select(&answer, repository, include, "The hub").map_err(|e| Failure::Source(format!("{e}.")))
}

/// The files of `holder` that match `include`. The error is a sentence without its full stop. It names `HF_ENDPOINT` where only a
/// hub's answer can be wrong.
pub(super) fn select(
    answer: &Answer,
    repository: &Repository<'_>,
    include: &[String],
    holder: &str,
) -> Result<Listing, String> {
    let Repository { repo, revision, .. } = *repository;
    if answer.sha.is_empty() || !answer.sha.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!(
            "{holder} names no commit for {repo}; check HF_ENDPOINT"
        ));
    }
    for wanted in include.iter().filter(|pattern| !pattern.contains('*')) {
        if !answer.siblings.iter().any(|s| s.rfilename == *wanted) {
            return Err(format!(
                "{holder} has no file {wanted} of {repo}@{revision}"
            ));
        }
    }
    let mut files = Vec::new();
    let mut names = HashSet::new();
    for sibling in &answer.siblings {
        let name = &sibling.rfilename;
        // This name belongs to the receipt.
        if name == RECEIPT || !include.iter().any(|pattern| matches(pattern, name)) {
            continue;
        }
        if !is_inside(name) {
            return Err(format!(
                "{holder} has a file of {repo} with a forbidden name: {name:?}"
            ));
        }
        if !names.insert(name) {
            return Err(format!(
                "{holder} lists {name} of {repo}@{revision} twice; check HF_ENDPOINT"
            ));
        }
        let lfs = sibling.lfs.as_ref();
        let sha256 = lfs.map(|lfs| lfs.sha256.to_ascii_lowercase());
        if let Some(text) = &sha256
            && !is_digest(text, 64)
        {
            return Err(format!(
                "{holder} has no SHA-256 for {name} of {repo}@{revision}, but {text:?}; check HF_ENDPOINT"
            ));
        }
        files.push(Listed {
            size: lfs.and_then(|lfs| lfs.size).or(sibling.size),
            sha256,
            ..repository.file(&answer.sha, name)
        });
    }
    if files.is_empty() {
        return Err(format!(
            "{holder} has none of the files {} of {repo}@{revision}",
            include.join(", ")
        ));
    }
    Ok(Listing {
        commit: answer.sha.clone(),
        files,
    })
}

/// Whether a name equals the pattern, or begins and ends as the pattern does around its `*`. A `*` does not match a `/`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, end)) => name
            .strip_prefix(start)
            .and_then(|rest| rest.strip_suffix(end))
            .is_some_and(|middle| !middle.contains('/')),
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

    fn answer(json: &str) -> Answer {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_listing_is_pinned_to_the_commit_that_the_hub_names() {
        let answer = answer(
            &r#"{"sha":"abc123","siblings":[{"rfilename":"a.jsonl","size":3},{"rfilename":"README.md"},
                {"rfilename":"w.safetensors","lfs":{"sha256":"DIGEST","size":9}}]}"#
                .replace("DIGEST", &"FE".repeat(32)),
        );
        let digest = "fe".repeat(32);
        let include = ["a.jsonl".into(), "*.safetensors".into()];
        let listing = select(&answer, &repository(), &include, "The hub");
        let listing = listing.ok().unwrap();
        let file = |name: &str, size, sha256| Listed {
            size: Some(size),
            sha256,
            ..repository().file("abc123", name)
        };
        let files = [
            file("a.jsonl", 3, None),
            file("w.safetensors", 9, Some(digest)),
        ];
        assert_eq!(listing.files, files);
        let url = "http://hub/datasets/o/r/resolve/abc123/a.jsonl";
        assert_eq!(listing.files[0].url, url);
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
            let answer = answer(&format!(r#"{{"sha":"abc","siblings":[{siblings}]}}"#));
            let include = ["*.safetensors", "../*.safetensors"].map(str::to_owned);
            let error = select(&answer, &repository(), &include, "The hub").err();
            let error = error.unwrap();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn a_named_file_must_exist_and_a_pattern_may_match_nothing() {
        let answer = answer(r#"{"sha":"abc","siblings":[{"rfilename":"config.json"}]}"#);
        for (include, is_there) in [
            (vec!["config.json", "*.index.json"], true),
            (vec!["tokenizer.json"], false),
        ] {
            let include: Vec<String> = include.into_iter().map(str::to_owned).collect();
            let found = select(&answer, &repository(), &include, "The hub");
            assert_eq!(found.is_ok(), is_there, "{include:?}");
        }
    }

    #[test]
    fn a_star_matches_within_one_folder() {
        assert!(matches("*.safetensors", "model-00001-of-00002.safetensors"));
        assert!(!matches("*.safetensors", "original/model.safetensors"));
        assert!(!matches("ab*ba", "aba"));
    }
}
