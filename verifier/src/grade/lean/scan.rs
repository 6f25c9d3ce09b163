//! Scans the words of a Lean text for what a proof may not contain, before Lean sees the text. This is a first, cheap check: no acceptance depends on it alone.
//!
//! Elaborating a Lean file runs code in the file: macros, elaborators, `#eval`. A proof needs none of it, so words that define or run such code are refused. It is easy
//! to misjudge where Lean sees a comment begin or end (`«--»`, `/--/`, `/-/-`). So Lean gets the text without comments: the scan reads exactly what Lean reads, and no
//! rule about comments can hide a word. Otherwise the scan errs on the side of refusing. Words in strings count as code, because an interpolated string contains code.
//! So do words that follow a number (`1macro`) or a sign (`⁻¹macro`) without a space.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Why a text may not be given to Lean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// The word, as it is written in the text.
    pub word: String,
    /// Why it is refused.
    pub why: &'static str,
}

/// Words that a proof may not contain, with the reasons.
static REFUSED_WORDS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let words = listed(include_str!("scan/refused_words.txt"));
    words.map(|(why, word)| (word, why)).collect()
});

/// Other lists: their names and words.
static LISTS: LazyLock<HashSet<(&str, &str)>> =
    LazyLock::new(|| listed(include_str!("scan/lists.txt")).collect());

/// The words of a text's indented lines, each with the last line before it that is not indented.
fn listed(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut list = "";
    lines.flat_map(move |line| {
        let is_word = line.starts_with(' ');
        list = if is_word { list } else { line };
        let words = if is_word { line } else { "" };
        words.split_whitespace().map(move |word| (list, word))
    })
}

fn is_in(list: &str, word: &str) -> bool {
    LISTS.contains(&(list, word))
}

/// The reason for refusing words that run code as the elaborator does. `scan/refused_words.txt` has it too.
const META: &str = "it runs code while the proof is checked";

/// Prefixes of words that define code for elaboration.
const REFUSED_PREFIXES: &[&str] = &["declare_", "register_", "builtin_", "unsafe"];

/// A word or a sign of a text, with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// The word as it is written.
    pub text: &'a str,
    /// The line number, from 1.
    pub line: usize,
    /// The character before it; a space at the beginning of the text.
    before: char,
}

/// `text` with its comments replaced by spaces, so that lines and columns stay. No mark that begins a comment is left.
pub(super) fn without_comments(text: &str) -> Result<String, Refused> {
    let bytes = text.as_bytes();
    let mut bare = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    // Whether an odd number of quotes precede, in the same line.
    let mut quoted = false;
    while at < bytes.len() {
        let length = match &bytes[at..] {
            [b'-', b'-', ..] => text[at..].find('\n').unwrap_or(text.len() - at),
            [b'/', b'-', ..] => match comment_length(&text[at..]) {
                Some(length) => length,
                None => return refuse("/-", "the comment has no end"),
            },
            rest => {
                quoted = match rest.first() {
                    Some(b'"') => !quoted,
                    Some(b'\n') => false,
                    _ => quoted,
                };
                at += 1;
                continue;
            }
        };
        if quoted {
            return refuse(&text[at..at + 2], "a comment's mark stands in a string");
        }
        bare.push_str(&text[copied..at]);
        let blank = |c: char| if c == '\n' { c } else { ' ' };
        bare.extend(text[at..at + length].chars().map(blank));
        at += length;
        copied = at;
    }
    bare.push_str(&text[copied..]);
    Ok(bare)
}

/// The length of a block comment, including nested ones; `None` if it has no end.
fn comment_length(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = text.as_bytes();
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/-" => {
                depth += 1;
                at += 2;
            }
            b"-/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// The words and signs of a text without comments.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let (mut rest, mut line, mut before) = (text, 1, ' ');
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            word_length(rest)
        } else {
            first.len_utf8()
        };
        let (text, after) = rest.split_at(length);
        if first == '\n' {
            line += 1;
        } else if !first.is_whitespace() {
            words.push(Word { text, line, before });
        }
        before = text.chars().next_back().unwrap_or(before);
        rest = after;
    }
    words
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '«' | '»')
}

