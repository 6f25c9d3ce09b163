//! The hostile completions of `tests/attacks/`, and unusual ones that are honest.
//!
//! A case is a file in the folder of its family. Its first lines, each after a `#`, state what it tries, which verdicts it may have (`verdict:`),
//! and for which tasks of `tasks.jsonl` it is (`task:`; by default the four forms of one task). A `.py` file is a whole completion; in a
//! `.txt` file the completion begins after the first blank line. Completions that a text file cannot contain are built here.

use std::path::Path;

use serde_json::{Value, json};

use crate::repository::root;

/// The forms of one task: values, assertions, a `unittest` class, and a function to be continued, with a `check`.
const FORMS: [&str; 4] = ["values", "asserts", "unittest", "check"];
const CORRECT: &str = "def solve(xs):\n    return sorted(x * x for x in xs if x % 2 == 0)\n";
const MEGABYTE: usize = 1 << 20;

/// A completion, its tasks and its allowed verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Its family, such as `honest`.
    pub family: String,
    /// Its name, which is unique in its family.
    pub name: String,
    /// Names of the tasks.
    pub tasks: Vec<String>,
    /// The allowed verdicts.
    pub verdicts: Vec<String>,
    /// The completion as a JSON string with quotes.
    pub completion: String,
}

impl Case {
    /// The same case with only its first task.
    #[must_use]
    pub fn on_one_task(mut self) -> Case {
        self.tasks.truncate(1);
        self
    }

    /// `family/name`
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.family, self.name)
    }

    /// The body of a request that judges it.
    #[must_use]
    pub fn request(&self, task: &str) -> String {
        self.request_after("", task)
    }

    /// The body with a prompt. Verdicts do not depend on it, but it makes the request's cache key unique.
    #[must_use]
    pub fn request_after(&self, prompt: &str, task: &str) -> String {
        let head = json!({ "id": self.id(), "task": format!("tasks/{task}"), "prompt": prompt });
        let head = head.to_string();
        format!(
            "{{\"items\":[{},\"completion\":{}}}]}}",
            &head[..head.len() - 1],
            self.completion
        )
    }

    /// The same case with `line` after the completion.
    #[must_use]
    pub fn with_line(&self, line: &str) -> Case {
        let open = &self.completion[..self.completion.len() - 1];
        Case {
            completion: format!("{open}\\n{line}\""),
            ..self.clone()
        }
    }
}

/// The folder of the cases.
#[must_use]
pub fn folder() -> std::path::PathBuf {
    root().join("tests/attacks")
}

/// Every case. In the texts of files, each of `placeholders` is replaced: a name and its value.
///
/// # Panics
/// If a file is not a case.
#[must_use]
pub fn all(placeholders: &[(&str, &str)]) -> Vec<Case> {
    let mut cases = built();
    for family in entries(&folder()).filter(|path| path.is_dir()) {
        let family_name = file_name(&family);
        for file in entries(&family) {
            if file.extension().is_none_or(|e| e != "py" && e != "txt") {
                continue;
            }
            let mut text = std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            for (name, value) in placeholders {
                text = text.replace(name, value);
            }
            let case = read(&family_name, &file, &text)
                .unwrap_or_else(|| panic!("{} has no `# verdict:`", file.display()));
            cases.push(case);
        }
    }
    cases.sort_by_key(Case::id);
    cases
}

fn entries(folder: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.flatten().map(|entry| entry.path())
}

fn file_name(path: &Path) -> String {
    path.file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn read(family: &str, file: &Path, text: &str) -> Option<Case> {
    let (head, rest) = text.split_once("\n\n")?;
    let field = |name: &str| -> Option<Vec<String>> {
        let line = head.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().map(str::to_owned).collect())
    };
    let is_text = file.extension().is_some_and(|extension| extension == "txt");
    Some(Case {
        family: family.to_owned(),
        name: file_name(file),
        tasks: field("# task:").unwrap_or_else(|| FORMS.map(str::to_owned).to_vec()),
        verdicts: field("# verdict:")?,
        completion: Value::from(if is_text { rest } else { text }).to_string(),
    })
}

