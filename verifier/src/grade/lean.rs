//! Lean proofs: from a statement and a completion to a verdict.
//!
//! A proof is a program that runs while it is elaborated, so nothing is believed of the process that ran it. What a proof needs no part of is refused by its words
//! ([`scan`]). Lean compiles the statement alone, once ([`statement`]), and the statement with the proof ([`proof`]), each in a jail. Then an independent kernel reads what both were
//! compiled to, and checks every declaration that the theorem rests on, the theorem's type, and its axioms. Lean's messages only explain ([`messages`]).

mod extract;
mod messages;
mod proof;
mod scan;
mod settings;
mod statement;

use std::path::PathBuf;
use std::sync::Arc;

use datasets::LeanTask;
use kernel::{Axioms, Budget, Fault, Question};
use sandboxes::lean::{Compiled, Lean, LeanError, Message, Replay, Said, Severity};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use self::proof::{NoBody, Task};
use self::scan::Refused;
pub use self::settings::{AxiomsChoice, Backend, JailChoice, Settings};
use self::statement::{Asked, NoStatement, Statements};
use super::{Grading, excerpt};

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "lean-4";

/// Why no proof can be judged where no Lean is configured.
pub const NO_LEAN: &str = "there is no Lean here: build the project that sandboxes/lean/README.md describes (Lean 4 with Mathlib), and name its folder with `lean.project` in the verifier's configuration, or --set lean.project=DIR";

/// Messages that a `detail` shows.
const MESSAGES: usize = 5;

/// Judges proofs with one Lean.
pub struct LeanGrader {
    lean: Arc<dyn Lean>,
    /// A kernel checker of the operator's, which has the last word.
    replay: Option<Replay>,
    /// How far it is followed what a proof rests on.
    axioms: Axioms,
    /// Headers that may hold anything, since the operator has named them.
    headers: Vec<String>,
    /// Where the compiled modules of what headers import are.
    folders: Vec<PathBuf>,
    statements: Statements,
    /// What the verdicts depend on besides the task.
    pub identity: sandboxes::Identity,
}

