//! The words of a Lean text: what a proof may not contain is found before Lean sees it. A first, cheap refusal: no verdict rests on it alone.
//!
//! Elaborating a Lean file runs code that the file contains: macros, elaborators, `#eval`. A proof needs none of it, so what defines or runs such code is refused by its
//! words. Where Lean sees a comment begin or end is easily misjudged (`«--»`, `/--/`, `/-/-`), so Lean is given a text without comments: what is scanned is what Lean
//! reads, and no rule about comments can hide a word. For the rest the scan sees too much rather than too little: words in strings count as code, since an interpolated
//! string holds some, and so does what follows a number (`1macro`) or a sign (`⁻¹macro`) without a space.

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
    ("lcProof", UNPROVED),
    ("lcUnreachable", UNPROVED),
    ("timeit", CODE),
    ("allocprof", CODE),
    ("System", CODE),
    ("asTask", CODE),
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
    ("attribute", "it changes what others have defined"),
    ("instance", "it changes what a statement means"),
    ("deriving", META),
    ("variable", ASSUMED),
    ("variables", ASSUMED),
    ("include", ASSUMED),
    ("omit", ASSUMED),
    ("export", "it changes what names mean"),
    ("include_str", CODE),
    ("println", "it writes among Lean's own messages"),
    ("eprintln", "it writes among Lean's own messages"),
    ("set_library_suggestions", META),
    ("set_premise_selector", META),
    ("add_aesop_rules", META),
    ("tactic", META),
    ("Lean", META),
    ("Meta", META),
    ("Elab", META),
    ("Tactic", META),
    ("Aesop", META),
    ("Qq", META),
    ("EIO", CODE),
    ("BaseIO", CODE),
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
const ASSUMED: &str = "what follows would assume more than it says";

/// Beginnings of words that define what runs at elaboration.
const BEGINNINGS: &[&str] = &["declare_", "register_", "builtin_", "unsafe"];

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

/// Attributes that a lemma may have. `norm_num` is none: it runs what it stands before.
const ATTRIBUTES: &[&str] = &[
    "simp",
    "ext",
    "refl",
    "symm",
    "trans",
    "congr",
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
    /// The character before it; a space where there is none.
    before: char,
}

