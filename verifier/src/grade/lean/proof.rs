//! From a completion to what Lean is given behind the header.
//!
//! ```text
//! theorem _asked_… (x : ℝ) : … := by sorry              the statement, elaborated before anything of the completion is read
//! section _proof_…
//! …                                                     the proof: whatever the completion says, without its comments
//! theorem _closed_… : _root_.True := _root_.True.intro  what a last `… in` or attribute of the proof falls on
//! end _proof_…
//! theorem _proved_… : type_of% @_asked_… := @_root_.NAME
//! #print axioms _proved_…
//! ```
//!
//! The last theorem stands where the first one stood: what the proof opened, assumed (`variable`), named or set ended with its section, and the section ends only there,
//! since nothing else knows its name. So the last theorem's type is that of the statement as it was elaborated alone, with no assumption from the proof, whatever
//! coercions led there; and its axioms are all that the proof rests on. `_root_` keeps a variable of the theorem's name, declared behind it, from taking its place. A
//! proof that uses `_asked_…` rests on `sorryAx`; tactics that search do not find names that begin with a low line. All these names are made of a digest of the
//! completion, which the completion cannot contain.

use serde::{Deserialize, Serialize};

use super::extract::{indented, proof_in, unfinished, without_header};
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
    /// First line behind the proof, which ends its section.
    pub closed: usize,
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
    let hostile = |refused: Refused| {
        bad(&format!(
            "the statement holds `{}`: {}",
            refused.word, refused.why
        ))
    };
    let bare = scan::without_comments(task.statement).map_err(hostile)?;
    let statement = Statement::read(&bare).ok_or_else(|| {
        bad("the statement is no `theorem NAME … := by` that a proof could follow")
    })?;
    scan::check(&format!("{}{}", statement.name, statement.rest)).map_err(hostile)?;
    let given = scan::without_comments(proof_in(completion)).map_err(NoBody::Refused)?;
    if given.trim().is_empty() {
        let why = if unfinished(completion) {
            "the completion ends within its thought, before any proof"
        } else {
            "the completion holds no proof"
        };
        return Err(NoBody::NoProof(why.into()));
    }
    let header = scan::without_comments(task.header).unwrap_or_else(|_| task.header.to_owned());
    let given = without_header(&given, &header);
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
    let digest = &digest[..24];
    let (asked, proved) = (format!("_asked_{digest}"), format!("_proved_{digest}"));

    let mut text = String::new();
    let mut add = |part: &str| {
        let first = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        text.push_str(part.trim_end());
        text.push_str("\n\n");
        first
    };
    add(&format!("theorem {asked}{} by\n  sorry", statement.rest));
    add(&format!("section _proof_{digest}"));
    let ends = ends(&proof);
    let proof = add(&proof);
    let closed = add(&format!(
        "theorem _closed_{digest} : _root_.True := _root_.True.intro\n{ends}end _proof_{digest}"
    ));
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
        closed,
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
    /// Reads a text without comments.
    fn read(text: &'a str) -> Option<Self> {
        let mut text = text.trim();
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

/// Whether a text declares a theorem of this name.
fn declares(text: &str, name: &str) -> bool {
    scan::words(text)
        .windows(2)
        .any(|pair| matches!(pair[0].text, "theorem" | "lemma") && pair[1].text == name)
}

fn first_word(text: &str) -> Option<&str> {
    scan::words(text).first().map(|word| word.text)
}

/// The ends of what a file may leave open, sections and namespaces. Where one is missed or too many, Lean does not find the end of the proof's own section.
fn ends(text: &str) -> String {
    let words = scan::words(text);
    let mut open = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let next = words.get(place + 1).filter(|next| next.line == word.line);
        match word.text {
            "section" | "namespace" => open.push(next.map_or("", |name| name.text)),
            "end" => {
                open.pop();
            }
            _ => {}
        }
    }
    let ends = open.iter().rev().map(|name| format!("end {name}\n"));
    ends.collect()
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
        let digest = body.name.strip_prefix("_proved_").unwrap();
        assert_eq!(lines[body.proof - 3], format!("section _proof_{digest}"));
        assert!(lines[body.proof - 1].starts_with("theorem two "));
        assert!(lines[body.closed - 1].starts_with("theorem _closed_"));
        assert_eq!(lines[body.closed], format!("end _proof_{digest}"));
        assert_eq!(body.proved, body.closed + 3);
        assert!(
            lines[body.proved - 1]
                .starts_with(&format!("theorem {} : type_of% @_asked_", body.name))
        );
        assert!(lines[body.proved - 1].ends_with(":= @_root_.two"));
        assert_eq!(lines[body.end - 1], format!("#print axioms {}", body.name));
    }

    #[test]
    fn lean_reads_no_comment() {
        for completion in [
            "rw [h] -- sorry, that is all /- and",
            "/- sorry -/ rw [h] /-- -/",
            "-- theorem two : a draft\nrw [h]",
        ] {
            let text = text(completion);
            assert!(text.contains("rw [h]"), "{text}");
            for gone in ["--", "/-", "-/", "that", "draft"] {
                assert!(!text.contains(gone), "{completion}: {text}");
            }
            assert_eq!(text.matches("sorry").count(), 1, "{text}");
        }
        let commented = Task {
            statement: "-- One.\ntheorem two (n : Nat) /- any -/ : n = n := by -- go on",
            ..TASK
        };
        let body = body(commented, "rfl", Axioms::Printed).unwrap();
        assert!(!body.text.contains("any") && !body.text.contains("go on"));
    }

    #[test]
    fn what_a_file_leaves_open_is_ended_before_the_proofs_own_section() {
        for (file, closing) in [
            ("section\nTHEOREM", "end \nend _proof_"),
            ("section A\nTHEOREM\nend A", "intro\nend _proof_"),
            (
                "noncomputable section\nnamespace A.B\nend A.B\nsection C\nTHEOREM",
                "intro\nend C\nend \nend _proof_",
            ),
            ("THEOREM\nend", "intro\nend _proof_"),
        ] {
            let file = file.replace("THEOREM", "theorem two : 1 = 1 := rfl");
            let text = text(&file);
            assert!(text.contains(closing), "{file}: {text}");
        }
    }

    #[test]
    fn what_is_no_proof_is_told_why() {
        let Err(NoBody::NoProof(why)) = made("<think>\nrw [h]") else {
            panic!("a thought is no proof")
        };
        assert!(why.contains("within its thought"), "{why}");
        assert!(matches!(made(" \n "), Err(NoBody::NoProof(_))));
        assert!(matches!(made("-- a remark"), Err(NoBody::NoProof(_))));
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
                let statement = scan::without_comments(&statement).unwrap();
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
