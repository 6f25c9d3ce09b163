//! The hostile completions of `tests/attacks/`, and unusual ones that are honest.
//!
//! A case is a file in the folder of its family. Its first lines, each after a `#`, state what it tries, which verdicts it may have (`verdict:`), and its tasks of
//! `tasks.jsonl` (`task:`). The default is the four forms of one task. A `.py` file is a whole completion; in a `.txt` file the completion begins after the first
//! blank line. Completions that a text file cannot contain are built here.

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
    /// `family/name`
    pub fn id(&self) -> String {
        format!("{}/{}", self.family, self.name)
    }

    /// The body of a request that judges it. Verdicts do not depend on the prompt, but it makes the request's cache key unique.
    pub fn request(&self, prompt: &str, task: &str) -> String {
        let head = json!({ "id": self.id(), "task": format!("tasks/{task}"), "prompt": prompt });
        let head = head.to_string();
        let (head, completion) = (&head[..head.len() - 1], &self.completion);
        format!("{{\"items\":[{head},\"completion\":{completion}}}]}}")
    }

    /// The same case with `line` after the completion.
    pub fn with_line(&self, line: &str) -> Case {
        let open = &self.completion[..self.completion.len() - 1];
        Case {
            completion: format!("{open}\\n{line}\""),
            ..self.clone()
        }
    }
}

/// The folder of the cases.
pub fn folder() -> std::path::PathBuf {
    root().join("tests/attacks")
}

/// The setting of a verifier with the cases' tasks as its data set.
pub fn tasks() -> String {
    format!("datasets=[{}]", json!(folder().join("tasks.jsonl")))
}

/// Every case. In the texts of files, each of `placeholders` is replaced: a name and its value.
pub fn all(placeholders: &[(&str, &str)]) -> Vec<Case> {
    let mut cases = built();
    for family in entries(&folder()).filter(|path| path.is_dir()) {
        let family_name = file_name(&family);
        for file in entries(&family) {
            if file.extension().is_none_or(|e| e != "py" && e != "txt") {
                continue;
            }
            let mut text = std::fs::read_to_string(&file).unwrap();
            for (name, value) in placeholders {
                text = text.replace(name, value);
            }
            let case = read(&family_name, &file, &text)
                .unwrap_or_else(|| panic!("{} has no `# verdict:`", file.display()));
            cases.push(case);
        }
    }
    cases.sort_by_key(Case::id);
    let honest = cases.iter().filter(|case| case.family == "honest").count();
    assert!(honest >= 20 && cases.len() - honest >= 80, "{honest}");
    for case in &cases {
        let is_right = case.family != "honest" || case.verdicts == ["correct"];
        assert!(is_right && !case.tasks.is_empty(), "{}", case.id());
    }
    assert!(cases.windows(2).all(|pair| pair[0].id() != pair[1].id()));
    cases
}

fn entries(folder: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.flatten().map(|entry| entry.path())
}

fn file_name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
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
    let block = |code: &str| format!("```python\n{code}```\n");
    let controls = (1..32_u8).filter(|c| !b"\n\r".contains(c));
    let controls: String = controls.map(char::from).collect();
    let controls = format!("# {controls}\u{7f}\u{85}\n{CORRECT}");
    let planes = format!("{CORRECT}# \u{10ffff}\u{1f600}\u{fffe}\u{e000}\u{feff}\n");
    let nul_inside = CORRECT.replace("xs)", "xs) \0");
    let nul_in_prose = format!("\0\0\n{}\0", block(CORRECT));
    let [crlf, cr, separators] = ["\r\n", "\r", "\u{2028}"].map(|end| CORRECT.replace('\n', end));
    let crlf_block = block(CORRECT).replace('\n', "\r\n");
    let comments = "# nothing of interest here\n".repeat(MEGABYTE / 27) + CORRECT;
    let prose = format!("{}\n{}", "So. ".repeat(MEGABYTE / 4), block(CORRECT));
    let long = "x".repeat(MEGABYTE);
    let text = format!("TEXT = '{long}'\n{CORRECT}");
    let endless = "x = ".repeat(MEGABYTE / 4);
    let fences = "```python\n".repeat(1000);
    let nested = (0..200).map(|depth| format!("{}if 1:\n", " ".repeat(depth)));
    vec![
        built_case("empty", "malformed", ""),
        built_case("blank", "malformed", " \n\t\r\n\u{a0}\u{2028}\n"),
        built_case("empty_block", "malformed", "```python\n\n```\n"),
        // Only the first 200 fences count, and the rest is text.
        built_case("fences_only", "incorrect", &"```\n".repeat(MEGABYTE / 4)),
        built_case("blank_megabyte", "malformed", &" \n".repeat(MEGABYTE / 2)),
        // Lines with such a byte are not Python. Without its first line, the function's body continues the task's prefix.
        built_case("nul_first", "incorrect correct", &format!("\0{CORRECT}")),
        built_case("nul_inside", "incorrect correct", &nul_inside),
        built_case("nul_last", "correct", &format!("{CORRECT}\0")),
        built_case("nul_in_prose", "correct", &nul_in_prose),
        built_case("carriage_returns", "correct", &crlf),
        built_case("carriage_returns_in_a_block", "correct", &crlf_block),
        built_case("carriage_returns_alone", "correct", &cr),
        built_case("line_separators", "incorrect", &separators),
        built_case("control_characters", "correct", &controls),
        built_case("planes", "correct", &planes),
        Case {
            completion: format!("\"{}# \\ud83d\"", CORRECT.replace('\n', "\\n")),
            ..built_case("half_a_character_in_a_comment", "correct", "")
        },
        Case {
            completion: "\"def solve(xs):\\n    return \\udc00\"".to_owned(),
            ..built_case("half_a_character_in_code", "incorrect", "")
        },
        Case {
            completion: "\"\\ude00\\ud83d\"".to_owned(),
            ..built_case("halves_the_wrong_way_round", "incorrect", "")
        },
        built_case("comments_by_the_megabyte", "correct", &comments),
        built_case("prose_by_the_megabyte", "correct", &prose),
        built_case("text_by_the_megabyte", "correct", &text),
        built_case("name_by_the_megabyte", "incorrect", &long),
        built_case("line_without_an_end", "incorrect timeout", &endless),
        built_case("noise_by_the_megabyte", "incorrect", &noise(MEGABYTE)),
        built_case("open_fences", "correct", &format!("{fences}{CORRECT}")),
        built_case("indentation", "incorrect", &nested.collect::<String>()),
    ]
}

fn built_case(name: &str, verdicts: &str, completion: &str) -> Case {
    Case {
        family: "confusing".to_owned(),
        name: name.to_owned(),
        tasks: FORMS.map(str::to_owned).to_vec(),
        verdicts: verdicts.split(' ').map(str::to_owned).collect(),
        completion: Value::from(completion).to_string(),
    }
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