/// `text` with spaces in place of its comments, lines and columns as they were. None of the marks that begin one is left.
pub(super) fn without_comments(text: &str) -> Result<String, Refused> {
    let bytes = text.as_bytes();
    let mut bare = String::with_capacity(text.len());
    let (mut kept, mut at) = (0, 0);
    // Whether an odd number of quotes stand before, in the same line.
    let mut quoted = false;
    while at < bytes.len() {
        let length = match &bytes[at..] {
            [b'-', b'-', ..] => text[at..].find('\n').unwrap_or(text.len() - at),
            [b'/', b'-', ..] => match comment(&text[at..]) {
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
        bare.push_str(&text[kept..at]);
        let blank = |c: char| if c == '\n' { c } else { ' ' };
        bare.extend(text[at..at + length].chars().map(blank));
        at += length;
        kept = at;
    }
    bare.push_str(&text[kept..]);
    Ok(bare)
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

/// The words and signs of a text without comments.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let (mut rest, mut line, mut before) = (text, 1, ' ');
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            word(rest)
        } else {
            first.len_utf8()
        };
        let (text, behind) = rest.split_at(length);
        if first == '\n' {
            line += 1;
        } else if !first.is_whitespace() {
            words.push(Word { text, line, before });
        }
        before = text.chars().next_back().unwrap_or(before);
        rest = behind;
    }
    words
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

/// What of a word Lean may read as a keyword: every part of a dotted name (`Lean.Elab.Command.elabEvalCoreUnsafe`), what follows a number's digits, what stands
/// between letters that are none in Lean, such as those of `⁻¹` and `ᵒᵖ`, and what follows the letters that end a sign, such as `≃o` and `[ZMOD`.
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

/// Whether a proof, or a client's statement, may be given to Lean as it stands: [`without_comments`] has read it.
pub(super) fn check(text: &str) -> Result<(), Refused> {
    if let Some(mark) = ["--", "/-"].into_iter().find(|mark| text.contains(mark)) {
        return refuse(mark, "what a comment hides cannot be scanned");
    }
    let words = words(text);
    // Whether the parentheses that were met last held a tactic's setting: more may follow them.
    let mut configured = false;
    for (place, word) in words.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| words[place]);
        let next = words.get(place + 1);
        let mut option = false;
        for keyword in keywords(word) {
            if let Some((_, why)) = WORDS.iter().find(|(word, _)| *word == keyword) {
                return refuse(word.text, why);
            }
            if BEGINNINGS.iter().any(|start| keyword.starts_with(start)) {
                return refuse(word.text, META);
            }
            option |= keyword == "set_option";
        }
        if option {
            let option = next.map_or("", |next| next.text);
            let linter = option.starts_with("linter.");
            if !linter && !OPTIONS.contains(&option) {
                return refuse(option, "a proof may not set this option");
            }
        }
        match word.text {
            "(" => {
                if let Some(name) = setting(&words, place) {
                    let before = before.map_or("", |word| word.text);
                    let tactic = before.trim_end_matches(['?', '!']);
                    let configures = name == "config"
                        || CONFIGURED.contains(&tactic)
                        || (before == ")" && configured);
                    configured = configures;
                    if configures
                        && !TACTICS.contains(&name)
                        && !configures_by_a_literal(&words, place)
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
            // #eval, #check and all commands of that kind; but `#α` and `s.card = #s` are no commands: those stand within a line.
            "#" => {
                let first = before.is_none_or(|before| before.line < word.line);
                if first || next.is_some_and(|next| is_command(next.text)) {
                    return refuse("#", META);
                }
            }
            "@" if next.is_some_and(|next| next.text == "[") => {
                let mut depth = 0_usize;
                for attribute in &words[place + 1..] {
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

/// Whether `#` and this word are a command.
fn is_command(word: &str) -> bool {
    let command = |name: &&str| {
        word.strip_prefix(*name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    COMMANDS.iter().any(command)
}

/// Tactics that take a configuration: `simp (maxSteps := 1000)`.
const CONFIGURED: &[&str] = &[
    "abel_nf",
    "aesop",
    "apply",
    "bv_omega",
    "conv",
    "dsimp",
    "erw",
    "exact_mod_cast",
    "field_simp",
    "gcongr",
    "grind",
    "linarith",
    "linear_combination",
    "nlinarith",
    "norm_cast",
    "norm_num",
    "omega",
    "polyrith",
    "positivity",
    "push_cast",
    "rewrite",
    "ring",
    "ring_nf",
    "rw",
    "rwa",
    "simp",
    "simp_all",
    "simp_arith",
    "simp_intro",
    "simp_rw",
    "simpa",
    "solve_by_elim",
    "split",
    "tauto",
    "unfold",
];

/// Settings whose value is a tactic, which is scanned like every other.
const TACTICS: &[&str] = &["disch", "discharger"];

/// What may stand in a configuration behind a full stop.
const CHOICES: &[&str] = &[
    "all",
    "default",
    "instances",
    "neg",
    "none",
    "pos",
    "reducible",
];

/// Whether a setting of a tactic that begins at `place`, with its parenthesis, is a literal. Lean evaluates what stands there, without a look by the kernel.
fn configures_by_a_literal(words: &[Word<'_>], place: usize) -> bool {
    let text = |at: usize| words.get(at).map_or("", |word| word.text);
    let mut depth = 0_usize;
    let mut at = place;
    loop {
        let word = text(at);
        match word {
            // One setting holds no other.
            "(" if at != place && setting(words, at).is_some() => return false,
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
                if !CHOICES.contains(&text(at)) {
                    return false;
                }
            }
            _ if word.bytes().all(|byte| byte.is_ascii_digit()) => {}
            // A setting's own name.
            _ if is_name(word) && text(at + 1) == ":" && text(at + 2) == "=" => {}
            _ => return false,
        }
        at += 1;
    }
}

/// The setting that begins at `place`, which holds a parenthesis.
fn setting<'a>(words: &[Word<'a>], place: usize) -> Option<&'a str> {
    let [_, name, colon, equals, ..] = words.get(place..)? else {
        return None;
    };
    (is_name(name.text) && colon.text == ":" && equals.text == "=").then_some(name.text)
}

/// A header that nobody has vouched for, without its comments: it may import, open namespaces and set options, and nothing else.
pub(super) fn check_header(text: &str) -> Result<String, Refused> {
    let bare = without_comments(text)?;
    let words = words(&bare);
    let mut rest = words.as_slice();
    while let [command, arguments @ ..] = rest {
        // A command goes on to the end of its line; what follows on later lines begins with a command's word again.
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
                    OPTIONS.contains(&option) || option.strip_prefix("linter.").is_some_and(is_name)
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

/// Whether Lean reads a word as one name too, wherever else it may see one end: ASCII and low figures, each part begun by a letter.
fn is_name(word: &str) -> bool {
    word.split('.').all(|part| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '\'' | '₀'..='₉');
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && part.chars().all(inner)
    })
}

/// Commands that print or run.
const COMMANDS: &[&str] = &[
    "eval",
    "eval!",
    "print",
    "check",
    "reduce",
    "synth",
    "exit",
    "help",
    "guard",
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
    "conv",
    "whnf",
    "html",
    "widget",
    "instances",
    "push",
    "show",
    "long",
    "string",
    "aesop",
    "grind",
    "import",
    "redundant",
    "lint",
    "min_imports",
];

#[cfg(test)]
mod tests;
