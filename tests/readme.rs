//! What README.md tells people to type exists, and the verifier answers what it prints.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::BTreeSet;

use serde_json::Value;
use tests::programs::{Verifier, program, run};
use tests::repository::root;

/// Commands of the README: the lines of its code blocks that begin with one of the programs, continuation lines joined.
fn commands() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let mut code = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            code += line;
            code.push('\n');
        }
    }
    code.replace("\\\n", " ")
        .lines()
        .map(|line| {
            line.split(" # ")
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter(|words: &Vec<String>| {
            words
                .first()
                .is_some_and(|word| word == "rapid" || word == "rapid-verifier" || word == "bash")
        })
        .collect()
}

#[test]
fn every_command_and_every_flag_is_there() {
    let commands = commands();
    let mut seen = BTreeSet::new();
    for words in commands.iter().filter(|words| words[0] != "bash") {
        let (name, subcommand) = (&words[0], &words[1]);
        // `rapid study estimator` has a help of its own; what is no subcommand changes nothing.
        let named = words[1..].iter().take_while(|word| !word.starts_with('-'));
        let help = run(std::process::Command::new(program(name))
            .args(named)
            .arg("--help"))
        .success()
        .stdout;
        for flag in words.iter().filter(|word| word.starts_with('-')) {
            let flag = flag.split('=').next().unwrap_or_default();
            assert!(
                help.contains(flag),
                "README.md: {words:?}: `{name} {subcommand}` has no {flag}"
            );
        }
        seen.insert(format!("{name} {subcommand}"));
    }
    for must in [
        "rapid train",
        "rapid eval",
        "rapid-verifier serve",
        "rapid-verifier score",
    ] {
        assert!(
            seen.contains(must),
            "README.md does not show `{must}`; it shows {seen:?}"
        );
    }
}

#[test]
fn every_script_is_there() {
    let commands = commands();
    let scripts: Vec<_> = commands
        .iter()
        .filter(|words| words[0] == "bash")
        .map(|words| &words[1])
        .collect();
    assert!(
        scripts
            .iter()
            .any(|script| *script == "scripts/quickstart.sh")
            && scripts.iter().any(|script| *script == "scripts/test.sh"),
        "{scripts:?}"
    );
    for script in scripts {
        assert!(root().join(script).is_file(), "README.md names {script}");
    }
}

/// The body of the request to `/v1/verify` that the README shows, and the answer that it prints below.
fn shown() -> (String, Value) {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, after) = text
        .split_once("/v1/verify -H")
        .expect("README.md asks the verifier");
    let (_, after) = after.split_once("-d '").unwrap();
    let (body, after) = after.split_once('\'').unwrap();
    let (_, after) = after.split_once("```json\n").unwrap();
    let (answer, _) = after.split_once("```").unwrap();
    (body.to_owned(), serde_json::from_str(answer).unwrap())
}

#[test]
fn the_answer_that_is_printed_is_the_one_that_the_service_gives() {
    let (body, printed) = shown();
    let verifier = Verifier::start(&["--set", "code.sandbox=none", "--require", "math"]);
    let answer = verifier.request("POST", "/v1/verify", body.as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    // Time depends on the machine, and of a key the start may be enough.
    let taken = |results: &Value| {
        let mut result = results["results"][0].clone();
        let key = result["key"].take();
        assert!(result["elapsed_ms"].take().is_number(), "{results}");
        (key.as_str().unwrap().to_owned(), result)
    };
    let ((printed_key, printed), (key, given)) = (taken(&printed), taken(&answer.json()));
    assert_eq!(printed, given, "README.md prints another answer");
    let start = printed_key.trim_end_matches('…');
    assert!(
        start.len() >= 8 && key.starts_with(start) && (start.len() == 64 || start != printed_key),
        "README.md prints the key {printed_key}; it is {key}"
    );
}

#[test]
fn every_link_into_the_repository_leads_somewhere() {
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = link.split('#').next().unwrap_or_default();
            assert!(
                path.is_empty() || path.contains("://") || root().join(path).exists(),
                "{page} links to {link}"
            );
        }
    }
}
