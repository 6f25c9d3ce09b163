//! Prompt templates, which turn a task into the prompt of a model.
//!
//! A template is text with placeholders: `{question}`, `{example}` (an assertion that shows the function's name and use),
//! `{header}` and `{statement}` (Lean). Every other brace is literal, so LaTeX needs no escapes. A line is left out if the task has
//! no text for its placeholders.

use std::borrow::Cow;

use serde::Deserialize;

use crate::did_you_mean::{hint, nearest};
use crate::manifest::{self, ArtifactKind};
use crate::{CodeTask, Task, TaskSpec};

/// A prompt template with its stop strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    /// The kind of task that it is for, as in [`TaskSpec::kind`]; `None` if it is for any.
    pub kind: Option<String>,
    /// Stop strings: a completion ends at one of these, or at the model's own end token. Empty for most templates.
    pub stop: Vec<String>,
}

/// An error of a template: what is wrong, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

const KINDS: [&str; 3] = ["math", "code", "lean"];
const PLACEHOLDERS: [&str; 4] = ["question", "example", "header", "statement"];

const BUILT_IN: &[(&str, &str)] = &[
    ("plain", include_str!("../templates/plain.toml")),
    ("mbppplus", include_str!("../templates/mbppplus.toml")),
    ("boxed", include_str!("../templates/boxed.toml")),
    (
        "few-shot-boxed",
        include_str!("../templates/few-shot-boxed.toml"),
    ),
    ("lean4", include_str!("../templates/lean4.toml")),
    ("lean4-block", include_str!("../templates/lean4-block.toml")),
    (
        "function-body",
        include_str!("../templates/function-body.toml"),
    ),
];

/// The names of the built-in templates.
#[must_use]
pub fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// A description for people.
    #[serde(rename = "about")]
    _about: Option<String>,
    text: String,
    #[serde(default)]
    stop: Vec<String>,
    kind: Option<String>,
}

impl Template {
    /// The template of a data set's manifest. For a user's file, and any name without a manifest, it is `{question}` alone.
    #[must_use]
    pub fn for_dataset(name: &str) -> Template {
        manifest::find(ArtifactKind::Dataset, name)
            .and_then(|manifest| Template::named(&manifest.template?).ok())
            .unwrap_or_else(|| Template {
                text: "{question}".to_owned(),
                kind: None,
                stop: Vec::new(),
            })
    }

    /// A built-in template.
    ///
    /// # Errors
    /// [`TemplateError`] with the nearest known name.
    pub fn named(name: &str) -> Result<Template, TemplateError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, source)) => Template::from_toml(source),
            None => Err(TemplateError(format!(
                "no prompt template is called `{name}`{}; known are {}",
                hint(nearest(name, names())),
                names().join(", ")
            ))),
        }
    }

    /// A template from a TOML file's text: `text`, and optionally `stop` (a list of stop strings), `kind` (the kind of its tasks: math, code or lean) and `about` (for
    /// people).
    ///
    /// # Errors
    /// [`TemplateError`] for text that is not such a file, and the errors of [`parse`](Self::parse).
    pub fn from_toml(source: &str) -> Result<Template, TemplateError> {
        let wrong = |reason: String| {
            TemplateError(format!(
                "this is not a template's file, which has the key `text`, and may have `stop`, `kind` and `about`: {reason}"
            ))
        };
        let file: File = toml::from_str(source).map_err(|error| wrong(error.to_string()))?;
        if let Some(kind) = &file.kind
            && !KINDS.contains(&kind.as_str())
        {
            let kinds = KINDS.join(", ");
            return Err(wrong(format!(
                "no task is of the kind `{kind}`; the kinds are {kinds}"
            )));
        }
        let mut template = Template::parse(&file.text)?;
        for stop in &file.stop {
            check_control("the template's stop string", stop)?;
        }
        template.kind = file.kind;
        template.stop = file.stop;
        Ok(template)
    }

    /// A template from its text, without stop strings.
    ///
    /// # Errors
    /// [`TemplateError`] for a misspelt placeholder, a control character, and a text without a placeholder for the question.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        check_control("the prompt template", text)?;
        for found in identifiers_in_braces(text) {
            if !PLACEHOLDERS.contains(&found)
                && let Some(meant) = nearest(found, PLACEHOLDERS)
            {
                return Err(TemplateError(format!(
                    "the prompt template has `{{{found}}}`; did you mean `{{{meant}}}`? (the placeholders are {{question}}, {{example}}, {{header}} and {{statement}})"
                )));
            }
        }
        if !text.contains("{question}") && !text.contains("{statement}") {
            return Err(TemplateError(
                "the prompt template has neither {question} nor {statement}, so every task would have the same prompt".to_owned(),
            ));
        }
        Ok(Template {
            text: text.to_owned(),
            kind: None,
            stop: Vec::new(),
        })
    }

    /// Its text, with placeholders.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The prompt for a task.
    #[must_use]
    pub fn render(&self, task: &Task) -> String {
        let mut prompt = String::with_capacity(self.text.len() + task.question.len());
        for line in self.text.split_inclusive('\n') {
            let mut parts = line.split('{');
            let mut filled = parts.next().unwrap_or_default().to_owned();
            let (mut some_text, mut no_text) = (false, false);
            for part in parts {
                let placeholder = PLACEHOLDERS.iter().find_map(|name| {
                    let after = part.strip_prefix(name)?.strip_prefix('}')?;
                    Some((content(task, name), after))
                });
                if let Some((text, after)) = placeholder {
                    some_text |= !text.is_empty();
                    no_text |= text.is_empty();
                    filled.extend([&*text, after]);
                } else {
                    filled.extend(["{", part]);
                }
            }
            if some_text || !no_text {
                prompt.push_str(&filled);
            }
        }
        prompt
    }
}

