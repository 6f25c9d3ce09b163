//! The fences of a text, and the parts between them, with the parser's outline of each. Nothing is parsed here. A bare fence may open a block, or close code that no
//! fence opened. So the parts of both readings are returned, and `choose` picks one.

use std::borrow::Cow;
use std::ops::Range;

use sandboxes::defined_names::{Fault, Outline, Piece};

/// Maximum number of fences. Text after the last of them counts as outside.
const MAX_MARKS: usize = 200;
/// All parts together have at most this many times the text's bytes, plus [`MIN_PARTS`].
const MAX_PARTS_RATIO: usize = 8;
const MIN_PARTS: usize = 1 << 16;
/// Languages that a label may name, other than Python and Markdown. An unknown word counts as a label only at the end of the line.
const LANGUAGES: &str = "bash c console cpp cs csharp css csv diff go haskell html ini java javascript js json kotlin latex lean lua \
    output perl php plaintext pycon r ruby rust scala sh shell sql swift text toml ts txt xml yaml";

/// The label of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    None,
    Python,
    /// A block of Markdown. Its content is read like the text around it.
    Markdown,
    Other,
}

/// A fence: three or more backticks or tildes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// The end of the text before the fence: the beginning of the line, if only indentation or `>` precedes the fence.
    start: usize,
    /// The beginning of the text after the fence and its label.
    after: usize,
    sign: u8,
    count: usize,
    pub label: Label,
    /// Number of `>` before the fence.
    quoted: usize,
    /// Columns of indentation after these.
    indent: usize,
}

impl Mark {
    /// Whether it may close a block as well as open one.
    pub(super) fn is_bare(&self) -> bool {
        self.label == Label::None
    }
}

/// A stretch of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub text: Cow<'a, str>,
    pub position: PartPosition,
    /// Whether it follows an opening fence.
    pub fenced: bool,
    /// Whether it ends with a fence.
    pub closed: bool,
    /// The parser's outline of the text alone.
    pub alone: Outline,
    /// The outline of the text after the task's prefix, if the task has one.
    pub after_prefix: Option<Outline>,
}

impl<'a> Part<'a> {
    /// A text as a single part without fences.
    pub(super) fn whole(text: &'a str) -> Part<'a> {
        Part {
            text: Cow::Borrowed(text),
            position: PartPosition::Gap(0),
            fenced: false,
            closed: false,
            alone: Outline::default(),
            after_prefix: None,
        }
    }

    /// The ranges of lines that are Python.
    pub(super) fn code(&self) -> Vec<Range<usize>> {
        let pieces = self.alone.pieces.iter().chain(self.pieces_after_prefix());
        pieces.map(Piece::lines).collect()
    }

    pub(super) fn pieces_after_prefix(&self) -> &[Piece] {
        let outline = self.after_prefix.as_ref();
        outline.map_or(&[], |outline| &outline.pieces)
    }

    /// Why the text cannot be loaded: after the prefix, if there is one.
    pub(super) fn load_error(&self) -> Option<&Fault> {
        let outline = self.after_prefix.as_ref().unwrap_or(&self.alone);
        outline.fault.as_ref()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartPosition {
    /// Outside, before the mark with this index.
    Gap(usize),
    /// In the block that the mark with the index `mark` opens. Reading continues at the mark `next`. It is outside if `outside`, because a bare fence closed the block.
    Block {
        mark: usize,
        next: usize,
        outside: bool,
    },
}

/// The fences of `text`.
pub(super) fn marks(text: &str) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let mut at = 0;
        while let Some((start, sign, count)) = run(line, at) {
            if marks.len() == MAX_MARKS {
                return marks;
            }
            let mark = mark(line, start, sign, count);
            at = mark.after;
            marks.push(Mark {
                start: line_start + mark.start,
                after: line_start + mark.after,
                ..mark
            });
        }
        line_start += line.len();
    }
    marks
}

/// The next run of three or more backticks or tildes in `line`, from `at` on: its position, sign and length.
fn run(line: &str, at: usize) -> Option<(usize, u8, usize)> {
    let bytes = line.as_bytes();
    let mut start = at;
    while start < bytes.len() {
        let sign = bytes[start];
        if !matches!(sign, b'`' | b'~') {
            start += 1;
            continue;
        }
        let count = bytes[start..]
            .iter()
            .take_while(|&&byte| byte == sign)
            .count();
        if count >= 3 {
            return Some((start, sign, count));
        }
        start += count;
    }
    None
}

/// The fence at `start` in `line`, with positions relative to the line.
fn mark(line: &str, start: usize, sign: u8, count: usize) -> Mark {
    let before = &line[..start];
    let quoted = before.matches('>').count();
    let inner = before.rsplit('>').next().unwrap_or(before);
    let alone = before.chars().all(|c| c == '>' || c.is_whitespace());
    let item = is_item(inner.trim());
    let (label, length) = label(&line[start + count..], alone);
    Mark {
        start: if alone { 0 } else { start },
        after: start + count + length,
        sign,
        count,
        label,
        quoted: if alone || item { quoted } else { 0 },
        indent: if alone || item { inner.len() } else { 0 },
    }
}

/// Whether `text` begins an item of a list: `-`, `1.`, `2)`.
fn is_item(text: &str) -> bool {
    let digits = text.trim_end_matches(['.', ')']);
    let numbered = digits.len() + 1 == text.len()
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    numbered || matches!(text, "-" | "*" | "+" | "•")
}

/// The label in the rest of a fence's line, and how many bytes of the rest belong to the fence.
fn label(rest: &str, alone: bool) -> (Label, usize) {
    if rest.trim().is_empty() {
        return (Label::None, rest.len());
    }
    let trimmed = rest.trim_start_matches([' ', '\t', '{', '.']);
    let word = trimmed
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '+' | '#' | '-')))
        .next()
        .unwrap_or_default();
    let after = &trimmed[word.len()..];
    let language_label = language(&word.to_ascii_lowercase());
    let ends_line = after.trim_matches(['}', ' ', '\t', '\r', '\n']).is_empty();
    // Another fence in the same line closes a block that begins in it.
    let one_line = run(after, 0).is_some();
    let braced = rest.trim_start().starts_with('{') || after.starts_with(['{', ':', ',', '.']);
    let attributes = alone && !one_line && (braced || after.contains('=') && !after.contains('('));
    match language_label {
        Some(label) if ends_line || attributes => (label, rest.len()),
        Some(label) if after.starts_with([' ', '\t']) => (
            label,
            rest.len() - after.trim_start_matches([' ', '\t']).len(),
        ),
        None if !word.is_empty() && ends_line => (Label::Other, rest.len()),
        _ => (Label::None, 0),
    }
}

