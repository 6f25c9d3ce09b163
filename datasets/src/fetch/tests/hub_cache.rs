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
        let digits = if content.len() < 1000 { 40 } else { 64 };
        let id = &digest[..digits];
        let content = self.write(&format!("blobs/{id}"), content);
        let up = "../".repeat(2 + name.matches('/').count());
        self.link(commit, name, Path::new(&format!("{up}blobs/{id}")));
        content
    }

    /// A complete model, as the branch `main`; returns the path of its weights.
    fn add_model(&self) -> PathBuf {
        self.write("refs/main", COMMIT.as_bytes());
        for name in ["config.json", "tokenizer.json", "README.md"] {
            self.add(COMMIT, name, name.as_bytes());
        }
        self.add(COMMIT, "model.safetensors", &body())
    }
}

/// A hub with the repository `o/r`; its branch `main` is at [`COMMIT`].
async fn hub(files: Vec<(&'static str, Vec<u8>)>) -> Server {
    let sibling = |(name, content): &(&str, Vec<u8>)| match content.len() {
        size @ ..1000 => serde_json::json!({"rfilename": name, "size": size}),
        size => serde_json::json!({"rfilename": name,
            "lfs": {"sha256": sha256(content), "size": size}}),
    };
    let siblings: Vec<_> = files.iter().map(sibling).collect();
    let listing = serde_json::json!({"sha": COMMIT, "siblings": siblings}).to_string();
    let answer = move |path: &str| {
        if path == "/api/models/o/r/revision/main?blobs=true" {
            return listing.clone().into_bytes();
        }
        let name = path.strip_prefix(&format!("/o/r/resolve/{COMMIT}/"));
        let mut files = files.iter();
        let (_, content) = files.find(|(n, _)| Some(*n) == name).unwrap();
        content.clone()
    };
    serve_paths(answer, vec![Answer::Whole]).await
}

fn source_of(folder: &Path) -> String {
    receipt(folder)["source"].as_str().unwrap().to_owned()
}

/// A fetcher that may not use the network.
fn offline(home: &Path) -> Fetcher {
    Fetcher {
        offline: true,
        ..fetcher(home, NO_HUB)
    }
}

/// A file's content, mode and modification time, without its number of links.
fn state(path: &Path) -> (Vec<u8>, u32, i64, i64) {
    let found = path.metadata().unwrap();
    let content = std::fs::read(path).unwrap();
    let mode = found.permissions().mode();
    (content, mode, found.mtime(), found.mtime_nsec())
}

#[tokio::test]
async fn a_pinned_file_in_the_cache_is_linked_without_a_network() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    let content = cache.add(COMMIT, "weights.bin", &body());
    let wanted = manifest(&body(), vec![repository(COMMIT, &["weights.bin"])]);
    let fetcher = fetcher(home.path(), NO_HUB);

    let (folder, notes) = noted(&fetcher, &wanted).await;

    let ours = folder.join("weights.bin").symlink_metadata().unwrap();
    assert!(ours.is_file(), "a link to the cache's link would dangle");
    assert_eq!(ours.ino(), content.metadata().unwrap().ino());
    let source = format!("hub o/r@{COMMIT}, 1 of 1 files from the cache of Hugging Face");
    assert_eq!((source_of(&folder), notes), (source.clone(), vec![source]));
    assert_eq!(entries(home.path()), ["thing"]);

    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(std::fs::read(content).unwrap(), body());
    fetched(&fetcher, &wanted).await;
    std::fs::remove_dir_all(&cache.0).unwrap();
    assert_holds(&folder, &body());
}

#[tokio::test]
async fn only_files_that_the_cache_lacks_are_downloaded() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    cache.add(COMMIT, "model.safetensors", &body());
    // The cache has an old commit for the branch.
    cache.write("refs/main", OLDER.as_bytes());
    cache.add(OLDER, "config.json", b"{'old'}");
    let new = || b"{'new'}".to_vec();
    let server = hub(vec![("config.json", new()), ("model.safetensors", body())]).await;
    let mut fetcher = fetcher(home.path(), &server.address);

    let folder = model(&fetcher, "o/r").await.unwrap();

    assert_eq!(std::fs::read(folder.join("config.json")).unwrap(), new());
    let source = format!("hub o/r@{COMMIT}, 1 of 2 files from the cache of Hugging Face");
    assert_eq!(source_of(&folder), source);
    // A pinned file needs no listing.
    fetcher.hub_cache = home.path().to_owned();
    let names = [("config.json", "weights.bin")];
    let source = renaming(COMMIT, &["config.json"], &names, false);
    let folder = fetched(&fetcher, &manifest(&new(), vec![source])).await;
    assert_eq!(source_of(&folder), format!("hub o/r@{COMMIT}"));
    let config = format!("/o/r/resolve/{COMMIT}/config.json");
    let requests = server.requests(|request| request.path.clone());
    assert_eq!(requests[1..], [config.clone(), config]);
}

