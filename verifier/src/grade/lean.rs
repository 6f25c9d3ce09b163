//! Lean proofs: from a statement and a completion to a verdict.
//!
//! A proof is a program that runs while it is elaborated, so nothing is believed of the process that ran it. What a proof needs no part of is refused by its words
//! ([`scan`]). Lean compiles the statement alone, once ([`statement`]), and the statement with the proof ([`proof`]), each in a jail. Then an independent kernel, in a jail
//! too ([`checker`]), reads what both were compiled to, and checks every declaration that the theorem rests on, the theorem's type, and its axioms. Lean's messages only explain ([`messages`]).

mod checker;
mod extract;
mod messages;
mod proof;
mod scan;
mod settings;
mod statement;

use std::path::PathBuf;
use std::sync::Arc;

use datasets::LeanTask;
use kernel::Axioms;
use sandboxes::lean::{Compiled, Lean, LeanError, Message, Messages, Replay, Severity};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use self::checker::{Checker, Ended, Objection};
pub use self::checker::{Kernels, serve as serve_kernel};
use self::proof::{NoBody, Task};
use self::scan::Refused;
pub use self::settings::{AxiomsChoice, Backend, JailChoice, Settings};
use self::statement::{Asked, NoStatement, Statements};
use super::{Grading, excerpt};

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "lean-4";

/// Why no proof can be judged where no Lean is configured.
pub const NO_LEAN: &str = "there is no Lean here: build the project that sandboxes/lean/README.md describes (Lean 4 with Mathlib), and name its folder with `lean.project` in the verifier's configuration, or --set lean.project=DIR";

const KERNEL_FAILED: &str = "the kernel failed on this proof; please report it with the proof";

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
    checker: Checker,
    statements: Statements,
    /// What the verdicts depend on besides the task.
    pub identity: sandboxes::Identity,
}

impl LeanGrader {
    /// A grader of these parts, without a checker of the operator's. `folders` hold the compiled modules of what headers import. The kernel runs in this process, which
    /// is for tests: [`LeanGrader::open`] makes one that it has a process of its own for.
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
            checker: Checker::here(folders),
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
        let asked = match self.asked(header, &bodies) {
            Ok(asked) => asked,
            Err(grading) => return *grading,
        };
        let (compiled, once) = self.lean.compile_with_retry(header, &bodies.proof);
        let grading = match compiled {
            Ok(compiled) => self.judged(&asked, header, &bodies, &compiled),
            Err(error) => self.ended(&error, header, &bodies.asked),
        };
        Grading {
            deterministic: grading.deterministic && once,
            ..grading
        }
    }

    fn asked(
        &self,
        header: &str,
        proof::Bodies {
            theorem,
            asked: statement,
            ..
        }: &proof::Bodies,
    ) -> Result<Asked, Box<Grading>> {
        let open = |asked: &Asked| {
            self.checker.open(checker::Statement {
                asked,
                theorem,
                axioms: self.axioms,
            })
        };
        let asked = self
            .statements
            .asked(self.lean.as_ref(), open, header, statement);
        asked.map_err(|why| {
            Box::new(match why {
                NoStatement::Refused(reason) => bad_task(&reason),
                NoStatement::NoAnswer(error) => no_answer(&error),
                NoStatement::NoKernel(reason) => Grading::unavailable(&reason, true),
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
            let (reason, line) = messages::fault(&compiled.messages).unwrap_or_else(|| {
                let nothing = "Lean compiled nothing of the proof, and said nothing of it";
                (nothing.to_owned(), None)
            });
            let mut detail =
                json!({ "reason": excerpt(&reason), "messages": shown(&compiled.messages) });
            if let Some(line) = line {
                detail["line"] = json!(line);
            }
            return Grading::new(Verdict::Incorrect, detail);
        }
        let statement = checker::Statement {
            asked,
            theorem: &bodies.theorem,
            axioms: self.axioms,
        };
        let (judged, once) = self.checker.judge(statement, &compiled.files);
        let grading = match judged {
            Ok(axioms) => self.accepted(axioms, header, bodies, compiled),
            Err(objection) => objected(objection, compiled),
        };
        Grading {
            deterministic: grading.deterministic && once,
            ..grading
        }
    }

    /// The verdict on a proof that the kernel accepts.
    fn accepted(
        &self,
        axioms: Option<Vec<String>>,
        header: &str,
        bodies: &proof::Bodies,
        compiled: &Compiled,
    ) -> Grading {
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

/// The verdict on a proof that the kernel does not accept, or does not get to the end of.
fn objected(objection: Objection, compiled: &Compiled) -> Grading {
    let over = |verdict, why: String| Grading {
        deterministic: false,
        ..Grading::new(
            verdict,
            json!({ "reason": format!("to check it once more, {why}") }),
        )
    };
    match objection {
        Objection::Task(reason) => bad_task(&reason),
        Objection::Absent(reason) => Grading::unavailable(&reason, true),
        Objection::Failed => incorrect(KERNEL_FAILED),
        Objection::Ended(Ended::Crashed(why)) => {
            tracing::warn!("{KERNEL_FAILED} ({why})");
            Grading {
                deterministic: false,
                ..incorrect(KERNEL_FAILED)
            }
        }
        Objection::Ended(Ended::Late(seconds)) => over(
            Verdict::Timeout,
            format!("the kernel took longer than {seconds} seconds"),
        ),
        Objection::Ended(Ended::Memory(mib)) => over(
            Verdict::Memory,
            format!("the kernel needed more than {mib} MiB of memory"),
        ),
        Objection::Proof(kernel::Error::Budget) => Grading::new(
            Verdict::Timeout,
            json!({ "reason": format!("to check it once more, {}", kernel::Error::Budget) }),
        ),
        Objection::Proof(error) => {
            let mut detail =
                json!({ "reason": excerpt(&error.to_string()), "assurance": "rechecked" });
            let messages = shown(&compiled.messages);
            if !messages.is_empty() {
                detail["messages"] = json!(messages);
            }
            Grading::new(Verdict::Incorrect, detail)
        }
    }
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
fn shown(messages: &Messages) -> Vec<Json> {
    let grave =
        |message: &&Message| matches!(message.severity, Severity::Error | Severity::Warning);
    let messages = messages.body.iter().filter(grave);
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
