//! Tests against a cache with the layout of `huggingface_hub`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OLDER: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// A repository's folder in the cache.
struct Shared(PathBuf);

impl Shared {
    /// `models--o--r`, in the folder that `fetcher` uses as the cache.
    fn new(home: &Path) -> Shared {
        let folder = home.join("hugging-face/hub/models--o--r");
        std::fs::create_dir_all(&folder).unwrap();
        Shared(folder)
    }

    fn write(&self, path: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn link(&self, commit: &str, name: &str, target: &Path) -> PathBuf {
        let link = self.0.join("snapshots").join(commit).join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, &link).unwrap();
        link
    }

    /// A file of a commit, which is a link to its content; returns the content's path.
    fn add(&self, commit: &str, name: &str, content: &[u8]) -> PathBuf {
        // A small file's content is named by its git id, of 40 digits.
        let digest = sha256(content);
        let id = if content.len() < 1000 {
            &digest[..40]
        } else {
            &digest
        };
        let content = self.write(&format!("blobs/{id}"), content);
        let up = "../".repeat(2 + name.matches('/').count());
        self.link(commit, name, Path::new(&format!("{up}blobs/{id}")));
        content
    }

    /// A complete model.
    fn add_model(&self, commit: &str) {
        for name in ["config.json", "tokenizer.json", "README.md"] {
            self.add(commit, name, name.as_bytes());
        }
        self.add(commit, "model.safetensors", &body());
    }
}

/// The hub's list of the files at [`COMMIT`].
fn listing(files: &[(&str, &[u8])]) -> Vec<u8> {
    let siblings: Vec<_> = files
        .iter()
        .map(|(name, content)| match content.len() {
            size @ ..1000 => serde_json::json!({"rfilename": name, "size": size}),
            size => serde_json::json!({"rfilename": name,
                "lfs": {"sha256": sha256(content), "size": size}}),
        })
        .collect();
    serde_json::json!({"sha": COMMIT, "siblings": siblings})
        .to_string()
        .into_bytes()
}

/// A hub with the repository `o/r`, whose branch `main` is at [`COMMIT`].
async fn hub(files: Vec<(&'static str, Vec<u8>)>) -> Server {
    let answer = move |path: &str| {
        if path == "/api/models/o/r/revision/main?blobs=true" {
            let files: Vec<_> = files.iter().map(|(n, c)| (*n, c.as_slice())).collect();
            return listing(&files);
        }
        let name = path
            .strip_prefix(&format!("/o/r/resolve/{COMMIT}/"))
            .unwrap();
        files.iter().find(|(n, _)| *n == name).unwrap().1.clone()
    };
    serve_paths(answer, vec![Answer::Whole]).await
}

fn paths(server: &Server) -> Vec<String> {
    let requests = server.requests.lock().unwrap();
    requests.iter().map(|(path, _)| path.clone()).collect()
}

fn source_of(folder: &Path) -> String {
    let receipt = std::fs::read(folder.join("fetched.json")).unwrap();
    let receipt: serde_json::Value = serde_json::from_slice(&receipt).unwrap();
    receipt["source"].as_str().unwrap().to_owned()
}

/// A fetcher that may not use the network.
fn offline(home: &Path) -> Fetcher {
    Fetcher {
        offline: true,
        ..fetcher(home)
    }
}

/// A file's content, mode and modification time, without its number of links.
fn state(path: &Path) -> (Vec<u8>, u32, i64, i64) {
    let found = path.metadata().unwrap();
    let content = std::fs::read(path).unwrap();
    (
        content,
        found.permissions().mode(),
        found.mtime(),
        found.mtime_nsec(),
    )
}

#[tokio::test]
async fn a_pinned_file_in_the_cache_is_linked_without_a_network() {
    let home = tempfile::tempdir().unwrap();
    let content = Shared::new(home.path()).add(COMMIT, "weights.bin", &body());
    let wanted = manifest(&body(), vec![repository(COMMIT, &["weights.bin"])]);
    // No server listens at this fetcher's hub.
    let fetcher = fetcher(home.path());
    let notes = Notes::default();

    let folder = fetcher.fetch_manifest(&wanted, &notes).await.unwrap();

    let ours = folder.join("weights.bin").symlink_metadata().unwrap();
    assert!(ours.is_file(), "a link to the cache's link would dangle");
    assert_eq!(ours.ino(), content.metadata().unwrap().ino());
    let source = format!("hub o/r@{COMMIT}, from the cache of Hugging Face");
    assert_eq!(source_of(&folder), source);
    assert_eq!(notes.0.into_inner().unwrap(), [source]);
    assert_eq!(entries(home.path()), ["thing"]);
}

#[tokio::test]
async fn a_pinned_file_that_the_cache_lacks_is_downloaded_without_a_listing() {
    let home = tempfile::tempdir().unwrap();
    let server = hub(vec![("weights.bin", body())]).await;
    let wanted = manifest(&body(), vec![repository(COMMIT, &["weights.bin"])]);
    let fetcher = from_hub(home.path(), &server);
    let folder = fetched(&fetcher, &wanted).await;
    assert_eq!(
        paths(&server),
        [format!("/o/r/resolve/{COMMIT}/weights.bin")]
    );
    assert_eq!(source_of(&folder), format!("hub o/r@{COMMIT}"));
}

#[tokio::test]
async fn only_files_that_the_cache_lacks_are_downloaded() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    cache.add(COMMIT, "model.safetensors", &body());
    // The cache has an old commit for the branch.
    cache.write("refs/main", OLDER.as_bytes());
    cache.add(OLDER, "config.json", b"{'old'}");
    let files = vec![
        ("config.json", b"{'new'}".to_vec()),
        ("model.safetensors", body()),
    ];
    let server = hub(files).await;
    let fetcher = from_hub(home.path(), &server);

    let folder = model(&fetcher, "o/r").await.unwrap();

    let config = std::fs::read(folder.join("config.json")).unwrap();
    assert_eq!(config, b"{'new'}");
    let requests = paths(&server);
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests[1].ends_with("/config.json"), "{requests:?}");
    assert_eq!(
        source_of(&folder),
        format!("hub o/r@{COMMIT}, 1 of 2 files from the cache of Hugging Face")
    );
}

