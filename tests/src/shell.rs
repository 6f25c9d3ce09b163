//! The shell commands of a Markdown page, and the outputs below them.

use std::mem::take;

/// A command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its text, without its comment and without a trailing `&`.
    pub text: String,
    /// Whether it ends in `&`.
    pub background: bool,
    /// The output directly below it: the block's language and text.
    pub output: Option<(String, String)>,
}

impl Shown {
    /// The words of the command, split at whitespace without regard to quotes: enough to find the program and its flags.
    pub fn words(&self) -> Vec<&str> {
        self.text.split_whitespace().collect()
    }
}

/// The text files of a page: blocks with an introduction that names a file of their language in a code span.
pub fn files(page: &str) -> Vec<(String, String)> {
    let (mut files, mut prose) = (Vec::new(), String::new());
    for part in parts(page) {
        match part {
            Part::Prose(text) => prose = text,
            Part::Block(language, text) => {
                let end = match language.as_str() {
                    "csv" => ".csv",
                    "json" => ".jsonl",
                    "python" => ".py",
                    "toml" => ".toml",
                    _ => continue,
                };
                let mut spans = prose.split('`').skip(1).step_by(2);
                let name = spans.find(|span| span.ends_with(end) && !span.contains('/'));
                if let Some(name) = name {
                    files.push((name.to_owned(), text));
                }
            }
        }
    }
    files
}

/// All commands of a page, in order: those of its `sh` blocks.
pub fn commands(page: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut directly_below = false;
    for part in parts(page) {
        match part {
            Part::Prose(text) => directly_below &= text.trim().is_empty(),
            Part::Block(language, text) if language == "sh" => {
                shown.extend(split(&text));
                directly_below = true;
            }
            Part::Block(language, text) => {
                if let (Some(last), true) = (shown.last_mut(), take(&mut directly_below)) {
                    last.output = Some((language, text));
                }
            }
        }
    }
    shown
}

enum Part {
    Prose(String),
    /// Its language and its text.
    Block(String, String),
}

/// Splits a page into prose and blocks, which alternate.
fn parts(page: &str) -> Vec<Part> {
    let (mut parts, mut text) = (Vec::new(), String::new());
    let mut block: Option<String> = None;
    for line in page.split_inclusive('\n') {
        let Some(language) = line.strip_prefix("```") else {
            text.push_str(line);
            continue;
        };
        parts.push(match block.take() {
            Some(language) => Part::Block(language, take(&mut text)),
            None => {
                block = Some(language.trim().to_owned());
                Part::Prose(take(&mut text))
            }
        });
    }
    parts.push(Part::Prose(text));
    parts
}

/// Splits a block into commands: one per line, unless the line ends inside quotes or with a backslash.
fn split(block: &str) -> Vec<Shown> {
    let (mut commands, mut text) = (Vec::new(), String::new());
    let (mut quote, mut comment, mut before) = (None, false, '\n');
    let mut letters = block.chars().peekable();
    while let Some(c) = letters.next() {
        if c == '\\' && quote != Some('\'') && !comment {
            // A continued line, or any other escaped character, which is copied.
            match letters.next() {
                Some('\n') | None => {}
                Some(other) => text.extend([c, other]),
            }
            before = c;
            continue;
        }
        match (c, quote) {
            ('\'' | '"', None) if !comment => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('#', None) if before.is_whitespace() => comment = true,
            ('\n', None) => {
                comment = false;
                commands.extend(command(&take(&mut text)));
            }
            _ => {}
        }
        if !comment && (c != '\n' || quote.is_some()) {
            text.push(c);
        }
        before = c;
    }
    commands.extend(command(&text));
    commands
}

fn command(text: &str) -> Option<Shown> {
    let text = text.trim();
    let (text, background) = match text.strip_suffix('&') {
        Some(rest) if !rest.ends_with('&') => (rest.trim_end(), true),
        _ => (text, false),
    };
    (!text.is_empty()).then(|| Shown {
        text: text.to_owned(),
        background,
        output: None,
    })
}
