//! From a completion to the files that Lean is given: the statement alone, and the statement with its proof.
//!
//! Nothing follows the proof in its file: whether it proves what was asked is not for the process to say that runs it, but for a kernel that reads what both files were
//! compiled to.

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

/// What Lean is given behind the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bodies {
    /// The theorem's name, as Lean shows it.
    pub theorem: String,
    /// The statement, with `sorry` for a proof.
    pub asked: String,
    /// The proof: whatever the completion says, without its comments.
    pub proof: String,
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
pub(super) fn bodies(task: Task<'_>, completion: &str) -> Result<Bodies, NoBody> {
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
    let proof = if declares(given, statement.own()) {
        given.trim_end().to_owned() + "\n"
    } else if first_word(given).is_some_and(|word| matches!(word, "theorem" | "lemma")) {
        return Err(NoBody::NoProof(format!(
            "the completion declares a theorem, but not `{}`",
            statement.own()
        )));
    } else {
        let proof = indented(given);
        let proof = proof.trim_end();
        format!("theorem {}{} by\n{proof}\n", statement.name, statement.rest)
    };
    scan::check(&proof).map_err(NoBody::Refused)?;
    Ok(Bodies {
        theorem: statement.own().replace(['«', '»'], ""),
        asked: format!("theorem {}{} by\n  sorry\n", statement.name, statement.rest),
        proof,
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

    /// The name without the full stop before universe levels: `NAME.{u}`.
    fn own(&self) -> &'a str {
        self.name.trim_end_matches('.')
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

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: Task<'static> = Task {
        header: "import Mathlib\n\nopen Nat\n",
        statement: "theorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n",
    };

    fn made(completion: &str) -> Result<Bodies, NoBody> {
        bodies(TASK, completion)
    }

    fn text(completion: &str) -> String {
        made(completion).unwrap().proof
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
    fn the_statement_is_asked_alone() {
        let bodies = made("rw [h]").unwrap();
        assert_eq!(bodies.theorem, "two");
        assert_eq!(
            bodies.asked,
            "theorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n  sorry\n"
        );
        assert_eq!(bodies.asked, made("simp [h]").unwrap().asked);
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
            assert!(!text.contains("sorry"), "{text}");
        }
        let commented = Task {
            statement: "-- One.\ntheorem two (n : Nat) /- any -/ : n = n := by -- go on",
            ..TASK
        };
        let bodies = bodies(commented, "rfl").unwrap();
        for text in [bodies.asked, bodies.proof] {
            assert!(!text.contains("any") && !text.contains("go on"), "{text}");
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
                matches!(bodies(task, "rfl"), Err(NoBody::BadTask(_))),
                "{statement}"
            );
        }
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
}
