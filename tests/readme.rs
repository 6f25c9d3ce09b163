//! What README.md tells people to type exists.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::BTreeSet;

use tests::programs::{program, run};
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
