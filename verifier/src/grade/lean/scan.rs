//! The words of a Lean text, without its comments: what a proof may not contain is found before Lean sees it.
//!
//! Elaborating a Lean file runs code that the file contains: macros, elaborators, `#eval`. A proof needs none of it, so what defines or runs such code is refused by its
//! words. The scan is made to see too much rather than too little: words in strings count as code, since an interpolated string holds some.

/// Why a text may not be given to Lean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// The word, as it stands in the text.
    pub word: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Words that define or run code at elaboration, change what is written later, or assume what is to be proved.
const WORDS: &[(&str, &str)] = &[
    ("sorry", UNPROVED),
    ("admit", UNPROVED),
    ("stop", UNPROVED),
    ("sorryAx", UNPROVED),
    ("axiom", UNPROVED),
    ("constant", UNPROVED),
    ("opaque", UNPROVED),
    ("native_decide", COMPILER),
    ("native", COMPILER),
    ("bv_decide", COMPILER),
    ("bv_check", COMPILER),
    ("ofReduceBool", COMPILER),
    ("reduceBool", COMPILER),
    ("trustCompiler", COMPILER),
    (
        "mutual",
        "what follows a `mutual` that has no end is not read",
    ),
    ("implemented_by", CODE),
    ("implementedBy", CODE),
    ("extern", CODE),
    ("csimp", CODE),
    ("unsafe", CODE),
    ("unsafeCast", CODE),
    ("unsafeIO", CODE),
    ("initialize", CODE),
    ("builtin_initialize", CODE),
    ("elab", META),
    ("elab_rules", META),
    ("macro", META),
    ("macro_rules", META),
    ("syntax", META),
    ("declare_syntax_cat", META),
    ("declare_simp_like_tactic", META),
    ("run_cmd", META),
    ("run_elab", META),
    ("run_meta", META),
    ("run_tac", META),
    ("by_elab", META),
    ("term_elab", META),
    ("command_elab", META),
    ("simproc", META),
    ("dsimproc", META),
    ("simproc_decl", META),
    ("builtin_simproc", META),
    ("register_simp_attr", META),
    ("register_option", META),
    ("declare_aesop_rule_sets", META),
    ("meta", META),
    ("notation", NOTATION),
    ("notation3", NOTATION),
    ("infix", NOTATION),
    ("infixl", NOTATION),
    ("infixr", NOTATION),
    ("prefix", NOTATION),
    ("postfix", NOTATION),
    ("binder_predicate", NOTATION),
    ("unif_hint", "it changes how Lean unifies"),
    ("import", "only the task's own header imports"),
    ("prelude", "only the task's own header imports"),
    ("dbg_trace", "it writes among Lean's own messages"),
    ("dbgTrace", "it writes among Lean's own messages"),
    ("dbgTraceVal", "it writes among Lean's own messages"),
    ("dbg_stop", CODE),
    ("panic", "it writes among Lean's own messages"),
    ("IO", CODE),
    ("MetaM", META),
    ("TacticM", META),
    ("CoreM", META),
    ("CommandElabM", META),
    ("TermElabM", META),
];

const COMPILER: &str = "it trusts the compiler, not the kernel";
const UNPROVED: &str = "it leaves something unproved";
const CODE: &str = "it runs code that the kernel does not see";
const META: &str = "it runs code while the proof is checked";
const NOTATION: &str = "it changes how text is read";

/// Options that a proof may set: what it may cost, and what is shown.
const OPTIONS: &[&str] = &[
    "maxHeartbeats",
    "maxRecDepth",
    "synthInstance.maxHeartbeats",
    "synthInstance.maxSize",
    "exponentiation.threshold",
    "autoImplicit",
    "relaxedAutoImplicit",
    "pp.all",
    "pp.explicit",
    "pp.numericTypes",
    "pp.coercions",
];

