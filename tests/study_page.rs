//! The committed tables and figures of the paper's study are those that `rapid report` makes of its committed runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::programs::{rapid, run};
use tests::repository::root;

fn folder() -> PathBuf {
    root().join("docs/study/rapid")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a folder with this ending, sorted.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .collect();
    paths.sort();
    paths
}

/// The packed blocks of a stage.
fn blocks(stage: &str) -> Vec<PathBuf> {
    let all = files(&folder().join("results"), ".tar.gz").into_iter();
    let number = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".tar.gz")?;
        let number = name.strip_prefix(stage)?.strip_prefix('-')?;
        number.parse::<usize>().ok()
    };
    all.filter(|path| number(path).is_some()).collect()
}

/// The stages whose reports are committed.
fn reported() -> Vec<String> {
    let sweeps = files(&folder().join("sweeps"), ".toml").into_iter();
    let stages = sweeps.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    stages
        .filter(|stage| folder().join(stage).is_dir())
        .collect()
}

#[test]
fn the_committed_tables_are_those_of_the_committed_runs() {
    let stages = reported();
    assert!(stages.contains(&"pilot".to_owned()), "{stages:?}");
    for stage in stages {
        let out = tempfile::tempdir().unwrap();
        let mut manifest = Vec::new();
        for block in blocks(&stage) {
            let tar = |more: &[&str]| {
                let mut command = Command::new("tar");
                command
                    .args(more)
                    .arg("-f")
                    .arg(&block)
                    .current_dir(out.path());
                let output = command.output().unwrap();
                assert!(output.status.success(), "{output:?}");
                output.stdout
            };
            tar(&["-xz", "--exclude=./manifest.jsonl"]);
            manifest.extend(tar(&["-xzO", "./manifest.jsonl"]));
        }
        std::fs::write(out.path().join("manifest.jsonl"), manifest).unwrap();
        let times: &[&str] = if stage == "time" {
            &[]
        } else {
            &["--no-times"]
        };
        let _ = run(rapid(["report"]).args(times).arg(out.path())).success();
        for ending in [".csv", ".svg"] {
            let committed = files(&folder().join(&stage), ending);
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            let made = files(out.path(), ending);
            assert_eq!(
                committed.iter().map(name).collect::<Vec<_>>(),
                made.iter().map(name).collect::<Vec<_>>(),
                "{stage}: bash scripts/study.sh {stage} report"
            );
            for file in committed {
                let made = out.path().join(file.file_name().unwrap());
                assert!(
                    read(&file) == read(&made),
                    "{} is not what rapid report makes: bash scripts/study.sh {stage} report",
                    file.display()
                );
            }
        }
    }
}
