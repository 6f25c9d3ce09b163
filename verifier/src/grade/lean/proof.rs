//! Composes the files that Lean compiles: the statement alone, and the statement with the proof of a completion.
//!
//! Nothing follows the proof in its file: the process that runs the proof does not decide whether it proves the requested statement. A kernel decides that, from the
//! compiled modules of both files.

use datasets::excerpt::excerpt;
use verifier_api::Verdict;

use super::extract::{ends_in_thought, indented, proof_in, without_header, without_queries};
use super::gradings::{MAX_TEXT_BYTES, bad_task, incorrect};
use super::scan::{self, Refused};
use crate::grade::Grading;

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

/// The texts that decide whether `completion` proves the theorem `statement`. The statement ends with `:= by` or an equivalent (`:=`, `:= sorry`, `:= by sorry`).
/// `header` has imports and options.
///
/// # Errors
/// The grading, if Lean has nothing to compile: the completion has no proof, the proof has a refused word, or the task is not a theorem.
pub(super) fn sources(
    header: &str,
    statement: &str,
    completion: &str,
) -> Result<LeanSources, Box<Grading>> {
    let hostile = |Refused { word, why }| bad_task(&format!("the statement holds `{word}`: {why}"));
    let refused = |Refused { word, why }: Refused| {
        incorrect(&format!("the proof holds `{}`: {why}", excerpt(&word)))
    };
    let no_proof = |reason: &str| Box::new(Grading::with_reason(Verdict::Malformed, reason));
    let bare = scan::without_comments(statement).map_err(hostile)?;
    let statement = Statement::read(&bare).ok_or_else(|| {
        bad_task("the statement is no `theorem NAME … := by` that a proof could follow")
    })?;
    scan::check(&format!("{}{}", statement.name, statement.rest)).map_err(hostile)?;
    let text = proof_in(completion);
    if text.len() > MAX_TEXT_BYTES {
        let reason = format!("the proof has more than {MAX_TEXT_BYTES} bytes");
        return Err(no_proof(&reason));
    }
    let text = without_queries(&scan::without_comments(text).map_err(refused)?);
    if text.trim().is_empty() {
        return Err(no_proof(match ends_in_thought(completion) {
            true => "the completion ends within its thought, before any proof",
            false => "the completion holds no proof",
        }));
    }
    let header = scan::without_comments(header).unwrap_or_else(|_| header.to_owned());
    let text = without_header(&text, &header);
    let proof = if declares(text, statement.theorem_name()) {
        text.trim_end().to_owned() + "\n"
    } else if first_word(text).is_some_and(|word| matches!(word, "theorem" | "lemma")) {
        return Err(no_proof(&format!(
            "the completion declares a theorem, but not `{}`",
            statement.theorem_name()
        )));
    } else {
        let proof = indented(text);
        let proof = proof.trim_end();
        format!("theorem {}{} by\n{proof}\n", statement.name, statement.rest)
    };
    scan::check(&proof).map_err(refused)?;
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

    const HEADER: &str = "import Mathlib\n\nopen Nat\n";
    const STATEMENT: &str = "theorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n";
    const THEOREM: &str = "theorem two (n : Nat) (h : n = 1) : n + 1 = 2 := by\n  rw [h]\n";

    /// The proof for Lean, or the verdict if there is none.
    fn proof(completion: &str) -> Result<String, Verdict> {
        let sources = sources(HEADER, STATEMENT, completion);
        sources
            .map(|sources| sources.proof)
            .map_err(|grading| grading.verdict)
    }

    #[test]
    fn lean_gets_the_proof_without_queries_and_the_imports_of_the_header() {
        for case in include_str!("proof_cases.txt").lines().skip(1) {
            let case = case.replace("\\n", "\n").replace("\\r", "\r");
            let (completion, kept) = case.split_once(" => ").unwrap();
            let expected = match kept {
                "refused" => Err(Verdict::Incorrect),
                _ => Ok(kept.replace("{}", THEOREM)),
            };
            let found = proof(&completion.replace("{}", THEOREM));
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn the_statement_is_compiled_alone_with_sorry_and_without_comments() {
        let commented = "-- One.\ntheorem two (n : Nat) /- any -/ : n = n := by -- go on";
        for (statement, rest) in [
            (STATEMENT, "(n : Nat) (h : n = 1) : n + 1 = 2"),
            (commented, "(n : Nat)           : n = n"),
        ] {
            for proof in ["rfl", "simp [h]"] {
                let sources = sources(HEADER, statement, proof).unwrap();
                assert_eq!(sources.theorem, "two");
                let theorem = format!("theorem two {rest} := by\n");
                assert_eq!(sources.statement, format!("{theorem}  sorry\n"));
                assert_eq!(sources.proof, format!("{theorem}  {proof}\n"));
            }
        }
    }

    #[test]
    fn lean_gets_no_comments() {
        for completion in [
            "rw [h] -- sorry, that is all /- and",
            "/- sorry -/ rw [h] /-- -/",
            "-- theorem two : a draft\nrw [h]",
        ] {
            let text = proof(completion).unwrap();
            assert!(text.contains("rw [h]"), "{text}");
            for removed in ["--", "/-", "-/", "that", "draft", "sorry"] {
                assert!(!text.contains(removed), "{completion}: {text}");
            }
        }
    }

    #[test]
    fn the_reason_is_given_if_there_is_no_proof() {
        let thought = sources(HEADER, STATEMENT, "<think>\nrw [h]").unwrap_err();
        assert!(thought.detail.to_string().contains("within its thought"));
        let other = "```lean\ntheorem other : True := trivial\n```";
        for (completion, verdict) in [
            ("<think>\nrw [h]", Verdict::Malformed),
            (" \n ", Verdict::Malformed),
            ("-- a remark", Verdict::Malformed),
            (other, Verdict::Malformed),
            ("```lean4\n#print axioms two\n```", Verdict::Malformed),
            ("sorry", Verdict::Incorrect),
            ("import Foo\nrw [h]", Verdict::Incorrect),
        ] {
            assert_eq!(proof(completion), Err(verdict), "{completion}");
        }
        assert!(proof("exact?").is_ok());
        for statement in [
            "def x := 1",
            "theorem t : 1 = 1",
            "theorem t : (by native_decide : True) := by",
        ] {
            let grading = sources(HEADER, statement, "rfl").unwrap_err();
            assert_eq!(grading.verdict, Verdict::Unavailable, "{statement}");
        }
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