#[tokio::test]
async fn offline_a_branch_is_the_commit_in_the_caches_refs() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    cache.add_model();
    cache.add(COMMIT, "onnx/extra.json", b"{}");
    let fetcher = offline(home.path());

    let folder = model(&fetcher, "o/r").await.unwrap();

    let names = names_in(&folder).join(" ");
    let all = "config.json fetched.json model.safetensors tokenizer.json";
    assert_eq!(names, all);
    let weights = std::fs::read(folder.join("model.safetensors")).unwrap();
    assert_eq!(weights, body());
    assert!(source_of(&folder).starts_with(&format!("hub o/r@{COMMIT}, 3 of 3")));
    // A full commit needs no entry in refs.
    model(&fetcher, &format!("o/r@{COMMIT}")).await.unwrap();

    // A data set has a folder of another name.
    let cache = Shared(home.path().join("hugging-face/hub/datasets--o--r"));
    cache.write("refs/main", COMMIT.as_bytes());
    cache.add(COMMIT, "data/a.jsonl", b"{}");
    let names = [("data/a.jsonl", "weights.bin")];
    let source = renaming("main", &["data/*.jsonl"], &names, true);
    let wanted = manifest(b"{}", vec![source]);
    assert_holds(&fetched(&fetcher, &wanted).await, b"{}");
}