/// Attributes that a lemma may have.
const ATTRIBUTES: &[&str] = &[
    "simp",
    "ext",
    "refl",
    "symm",
    "trans",
    "congr",
    "norm_num",
    "norm_cast",
    "push_cast",
    "aesop",
    "gcongr",
    "mono",
    "local",
    "reducible",
    "inline",
];

/// A word or a sign of a text, with the line it stands in, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// As it is written.
    pub text: &'a str,
    /// From 1.
    pub line: usize,
}

/// The words and signs of `text` outside of comments. `None` where a comment or a string has no end: what follows in the file would belong to it.
pub(super) fn words(text: &str) -> Option<Vec<Word<'_>>> {
    let mut words = Vec::new();
    let bytes = text.as_bytes();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let rest = &text[at..];
        if rest.starts_with("--") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/-") {
            let length = comment(rest)?;
            line += newlines(&rest[..length]);
            at += length;
        } else if let Some(length) = raw_string(rest)? {
            inner(&rest[..length], line, &mut words);
            line += newlines(&rest[..length]);
            at += length;
        } else if rest.starts_with('"') {
            let length = string(rest)?;
            inner(&rest[..length], line, &mut words);
            line += newlines(&rest[..length]);
            at += length;
        } else if let Some(length) = character(rest) {
            at += length;
        } else {
            let first = rest.chars().next()?;
            let length = if is_word(first) {
                word(rest)
            } else {
                first.len_utf8()
            };
            if first == '\n' {
                line += 1;
            } else if !first.is_whitespace() {
                words.push(Word {
                    text: &rest[..length],
                    line,
                });
            }
            at += length;
        }
    }
    Some(words)
}

/// `text` from its first word on; `None` where a comment before it has no end.
pub(super) fn without_comments_before(text: &str) -> Option<&str> {
    let mut rest = text.trim_start();
    loop {
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/-") {
            comment(rest)?
        } else {
            return Some(rest);
        };
        rest = rest[length..].trim_start();
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The length of a block comment; they nest.
fn comment(text: &str) -> Option<usize> {
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

/// The length of a string with escapes.
fn string(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// The length of `r"…"` or `r#"…"#`, if one begins here.
#[expect(
    clippy::option_option,
    reason = "a string without an end is another thing than none"
)]
fn raw_string(text: &str) -> Option<Option<usize>> {
    let Some(rest) = text.strip_prefix('r') else {
        return Some(None);
    };
    let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
    if !rest[hashes..].starts_with('"') {
        return Some(None);
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let inside = &rest[hashes + 1..];
    inside
        .find(&close)
        .map(|end| Some(1 + hashes + 1 + end + close.len()))
}

/// The length of a character literal, if one begins here: `'"'` begins no string, and `h'` no literal.
fn character(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    let mut chars = rest.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        // '\n', '\'', '\x41', '\u{41}'
        let escaped = 1 + rest[1..].chars().next()?.len_utf8();
        let end = escaped + rest[escaped..].find('\'')?;
        return (end <= 12 && !rest[..end].contains('\n')).then_some(1 + end + 1);
    }
    let (at, quote) = chars.next()?;
    (quote == '\'' && first != '\n').then_some(1 + at + 1)
}

/// The words in a string: some of it may be code.
fn inner<'a>(text: &'a str, mut line: usize, words: &mut Vec<Word<'a>>) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            word(rest)
        } else {
            first.len_utf8()
        };
        if is_word(first) {
            words.push(Word {
                text: &rest[..length],
                line,
            });
        }
        line += usize::from(first == '\n');
        rest = &rest[length..];
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '«' | '»')
}

