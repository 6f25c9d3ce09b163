//! Finds the final answer in a completion, in at most two passes over it.

use crate::settings::Extraction;

/// Maximum bytes of a placeholder in a box.
const MAX_PLACEHOLDER: usize = 64;

/// An answer as it is written in the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extracted<'a> {
    /// The answer, trimmed; never empty.
    pub text: &'a str,
    /// How it was found.
    pub source: Source,
}

/// How an answer was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `\boxed{…}` or `\fbox{…}`, or `\boxed 5` without braces.
    Boxed,
    /// After the words "answer is" or a similar phrase.
    Phrase,
    /// The last formula of the completion: `$…$`.
    LastFormula,
    /// The last number of the completion.
    LastNumber,
}

impl Source {
    /// The name in a verdict's `detail`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Boxed => "boxed",
            Source::Phrase => "phrase",
            Source::LastFormula => "last formula",
            Source::LastNumber => "last number",
        }
    }
}

/// The final answer of `completion`, if `extraction` finds one.
#[must_use]
pub fn extract(completion: &str, extraction: Extraction) -> Option<Extracted<'_>> {
    let parts = outside_think_tags(completion);
    let boxed = |counts: fn(&str) -> bool| {
        let mut parts = parts.iter().rev();
        parts.find_map(|part| last_boxed(part, counts))
    };
    if let Some(text) = boxed(|content| !is_placeholder(content)).or_else(|| boxed(|_| true)) {
        return extracted(text, Source::Boxed);
    }
    if extraction == Extraction::Boxed {
        return None;
    }
    parts
        .iter()
        .rev()
        .find_map(|part| last_phrase(part).and_then(|text| extracted(text, Source::Phrase)))
        .or_else(|| parts.iter().rev().find_map(|part| last_value(part)))
}

/// The parts of the text outside `<think>` and `</think>`, in order. Text after a `<think>` that is still open counts as thinking. So does the text before a
/// `</think>` that was never opened, since the prompt may have opened it.
fn outside_think_tags(completion: &str) -> Vec<&str> {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let mut parts = Vec::new();
    let mut rest = completion;
    // The prompt has opened the thinking.
    let first = rest.find(CLOSE);
    if let Some(close) = first
        && !rest[..close].contains(OPEN)
    {
        rest = &rest[close + CLOSE.len()..];
    }
    loop {
        let Some(open) = rest.find(OPEN) else {
            parts.push(rest);
            return parts;
        };
        parts.push(&rest[..open]);
        let inside = &rest[open + OPEN.len()..];
        let Some(close) = inside.find(CLOSE) else {
            return parts;
        };
        rest = &inside[close + CLOSE.len()..];
    }
}

/// The last formula or the last number, whichever ends later.
fn last_value(text: &str) -> Option<Extracted<'_>> {
    let end = |part: &str| part.as_ptr() as usize + part.len();
    let formula = last_formula(text).and_then(|text| extracted(text, Source::LastFormula));
    let number = last_number(text).and_then(|text| extracted(text, Source::LastNumber));
    match (formula, number) {
        (Some(formula), Some(number)) if end(number.text) > end(formula.text) => Some(number),
        (Some(formula), _) => Some(formula),
        (None, number) => number,
    }
}

/// The content of the last pair of `$…$`, `\(…\)` or `\[…\]`.
fn last_formula(text: &str) -> Option<&str> {
    let paired = |open: &str, close: &str| {
        let end = text.rfind(close)?;
        let start = text[..end].rfind(open)? + open.len();
        Some(&text[start..end])
    };
    let dollars = || {
        let text = text
            .trim_end_matches(|c: char| c != '$')
            .strip_suffix('$')?;
        let text = text.strip_suffix('$').unwrap_or(text);
        let start = text.rfind('$')? + 1;
        let escaped = text[..start - 1].ends_with('\\') || text.ends_with('\\');
        (!escaped).then(|| &text[start..])
    };
    [paired("\\(", "\\)"), paired("\\[", "\\]"), dollars()]
        .into_iter()
        .flatten()
        .max_by_key(|formula| formula.as_ptr() as usize)
}

fn extracted(text: &str, source: Source) -> Option<Extracted<'_>> {
    let text = text.trim();
    (!text.is_empty()).then_some(Extracted { text, source })
}

/// Whether a box only shows where an answer belongs, as in "write it in \boxed{}", `\boxed{\ldots}` and `\boxed{\text{your answer}}`.
fn is_placeholder(content: &str) -> bool {
    const WORDS: &str = " answer answers ans result solution value number expression your the final numerical correct here insert boxed fbox text textbf textit textrm mathrm mbox dots ldots cdots quad qquad square underline 答案 ";
    let is_known =
        |part: &str| part.is_empty() || WORDS.contains(&format!(" {} ", part.to_lowercase()));
    let is_filler = |c: char| c.is_whitespace() || "\\{}_?.…,;:!~$()[]<>□*".contains(c);
    // \{\} is the empty set.
    content.len() <= MAX_PLACEHOLDER
        && !content.contains("\\{")
        && content.split(is_filler).all(is_known)
}

