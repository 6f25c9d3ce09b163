//! Runs the commands of the documents, and compares their output with that in the documents. Each page's commands run one after the other, in a fresh shell and an
//! empty folder.
//!
//! `documents.toml` names the pages that continue another page, and the commands that cannot run unchanged, each with its reason. For those commands the test
//! checks only that the program and its flags exist.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tests::artifacts;
use tests::programs::{free_port, program, run, start};
use tests::repository::root;
use tests::shell::{Shown, commands, files};

/// Time limit for the commands of a page, or of a series of pages, together.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// `documents.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    series: Vec<Series>,
    file: Vec<OwnFile>,
    command: Vec<Exception>,
}

/// Pages with commands that run one after the other in one folder.
#[derive(Deserialize)]
struct Series {
    pages: Vec<String>,
}

/// A file that a page's reader has, and the file of the repository that replaces it.
#[derive(Deserialize)]
struct OwnFile {
    page: String,
    name: String,
    from: String,
}

/// An exception for one command. It does not run, or it runs with additional words.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    page: String,
    /// The start of the command.
    starts: String,
    with: Option<String>,
    reason: String,
}

impl Notes {
    fn read() -> Notes {
        let text = std::fs::read_to_string(root().join("tests/documents.toml")).unwrap();
        toml::from_str(&text).unwrap()
    }

    fn exception(&self, page: &str, shown: &Shown) -> Option<&Exception> {
        let mut all = self.command.iter();
        all.find(|exception| exception.page == page && shown.text.starts_with(&exception.starts))
    }
}

/// The repository's pages, by their paths in it.
fn pages() -> Vec<(String, String)> {
    let mut listed = Command::new("git");
    listed.args(["ls-files", "--", "*.md"]).current_dir(root());
    let names = run(&mut listed).success().stdout;
    let text = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let page = |name: &str| (name.to_owned(), text(name));
    names.lines().map(page).collect()
}

#[test]
fn every_exception_names_an_existing_command_and_its_reason() {
    let pages = pages();
    for exception in Notes::read().command {
        let Exception { page, starts, .. } = &exception;
        let text = pages.iter().find(|(name, _)| name == page);
        let commands = text.map(|(_, text)| commands(text)).unwrap_or_default();
        let found = commands.iter().any(|shown| shown.text.starts_with(starts));
        assert!(found && exception.reason.len() > 10, "{page}: {starts}");
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
    for series in Notes::read().series {
        let pages: Vec<&str> = series.pages.iter().map(String::as_str).collect();
        run_pages(&pages);
    }
}

#[test]
fn the_other_pages_commands_run_and_print_the_documented_output() {
    let series = Notes::read().series;
    let in_series = |page: &String| series.iter().any(|series| series.pages.contains(page));
    for (page, text) in pages() {
        if page != "README.md" && !in_series(&page) && !commands(&text).is_empty() {
            run_pages(&[&page]);
        }
    }
}

/// Runs the commands of these pages, one page after the other.
fn run_pages(pages: &[&str]) {
    if artifacts::model().is_none() || artifacts::sandbox().is_none() {
        return;
    }
    let notes = Notes::read();
    let folder = tempfile::tempdir().unwrap();
    for file in ["trainer", "datasets", "sandboxes"] {
        std::os::unix::fs::symlink(root().join(file), folder.path().join(file)).unwrap();
    }
    // A page writes the token of a deployment into this folder, so it is a copy.
    let mut copy = Command::new("cp");
    copy.arg("-R").arg(root().join("deploy")).arg(folder.path());
    let _ = run(&mut copy).success();
    let outputs = folder.path().join("outputs");
    std::fs::create_dir(&outputs).unwrap();
    // Other services may use the ports in the pages.
    let ports = ["8700", "8701", "8702"].map(|port| (format!(":{port}"), free_port()));
    let on_free_ports = |text: &str| {
        let replaced =
            |text: String, (from, to): &(String, u16)| text.replace(from, &format!(":{to}"));
        ports.iter().fold(text.to_owned(), replaced)
    };

    let mut script = String::from(PREAMBLE);
    let mut compared = Vec::new();
    let mut shown = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        for (name, text) in files(&text) {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        for own in notes.file.iter().filter(|own| own.page == *page) {
            std::fs::copy(root().join(&own.from), folder.path().join(&own.name)).unwrap();
        }
        shown.extend(commands(&text).into_iter().map(|shown| (*page, shown)));
    }
    for (number, (page, shown)) in shown.into_iter().enumerate() {
        let with = match notes.exception(page, &shown) {
            Some(Exception { with: None, .. }) => continue,
            Some(Exception {
                with: Some(with), ..
            }) => with.as_str(),
            None => "",
        };
        let command = on_free_ports(&format!("{} {with}", shown.text));
        let out = outputs.join(number.to_string());
        let out = out.display();
        if shown.background {
            let mut words = command.split_whitespace();
            let address = words.find(|word| *word == "--listen").and(words.next());
            let address =
                address.unwrap_or_else(|| panic!("{page}: where does it listen? {command}"));
            // Without the cache on disk, nothing that was judged before is reused.
            let served = format!("{command} --no-disk-cache >{out} 2>&1 &");
            writeln!(script, "{served}\nready http://{address}").unwrap();
        } else {
            let run = format!("{{ {command}\n}} </dev/null >{out}");
            writeln!(script, "{run} || failed {number}").unwrap();
        }
        if let Some((language, expected)) = &shown.output {
            compared.push((page, number, language.clone(), on_free_ports(expected)));
        }
    }
    std::fs::write(folder.path().join("commands.sh"), &script).unwrap();
    let outcome = start(&mut shell(folder.path())).finish_within(LIMIT);
    assert_eq!(outcome.code, Some(0), "{pages:?}\n{script}\n{outcome:?}");
    for (page, number, language, expected) in compared {
        let printed = std::fs::read_to_string(outputs.join(number.to_string())).unwrap();
        assert_same(page, &language, &expected, &printed);
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

/// A shell in `folder`. Its environment has only the variables for finding programs and the cache folder.
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
        let (expected, printed) = (masked(expected), masked(printed));
        assert_eq!(expected, printed, "{page} prints another output");
        return;
    }
    let [(expected, start), (printed, key)] = [expected, printed].map(|text| {
        let mut answer: Value = serde_json::from_str(text).unwrap();
        let result = &mut answer["results"][0];
        assert!(result["elapsed_ms"].take().is_number(), "{page}: {result}");
        let key = result["key"].take().as_str().unwrap().to_owned();
        (answer, key)
    });
    assert_eq!(expected, printed, "{page} prints another answer");
    let start = start.trim_end_matches('…');
    assert!(start.len() >= 8 && key.starts_with(start), "{page}: {key}");
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
        let links = text.split("](").skip(1);
        let links = links.filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => root().join(&page),
                path => folder.join(path),
            };
            assert!(target.exists(), "{page} links to {link}");
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                assert!(
                    headings.any(|line| anchor(line) == heading),
                    "{page} links to {link}, and there is no such heading"
                );
            }
        }
    }
}

/// The anchor of a heading, as on GitHub: lower case, spaces as hyphens, other signs removed.
fn anchor(line: &str) -> String {
    let heading = line.trim_start_matches('#').trim_start().to_lowercase();
    let letters = heading.chars().map(|c| if c == ' ' { '-' } else { c });
    letters
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
        .collect()
}