/// Refuses control characters in a text of a prompt, such as the backspace that TOML makes of `"\boxed"`.
///
/// # Errors
/// [`TemplateError`] with the remedy; it begins with `what`.
pub fn check_control(what: &str, text: &str) -> Result<(), TemplateError> {
    let lines = text.replace("\r\n", "\n");
    let is_wrong = |it: char| it.is_control() && !matches!(it, '\n' | '\t');
    let Some(start) = lines.find(is_wrong) else {
        return Ok(());
    };
    let near: String = lines[start..].chars().take(12).collect();
    Err(TemplateError(format!(
        "{what} has the control character {}: between double quotes, TOML reads \\b, \\f and \\r as control characters. Write it between single \
         quotes, '…' or '''…''', where a backslash is a backslash",
        near.escape_debug()
    )))
}

/// The texts between braces that could be a placeholder's name.
fn identifiers_in_braces(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|after| {
        let (name, _) = after.split_once('}')?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        is_name.then_some(name)
    })
}

fn content<'a>(task: &'a Task, placeholder: &str) -> Cow<'a, str> {
    match (placeholder, &task.spec) {
        ("question", _) => Cow::Borrowed(&task.question),
        ("example", TaskSpec::Code(code)) => example(task.example.as_ref(), code),
        ("header", TaskSpec::Lean(lean)) => Cow::Borrowed(&lean.header),
        ("statement", TaskSpec::Lean(lean)) => Cow::Borrowed(&lean.statement),
        _ => Cow::Borrowed(""),
    }
}