/// The length of a name with its dots and primes: `Nat.succ_le_iff'`.
fn word_length(text: &str) -> usize {
    let mut end = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let dot = c == '.' && chars.peek().is_some_and(|(_, next)| is_word(*next));
        if !(is_word(c) || matches!(c, '\'' | '!' | '?') || dot) {
            break;
        }
        end = at + c.len_utf8();
    }
    end.max(1)
}

/// The parts of a word that Lean may read as keywords. They are every part of a dotted name (`Lean.Elab.Command.elabEvalCoreUnsafe`), and the text after a number's
/// digits. Lean does not count some characters as letters, such as those of `⁻¹` and `ᵒᵖ`: the text between them is such a part. So is the text after the letters that
/// end a sign, such as `≃o` and `[ZMOD`.
fn keywords<'a>(word: &Word<'a>) -> impl Iterator<Item = &'a str> {
    let Word { text, before, .. } = *word;
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut at = 0;
    parts.flat_map(move |part| {
        let before = text[..at].chars().next_back().unwrap_or(before);
        at += part.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
        let letters = if part.starts_with(|c: char| c.is_ascii_digit()) {
            part.len()
        } else if before == '[' {
            part.bytes().take_while(u8::is_ascii_uppercase).count()
        } else {
            usize::from(!before.is_whitespace() && !NO_LETTERS.contains(before))
        };
        (0..=letters).filter_map(move |start| part.get(start..))
    })
}

/// Signs after which a letter begins a name.
const NO_LETTERS: &str = "([{⟨«‹,;:.'\"`|@-←¬↑⇑!?₀₁₂₃₄₅₆₇₈₉";

fn refuse<T>(word: &str, why: &'static str) -> Result<T, Refused> {
    Err(Refused {
        word: word.to_owned(),
        why,
    })
}

