//! From a completion to what Lean is given behind the header.
//!
//! ```text
//! theorem _asked_… (x : ℝ) : … := by sorry              the statement, elaborated before anything of the completion is read
//! …                                                     the proof: whatever the completion says
//! theorem _proved_… : type_of% @_asked_… := @_root_.NAME
//! #print axioms _proved_…
//! ```
//!
//! The last theorem is accepted by Lean only where the proved theorem's type is that of the statement as it was elaborated alone, whatever names, notation or instances
//! came between; and its axioms are all that the proof rests on. `_root_` keeps a variable of the theorem's name, declared behind it, from taking its place. A proof that
//! uses `_asked_…` rests on `sorryAx`; tactics that search do not find names that begin with a low line. Both names are made of a digest of the completion, which the
//! completion cannot contain.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::scan::{self, Refused};

/// A theorem to prove.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task<'a> {
    /// Imports and options.
    pub header: &'a str,
    /// The theorem, up to and including `:= by` or what stands for it.
    pub statement: &'a str,
}

/// How it is seen what a proof rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axioms {
    /// Lean lists the axioms.
    #[default]
    Printed,
    /// For a Lean that cannot (it refuses `#print axioms` in files of its module system): the words of the proof and Lean's warnings say that nothing is assumed.
    Scanned,
}

/// What Lean is given behind the header, and where its parts are, in lines from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Body {
    /// The text.
    pub text: String,
    /// First line of the proof.
    pub proof: usize,
    /// First line of the comparison.
    pub proved: usize,
    /// The last line, which has Lean list the axioms, or say that it has come so far.
    pub end: usize,
    /// The name of the comparison.
    pub name: String,
    /// What the last line asks for.
    pub axioms: Axioms,
}

/// Why there is nothing to give to Lean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoBody {
    /// The completion holds no proof.
    NoProof(String),
    /// It holds what no proof needs.
    Refused(Refused),
    /// The task is no theorem.
    BadTask(String),
}

/// What decides whether `completion` proves `task`.
pub(super) fn body(task: Task<'_>, completion: &str, axioms: Axioms) -> Result<Body, NoBody> {
    let bad = |what: &str| NoBody::BadTask(what.to_owned());
    let statement = Statement::read(task.statement).ok_or_else(|| {
        bad("the statement is no `theorem NAME … := by` that a proof could follow")
    })?;
    scan::check(statement.rest).map_err(|refused| {
        bad(&format!(
            "the statement holds `{}`: {}",
            refused.word, refused.why
        ))
    })?;
    let given = proof_in(completion);
    if given.trim().is_empty() {
        return Err(NoBody::NoProof("the completion holds no proof".into()));
    }
    let given = without_header(given, task.header);
    let proof = if declares(given, statement.name) {
        given.to_owned()
    } else if first_word(given).is_some_and(|word| matches!(word, "theorem" | "lemma")) {
        return Err(NoBody::NoProof(format!(
            "the completion declares a theorem, but not `{}`",
            statement.name
        )));
    } else {
        format!(
            "theorem {}{} by\n{}\n",
            statement.name,
            statement.rest,
            indented(given)
        )
    };
    scan::check(&proof).map_err(NoBody::Refused)?;
    if axioms == Axioms::Scanned
        && let Some(refused) = scan::search(&proof)
    {
        return Err(NoBody::Refused(refused));
    }
    let digest =
        blake3::hash(format!("{}\0{}\0{completion}", task.header, task.statement).as_bytes())
            .to_hex();
    let (asked, proved) = (
        format!("_asked_{}", &digest[..24]),
        format!("_proved_{}", &digest[..24]),
    );

    let mut text = String::new();
    let mut add = |part: &str| {
        let first = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        text.push_str(part.trim_end());
        text.push_str("\n\n");
        first
    };
    add(&format!("theorem {asked}{} by\n  sorry", statement.rest));
    let proof = add(&proof);
    let comparison = add(&format!(
        "theorem {proved} : type_of% @{asked} := @_root_.{}",
        statement.name
    ));
    let end = add(&match axioms {
        Axioms::Printed => format!("#print axioms {proved}"),
        Axioms::Scanned => format!("#print \"{proved}\""),
    });
    Ok(Body {
        text,
        proof,
        proved: comparison,
        end,
        name: proved,
        axioms,
    })
}

/// `theorem NAME REST`, where `REST` are binders and the proposition, up to `:=`, that included.
struct Statement<'a> {
    name: &'a str,
    rest: &'a str,
}