fn language(word: &str) -> Option<Label> {
    if matches!(word, "py" | "py3")
        || word
            .strip_prefix("python")
            .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return Some(Label::Python);
    }
    if matches!(word, "markdown" | "md") {
        return Some(Label::Markdown);
    }
    LANGUAGES
        .split(' ')
        .any(|language| language == word)
        .then_some(Label::Other)
}

/// The parts of `text` between its `marks`, in both readings of bare fences. No part is blank.
pub(super) fn parts<'a>(text: &'a str, marks: &[Mark]) -> Vec<Part<'a>> {
    if marks.is_empty() {
        return Vec::new();
    }
    let mut budget = MAX_PARTS_RATIO * text.len() + MIN_PARTS;
    let mut parts = Vec::new();
    let mut add = |part: Part<'a>| {
        if part.text.trim().is_empty() || part.text.len() > budget {
            return;
        }
        budget -= part.text.len();
        parts.push(part);
    };
    for number in 0..=marks.len() {
        let opener = marks.get(number);
        let before = number.checked_sub(1).map(|before| &marks[before]);
        if before.is_none_or(|before| matches!(before.label, Label::None | Label::Markdown)) {
            let start = before.map_or(0, |mark| mark.after);
            let end = opener.map_or(text.len(), |mark| mark.start);
            add(Part {
                position: PartPosition::Gap(number),
                ..Part::whole(&text[start..end.max(start)])
            });
        }
        let Some(opener) = opener.filter(|mark| mark.label != Label::Markdown) else {
            continue;
        };
        let closer = closer(marks, number);
        let end = closer.map_or(text.len(), |closer| marks[closer].start);
        let outside = closer.is_some_and(|closer| marks[closer].is_bare());
        let next = closer.map_or(marks.len() + 1, |closer| closer + usize::from(outside));
        add(Part {
            text: content(&text[opener.after..end.max(opener.after)], opener),
            position: PartPosition::Block {
                mark: number,
                next,
                outside,
            },
            fenced: true,
            closed: closer.is_some(),
            ..Part::whole("")
        });
    }
    parts
}

/// The index of the mark that closes the block opened by mark `number`: the first of its kind. A mark with a label closes the block and opens another.
fn closer(marks: &[Mark], number: usize) -> Option<usize> {
    let opener = &marks[number];
    let fits = |mark: &Mark| mark.sign == opener.sign && mark.count >= opener.count;
    let offset = marks[number + 1..].iter().position(fits)?;
    Some(number + 1 + offset)
}