#[tokio::test]
async fn offline_a_branch_is_the_commit_in_the_caches_refs() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    cache.write("refs/main", COMMIT.as_bytes());
    cache.add_model(COMMIT);
    cache.add(COMMIT, "onnx/extra.json", b"{}");
    let fetcher = offline(home.path());

    let folder = model(&fetcher, "o/r").await.unwrap();

    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "config.json",
            "fetched.json",
            "model.safetensors",
            "tokenizer.json"
        ]
    );
    assert_eq!(
        std::fs::read(folder.join("model.safetensors")).unwrap(),
        body()
    );
    assert!(source_of(&folder).starts_with(&format!("hub o/r@{COMMIT}, from")));
    assert!(
        fetcher
            .fetch(ArtifactKind::Model, &format!("o/r@{COMMIT}"), &NoProgress)
            .await
            .is_ok(),
        "a full commit needs no entry in refs"
    );
}

#[tokio::test]
async fn offline_a_data_set_is_read_from_the_data_sets_folder() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared(home.path().join("hugging-face/hub/datasets--o--r"));
    cache.write("refs/main", COMMIT.as_bytes());
    cache.add(COMMIT, "data/a.jsonl", b"{}");
    let mut wanted = manifest(b"{}", vec![]);
    wanted.sources = vec![Source::Hub {
        repo: "o/r".to_owned(),
        revision: "main".to_owned(),
        include: vec!["data/*.jsonl".to_owned()],
        dataset: true,
        rename: BTreeMap::from([("data/a.jsonl".to_owned(), "weights.bin".to_owned())]),
    }];
    let fetcher = offline(home.path());
    let folder = fetched(&fetcher, &wanted).await;
    assert_holds(&folder, b"{}");
}

#[tokio::test]
async fn offline_the_error_names_what_the_cache_lacks_and_the_remedy() {
    let home = tempfile::tempdir().unwrap();
    let fetcher = offline(home.path());
    let wanted =
        |revision, include: &[&str]| manifest(&body(), vec![repository(revision, include)]);
    let says =
        "does not contain o/r@main … HF_HUB_OFFLINE … or run `hf download o/r --revision main`";
    assert_fails(&fetcher, &wanted("main", &["*.bin"]), says).await;

    let cache = Shared::new(home.path());
    let says = "has no file weights.bin";
    assert_fails(&fetcher, &wanted(COMMIT, &["weights.bin"]), says).await;
    let says = "does not contain o/r@../main";
    assert_fails(&fetcher, &wanted("../main", &["weights.bin"]), says).await;
    cache.write("refs/main", b"../../../elsewhere");
    let says = "refs/main does not contain a commit";
    assert_fails(&fetcher, &wanted("main", &["weights.bin"]), says).await;
}

