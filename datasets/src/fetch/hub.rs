//! The Hugging Face hub: which files a revision has, at which commit, with which checksums.

use futures::StreamExt as _;
use reqwest::Client;
use reqwest::header::AUTHORIZATION;
use serde::Deserialize;

use super::download::{refusal, unreachable_host};
use super::error::{Failure, explain};
use super::folder::is_inside;

/// The longest listing that is read: repositories with thousands of files stay far below.
const MAX_LISTING: usize = 32 << 20;

/// A repository on a hub.
pub(super) struct Repository<'a> {
    /// `https://huggingface.co`, or what `HF_ENDPOINT` says.
    pub(super) endpoint: &'a str,
    pub(super) token: Option<&'a str>,
    pub(super) repo: &'a str,
    pub(super) revision: &'a str,
    pub(super) dataset: bool,
}

/// The wanted files of one commit.
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
    /// Of large files only: the hub publishes it.
    pub(super) sha256: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: Option<u64>,
}

/// Asks the hub for the files that match `include`: names, or patterns with one `*`, which may match nothing.
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
        dataset,
    } = repository;
    let kind = if *dataset { "datasets" } else { "models" };
    let url = format!("{endpoint}/api/{kind}/{repo}/revision/{revision}?blobs=true");
    let mut request = client.get(&url);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let failure = |reason: String| Failure::Source(reason);
    let response = request.send().await.map_err(|e| {
        failure(if e.is_connect() || e.is_timeout() {
            unreachable_host(&url, &e)
        } else {
            format!(
                "The hub's list of {repo} could not be read ({}).",
                explain(e)
            )
        })
    })?;
    if !response.status().is_success() {
        return Err(failure(refusal(
            &format!("The hub's repository {repo}@{revision}"),
            response.status(),
        )));
    }
    let mut text = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|e| {
            failure(format!(
                "The hub's list of {repo} broke off ({}).",
                explain(e)
            ))
        })?;
        if text.len() + chunk.len() > MAX_LISTING {
            return Err(failure(format!(
                "The hub's list of {repo} is too long to be one."
            )));
        }
        text.extend_from_slice(&chunk);
    }
    let answer: Answer = serde_json::from_slice(&text).map_err(|e| {
        failure(format!(
            "The hub's list of {repo} is not what was expected ({e}); check HF_ENDPOINT."
        ))
    })?;
    select(&answer, repository, include).map_err(failure)
}

fn select(
    answer: &Answer,
    repository: &Repository<'_>,
    include: &[String],
) -> Result<Listing, String> {
    let repo = repository.repo;
    if answer.sha.is_empty() || !answer.sha.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!(
            "The hub names no commit for {repo}; check HF_ENDPOINT."
        ));
    }
    for wanted in include.iter().filter(|pattern| !pattern.contains('*')) {
        if !answer.siblings.iter().any(|s| s.rfilename == *wanted) {
            return Err(format!(
                "The hub's repository {repo}@{} has no file {wanted}.",
                repository.revision
            ));
        }
    }
    let base = if repository.dataset { "datasets/" } else { "" };
    let mut files = Vec::new();
    for sibling in &answer.siblings {
        let name = &sibling.rfilename;
        if !include.iter().any(|pattern| matches(pattern, name)) {
            continue;
        }
        if !is_inside(name) {
            return Err(format!(
                "The hub's repository {repo} has a file with a forbidden name: {name:?}."
            ));
        }
        files.push(Listed {
            url: format!(
                "{}/{base}{repo}/resolve/{}/{name}",
                repository.endpoint, answer.sha
            ),
            name: name.clone(),
            size: sibling
                .lfs
                .as_ref()
                .and_then(|lfs| lfs.size)
                .or(sibling.size),
            sha256: sibling
                .lfs
                .as_ref()
                .map(|lfs| lfs.sha256.to_ascii_lowercase()),
        });
    }
    if files.is_empty() {
        return Err(format!(
            "The hub's repository {repo} has none of the files {}.",
            include.join(", ")
        ));
    }
    Ok(Listing {
        commit: answer.sha.clone(),
        files,
    })
}

/// Whether a name is the pattern, or begins and ends as it does around its `*`. A `*` stands for no `/`.
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
            r#"{"sha":"abc123","siblings":[{"rfilename":"a.jsonl","size":3},{"rfilename":"README.md"},
                {"rfilename":"w.safetensors","lfs":{"sha256":"FF","size":9}}]}"#,
        );
        let listing = select(
            &answer,
            &repository(),
            &["a.jsonl".into(), "*.safetensors".into()],
        )
        .ok()
        .unwrap();
        let names: Vec<_> = listing
            .files
            .iter()
            .map(|f| (f.url.as_str(), f.size, f.sha256.as_deref()))
            .collect();
        assert_eq!(
            names,
            [
                (
                    "http://hub/datasets/o/r/resolve/abc123/a.jsonl",
                    Some(3),
                    None
                ),
                (
                    "http://hub/datasets/o/r/resolve/abc123/w.safetensors",
                    Some(9),
                    Some("ff")
                ),
            ]
        );
    }

    #[test]
    fn a_file_that_would_leave_the_folder_is_refused() {
        let answer = answer(r#"{"sha":"abc","siblings":[{"rfilename":"../a.safetensors"}]}"#);
        assert!(select(&answer, &repository(), &["../*.safetensors".into()]).is_err());
    }

    #[test]
    fn a_named_file_must_be_there_and_a_pattern_need_not() {
        let answer = answer(r#"{"sha":"abc","siblings":[{"rfilename":"config.json"}]}"#);
        assert!(
            select(
                &answer,
                &repository(),
                &["config.json".into(), "*.index.json".into()]
            )
            .is_ok()
        );
        assert!(select(&answer, &repository(), &["tokenizer.json".into()]).is_err());
    }

    #[test]
    fn a_star_matches_within_one_folder() {
        assert!(matches("*.safetensors", "model-00001-of-00002.safetensors"));
        assert!(!matches("*.safetensors", "original/model.safetensors"));
        assert!(!matches("ab*ba", "aba"));
    }
}