impl<'a> Statement<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut text = scan::without_comments_before(text)?.trim_end();
        // `:= by sorry`, `:= by`, `:= sorry`, `:=`
        for end in ["sorry", "by"] {
            text = text.strip_suffix(end).map_or(text, str::trim_end);
        }
        if !text.ends_with(":=") {
            return None;
        }
        // `lemma` is Mathlib's word.
        let rest = ["theorem", "lemma"]
            .into_iter()
            .find_map(|keyword| text.strip_prefix(keyword))?;
        let name = rest.trim_start();
        let end =
            name.find(|c: char| c.is_whitespace() || matches!(c, '(' | '{' | '[' | ':' | '⦃'))?;
        let (name, rest) = name.split_at(end);
        (!name.is_empty()).then_some(Self { name, rest })
    }
}

/// Where the proof stands: the last block fenced as Lean; else everything up to a fence that closes the one of the prompt.
fn proof_in(completion: &str) -> &str {
    let completion = completion.rsplit("</think>").next().unwrap_or(completion);
    let mut last = None;
    let mut open: Option<(usize, bool)> = None;
    let mut first_fence = None;
    let mut at = 0;
    for line in completion.split_inclusive('\n') {
        let bare = line.trim();
        if let Some(language) = bare.strip_prefix("```") {
            match open {
                Some((start, lean)) => {
                    if lean {
                        last = Some(&completion[start..at]);
                    }
                    open = None;
                }
                None if language.is_empty() && first_fence.is_none() && at > 0 => {
                    // It closes the prompt's own block.
                    first_fence = Some(at);
                }
                None => {
                    let lean = matches!(
                        language.to_ascii_lowercase().as_str(),
                        "lean" | "lean4" | "lean 4" | "tactics" | ""
                    );
                    open = Some((at + line.len(), lean));
                }
            }
        }
        at += line.len();
    }
    // A block that the end of the completion cut off.
    if let Some((start, true)) = open {
        last = Some(&completion[start..]);
    }
    match (first_fence, last) {
        (Some(end), _) if !completion[..end].trim().is_empty() && !prose(&completion[..end]) => {
            &completion[..end]
        }
        (_, Some(block)) => block,
        (Some(end), None) => &completion[..end],
        (None, None) => completion,
    }
}

/// Whether text before a fence introduces it rather than being Lean.
fn prose(text: &str) -> bool {
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    last.ends_with(':') || last.ends_with('.')
}

/// The text without a header that repeats the task's: imports, `open` and `set_option` lines that it has too.
fn without_header<'a>(text: &'a str, header: &str) -> &'a str {
    let known: Vec<&str> = header
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start_matches(['\n', '\r']);
        let line = trimmed.lines().next().unwrap_or_default();
        let bare = line.trim();
        let blank = bare.is_empty() && !trimmed.is_empty();
        if blank || (!bare.is_empty() && known.contains(&bare)) {
            rest = &trimmed[line.len()..];
        } else {
            return trimmed;
        }
    }
}

/// Whether a text declares a theorem of this name.
fn declares(text: &str, name: &str) -> bool {
    let Some(words) = scan::words(text) else {
        return false;
    };
    words
        .windows(2)
        .any(|pair| matches!(pair[0].text, "theorem" | "lemma") && pair[1].text == name)
}

fn first_word(text: &str) -> Option<&str> {
    scan::words(text)?.first().map(|word| word.text)
}