#[tokio::test]
async fn offline_a_model_that_is_only_partly_in_the_cache_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    cache.write("refs/main", COMMIT.as_bytes());
    let fetcher = offline(home.path());
    let wanted = {
        let mut wanted = manifest(b"", vec![repository("main", &["*.json", "*.safetensors"])]);
        wanted.files.clear();
        wanted
    };
    for (name, lacks) in [
        ("config.json", "lacks tokenizer.json"),
        ("tokenizer.json", "lacks weights"),
        ("model.safetensors.index.json", "lacks weights"),
        ("model-00001-of-00002.safetensors", "lacks weights"),
    ] {
        cache.add(COMMIT, name, name.as_bytes());
        assert_fails(&fetcher, &wanted, lacks).await;
    }
    let last = "model-00002-of-00002.safetensors";
    cache.add(COMMIT, last, last.as_bytes());

    // The hub's list decides, if the cache has it.
    let tree = serde_json::json!({"format_version": 1, "files": {
        "generation_config.json": {"size": 2, "blob_id": "00"}}});
    let file = format!("trees/{COMMIT}.json");
    cache.write(&file, tree.to_string().as_bytes());
    assert_fails(&fetcher, &wanted, "has no file generation_config.json").await;
    // A list with something else than a SHA-256 is not the hub's.
    let damaged = tree.to_string().replace("blob_id", "lfs_sha256");
    cache.write(&file, damaged.as_bytes());
    fetched(&fetcher, &wanted).await;
}

/// Wrong targets for a file's link in the cache, each with the text that its error contains.
fn damages(home: &Path, cache: &Shared) -> Vec<(&'static str, PathBuf)> {
    let outside = home.join("secret");
    std::fs::write(&outside, body()).unwrap();
    let mut other = body();
    other[5] ^= 1;
    let neighbour = home.join("hugging-face/hub/models--o--other/blobs/a");
    std::fs::create_dir_all(neighbour.parent().unwrap()).unwrap();
    std::fs::write(&neighbour, body()).unwrap();
    vec![
        ("leads out of its repository's folder", outside),
        ("leads out of its repository's folder", neighbour),
        ("has the SHA-256", cache.write("blobs/other", &other)),
        ("has 3 bytes instead of", cache.write("blobs/short", b"abc")),
        ("does not lead to a file", PathBuf::from("../../blobs/gone")),
        ("is not a file", cache.0.join("blobs")),
    ]
}

#[tokio::test]
async fn a_wrong_file_in_the_cache_is_downloaded_instead_and_not_changed() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    let server = hub(vec![("weights.bin", body())]).await;
    let fetcher = from_hub(home.path(), &server);
    for revision in ["main", COMMIT] {
        let wanted = manifest(&body(), vec![repository(revision, &["weights.bin"])]);
        for (what, target) in damages(home.path(), &cache) {
            let link = cache.link(COMMIT, "weights.bin", &target);
            let before = target.is_file().then(|| state(&target));
            let notes = Notes::default();
            let folder = fetcher.fetch_manifest(&wanted, &notes).await.unwrap();
            assert_holds(&folder, &body());
            assert_eq!(source_of(&folder), format!("hub o/r@{COMMIT}"), "{what}");
            let notes = notes.0.into_inner().unwrap();
            assert!(
                notes.len() == 1
                    && notes[0].contains(what)
                    && notes[0].ends_with("o/r/weights.bin is downloaded instead"),
                "{what}: {notes:?}"
            );
            assert_eq!(before, target.is_file().then(|| state(&target)), "{what}");
            std::fs::remove_file(link).unwrap();
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}

#[tokio::test]
async fn offline_a_wrong_file_in_the_cache_is_an_error_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    let wanted = manifest(&body(), vec![repository(COMMIT, &["weights.bin"])]);
    let fetcher = offline(home.path());
    for (what, target) in damages(home.path(), &cache) {
        let link = cache.link(COMMIT, "weights.bin", &target);
        let says = format!("{what} … models--o--r … delete that file and run `hf download");
        assert_fails(&fetcher, &wanted, &says).await;
        assert!(entries(home.path()).is_empty(), "{what}");
        std::fs::remove_file(link).unwrap();
    }
}

