//! Runs the commands of the documents, and compares their output with that in the documents. Each page's commands run one after the other, in a fresh shell and an
//! empty folder.
//!
//! `documents.toml` names the pages that continue another page, and the commands that cannot run unchanged, each with its reason. For those commands the test
//! checks only that the program and its flags exist.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::artifacts;
use tests::programs::{free_port, program, run, start};
use tests::repository::root;
use tests::shell::{Shown, commands, files};

/// Time limit for the commands of a page, or of a series of pages, together.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// An exception for one command.
struct Exception {
    page: String,
    /// The start of the command.
    starts: String,
    what: What,
}

enum What {
    /// It does not run.
    NotRun,
    /// It runs with these additional words.
    With(String),
}

fn notes() -> toml::Table {
    let text = std::fs::read_to_string(root().join("tests/documents.toml")).unwrap();
    text.parse().unwrap()
}

/// The files that a page's reader has: their names, and the files of the repository that replace them.
fn own_files(page: &str) -> Vec<(String, PathBuf)> {
    let notes = notes();
    let files = notes["file"].as_array().unwrap().iter();
    files
        .filter(|file| file["page"].as_str() == Some(page))
        .map(|file| {
            let name = file["name"].as_str().unwrap().to_owned();
            (name, root().join(file["from"].as_str().unwrap()))
        })
        .collect()
}

/// The pages of each series, whose commands run one after the other in one folder.
fn series() -> Vec<Vec<String>> {
    let notes = notes();
    let name = |page: &toml::Value| page.as_str().unwrap().to_owned();
    notes["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| {
            series["pages"]
                .as_array()
                .unwrap()
                .iter()
                .map(name)
                .collect()
        })
        .collect()
}

fn exceptions() -> Vec<Exception> {
    let table = notes();
    let read = |entry: &toml::Value| {
        let field = |name: &str| entry.get(name).and_then(toml::Value::as_str);
        let known = ["page", "starts", "with", "not_run", "reason"];
        assert!(
            entry
                .as_table()
                .unwrap()
                .keys()
                .all(|key| known.contains(&key.as_str())),
            "{entry}"
        );
        assert!(
            field("reason").is_some_and(|reason| reason.len() > 10),
            "{entry} has no reason"
        );
        Exception {
            page: field("page").unwrap().to_owned(),
            starts: field("starts").unwrap().to_owned(),
            what: match field("with") {
                Some(with) => What::With(with.to_owned()),
                None => What::NotRun,
            },
        }
    };
    table["command"]
        .as_array()
        .unwrap()
        .iter()
        .map(read)
        .collect()
}

/// The repository's pages, by their paths in it.
fn pages() -> Vec<(String, String)> {
    let mut listed = Command::new("git");
    listed.args(["ls-files", "--", "*.md"]).current_dir(root());
    let names = run(&mut listed).success().stdout;
    let read = |name: &str| {
        (
            name.to_owned(),
            std::fs::read_to_string(root().join(name)).unwrap(),
        )
    };
    names.lines().map(read).collect()
}

fn exception<'a>(all: &'a [Exception], page: &str, shown: &Shown) -> Option<&'a Exception> {
    all.iter()
        .find(|exception| exception.page == page && shown.text.starts_with(&exception.starts))
}

#[test]
fn every_exception_names_an_existing_command() {
    let pages = pages();
    for exception in exceptions() {
        let found = pages.iter().find(|(name, _)| *name == exception.page);
        let (_, text) = found.unwrap_or_else(|| panic!("{} is not a page", exception.page));
        assert!(
            commands(text)
                .iter()
                .any(|shown| shown.text.starts_with(&exception.starts)),
            "{} does not have: {}",
            exception.page,
            exception.starts
        );
    }
}

#[test]
fn every_program_and_flag_exists_whether_the_command_runs_or_not() {
    let mut looked_up = 0;
    for (page, text) in pages() {
        for shown in commands(&text) {
            let words = shown.words();
            match words[0] {
                "bash" => assert!(root().join(words[1]).is_file(), "{page}: {}", shown.text),
                name @ ("rapid" | "rapid-verifier") => {
                    // `rapid study estimator` has its own help; a word that is not a subcommand changes nothing.
                    let subcommands = words[1..].iter().take_while(|word| !word.starts_with('-'));
                    let help = run(Command::new(program(name)).args(subcommands).arg("--help"));
                    let help = help.success().stdout;
                    for flag in words.iter().filter(|word| word.starts_with('-')) {
                        let flag = flag.split('=').next().unwrap_or_default();
                        assert!(help.contains(flag), "{page}: {}: no {flag}", shown.text);
                    }
                    looked_up += 1;
                }
                _ => {}
            }
        }
    }
    assert!(looked_up >= 20, "{looked_up}");
}

#[test]
fn the_readmes_commands_run_and_print_the_documented_output() {
    run_pages(&["README.md"]);
}

#[test]
fn the_commands_of_a_series_of_pages_run_and_print_the_documented_output() {
    for series in series() {
        let pages: Vec<&str> = series.iter().map(String::as_str).collect();
        run_pages(&pages);
    }
}

#[test]
fn the_other_pages_commands_run_and_print_the_documented_output() {
    let in_series = series().concat();
    for (page, text) in pages() {
        if page != "README.md" && !in_series.contains(&page) && !commands(&text).is_empty() {
            run_pages(&[&page]);
        }
    }
}

