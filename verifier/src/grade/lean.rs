//! Lean proofs: from a statement and a completion to a verdict.
//!
//! What a proof needs no part of is refused by its words ([`scan`]); the rest goes to Lean between the statement elaborated alone and a comparison with what was proved
//! ([`extract`] finds it, [`proof`] puts both around it); what Lean says of it decides ([`messages`]), and a kernel checker after it where one is configured.

mod extract;
mod messages;
mod proof;
mod scan;
mod settings;

use std::sync::Arc;

use datasets::LeanTask;
use sandboxes::lean::{Lean, LeanError, Message, Replay, Said, Severity};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use self::messages::Outcome;
pub use self::proof::Axioms;
use self::proof::{NoBody, Task};
use self::scan::Refused;
pub use self::settings::{Backend, JailChoice, Settings};
use super::{Grading, excerpt};

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "lean-2";

/// Why no proof can be judged where no Lean is configured.
pub const NO_LEAN: &str = "there is no Lean here: build the project that sandboxes/lean/README.md describes (Lean 4 with Mathlib), and name its folder with `lean.project` in the verifier's configuration, or --set lean.project=DIR";

/// Messages that a `detail` shows.
const MESSAGES: usize = 5;

/// Judges proofs with one Lean.
pub struct LeanGrader {
    /// What runs it.
    pub lean: Arc<dyn Lean>,
    /// A kernel checker, which has the last word.
    pub replay: Option<Replay>,
    /// How it is seen what a proof rests on.
    pub axioms: Axioms,
    /// Headers that may hold anything, since the operator has named them.
    pub headers: Vec<String>,
    /// What the verdicts depend on besides the task.
    pub identity: sandboxes::Identity,
}

impl LeanGrader {
    /// The verdict on a completion. Blocks for as long as Lean works.
    #[must_use]
    pub fn grade(&self, task: &LeanTask, completion: &str) -> Grading {
        let header = task.header.trim_end();
        let known = self.headers.iter().any(|known| known.trim_end() == header);
        let checked = if known {
            Ok(header.to_owned())
        } else {
            scan::check_header(header)
        };
        let header = match &checked {
            Ok(header) => header.trim_end(),
            Err(Refused { word, why }) => {
                return bad_task(&format!(
                    "the header holds `{word}`: {why}; an operator may list it in `lean.headers`"
                ));
            }
        };
        let statement = Task {
            header,
            statement: &task.statement,
        };
        let body = match proof::body(statement, completion, self.axioms) {
            Ok(body) => body,
            Err(NoBody::BadTask(reason)) => return bad_task(&reason),
            Err(NoBody::NoProof(reason)) => {
                return Grading::new(Verdict::Malformed, json!({ "reason": reason }));
            }
            Err(NoBody::Refused(Refused { word, why })) => {
                let reason = format!("the proof holds `{}`: {why}", excerpt(&word));
                return Grading::new(Verdict::Incorrect, json!({ "reason": reason }));
            }
        };
        let said = match self.lean.check(header, &body.text) {
            Ok(said) => said,
            Err(error) => return failed(&error),
        };
        let axioms = match messages::outcome(&body, &said) {
            Outcome::BadTask(reason) => return bad_task(&reason),
            Outcome::Unproved(reason, line) => {
                let mut detail = json!({ "reason": excerpt(&reason), "messages": shown(&said, body.proof, body.closed) });
                if let Some(line) = line {
                    detail["line"] = json!(line);
                }
                return Grading::new(Verdict::Incorrect, detail);
            }
            Outcome::Proved(axioms) => axioms,
        };
        let mut detail = json!({ "assurance": "elaborated" });
        if let Some(axioms) = axioms {
            detail["axioms"] = json!(axioms);
        }
        if let Some(replay) = &self.replay {
            match replay.objection(&format!("{header}\n\n{}", body.text)) {
                Ok(None) => detail["assurance"] = json!("replayed"),
                Ok(Some(objection)) => {
                    let reason = format!(
                        "the kernel checker does not accept it: {}",
                        excerpt(&objection)
                    );
                    return Grading::new(
                        Verdict::Incorrect,
                        json!({ "reason": reason, "assurance": "replayed" }),
                    );
                }
                Err(error) => return failed(&error),
            }
        }
        Grading::new(Verdict::Correct, detail)
    }

    /// Whether a right and a wrong proof are judged as they should be.
    ///
    /// # Errors
    /// What went wrong, and what to do.
    pub fn try_out(&self) -> Result<(), String> {
        let header = self.headers.first().cloned().unwrap_or_default();
        let mathlib = header.lines().any(|line| line.trim() == "import Mathlib");
        let (statement, right) = if mathlib {
            (
                "theorem rapid_probe (x : ℝ) (h : 0 < x) : 0 < x ^ 2 := by",
                "positivity",
            )
        } else {
            ("theorem rapid_probe (n : Nat) : n + 0 = n := by", "rfl")
        };
        let task = LeanTask {
            header,
            statement: statement.to_owned(),
        };
        for (proof, wanted) in [
            (right, Verdict::Correct),
            ("exact trivial", Verdict::Incorrect),
        ] {
            let grading = self.grade(&task, proof);
            if grading.verdict != wanted {
                let needs = if mathlib {
                    "; the first of `lean.headers` imports Mathlib, which this Lean must have"
                } else {
                    ""
                };
                return Err(format!(
                    "of `{statement}`, the proof `{proof}` should be {wanted:?} and was judged {:?} ({}){needs}",
                    grading.verdict, grading.detail
                ));
            }
        }
        Ok(())
    }
}

/// Nothing is wrong with the completion.
fn bad_task(reason: &str) -> Grading {
    Grading::unavailable(
        &format!("no proof of this task can be judged here: {reason}"),
        false,
    )
}

/// What follows where Lean gave no answer.
fn failed(error: &LeanError) -> Grading {
    let over = |verdict| Grading {
        // A clock decided, or how much memory a garbage collector had not given back yet.
        deterministic: false,
        ..Grading::new(verdict, json!({ "reason": error.to_string() }))
    };
    match error {
        LeanError::Timeout(_) => over(Verdict::Timeout),
        LeanError::Memory(_) => over(Verdict::Memory),
        LeanError::Output(_) => {
            Grading::new(Verdict::Incorrect, json!({ "reason": error.to_string() }))
        }
        LeanError::Crashed(_) => Grading::unavailable(&error.to_string(), true),
        LeanError::Missing(_) => Grading::unavailable(&error.to_string(), false),
    }
}

/// Errors and warnings about the proof, with their lines in it.
fn shown(said: &Said, proof: usize, end: usize) -> Vec<Json> {
    let of_proof = |message: &&Message| (proof..end).contains(&message.pos.line);
    let grave =
        |message: &&Message| matches!(message.severity, Severity::Error | Severity::Warning);
    let messages = said.body.iter().filter(of_proof).filter(grave);
    messages
        .take(MESSAGES)
        .map(|message| {
            let severity = if message.severity == Severity::Error {
                "error"
            } else {
                "warning"
            };
            json!({
                "severity": severity,
                "line": message.pos.line + 1 - proof,
                "column": message.pos.column,
                "text": excerpt(&message.data),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