/// Cases that a text file cannot contain, or that are too large for one.
fn built() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: &str, verdict: &str, completion: String| {
        cases.push(Case {
            family: "confusing".to_owned(),
            name: name.to_owned(),
            tasks: FORMS.map(str::to_owned).to_vec(),
            verdicts: verdict.split(' ').map(str::to_owned).collect(),
            completion,
        });
    };
    let text = |text: &str| Value::from(text).to_string();
    let block = |code: &str| format!("```python\n{code}```\n");

    add("empty", "malformed", text(""));
    add("blank", "malformed", text(" \n\t\r\n\u{a0}\u{2028}\n"));
    add("empty_block", "malformed", text("```python\n\n```\n"));
    add(
        "fences_only",
        // Only the first 200 fences count, and the rest is text.
        "incorrect",
        text(&"```\n".repeat(MEGABYTE / 4)),
    );
    add(
        "blank_megabyte",
        "malformed",
        text(&" \n".repeat(MEGABYTE / 2)),
    );

    // Lines with such a byte are not Python. Without its first line, the function's body continues the task's prefix.
    add(
        "nul_first",
        "incorrect correct",
        text(&format!("\0{CORRECT}")),
    );
    add(
        "nul_inside",
        "incorrect correct",
        text(&CORRECT.replace("xs)", "xs) \0")),
    );
    add("nul_last", "correct", text(&format!("{CORRECT}\0")));
    add(
        "nul_in_prose",
        "correct",
        text(&format!("\0\0\n{}\0", block(CORRECT))),
    );
    add(
        "carriage_returns",
        "correct",
        text(&CORRECT.replace('\n', "\r\n")),
    );
    add(
        "carriage_returns_in_a_block",
        "correct",
        text(&block(CORRECT).replace('\n', "\r\n")),
    );
    add(
        "carriage_returns_alone",
        "correct",
        text(&CORRECT.replace('\n', "\r")),
    );
    add(
        "line_separators",
        "incorrect",
        text(&CORRECT.replace('\n', "\u{2028}")),
    );
    let controls: String = (1..32_u8)
        .filter(|c| !b"\n\r".contains(c))
        .map(char::from)
        .collect();
    add(
        "control_characters",
        "correct",
        text(&format!("# {controls}\u{7f}\u{85}\n{CORRECT}")),
    );
    add(
        "planes",
        "correct",
        text(&format!(
            "{CORRECT}# \u{10ffff}\u{1f600}\u{fffe}\u{e000}\u{feff}\n"
        )),
    );

    add(
        "half_a_character_in_a_comment",
        "correct",
        format!("\"{}# \\ud83d\"", CORRECT.replace('\n', "\\n")),
    );
    add(
        "half_a_character_in_code",
        "incorrect",
        "\"def solve(xs):\\n    return \\udc00\"".to_owned(),
    );
    add(
        "halves_the_wrong_way_round",
        "incorrect",
        "\"\\ude00\\ud83d\"".to_owned(),
    );

    let comments = "# nothing of interest here\n".repeat(MEGABYTE / 27);
    add(
        "comments_by_the_megabyte",
        "correct",
        text(&format!("{comments}{CORRECT}")),
    );
    add(
        "prose_by_the_megabyte",
        "correct",
        text(&format!(
            "{}\n{}",
            "So. ".repeat(MEGABYTE / 4),
            block(CORRECT)
        )),
    );
    add(
        "text_by_the_megabyte",
        "correct",
        text(&format!("TEXT = '{}'\n{CORRECT}", "x".repeat(MEGABYTE))),
    );
    add(
        "name_by_the_megabyte",
        "incorrect",
        text(&"x".repeat(MEGABYTE)),
    );
    add(
        "line_without_an_end",
        "incorrect timeout",
        text(&"x = ".repeat(MEGABYTE / 4)),
    );
    add("noise_by_the_megabyte", "incorrect", text(&noise(MEGABYTE)));
    add(
        "open_fences",
        "correct",
        text(&format!("{}{CORRECT}", "```python\n".repeat(1000))),
    );
    let nested: String = (0..200)
        .map(|depth| format!("{}if 1:\n", " ".repeat(depth)))
        .collect();
    add("indentation", "incorrect", text(&nested));
    cases
}

/// Pseudorandom characters, the same each time.
fn noise(length: usize) -> String {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_u32(32 + (state >> 24)).unwrap_or('?')
    };
    (0..length).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_cases_and_each_names_existing_tasks_and_verdicts() {
        let cases = all(&[]);
        let tasks = std::fs::read_to_string(folder().join("tasks.jsonl")).unwrap();
        let honest = cases.iter().filter(|case| case.family == "honest").count();
        assert!(cases.len() - honest >= 80 && honest >= 20);
        for case in &cases {
            assert!(
                !case.verdicts.is_empty() && !case.tasks.is_empty(),
                "{}",
                case.id()
            );
            for task in &case.tasks {
                let named = [
                    format!("\"id\": \"{task}\""),
                    format!("\"HumanEval/{task}\""),
                ];
                assert!(
                    named.iter().any(|name| tasks.contains(name)),
                    "{}: {task}",
                    case.id()
                );
            }
            for verdict in &case.verdicts {
                let known = ["correct", "incorrect", "timeout", "memory", "malformed"];
                assert!(
                    known.contains(&verdict.as_str()),
                    "{}: {verdict}",
                    case.id()
                );
            }
            assert!(
                case.verdicts == ["correct"] || case.family != "honest",
                "{}",
                case.id()
            );
        }
        let mut ids: Vec<String> = cases.iter().map(Case::id).collect();
        ids.dedup();
        assert_eq!(ids.len(), cases.len());
    }
}