/// A tactic block stands further right than the theorem, all of its lines alike. The first line often lacks what the prompt would have put before it.
fn indented(body: &str) -> String {
    let body = body.trim_matches(['\n', '\r']).trim_end();
    // The statement ended in `by`, and so may the proof begin.
    let body = body.trim_start().strip_prefix("by\n").unwrap_or(body);
    let (first, rest) = body.split_once('\n').unwrap_or((body, ""));
    if first.starts_with(' ') {
        return body.to_owned();
    }
    let lines = rest.lines().filter(|line| !line.trim().is_empty());
    let least = lines.map(|line| line.len() - line.trim_start().len()).min();
    if let Some(indent @ 1..) = least {
        return format!("{}{body}", " ".repeat(indent));
    }
    let mut out = String::with_capacity(body.len() + 64);
    for line in body.lines() {
        let _ = writeln!(out, "  {line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: Task<'static> = Task {
        header: "import Mathlib\n\nopen Nat\n",
        statement: "theorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n",
    };

    fn made(completion: &str) -> Result<Body, NoBody> {
        body(TASK, completion, Axioms::Printed)
    }

    fn text(completion: &str) -> String {
        made(completion).unwrap().text
    }

    #[test]
    fn a_continuation_follows_the_statement() {
        for completion in [
            "rw [h]",
            "  rw [h]\n",
            "  rw [h]\n```\nThis is it.",
            "by\n  rw [h]",
        ] {
            let text = text(completion);
            assert!(
                text.contains("theorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n  rw [h]\n"),
                "{completion}: {text}"
            );
        }
    }

    #[test]
    fn all_lines_of_a_tactic_block_are_indented_alike() {
        for (proof, wanted) in [
            ("intro x\n  simp", "  intro x\n  simp"),
            ("intro x\nsimp", "  intro x\n  simp\n"),
            (
                "have h : a := by\n  simp\nexact h",
                "  have h : a := by\n    simp\n  exact h\n",
            ),
            (
                "have h : a := by\n      simp\n    exact h",
                "    have h : a := by\n      simp\n    exact h",
            ),
            ("  intro x\n  simp", "  intro x\n  simp"),
            ("by\n  intro x\n  simp", "  intro x\n  simp"),
            ("simp", "  simp\n"),
        ] {
            assert_eq!(indented(proof), wanted, "{proof}");
        }
    }

    #[test]
    fn a_whole_file_may_repeat_the_header() {
        let whole = "import Mathlib\n\nopen Nat\n\nlemma one : 1 = 1 := rfl\n\ntheorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n  rw [h]";
        for completion in [
            whole.to_owned(),
            format!("Here:\n```lean4\n{whole}\n```\nDone."),
            format!("```lean\n{whole}"),
        ] {
            let text = text(&completion);
            assert!(!text.contains("import Mathlib"), "{text}");
            assert!(
                text.contains("lemma one") && text.matches("theorem two").count() == 1,
                "{text}"
            );
        }
    }

    #[test]
    fn the_statement_alone_comes_before_and_the_comparison_after() {
        let body = made("rw [h]").unwrap();
        let lines: Vec<&str> = body.text.lines().collect();
        assert!(lines[0].starts_with("theorem _asked_"));
        assert!(lines[body.proof - 1].starts_with("theorem two "));
        assert!(
            lines[body.proved - 1]
                .starts_with(&format!("theorem {} : type_of% @_asked_", body.name))
        );
        assert!(lines[body.proved - 1].ends_with(":= @_root_.two"));
        assert_eq!(lines[body.end - 1], format!("#print axioms {}", body.name));
    }

    #[test]
    fn what_is_no_proof_is_told_why() {
        assert!(matches!(made(" \n "), Err(NoBody::NoProof(_))));
        assert!(matches!(
            made("```lean\ntheorem other : True := trivial\n```"),
            Err(NoBody::NoProof(_))
        ));
        assert!(matches!(made("sorry"), Err(NoBody::Refused(_))));
        assert!(matches!(
            made("import Foo\nrw [h]"),
            Err(NoBody::Refused(_))
        ));
        for statement in [
            "def x := 1",
            "theorem t : 1 = 1",
            "theorem t : (by native_decide : True) := by",
        ] {
            let task = Task { statement, ..TASK };
            assert!(
                matches!(body(task, "rfl", Axioms::Printed), Err(NoBody::BadTask(_))),
                "{statement}"
            );
        }
        assert!(matches!(
            body(TASK, "exact?", Axioms::Scanned),
            Err(NoBody::Refused(_))
        ));
        assert!(made("exact?").is_ok());
    }

    #[test]
    fn statements_begin_and_end_in_several_ways() {
        for end in [":= by", ":= by sorry", ":=", ":= sorry", ":= by\n  sorry"] {
            for begin in ["theorem", "lemma", "/-- One. -/\ntheorem", "-- One.\nlemma"] {
                let statement = format!("{begin} t : 1 = 1 {end}");
                let read = Statement::read(&statement).unwrap();
                assert_eq!((read.name, read.rest), ("t", " : 1 = 1 :="), "{statement}");
            }
        }
    }

    #[test]
    fn the_same_completion_makes_the_same_body() {
        assert_eq!(made("rw [h]"), made("rw [h]"));
        assert_ne!(made("rw [h]").unwrap().name, made("simp [h]").unwrap().name);
    }
}
