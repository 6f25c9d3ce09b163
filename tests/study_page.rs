//! The page of the paper's study says what its committed results say: the CSV files are those of `rapid report`, and every number of the page is in one of them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::BTreeSet;
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

/// A number of a page.
#[derive(Debug, Clone, PartialEq)]
struct Number {
    value: f64,
    /// Digits after the point.
    digits: usize,
    /// Whether a percent sign follows.
    percent: bool,
}

/// The numbers of a text that are no part of a word: `135M`, `H16` and `2410.12345` in a link are none.
fn numbers(text: &str) -> Vec<Number> {
    let mut found = Vec::new();
    let characters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < characters.len() {
        if !characters[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        let inside = |at: usize| {
            let next = characters.get(at + 1).is_some_and(char::is_ascii_digit);
            characters[at].is_ascii_digit() || matches!(characters[at], '.' | ',') && next
        };
        while at < characters.len() && inside(at) {
            at += 1;
        }
        let word = |c: Option<&char>| {
            c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/'))
        };
        let before = start
            .checked_sub(1)
            .and_then(|before| characters.get(before));
        // A sign is no part of a word.
        let is_sign =
            before == Some(&'-') && !word(start.checked_sub(2).and_then(|n| characters.get(n)));
        if word(before) && !is_sign || word(characters.get(at)) {
            continue;
        }
        let digits: String = characters[start..at]
            .iter()
            .filter(|c| **c != ',')
            .collect();
        found.push(Number {
            value: digits.parse().unwrap(),
            digits: digits.split_once('.').map_or(0, |(_, after)| after.len()),
            percent: characters.get(at) == Some(&'%'),
        });
    }
    found
}

/// The page's text without commands, code and the targets of links.
fn prose(page: &str) -> String {
    let mut kept = String::new();
    for (number, part) in page.split("```").enumerate() {
        if number % 2 == 0 {
            let outside = part.split('`').step_by(2);
            kept.extend(outside.flat_map(|text| [text, " x "]));
        }
    }
    let mut text = String::new();
    let mut rest = kept.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').unwrap().1;
    }
    text + rest
}

#[test]
fn every_number_of_the_page_is_in_a_table_or_in_the_plan() {
    let mut tables = String::new();
    // The tables of the reports, and beside the packed blocks what `rapid bench` predicts.
    for stage in reported().into_iter().chain(["results".to_owned()]) {
        for csv in files(&folder().join(stage), ".csv") {
            tables += &read(&csv);
        }
    }
    let mut plan = read(&folder().join("preregistration.md"));
    for sweep in files(&folder().join("sweeps"), ".toml") {
        plan += &read(&sweep);
    }
    let [tables, plan] =
        [tables, plan].map(|text| numbers(&text.replace(',', " , ").replace('"', " ")));
    assert!(tables.len() > 50 && plan.len() > 50);
    let page = read(&folder().join("README.md"));
    let mut strange = Vec::new();
    for number in numbers(&prose(&page)) {
        let rounded = |other: &Number| {
            let unit = 0.5 * 10f64.powi(-(number.digits as i32));
            (other.value - number.value).abs() <= unit * 1.000_001
        };
        let measured = tables.iter().any(rounded);
        // Sizes and levels of the plan are whole numbers.
        let planned = number.digits == 0 && plan.contains(&number);
        if !measured && !planned {
            strange.push(number);
        }
    }
    assert!(strange.is_empty(), "not in any CSV file: {strange:?}");
}

#[test]
fn the_page_says_how_many_blocks_of_each_stage_are_made() {
    let page = read(&folder().join("README.md"));
    let mut stages = BTreeSet::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, stage, made, ..] = cells[..] else {
            continue;
        };
        let counts = made.split_once(" of ").map(|(m, p)| (m.parse(), p.parse()));
        let Some((Ok::<usize, _>(made), Ok::<usize, _>(planned))) = counts else {
            continue;
        };
        let stage = stage.trim_matches('`');
        assert_eq!(made, blocks(stage).len(), "{stage}");
        assert!(made <= planned, "{stage}");
        stages.insert(stage.to_owned());
    }
    let sweeps = files(&folder().join("sweeps"), ".toml").into_iter();
    let names = sweeps.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    // The sweep for a GPU has a page of its own.
    assert_eq!(stages, names.filter(|name| name != "gpu").collect());
}

#[test]
fn numbers_are_told_from_names() {
    let text = "SmolLM2-135M gains 4.5% (−1.25 to 1,000.5), `H = 16`, [by 7](x/8.md) and -3 in H2";
    let found = numbers(&prose(text));
    let found: Vec<(f64, usize, bool)> = found
        .iter()
        .map(|n| (n.value, n.digits, n.percent))
        .collect();
    assert_eq!(
        found,
        [
            (4.5, 1, true),
            (1.25, 2, false),
            (1000.5, 1, false),
            (7.0, 0, false),
            (3.0, 0, false)
        ]
    );
}