impl LeanGrader {
    /// A grader of these parts; without a checker of the operator's.
    #[must_use]
    pub fn new(
        lean: Arc<dyn Lean>,
        axioms: Axioms,
        headers: Vec<String>,
        folders: Vec<PathBuf>,
        identity: sandboxes::Identity,
    ) -> Self {
        Self {
            lean,
            replay: None,
            axioms,
            headers,
            folders,
            statements: Statements::default(),
            identity,
        }
    }

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
        let bodies = match proof::bodies(statement, completion) {
            Ok(bodies) => bodies,
            Err(NoBody::BadTask(reason)) => return bad_task(&reason),
            Err(NoBody::NoProof(reason)) => {
                return Grading::new(Verdict::Malformed, json!({ "reason": reason }));
            }
            Err(NoBody::Refused(Refused { word, why })) => {
                return incorrect(&format!("the proof holds `{}`: {why}", excerpt(&word)));
            }
        };
        let asked = match self.asked(header, &bodies.asked) {
            Ok(asked) => asked,
            Err(grading) => return *grading,
        };
        let (compiled, once) = self.lean.compile_patiently(header, &bodies.proof);
        let grading = match compiled {
            Ok(compiled) => self.judged(&asked, header, &bodies, &compiled),
            Err(error) => self.ended(&error, header, &bodies.asked),
        };
        Grading {
            deterministic: grading.deterministic && once,
            ..grading
        }
    }

    fn asked(&self, header: &str, statement: &str) -> Result<Asked, Box<Grading>> {
        let asked = self
            .statements
            .asked(self.lean.as_ref(), &self.folders, header, statement);
        asked.map_err(|why| {
            Box::new(match why {
                NoStatement::Refused(reason) => bad_task(&reason),
                NoStatement::NoAnswer(error) => no_answer(&error),
            })
        })
    }

    /// The verdict on what Lean made of a proof.
    fn judged(
        &self,
        asked: &Asked,
        header: &str,
        bodies: &proof::Bodies,
        compiled: &Compiled,
    ) -> Grading {
        if compiled.files.is_empty() {
            let (reason, line) = messages::fault(&compiled.said).unwrap_or_else(|| {
                let nothing = "Lean compiled nothing of the proof, and said nothing of it";
                (nothing.to_owned(), None)
            });
            let mut detail =
                json!({ "reason": excerpt(&reason), "messages": shown(&compiled.said) });
            if let Some(line) = line {
                detail["line"] = json!(line);
            }
            return Grading::new(Verdict::Incorrect, detail);
        }
        let axioms = match self.checked(asked, &bodies.theorem, compiled) {
            Ok(axioms) => axioms,
            Err(grading) => return *grading,
        };
        let mut detail = json!({ "assurance": "rechecked" });
        if let Some(axioms) = axioms {
            detail["axioms"] = json!(axioms);
        }
        let Some(replay) = &self.replay else {
            return Grading::new(Verdict::Correct, detail);
        };
        match replay.objection(&format!("{header}\n\n{}", bodies.proof), compiled) {
            Ok(None) => {
                detail["assurance"] = json!("replayed");
                Grading::new(Verdict::Correct, detail)
            }
            Ok(Some(objection)) => {
                let reason = format!(
                    "the kernel checker does not accept it: {}",
                    excerpt(&objection)
                );
                let detail = json!({ "reason": reason, "assurance": "replayed" });
                Grading::new(Verdict::Incorrect, detail)
            }
            Err(error) => self.ended(&error, header, &bodies.asked),
        }
    }

    /// What the kernel says of a compiled proof: the axioms that it rests on.
    fn checked(
        &self,
        asked: &Asked,
        theorem: &str,
        compiled: &Compiled,
    ) -> Result<Option<Vec<String>>, Box<Grading>> {
        let question = Question {
            library: &asked.library,
            asked: &asked.files,
            theorem,
            axioms: self.axioms,
            budget: Budget::default(),
        };
        // Judgements call each other as deep as terms are.
        let judged = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("lean-kernel".to_owned())
                .stack_size(kernel::STACK_BYTES);
            let judge = || question.proved_by(compiled.files.clone());
            let spawned = thread.spawn_scoped(scope, judge).map_err(|error| {
                let reason = format!("the system gives no thread to check a proof in: {error}");
                Box::new(Grading::unavailable(&reason, true))
            })?;
            spawned.join().map_err(|_| {
                let reason = "the kernel failed on this proof; please report it with the proof";
                Box::new(incorrect(reason))
            })
        })?;
        judged.map_err(|fault| {
            Box::new(match fault {
                Fault::Task(reason) => bad_task(&reason),
                Fault::Proof(kernel::Error::Budget) => Grading::new(
                    Verdict::Timeout,
                    json!({ "reason": format!("to check it once more, {}", kernel::Error::Budget) }),
                ),
                Fault::Proof(error) => {
                    let mut detail = json!({ "reason": excerpt(&error.to_string()), "assurance": "rechecked" });
                    let messages = shown(&compiled.said);
                    if !messages.is_empty() {
                        detail["messages"] = json!(messages);
                    }
                    Grading::new(Verdict::Incorrect, detail)
                }
            })
        })
    }

    /// What follows where Lean gave no answer to a proof, twice. That is the proof's doing where Lean still answers to its statement.
    fn ended(&self, error: &LeanError, header: &str, statement: &str) -> Grading {
        let over = |verdict| Grading {
            // A clock decided, or how much memory a garbage collector had not given back yet.
            deterministic: false,
            ..Grading::new(verdict, json!({ "reason": error.to_string() }))
        };
        match error {
            LeanError::Timeout(_) => over(Verdict::Timeout),
            LeanError::Memory(_) => over(Verdict::Memory),
            LeanError::Output(_) => incorrect(&error.to_string()),
            LeanError::Missing(_) => no_answer(error),
            LeanError::Crashed(_) => match self.lean.compile(header, statement) {
                Ok(compiled) if !compiled.files.is_empty() => incorrect(&error.to_string()),
                _ => Grading::unavailable(&error.to_string(), true),
            },
        }
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

fn incorrect(reason: &str) -> Grading {
    Grading::new(Verdict::Incorrect, json!({ "reason": reason }))
}

/// Nothing is wrong with the completion.
fn bad_task(reason: &str) -> Grading {
    Grading::unavailable(
        &format!("no proof of this task can be judged here: {reason}"),
        false,
    )
}

/// Lean gave no answer where no proof was part of the question.
fn no_answer(error: &LeanError) -> Grading {
    let retryable = !matches!(error, LeanError::Missing(_));
    Grading::unavailable(&error.to_string(), retryable)
}

/// Errors and warnings, with their lines in the proof.
fn shown(said: &Said) -> Vec<Json> {
    let grave =
        |message: &&Message| matches!(message.severity, Severity::Error | Severity::Warning);
    let messages = said.body.iter().filter(grave);
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
                "line": message.pos.line,
                "column": message.pos.column,
                "text": excerpt(&message.data),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