/// Checks that a proof, or a client's statement, may be passed to Lean. [`without_comments`] must have removed the comments.
pub(super) fn check(text: &str) -> Result<(), Refused> {
    if let Some(mark) = ["--", "/-"].into_iter().find(|mark| text.contains(mark)) {
        return refuse(mark, "what a comment hides cannot be scanned");
    }
    let words = words(text);
    // Whether the last parentheses contained a tactic's setting: more settings may follow.
    let mut configured = false;
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| words[index]);
        let next = words.get(index + 1);
        let mut option = false;
        for keyword in keywords(word) {
            if let Some(why) = REFUSED_WORDS.get(keyword) {
                return refuse(word.text, why);
            }
            let mut prefixes = REFUSED_PREFIXES.iter();
            if prefixes.any(|start| keyword.starts_with(start)) {
                return refuse(word.text, META);
            }
            option |= keyword == "set_option";
        }
        if option {
            let option = next.map_or("", |next| next.text);
            let linter = option.starts_with("linter.");
            if !linter && !is_in("options", option) {
                return refuse(option, "a proof may not set this option");
            }
        }
        match word.text {
            "(" => {
                if let Some(name) = setting(&words, index) {
                    let before = before.map_or("", |word| word.text);
                    let tactic = before.trim_end_matches(['?', '!']);
                    let configures = name == "config"
                        || is_in("configured tactics", tactic)
                        || (before == ")" && configured);
                    configured = configures;
                    if configures
                        && !is_in("tactic settings", name)
                        && !configures_by_a_literal(&words, index)
                    {
                        return refuse(
                            name,
                            "a tactic's configuration may hold numbers, `true`, `false` and lists of them; Lean runs anything else",
                        );
                    }
                } else {
                    configured = false;
                }
            }
            "class" if next.is_some_and(|next| next.text == "abbrev") => {
                return refuse("class abbrev", "it changes what a statement means");
            }
            // #eval, #check and the like. `#α` and `s.card = #s` are not commands: they are within a line.
            "#" => {
                let first = before.is_none_or(|before| before.line < word.line);
                if first || next.is_some_and(|next| is_command(next.text)) {
                    return refuse("#", META);
                }
            }
            "@" if next.is_some_and(|next| next.text == "[") => {
                let mut depth = 0_usize;
                for attribute in &words[index + 1..] {
                    let name = attribute.text;
                    match name {
                        "[" => depth += 1,
                        "]" => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                    if name == "@" {
                        return refuse("@", "attributes do not stand in attributes");
                    }
                    let plain = name.chars().all(|c| !is_word(c) || c.is_ascii_digit());
                    if !plain && !is_in("attributes", name) {
                        return refuse(name, "a proof may not give this attribute");
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether `#` and this word form a command.
fn is_command(word: &str) -> bool {
    let beginnings = word.match_indices('_').map(|(at, _)| &word[..at]);
    beginnings.chain([word]).any(|name| is_in("commands", name))
}

/// Whether the tactic's setting that begins with the parenthesis at `index` is a literal. Lean evaluates any other expression there, and the kernel does not see that.
fn configures_by_a_literal(words: &[Word<'_>], index: usize) -> bool {
    let text = |at: usize| words.get(at).map_or("", |word| word.text);
    let mut depth = 0_usize;
    let mut at = index;
    loop {
        let word = text(at);
        match word {
            // A setting does not contain another.
            "(" if at != index && setting(words, at).is_some() => return false,
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => {
                depth -= 1;
                if depth == 0 {
                    return true;
                }
            }
            "" => return false,
            "true" | "false" | "," | ":" | "=" => {}
            "." => {
                at += 1;
                if !is_in("constructors", text(at)) {
                    return false;
                }
            }
            _ if word.bytes().all(|byte| byte.is_ascii_digit()) => {}
            // The name of the setting.
            _ if is_name(word) && text(at + 1) == ":" && text(at + 2) == "=" => {}
            _ => return false,
        }
        at += 1;
    }
}

/// The name of the setting that begins with the parenthesis at `index`.
fn setting<'a>(words: &[Word<'a>], index: usize) -> Option<&'a str> {
    let [_, name, colon, equals, ..] = words.get(index..)? else {
        return None;
    };
    (is_name(name.text) && colon.text == ":" && equals.text == "=").then_some(name.text)
}

/// Checks an untrusted header and returns it without comments. It may only import, open namespaces and set options.
pub(super) fn check_header(text: &str) -> Result<String, Refused> {
    let bare = without_comments(text)?;
    let words = words(&bare);
    let mut rest = words.as_slice();
    while let [command, arguments @ ..] = rest {
        // A command ends at the end of its line; the next line must begin with a command again.
        let end = arguments
            .iter()
            .take_while(|word| word.line == command.line)
            .count();
        let (arguments, next) = arguments.split_at(end);
        let names = arguments
            .iter()
            .all(|word| is_name(word.text) || matches!(word.text, "(" | ")"));
        let allowed = match command.text {
            "import" | "open" | "universe" => names,
            "noncomputable" => matches!(arguments, [section] if section.text == "section"),
            "set_option" => {
                let known = |option: &str| {
                    is_in("options", option) || option.strip_prefix("linter.").is_some_and(is_name)
                };
                let value = |value: &str| {
                    matches!(value, "true" | "false")
                        || value.bytes().all(|byte| byte.is_ascii_digit())
                };
                matches!(arguments, [option, set] if known(option.text) && value(set.text))
            }
            _ => false,
        };
        if !allowed {
            return refuse(
                command.text,
                "a header may hold lines of `import`, `open`, `universe`, `noncomputable section`, and of `set_option` for what a proof may cost",
            );
        }
        rest = next;
    }
    Ok(bare)
}

/// Whether Lean certainly reads a word as a single name: ASCII and subscript digits, each part beginning with a letter.
pub(super) fn is_name(word: &str) -> bool {
    word.split('.').all(|part| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '\'' | '₀'..='₉');
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && part.chars().all(inner)
    })
}

#[cfg(test)]
mod tests;