/// The length of a name with its dots and primes: `Nat.succ_le_iff'`.
fn word(text: &str) -> usize {
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

fn refuse(word: &str, why: &'static str) -> Result<(), Refused> {
    Err(Refused {
        word: word.to_owned(),
        why,
    })
}

/// Whether a proof, or a client's statement or header, may be given to Lean.
pub(super) fn check(text: &str) -> Result<(), Refused> {
    let Some(words) = words(text) else {
        return refuse("a comment or a string", "it has no end");
    };
    for (place, word) in words.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| words[place]);
        let next = words.get(place + 1);
        // Every part of a dotted name counts: Lean.Elab.Command.elabEvalCoreUnsafe.
        for part in word.text.split(['.', '«', '»']) {
            let bare = part.trim_end_matches(['!', '?', '\'']);
            if let Some((_, why)) = WORDS.iter().find(|(word, _)| *word == bare) {
                return refuse(word.text, why);
            }
        }
        let root = word.text.split('.').next().unwrap_or_default();
        if root == "Lean" || root == "Qq" {
            return refuse(word.text, META);
        }
        match word.text {
            // #eval, #check and all commands of that kind; but `#α` and `s.card = #s` are no commands: those stand within a line.
            "#" => {
                let first = before.is_none_or(|before| before.line < word.line);
                if first || next.is_some_and(|next| COMMANDS.contains(&next.text)) {
                    return refuse("#", META);
                }
            }
            "set_option" => {
                let option = next.map_or("", |next| next.text);
                let linter = option.starts_with("linter.");
                if !linter && !OPTIONS.contains(&option) {
                    return refuse(option, "a proof may not set this option");
                }
            }
            "attribute" => return refuse("attribute", "it changes what others have defined"),
            "instance" => return refuse("instance", "it changes what a statement means"),
            "deriving" => return refuse("deriving", META),
            "@" if next.is_some_and(|next| next.text == "[") => {
                for attribute in words[place + 2..]
                    .iter()
                    .take_while(|word| word.text != "]")
                {
                    let name = attribute.text;
                    let plain = name.chars().all(|c| !is_word(c) || c.is_ascii_digit());
                    if !plain && !ATTRIBUTES.contains(&name) {
                        return refuse(name, "a proof may not give this attribute");
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Tactics that look through everything known, the statement that is assumed for comparison included.
const SEARCHES: &[&str] = &["exact?", "apply?", "rw?", "rewrites?", "observe?", "hint"];

/// A tactic of `text` that searches what is known.
pub(super) fn search(text: &str) -> Option<Refused> {
    let words = words(text)?;
    let found = words.iter().find(|word| SEARCHES.contains(&word.text))?;
    Some(Refused {
        word: found.text.to_owned(),
        why: "where Lean does not list axioms, a search may find the statement itself",
    })
}

/// Whether a header that nobody has vouched for may be given to Lean: it may import, open namespaces and set options, and nothing else.
pub(super) fn check_header(text: &str) -> Result<(), Refused> {
    let Some(words) = words(text) else {
        return refuse("a comment or a string", "it has no end");
    };
    let mut rest = words.as_slice();
    while let [command, arguments @ ..] = rest {
        // A command goes on to the end of its line; what follows on later lines begins with a command's word again.
        let end = arguments
            .iter()
            .take_while(|word| word.line == command.line)
            .count();
        let (arguments, next) = arguments.split_at(end);
        let names = arguments.iter().all(|word| {
            word.text.starts_with(|c: char| is_word(c)) || matches!(word.text, "(" | ")")
        });
        let allowed = match command.text {
            "import" | "open" | "universe" => names,
            "noncomputable" => matches!(arguments, [section] if section.text == "section"),
            "set_option" => {
                arguments.first().is_some_and(|option| {
                    option.text.starts_with("linter.") || OPTIONS.contains(&option.text)
                }) && arguments.len() == 2
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
    Ok(())
}

/// Commands that print or run.
const COMMANDS: &[&str] = &[
    "eval",
    "eval!",
    "print",
    "check",
    "check_failure",
    "reduce",
    "synth",
    "exit",
    "help",
    "guard",
    "guard_msgs",
    "simp",
    "find",
    "where",
    "version",
    "with_exporting",
    "loogle",
    "leansearch",
    "norm_num",
    "test",
    "sample",
    "count_heartbeats",
    "unfold",
    "discr_tree_key",
    "lint",
    "min_imports",
];

#[cfg(test)]
mod tests;