/// The `marks` of `text` outside `code`, the ranges of lines that are Python. A mark inside is part of a string or a comment.
pub(super) fn outside_of(text: &str, marks: &[Mark], code: &[Range<usize>]) -> Vec<Mark> {
    let mut lines = 0;
    let mut at = 0;
    let mut outside = Vec::new();
    for mark in marks {
        // `start` is the beginning of the line for a mark that has the line to itself.
        lines += text[at..mark.start].matches('\n').count();
        at = mark.start;
        if !code.iter().any(|code| code.contains(&lines)) {
            outside.push(*mark);
        }
    }
    outside
}

/// A block's text without the `>` and the indentation of its fence.
fn content<'a>(text: &'a str, opener: &Mark) -> Cow<'a, str> {
    if opener.quoted == 0 && opener.indent == 0 {
        return Cow::Borrowed(text);
    }
    let unquoted = |line: &'a str| {
        (0..opener.quoted).fold(line, |rest, _| {
            let inner = rest.trim_start_matches([' ', '\t']);
            inner.strip_prefix('>').unwrap_or(rest)
        })
    };
    let blanks = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let lines = text.split_inclusive('\n').map(unquoted);
    // A blank after `>` belongs to the fence's indentation. If a line is indented less than the fence, only the common indentation is removed.
    let common = lines
        .clone()
        .filter(|line| !line.trim().is_empty())
        .map(blanks)
        .min();
    let cut = opener.indent.min(common.unwrap_or(0));
    let lines = lines.map(|line| &line[cut.min(blanks(line))..]);
    Cow::Owned(lines.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The block that each mark would open.
    fn blocks(text: &str) -> Vec<String> {
        let parts = parts(text, &marks(text)).into_iter();
        parts
            .filter(|part| part.fenced)
            .map(|part| part.text.into_owned())
            .collect()
    }

    #[test]
    fn fences_may_be_indented_quoted_or_within_a_line() {
        for text in [
            "```python\nx = 1\n```\n",
            "a\n\n   ~~~~ py\n   x = 1\n   ~~~~\n",
            "> ```python\n> x = 1\n> ```\n",
            "- ```python\n  x = 1\n  ```\n",
            "1. ```python\n   x = 1\n   ```\n",
            "• ```python\n  x = 1\n  ```\n",
            "12) ```python\n    x = 1\n    ```\n",
            "so: ```python\nx = 1\n```",
            "``` {.python .numbered}\nx = 1\n```",
        ] {
            assert_eq!(blocks(text)[0], "x = 1\n", "{text}");
            assert_eq!(marks(text)[0].label, Label::Python, "{text}");
        }
        assert_eq!(blocks("so ```python x = 1``` it is")[0], "x = 1");
    }

    #[test]
    fn a_fence_inside_code_does_not_count() {
        let text = "```python\nx = \"\"\"\n```\ny\n```\n\"\"\"\n```\nz\n";
        let all = marks(text);
        let code = 1..6;
        let outside = outside_of(text, &all, std::slice::from_ref(&code));
        assert_eq!((all.len(), outside.len()), (4, 2));
        let program = "x = \"\"\"\n```\ny\n```\n\"\"\"\n";
        assert_eq!(parts(text, &outside)[0].text, program);
    }

    #[test]
    fn blocks_keep_what_is_their_own() {
        for (text, expected) in [
            // Code that is indented less than its fence keeps its indentation.
            (
                "   ```\ndef f():\n  pass\n   ```",
                &["def f():\n  pass\n"][..],
            ),
            // A fence with a label closes the block before it.
            ("```python\nx\n```python\ny\n```", &["x\n", "y\n"]),
            // A shorter fence and a fence of the other sign are content.
            ("````\n```\nx\n````\n", &["```\nx\n"]),
            ("~~~\n```\nx\n~~~\n", &["```\nx\n"]),
        ] {
            assert_eq!(blocks(text)[..expected.len()], *expected, "{text}");
        }
    }

    #[test]
    fn the_size_of_the_parts_is_bounded_for_any_number_of_fences() {
        let text: String = (3..150)
            .rev()
            .map(|count| format!("{}\nx\n", "`".repeat(count)))
            .collect();
        let all: usize = parts(&text, &marks(&text))
            .iter()
            .map(|part| part.text.len())
            .sum();
        assert!(all <= MAX_PARTS_RATIO * text.len() + MIN_PARTS);
        assert_eq!(marks(&"```\n".repeat(10_000)).len(), MAX_MARKS);
    }

    proptest! {
        #[test]
        fn no_text_makes_reading_fences_panic(text in r"(?s)(```|~~~|```python|`|>|\n| |é|'''|\\|#|.){0,60}") {
            for part in parts(&text, &marks(&text)) {
                prop_assert!(!part.text.trim().is_empty());
            }
        }
    }
}