/// The record's own example, else its first assertion, else an assertion made from its first test.
fn example<'a>(own: Option<&'a String>, code: &'a CodeTask) -> Cow<'a, str> {
    if let Some(example) = own.or(code.asserts.first()) {
        return Cow::Borrowed(example);
    }
    let from_test = code.tests.iter().find_map(|test| {
        let expected = test.expected.as_ref()?.to_python();
        let args: Vec<String> = test.args.iter().map(crate::Value::to_python).collect();
        Some(format!(
            "assert {}({}) == {expected}",
            code.entry_point,
            args.join(", ")
        ))
    });
    Cow::Owned(from_test.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeTest, LeanTask, Value};

    fn task(spec: TaskSpec) -> Task {
        Task::new("t/1", "What is {x}?", spec)
    }

    fn code() -> CodeTask {
        CodeTask {
            entry_point: "f".to_owned(),
            ..CodeTask::default()
        }
    }

    #[test]
    fn a_wrong_template_is_refused_with_the_reason_and_the_right_name() {
        let template = Template::from_toml("text = 'Q: {question}'\nstop = [\"Q:\"]").unwrap();
        assert_eq!(template.stop, ["Q:"]);
        for (wrong, names) in [
            ("Q: {question}", "key `text`"),
            ("stop = []", "missing field `text`"),
            ("text = '{question}'\nstops = []", "unknown field `stops`"),
            ("text = 'Q:'", "neither {question} nor {statement}"),
            ("text = '{example}'", "neither {question} nor {statement}"),
            (
                "text = \"{question} Answer in \\boxed{}.\"",
                r"the control character \u{8}oxed{}.: between double quotes",
            ),
            ("text = '{question}'\nstop = [\"\\frac\"]", "single quotes"),
            (
                "text = '{questoin}'",
                "`{questoin}`; did you mean `{question}`?",
            ),
            (
                "text = '{question}'\nkind = 'maths'",
                "no task is of the kind `maths`; the kinds are math, code, lean",
            ),
        ] {
            let error = Template::from_toml(wrong).unwrap_err().to_string();
            assert!(error.contains(names), "{wrong}: {error}");
        }
        let error = Template::named("few-shot-box").unwrap_err().to_string();
        assert!(error.contains("did you mean `few-shot-boxed`?"), "{error}");
    }

    #[test]
    fn every_built_in_template_is_valid_and_names_its_kind_of_task() {
        for name in names() {
            let kind = Template::named(name).unwrap().kind;
            assert_eq!(kind.is_none(), name == "plain", "{name}");
        }
    }

    #[test]
    fn braces_that_are_not_a_placeholder_are_literal() {
        let template =
            Template::parse(r"Answer {question} in \boxed{} or \frac{a}{b} {} {").unwrap();
        let math = task(TaskSpec::math("1"));
        let expected = r"Answer What is {x}? in \boxed{} or \frac{a}{b} {} {";
        assert_eq!(template.render(&math), expected);
        // A user's file is prompted with its question.
        let template = Template::for_dataset("mine");
        assert_eq!(template.render(&math), "What is {x}?");
    }

    #[test]
    fn a_line_without_text_is_left_out_and_a_test_may_be_the_example() {
        let template = Template::named("mbppplus").unwrap();
        let with = |code: CodeTask, example: Option<&str>| {
            template.render(&Task {
                example: example.map(str::to_owned),
                ..task(TaskSpec::Code(code))
            })
        };
        let shown = |example: &str| format!("\"\"\"\nWhat is {{x}}?\n{example}\"\"\"\n");
        assert_eq!(with(code(), Some("assert f()")), shown("assert f()\n"));
        assert_eq!(with(code(), None), shown(""));
        let mut tested = code();
        tested.tests.push(CodeTest {
            args: vec![Value::from("a"), Value::Tuple(vec![Value::from(1)])],
            expected: Some(Value::Bool(true)),
        });
        assert_eq!(with(tested, None), shown("assert f('a', (1,)) == True\n"));
    }

    #[test]
    fn a_theorem_ends_the_prompt_and_an_instruction_stands_before_it() {
        let lean = |header: &str| {
            task(TaskSpec::Lean(LeanTask {
                header: header.to_owned(),
                statement: "theorem t : 1 = 1 := by".to_owned(),
            }))
        };
        let template = Template::for_dataset("minif2f");
        let expected = "Complete the following Lean 4 code:\n\n```lean4\nimport Mathlib\n\n/-- What is {x}? -/\ntheorem t : 1 = 1 := by\n";
        assert_eq!(template.render(&lean("import Mathlib")), expected);
        let template = Template::named("lean4-block").unwrap();
        let instruction = "Finish the proof of the Lean 4 theorem below. Answer with nothing but the finished theorem, in one Markdown code block that opens with ```lean4 and closes with ```.";
        // A header is optional.
        for (header, line) in [("import Mathlib", "import Mathlib\n"), ("", "")] {
            let expected = format!("{line}\n{instruction}\n\ntheorem t : 1 = 1 := by\n");
            assert_eq!(template.render(&lean(header)), expected);
        }
    }
}