/// Runs the commands of these pages, one page after the other.
fn run_pages(pages: &[&str]) {
    if artifacts::model().is_none() || artifacts::sandbox().is_none() {
        return;
    }
    let exceptions = exceptions();
    let folder = tempfile::tempdir().unwrap();
    for file in ["trainer", "datasets", "sandboxes"] {
        std::os::unix::fs::symlink(root().join(file), folder.path().join(file)).unwrap();
    }
    // A page writes the token of a deployment into this folder, so it is a copy.
    copy(&root().join("deploy"), &folder.path().join("deploy"));
    let outputs = folder.path().join("outputs");
    std::fs::create_dir(&outputs).unwrap();
    // Other services may use the ports in the pages.
    let ports: Vec<(String, String)> = ["8700", "8701", "8702"]
        .map(|port| (format!(":{port}"), format!(":{}", free_port())))
        .into();
    let on_free_ports = |text: &str| {
        ports
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };

    let mut script = String::from(PREAMBLE);
    let mut compared = Vec::new();
    let mut shown = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        for (name, text) in files(&text) {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        for (name, from) in own_files(page) {
            std::fs::copy(from, folder.path().join(name)).unwrap();
        }
        shown.extend(commands(&text).into_iter().map(|shown| (*page, shown)));
    }
    for (number, (page, shown)) in shown.into_iter().enumerate() {
        let with = match exception(&exceptions, page, &shown).map(|exception| &exception.what) {
            Some(What::NotRun) => continue,
            Some(What::With(with)) => with.as_str(),
            None => "",
        };
        let command = on_free_ports(&format!("{} {with}", shown.text));
        let out = outputs.join(number.to_string());
        let out = out.display();
        if shown.background {
            let address = command
                .split_whitespace()
                .skip_while(|word| *word != "--listen")
                .nth(1);
            let address =
                address.unwrap_or_else(|| panic!("{page}: where does it listen? {command}"));
            // Without the cache on disk, nothing that was judged before is reused.
            writeln!(
                script,
                "{command} --no-disk-cache >{out} 2>&1 &\nready http://{address}"
            )
            .unwrap();
        } else {
            writeln!(
                script,
                "{{ {command}\n}} </dev/null >{out} || failed {number}"
            )
            .unwrap();
        }
        if let Some((language, expected)) = &shown.output {
            compared.push((page, number, language.clone(), on_free_ports(expected)));
        }
    }
    std::fs::write(folder.path().join("commands.sh"), &script).unwrap();
    let outcome = start(&mut shell(folder.path())).finish_within(LIMIT);
    assert_eq!(
        outcome.code,
        Some(0),
        "{pages:?}\n{script}\nstdout:\n{}\nstderr:\n{}",
        outcome.stdout,
        outcome.stderr
    );
    for (page, number, language, expected) in compared {
        let printed = std::fs::read_to_string(outputs.join(number.to_string())).unwrap();
        assert_same(page, &language, &expected, &printed);
    }
}

/// Copies the files of a folder, without subfolders.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// The start of each script.
const PREAMBLE: &str = r#"
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
failed() {
  echo "command $1 failed" >&2
  cat "outputs/$1" >&2
  exit 1
}
ready() {
  for _ in $(seq 600); do
    [ "$(curl -s -o /dev/null -w '%{http_code}' "$1/readyz")" != 200 ] || return 0
    sleep 0.5
  done
  echo "$1 does not become ready" >&2
  exit 1
}
"#;

/// A shell in `folder` whose environment has only the variables for finding programs and the cache folder.
fn shell(folder: &Path) -> Command {
    let programs: PathBuf = program("rapid").parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command
        .arg("commands.sh")
        .current_dir(folder)
        .stdin(Stdio::null())
        .env_clear()
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("RAPID_EXCERPTS", root().join("datasets/excerpts"));
    for name in ["HOME", "RAPID_HOME", "XDG_CACHE_HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Asserts that outputs are equal except for parts that depend on the machine: times, and all of a key but its start.
fn assert_same(page: &str, language: &str, expected: &str, printed: &str) {
    if language != "json" {
        assert_eq!(
            masked(expected),
            masked(printed),
            "{page} prints another output"
        );
        return;
    }
    let [mut expected, mut printed] = [expected, printed].map(|text| {
        serde_json::from_str::<Value>(text)
            .unwrap_or_else(|error| panic!("{page}: {error}: {text}"))
    });
    let keys = [&mut expected, &mut printed].map(|answer| {
        let result = &mut answer["results"][0];
        assert!(result["elapsed_ms"].take().is_number(), "{page}: {result}");
        result["key"].take().as_str().unwrap_or_default().to_owned()
    });
    assert_eq!(expected, printed, "{page} prints another answer");
    let start = keys[0].trim_end_matches('…');
    assert!(
        start.len() >= 8 && keys[1].starts_with(start),
        "{page} prints the key {}; it is {}",
        keys[0],
        keys[1]
    );
}

/// The text with each number replaced by `#`.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for c in text.trim().chars() {
        if !c.is_ascii_digit() {
            masked.push(c);
        } else if !masked.ends_with('#') {
            masked.push('#');
        }
    }
    masked
}

#[test]
fn every_link_into_the_repository_leads_to_an_existing_file_and_heading() {
    for (page, text) in pages() {
        let folder = root().join(&page).parent().unwrap().to_owned();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .filter(|link| !link.contains("://"))
        {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                root().join(&page)
            } else {
                folder.join(path)
            };
            assert!(target.exists(), "{page} links to {link}");
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                assert!(
                    anchors(&text).contains(&heading.to_owned()),
                    "{page} links to {link}, and there is no such heading"
                );
            }
        }
    }
}

/// The anchors of a page's headings, as on GitHub: lower case, spaces as hyphens, other signs removed.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter_map(|line| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.strip_prefix(' '))?
    });
    let letter = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c),
        _ => None,
    };
    headings
        .map(|heading| heading.to_lowercase().chars().filter_map(letter).collect())
        .collect()
}
