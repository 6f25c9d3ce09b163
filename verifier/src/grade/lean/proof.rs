//! Composes the files that Lean compiles: the statement alone, and the statement with the proof of a completion.
//!
//! Nothing follows the proof in its file: the process that runs the proof does not decide whether it proves the requested statement. A kernel decides that, from the
//! compiled modules of both files.

use super::MAX_TEXT_BYTES;
use super::extract::{ends_in_thought, indented, proof_in, without_header, without_queries};
use super::scan::{self, Refused};

/// A theorem to be proved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task<'a> {
    /// Imports and options.
    pub header: &'a str,
    /// The theorem, up to and including `:= by` or an equivalent (`:=`, `:= sorry`, `:= by sorry`).
    pub statement: &'a str,
}

/// The texts that Lean compiles after the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeanSources {
    /// The theorem's name, as Lean shows it.
    pub theorem: String,
    /// The statement, with `sorry` as its proof.
    pub statement: String,
    /// The statement with the completion's proof, without comments.
    pub proof: String,
}

/// Why Lean has nothing to compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NothingToCompile {
    /// The completion has no proof.
    NoProof(String),
    /// The proof has a word that no proof needs.
    Refused(Refused),
    /// The task is not a theorem, or its statement is refused.
    BadTask(String),
}

/// The texts that decide whether `completion` proves `task`.
pub(super) fn sources(task: Task<'_>, completion: &str) -> Result<LeanSources, NothingToCompile> {
    let bad = |what: &str| NothingToCompile::BadTask(what.to_owned());
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
    let text = proof_in(completion);
    if text.len() > MAX_TEXT_BYTES {
        let reason = format!("the proof has more than {MAX_TEXT_BYTES} bytes");
        return Err(NothingToCompile::NoProof(reason));
    }
    let text = without_queries(&scan::without_comments(text).map_err(NothingToCompile::Refused)?);
    if text.trim().is_empty() {
        let why = if ends_in_thought(completion) {
            "the completion ends within its thought, before any proof"
        } else {
            "the completion holds no proof"
        };
        return Err(NothingToCompile::NoProof(why.into()));
    }
    let header = scan::without_comments(task.header).unwrap_or_else(|_| task.header.to_owned());
    let text = without_header(&text, &header);
    let proof = if declares(text, statement.theorem_name()) {
        text.trim_end().to_owned() + "\n"
    } else if first_word(text).is_some_and(|word| matches!(word, "theorem" | "lemma")) {
        return Err(NothingToCompile::NoProof(format!(
            "the completion declares a theorem, but not `{}`",
            statement.theorem_name()
        )));
    } else {
        let proof = indented(text);
        let proof = proof.trim_end();
        format!("theorem {}{} by\n{proof}\n", statement.name, statement.rest)
    };
    scan::check(&proof).map_err(NothingToCompile::Refused)?;
    Ok(LeanSources {
        theorem: statement.theorem_name().replace(['«', '»'], ""),
        statement: format!("theorem {}{} by\n  sorry\n", statement.name, statement.rest),
        proof,
    })
}

/// `theorem NAME REST`. `REST` has the binders and the proposition, up to and including `:=`.
struct Statement<'a> {
    name: &'a str,
    rest: &'a str,
}

impl<'a> Statement<'a> {
    /// Parses a text without comments.
    fn read(text: &'a str) -> Option<Self> {
        let mut text = text.trim();
        // `:= by sorry`, `:= by`, `:= sorry`, `:=`
        for end in ["sorry", "by"] {
            text = text.strip_suffix(end).map_or(text, str::trim_end);
        }
        if !text.ends_with(":=") {
            return None;
        }
        // `lemma` is Mathlib's keyword.
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
    fn theorem_name(&self) -> &'a str {
        self.name.trim_end_matches('.')
    }
}

/// Whether a text declares a theorem with this name.
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

    fn sources_of(completion: &str) -> Result<LeanSources, NothingToCompile> {
        sources(TASK, completion)
    }

    fn text(completion: &str) -> String {
        sources_of(completion).unwrap().proof
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
    fn queries_after_the_proof_and_imports_of_the_header_are_left_out() {
        let theorem = "theorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n  rw [h]\n";
        for case in include_str!("proof_cases.txt").lines().skip(1) {
            let case = case.replace("\\n", "\n").replace("\\r", "\r");
            let (completion, kept) = case.split_once(" => ").unwrap();
            let found = sources_of(&completion.replace("{}", theorem));
            match kept {
                "refused" => assert!(matches!(found, Err(NothingToCompile::Refused(_))), "{case}"),
                _ => assert_eq!(found.unwrap().proof, kept.replace("{}", theorem), "{case}"),
            }
        }
    }

    #[test]
    fn the_statement_is_compiled_alone_with_sorry() {
        let sources = sources_of("rw [h]").unwrap();
        assert_eq!(sources.theorem, "two");
        assert_eq!(
            sources.statement,
            "theorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n  sorry\n"
        );
        assert_eq!(sources.statement, sources_of("simp [h]").unwrap().statement);
    }

    #[test]
    fn lean_gets_no_comments() {
        for completion in [
            "rw [h] -- sorry, that is all /- and",
            "/- sorry -/ rw [h] /-- -/",
            "-- theorem two : a draft\nrw [h]",
        ] {
            let text = text(completion);
            assert!(text.contains("rw [h]"), "{text}");
            for removed in ["--", "/-", "-/", "that", "draft"] {
                assert!(!text.contains(removed), "{completion}: {text}");
            }
            assert!(!text.contains("sorry"), "{text}");
        }
        let commented = Task {
            statement: "-- One.\ntheorem two (n : Nat) /- any -/ : n = n := by -- go on",
            ..TASK
        };
        let sources = sources(commented, "rfl").unwrap();
        for text in [sources.statement, sources.proof] {
            assert!(!text.contains("any") && !text.contains("go on"), "{text}");
        }
    }

    #[test]
    fn the_reason_is_given_if_there_is_no_proof() {
        let Err(NothingToCompile::NoProof(why)) = sources_of("<think>\nrw [h]") else {
            panic!("a thought is not a proof")
        };
        assert!(why.contains("within its thought"), "{why}");
        let other = "```lean\ntheorem other : True := trivial\n```";
        let only_query = "```lean4\n#print axioms two\n```";
        for completion in [" \n ", "-- a remark", other, only_query] {
            let found = sources_of(completion);
            assert!(
                matches!(found, Err(NothingToCompile::NoProof(_))),
                "{completion}"
            );
        }
        for completion in ["sorry", "import Foo\nrw [h]"] {
            let found = sources_of(completion);
            assert!(
                matches!(found, Err(NothingToCompile::Refused(_))),
                "{completion}"
            );
        }
        for statement in [
            "def x := 1",
            "theorem t : 1 = 1",
            "theorem t : (by native_decide : True) := by",
        ] {
            let task = Task { statement, ..TASK };
            assert!(
                matches!(sources(task, "rfl"), Err(NothingToCompile::BadTask(_))),
                "{statement}"
            );
        }
        assert!(sources_of("exact?").is_ok());
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