/// The content of the box that begins last, among those with content that `counts`. Unclosed and escaped braces do not count.
///
/// A box without braces, `$\boxed 5$`, holds everything up to the `$`, where TeX would take one token. The MATH tasks of lm-evaluation-harness read it in this way
/// (`last_boxed_only_string` in `lm_eval/tasks/hendrycks_math/utils.py`). The code that MATH was published with finds no such box.
fn last_boxed(text: &str, counts: fn(&str) -> bool) -> Option<&str> {
    const BOXES: [&str; 2] = ["\\boxed", "\\fbox"];
    let bytes = text.as_bytes();
    // Braces that are open, and the boxes among them, innermost last: their depth, and the start of their content.
    let mut depth = 0_usize;
    let mut boxes: Vec<(usize, usize)> = Vec::new();
    let mut last: Option<(usize, usize)> = None;
    // The start of the content of the last box without braces.
    let mut unbraced: Option<usize> = None;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => {
                let command = BOXES
                    .iter()
                    .find(|command| bytes[at..].starts_with(command.as_bytes()));
                let argument = command.map(|command| {
                    let after = at + command.len();
                    let spaces = bytes[after..]
                        .iter()
                        .take_while(|byte| byte.is_ascii_whitespace())
                        .count();
                    (after + spaces, spaces > 0)
                });
                match argument {
                    Some((brace, _)) if bytes.get(brace) == Some(&b'{') => {
                        depth += 1;
                        boxes.push((depth, brace + 1));
                        at = brace + 1;
                    }
                    Some((start, true)) if begins_value(&text[start..]) => {
                        unbraced = Some(start);
                        at = start;
                    }
                    _ => at += 2,
                }
            }
            b'{' => {
                depth += 1;
                at += 1;
            }
            b'}' => {
                let closed = boxes.pop_if(|(of_box, _)| *of_box == depth);
                depth = depth.saturating_sub(1);
                if let Some((_, start)) = closed
                    && last.is_none_or(|(last_start, _)| start > last_start)
                    && counts(&text[start..at])
                {
                    last = Some((start, at));
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
    unbraced
        .filter(|start| last.is_none_or(|(braced, _)| *start > braced))
        .map(|start| up_to_end_of_formula(&text[start..]))
        .filter(|content| counts(content))
        .or_else(|| last.map(|(start, end)| &text[start..end]))
}

/// Whether a box without braces may hold this. A word is prose about the command: "I use \boxed as asked", "in \boxed I put the number".
fn begins_value(text: &str) -> bool {
    let mut chars = text
        .trim_start_matches(['(', '[', '-', '−', '+', ' '])
        .chars();
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    match (chars.next(), chars.next()) {
        (Some('\\'), Some(next)) => next.is_ascii_alphabetic() || matches!(next, '{' | '$'),
        (Some('.'), Some(next)) => next.is_ascii_digit(),
        (Some(first), Some(' ')) if first.is_alphabetic() => !is_letter(chars.next()),
        (Some(first), next) if first.is_alphabetic() => !is_letter(next),
        (Some(first), _) => first.is_numeric(),
        (None, _) => false,
    }
}

/// The text before the first `$`, `\)`, `\]` or line break, or before a brace that closes a group around it.
fn up_to_end_of_formula(text: &str) -> &str {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if matches!(bytes.get(at + 1), Some(b')' | b']')) => break,
            // The next character is escaped.
            b'\\' => at += 1,
            b'$' | b'\n' => break,
            b'}' if depth == 0 => break,
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    &text[..at.min(text.len())]
}

/// The text after the last "answer is" or a similar phrase. It is the formulas there, or else the words up to the end of the sentence or the line, or up to a reason.
fn last_phrase(text: &str) -> Option<&str> {
    const PHRASES: [&str; 6] = [
        "answer is",
        "answers are",
        "answer:",
        "answer =",
        "therefore ",
        "####",
    ];
    // Lower-casing ASCII letters keeps the byte offsets.
    let lower = text.to_ascii_lowercase();
    let after = |phrase: &&str| {
        let at = lower.rfind(*phrase)? + phrase.len();
        // Many sentences that begin with "Therefore" have no answer.
        let value = |c: char| c.is_ascii_digit() || matches!(c, '-' | '−' | '$' | '\\' | '.');
        let counts = !phrase.starts_with("therefore") || text[at..].trim_start().starts_with(value);
        counts.then_some(at)
    };
    let at = PHRASES.iter().filter_map(after).max()?;
    let rest = text[at..].trim_start_matches([':', ' ', '*', '\n', '\r']);
    for (open, close) in [("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)")] {
        if let Some(formula) = rest.strip_prefix(open)
            && let Some(end) = formula.find(close).filter(|end| *end > 0)
        {
            return Some(&formula[..end]);
        }
    }
    let line = rest.lines().next()?;
    if let Some(formula) = line.strip_prefix('$')
        && let Some(end) = formula.find('$').filter(|end| *end > 0)
    {
        // $3$ and $4$ form one answer.
        return Some(match end_of_formulas(line) {
            Some(end) => &line[..end],
            None => &formula[..end],
        });
    }
    let lower = line.to_ascii_lowercase();
    let reasons = [
        ". ",
        ", as ",
        ", since ",
        ", because ",
        ", so ",
        ", which ",
        " because ",
        " since ",
        " (see ",
        " as shown ",
    ];
    let end = reasons
        .iter()
        .filter_map(|reason| lower.find(reason))
        .min()
        .unwrap_or(line.len());
    Some(line[..end].trim_end_matches(['.', '*', ' ', '!', ',']))
}

/// The end of several formulas with only commas and "and" or "or" between them.
fn end_of_formulas(line: &str) -> Option<usize> {
    let (mut end, mut count) = (0, 0);
    loop {
        let between = &line[end..];
        let start = between.find('$')?;
        let words = between[..start].trim_matches([' ', ',']);
        if count > 0 && !matches!(words, "" | "and" | "or") {
            return None;
        }
        let inside = &between[start + 1..];
        end += start + 1 + inside.find('$')? + 1;
        count += 1;
        if !line[end..].contains('$') {
            return (count > 1).then_some(end);
        }
    }
}

/// The last number, with its sign, its thousands separators and its decimals.
fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let mut start = end;
    while start > 0 {
        let byte = bytes[start - 1];
        let inside = byte.is_ascii_digit()
            || (matches!(byte, b'.' | b',' | b'/')
                && start >= 2
                && bytes[start - 2].is_ascii_digit());
        if !inside {
            break;
        }
        start -= 1;
    }
    if start > 0 && bytes[start - 1] == b'.' {
        start -= 1;
    }
    // A sign belongs to the number unless it is between two operands.
    let minus = ["-", "−"]
        .into_iter()
        .find(|minus| text[..start].ends_with(minus));
    if let Some(minus) = minus
        && !ends_with_operand(&text[..start - minus.len()])
    {
        start -= minus.len();
    }
    Some(&text[start..end])
}

/// Whether text before a minus ends with an operand: a number, a name or a closing bracket. A word of several letters and a blank are prose, as in "We get -5".
/// `x -5`, `2xy -5`, `\pi -5` and "GPT-4" are not.
fn ends_with_operand(text: &str) -> bool {
    let before = text.trim_end();
    let rest = before.trim_end_matches(char::is_alphabetic);
    let is_word = before[rest.len()..].chars().nth(1).is_some()
        && !rest.ends_with(|c: char| c.is_ascii_digit() || matches!(c, '\\' | '_' | '^'));
    let is_prose = is_word && before.len() < text.len();
    !is_prose && before.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, ')' | '}'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_answer_of_every_completion_in_the_table_is_found() {
        let lines = include_str!("../tests/extraction.jsonl").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (mode, completion, answer): (String, String, Option<String>) =
                serde_json::from_str(line).expect(line);
            let extraction = match mode.as_str() {
                "boxed" => Extraction::Boxed,
                _ => Extraction::Any,
            };
            let found = extract(&completion, extraction).map(|extracted| extracted.text);
            assert_eq!(found, answer.as_deref(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_extraction_panic(text in r"(?s)(\\boxed|\\fbox|\{|\}|\\|\$|answer is|[-.,0-9é ]|.){0,60}") {
            for extraction in [Extraction::Boxed, Extraction::Any] {
                if let Some(extracted) = extract(&text, extraction) {
                    prop_assert!(!extracted.text.is_empty() && text.contains(extracted.text));
                }
            }
        }

        #[test]
        fn a_balanced_box_is_found_whole(before in "[a-z{} ]{0,20}", inner in r"[0-9a-z]{1,5}(\{[a-z]{0,3}\}){0,3}") {
            let text = format!("{before}\\boxed{{{inner}}}");
            let found = extract(&text, Extraction::Boxed).map(|extracted| extracted.text);
            prop_assert_eq!(found, Some(inner.as_str()));
        }
    }
}