#[tokio::test]
async fn offline_a_large_file_must_match_the_digest_in_its_name() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    cache.add_model(COMMIT);
    let content = cache.0.join("blobs").join(sha256(&body()));
    let mut damaged = body();
    damaged[9] ^= 1;
    std::fs::write(&content, damaged).unwrap();
    let fetcher = offline(home.path());
    let name = format!("o/r@{COMMIT}");
    let error = fetcher
        .fetch(ArtifactKind::Model, &name, &NoProgress)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("has the SHA-256"), "{error}");
    assert!(
        entries(home.path()).is_empty(),
        "a linked file does not count as a partial download"
    );
}

#[tokio::test]
async fn nothing_writes_into_a_file_of_the_cache() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    let contents = [
        cache.add(COMMIT, "weights.bin", &body()),
        cache.add(COMMIT, "other.json", b"{'other'}"),
    ];
    for content in &contents {
        std::fs::set_permissions(content, std::fs::Permissions::from_mode(0o640)).unwrap();
    }
    let before: Vec<_> = contents.iter().map(|path| state(path)).collect();

    // A file has the receipt's name.
    let mut wanted = manifest(&body(), vec![]);
    wanted.files.push(File {
        path: "fetched.json".to_owned(),
        size: 9,
        sha256: sha256(b"{'other'}"),
    });
    wanted.sources = vec![Source::Hub {
        repo: "o/r".to_owned(),
        revision: COMMIT.to_owned(),
        include: vec!["weights.bin".to_owned(), "other.json".to_owned()],
        dataset: false,
        rename: BTreeMap::from([("other.json".to_owned(), "fetched.json".to_owned())]),
    }];
    let fetcher = fetcher(home.path());
    let folder = fetched(&fetcher, &wanted).await;
    assert!(source_of(&folder).contains("from the cache of Hugging Face"));
    assert_eq!(
        before,
        contents.iter().map(|p| state(p)).collect::<Vec<_>>()
    );

    // A process was killed after it had linked a file; the next one downloads another under the same name.
    let staging = home.path().join("models/.thing.partial");
    std::fs::create_dir_all(staging.join("linked")).unwrap();
    std::fs::create_dir_all(staging.join("ready")).unwrap();
    std::fs::hard_link(&contents[0], staging.join("linked/0")).unwrap();
    std::fs::hard_link(&contents[0], staging.join("ready/weights.bin")).unwrap();
    let server = serve(b"new".to_vec(), vec![Answer::Break(1), Answer::Whole]).await;
    let next = manifest(
        b"new",
        vec![repository(COMMIT, &["weights.bin"]), url(&server.address)],
    );
    let folder = fetched(&fetcher, &next).await;
    assert_holds(&folder, b"new");
    assert_eq!(
        before,
        contents.iter().map(|p| state(p)).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn either_cache_may_be_deleted() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    let content = cache.add(COMMIT, "weights.bin", &body());
    let wanted = manifest(&body(), vec![repository(COMMIT, &["weights.bin"])]);
    let fetcher = fetcher(home.path());

    let folder = fetched(&fetcher, &wanted).await;
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(std::fs::read(content).unwrap(), body());

    let folder = fetched(&fetcher, &wanted).await;
    std::fs::remove_dir_all(&cache.0).unwrap();
    assert_holds(&folder, &body());
    assert_eq!(
        fetched(&fetcher, &wanted).await,
        folder,
        "existing files are not fetched again"
    );
}

#[tokio::test]
async fn a_cache_on_another_file_system_is_copied() {
    let home = tempfile::tempdir().unwrap();
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        println!(
            "SKIPPED: a copy from another file system; /dev/shm does not exist or is not writable"
        );
        return;
    };
    let device = |path: &Path| path.metadata().unwrap().dev();
    if device(home.path()) == device(other.path()) {
        println!("SKIPPED: a copy from another file system; /dev/shm is on the same one");
        return;
    }
    let content = Shared::new(other.path()).add(COMMIT, "weights.bin", &body());
    let wanted = manifest(&body(), vec![repository(COMMIT, &["weights.bin"])]);
    let mut fetcher = fetcher(home.path());
    fetcher.hub_cache = other.path().join("hugging-face/hub");
    let folder = fetched(&fetcher, &wanted).await;
    assert_holds(&folder, &body());
    assert_eq!(content.metadata().unwrap().nlink(), 1);
    assert!(source_of(&folder).ends_with("from the cache of Hugging Face"));
}