#[tokio::test]
async fn offline_the_error_names_what_the_cache_lacks_and_the_remedy() {
    let home = tempfile::tempdir().unwrap();
    let fetcher = offline(home.path());
    let cache = Shared::new(home.path());
    let command = "HF_HUB_OFFLINE … or run `hf download o/r --revision main`";
    cache.write("refs/wrong", b"../../elsewhere");
    let no_main = format!("does not contain o/r@main … {command}");
    for (revision, include, says) in [
        ("main", "*.bin", no_main.as_str()),
        (COMMIT, "weights.bin", "has no file weights.bin"),
        ("../main", "weights.bin", "does not contain o/r@../main"),
        ("wrong", "*.bin", "refs/wrong does not contain a commit"),
    ] {
        let wanted = manifest(&body(), vec![repository(revision, &[include])]);
        assert_fails(&fetcher, &wanted, says).await;
    }

    // Only a part of the model is there.
    cache.write("refs/main", COMMIT.as_bytes());
    let patterns = ["*.json", "*.safetensors"];
    let mut wanted = manifest(b"", vec![repository("main", &patterns)]);
    wanted.files.clear();
    for (name, lacks) in [
        ("config.json", "lacks tokenizer.json"),
        ("tokenizer.json", "lacks weights"),
        ("model.safetensors.index.json", "lacks weights"),
        ("model-00001-of-00002.safetensors", "lacks weights"),
    ] {
        cache.add(COMMIT, name, name.as_bytes());
        assert_fails(&fetcher, &wanted, lacks).await;
    }
    cache.add(COMMIT, "model-00002-of-00002.safetensors", b"the rest");

    // The hub's list decides, if the cache has it in the expected form: which files there are, their sizes and their SHA-256.
    let other = "0".repeat(64);
    let all = "config.json fetched.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json tokenizer.json";
    for (version, name, size, sha256, outcome) in [
        (1, "gone.json", 2, None, Err("has no file gone.json")),
        (
            1,
            "config.json",
            10,
            None,
            Err("has 11 bytes instead of 10"),
        ),
        (1, "config.json", 11, Some(&*other), Err("has the SHA-256")),
        (1, "config.json", 10, Some("00"), Ok(all)),
        (2, "config.json", 10, None, Ok(all)),
        (1, "config.json", 11, None, Ok("config.json fetched.json")),
    ] {
        let files =
            serde_json::json!({ name: {"size": size, "lfs_sha256": sha256, "blob_id": ""} });
        let tree = serde_json::json!({ "format_version": version, "files": files });
        cache.write(&format!("trees/{COMMIT}.json"), tree.to_string().as_bytes());
        match outcome {
            Err(says) => assert_fails(&fetcher, &wanted, says).await,
            Ok(names) => {
                let folder = fetched(&fetcher, &wanted).await;
                assert_eq!(names_in(&folder).join(" "), names);
                std::fs::remove_dir_all(folder).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_file_in_the_cache_is_downloaded_instead_or_offline_an_error() {
    let home = tempfile::tempdir().unwrap();
    let cache = Shared::new(home.path());
    let server = hub(vec![("weights.bin", body())]).await;
    let fetcher = fetcher(home.path(), &server.address);
    let wanted = |revision| manifest(&body(), vec![repository(revision, &["weights.bin"])]);
    let put = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, body()).unwrap();
        path.to_owned()
    };
    let mut other = body();
    other[5] ^= 1;
    let neighbour = cache.0.with_file_name("models--o--other").join("blobs/a");
    let leads_out = "leads out of its repository's folder";
    for (what, target) in [
        (leads_out, put(&home.path().join("secret"))),
        (leads_out, put(&neighbour)),
        ("has the SHA-256", cache.write("blobs/other", &other)),
        ("has 3 bytes instead of", cache.write("blobs/short", b"abc")),
        ("does not lead to a file", PathBuf::from("../../blobs/gone")),
        ("is not a file", cache.0.join("blobs")),
    ] {
        let link = cache.link(COMMIT, "weights.bin", &target);
        let before = target.is_file().then(|| state(&target));
        for revision in ["main", COMMIT] {
            let (folder, notes) = noted(&fetcher, &wanted(revision)).await;
            assert_holds(&folder, &body());
            assert_eq!(source_of(&folder), format!("hub o/r@{COMMIT}"), "{what}");
            assert_eq!(notes.len(), 1, "{what}: {notes:?}");
            let says = format!("{what} … o/r/weights.bin is downloaded instead");
            assert_says(&notes[0], &says);
            std::fs::remove_dir_all(folder).unwrap();
        }
        let says = format!("{what} … models--o--r … delete that file and run `hf download");
        assert_fails(&offline(home.path()), &wanted(COMMIT), &says).await;
        assert!(entries(home.path()).is_empty(), "{what}");
        assert_eq!(before, target.is_file().then(|| state(&target)), "{what}");
        std::fs::remove_file(link).unwrap();
    }

    // No list says which SHA-256 a large file has, but its name does.
    let mut damaged = body();
    damaged[9] ^= 1;
    std::fs::write(cache.add_model(), damaged).unwrap();
    let pinned = format!("o/r@{COMMIT}");
    let error = model(&offline(home.path()), &pinned).await.unwrap_err();
    assert_says(&error, "has the SHA-256");
    // A linked file is no partial download.
    assert!(entries(home.path()).is_empty());
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
    let states = || contents.each_ref().map(|path| state(path));
    let before = states();

    // A file has the receipt's name.
    let include = ["weights.bin", "other.json"];
    let names = [("other.json", "fetched.json")];
    let mut wanted = manifest(&body(), vec![renaming(COMMIT, &include, &names, false)]);
    wanted.files.push(File {
        path: "fetched.json".to_owned(),
        size: 9,
        sha256: sha256(b"{'other'}"),
    });
    let fetcher = fetcher(home.path(), NO_HUB);
    let folder = fetched(&fetcher, &wanted).await;
    assert!(source_of(&folder).ends_with("2 of 2 files from the cache of Hugging Face"));
    assert_eq!(before, states());

    // A process was killed after it had linked a file; the next one downloads another under the same name.
    let staging = home.path().join("models/.thing.partial");
    for place in ["linked/0", "ready/weights.bin"] {
        let place = staging.join(place);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::hard_link(&contents[0], place).unwrap();
    }
    let server = serve(b"new".to_vec(), vec![Answer::Break(1), Answer::Whole]).await;
    let sources = vec![repository(COMMIT, &["weights.bin"]), url(&server.address)];
    let folder = fetched(&fetcher, &manifest(b"new", sources)).await;
    assert_holds(&folder, b"new");
    assert_eq!(before, states());
}

#[tokio::test]
async fn a_cache_on_another_file_system_is_copied() {
    let home = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir_in("/dev/shm").ok();
    let device = |path: &Path| path.metadata().unwrap().dev();
    let Some(other) = other.filter(|other| device(home.path()) != device(other.path())) else {
        println!("SKIPPED: a copy from another file system, which /dev/shm is not here");
        return;
    };
    let content = Shared::new(other.path()).add(COMMIT, "weights.bin", &body());
    let wanted = manifest(&body(), vec![repository(COMMIT, &["weights.bin"])]);
    let mut fetcher = fetcher(home.path(), NO_HUB);
    fetcher.hub_cache = other.path().join("hugging-face/hub");
    let folder = fetched(&fetcher, &wanted).await;
    assert_holds(&folder, &body());
    assert_eq!(content.metadata().unwrap().nlink(), 1);
    assert!(source_of(&folder).ends_with("from the cache of Hugging Face"));
}

#[test]
fn a_data_set_is_used_in_place_and_only_from_its_own_folder() {
    let home = tempfile::tempdir().unwrap();
    let shared = Shared(home.path().join("hugging-face/hub/datasets--o--r"));
    let fetcher = offline(home.path());
    assert_eq!(fetcher.hub_files("o/r").unwrap_err().len(), 2);
    shared.write("refs/main", COMMIT.as_bytes());
    shared.add(COMMIT, "main/train.parquet", b"rows");
    shared.add(COMMIT, "README.md", b"text");
    let outside = home.path().join("outside");
    std::fs::write(&outside, b"rows").unwrap();
    shared.link(COMMIT, "test.parquet", &outside);
    let snapshot = shared.0.join("snapshots").join(COMMIT);
    for name in ["o/r", &format!("o/r@{COMMIT}")] {
        let name_of = "main/train.parquet";
        let expected = vec![(name_of.to_owned(), snapshot.join(name_of))];
        assert_eq!(fetcher.hub_files(name), Ok(expected));
    }
    assert!(fetcher.hub_files("o/r@v2").is_err());
}
