//! The grader of Lean proofs: from a completion to its verdict.

use std::sync::Arc;

use datasets::LeanTask;
use datasets::excerpt::excerpt;
use kernel::Axioms;
use sandboxes::lean::{
    Compiled, Lean, LeanError, Message, Messages, SecondChecker, Severity, with_retry,
};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use super::gradings::{MAX_TEXT_BYTES, bad_task, grading_without_answer, incorrect};
use super::kernel_runner::{self, CheckFailure, KernelExit, KernelRunner};
use super::proof;
use super::scan::{self, Refused};
use super::statement::{StatementModule, Statements};
use crate::grade::Grading;

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "lean-7";

const KERNEL_FAILED: &str = "the kernel failed on this proof; please report it with the proof";

/// Maximum number of messages in a `detail`.
const MAX_MESSAGES: usize = 5;

/// Judges proofs with one Lean.
pub struct LeanGrader {
    pub(super) lean: Arc<dyn Lean>,
    /// The operator's own kernel checker, which checks last.
    pub(super) second_checker: Option<SecondChecker>,
    /// Whether axiom dependencies are checked transitively.
    pub(super) axioms: Axioms,
    /// Headers that are trusted, since the operator lists them.
    pub(super) headers: Vec<String>,
    pub(super) kernel_runner: KernelRunner,
    pub(super) statements: Statements,
    /// Whether a jail keeps the code of proofs from this machine.
    pub(super) jailed: bool,
    /// The part of the verdicts' keys that identifies this Lean and its settings.
    pub identity: sandboxes::Identity,
}

impl LeanGrader {
    /// A grader for tests, which trusts `headers`. It finds no libraries, and the kernel runs in this process. [`LeanGrader::open`] gives it separate processes.
    pub fn new(lean: Arc<dyn Lean>, headers: Vec<String>) -> Self {
        Self {
            lean,
            second_checker: None,
            axioms: Axioms::Followed,
            headers,
            kernel_runner: KernelRunner::in_process(Vec::new()),
            statements: Statements::default(),
            jailed: false,
            identity: sandboxes::Identity {
                backend: "lean".to_owned(),
                interpreter: String::new(),
                digest: String::new(),
            },
        }
    }

    /// Judges a completion. Blocks while Lean works.
    pub fn grade(&self, task: &LeanTask, completion: &str) -> Grading {
        self.try_grade(task, completion)
            .unwrap_or_else(|grading| *grading)
    }

    fn try_grade(&self, task: &LeanTask, completion: &str) -> Result<Grading, Box<Grading>> {
        if task.header.len() + task.statement.len() > MAX_TEXT_BYTES {
            return Err(bad_task(&format!(
                "its header and statement have more than {MAX_TEXT_BYTES} bytes together"
            )));
        }
        let header = task.header.trim_end();
        let header = match self.trusts_header(header) {
            true => header.to_owned(),
            false => scan::check_header(header).map_err(|Refused { word, why }| {
                bad_task(&format!(
                    "the header holds `{word}`: {why}; an operator may list it in `lean.headers`"
                ))
            })?,
        };
        let header = header.trim_end();
        let sources = proof::sources(header, &task.statement, completion)?;
        let statement_module = self.compiled_statement(header, &sources)?;
        let compile = || {
            let compiled = self.lean.compile(header, &sources.proof)?;
            // Lean may have been stopped, or a busy machine may have kept its output.
            if compiled.files.is_empty() && compiled.messages.body_error().is_none() {
                let reason = "it compiled nothing of the proof, and printed no error";
                return Err(LeanError::Crashed(reason.to_owned()));
            }
            Ok(compiled)
        };
        Ok(
            self.grade_run(header, &sources.statement, compile, |compiled| {
                self.judge_compiled(&statement_module, header, &sources, &compiled)
            }),
        )
    }

    /// Whether the operator lists a header, so that it is not checked.
    pub fn trusts_header(&self, header: &str) -> bool {
        let header = header.trim_end();
        self.headers
            .iter()
            .any(|trusted| trusted.trim_end() == header)
    }

    /// The compiled module of the statement, cached or compiled now.
    fn compiled_statement(
        &self,
        header: &str,
        sources: &proof::LeanSources,
    ) -> Result<StatementModule, Box<Grading>> {
        let open = |module: &StatementModule| {
            self.kernel_runner.open(kernel_runner::Statement {
                module,
                theorem: &sources.theorem,
                axioms: self.axioms,
            })
        };
        self.statements
            .compile(self.lean.as_ref(), open, header, &sources.statement)
    }

    /// The grading of a proof from a run of Lean or of a checker on it. Even in two runs, an error in the header or a crash may be for lack of memory. It is the
    /// proof's fault only if Lean then compiles the statement alone, after the same header, and another run on the proof fails.
    fn grade_run<T>(
        &self,
        header: &str,
        statement: &str,
        run: impl Fn() -> Result<T, LeanError>,
        judge: impl FnOnce(T) -> Grading,
    ) -> Grading {
        let (mut answer, once) = with_retry(&run);
        if let Err(error @ (LeanError::Header(_) | LeanError::Crashed(_))) = &answer {
            match self.lean.compile(header, statement) {
                Ok(compiled) if !compiled.files.is_empty() => answer = run(),
                _ => return Grading::unavailable(&error.to_string(), true),
            }
        }
        let grading = match answer {
            Ok(answer) => judge(answer),
            Err(error) => grading_without_answer(&error),
        };
        grading.deterministic_if(once)
    }

    /// The grading of a proof that Lean has processed.
    fn judge_compiled(
        &self,
        statement_module: &StatementModule,
        header: &str,
        sources: &proof::LeanSources,
        compiled: &Compiled,
    ) -> Grading {
        let error = compiled.messages.body_error();
        if let Some(error) = error.filter(|_| compiled.files.is_empty()) {
            let detail = json!({
                "reason": excerpt(&error.data),
                "line": error.pos.line,
                "messages": shown_messages(&compiled.messages),
            });
            return Grading::new(Verdict::Incorrect, detail);
        }
        let statement = kernel_runner::Statement {
            module: statement_module,
            theorem: &sources.theorem,
            axioms: self.axioms,
        };
        let (checked, once) = self.kernel_runner.judge(statement, &compiled.files);
        let grading = match checked {
            Ok(axioms) => self.accepted_grading(axioms, header, sources, compiled),
            Err(failure) => failure_grading(failure, compiled),
        };
        grading.deterministic_if(once)
    }

    /// The grading of a proof that the kernel accepts.
    fn accepted_grading(
        &self,
        axioms: Option<Vec<String>>,
        header: &str,
        sources: &proof::LeanSources,
        compiled: &Compiled,
    ) -> Grading {
        let mut detail = json!({ "assurance": "rechecked" });
        if let Some(axioms) = axioms {
            detail["axioms"] = json!(axioms);
        }
        let Some(second_checker) = &self.second_checker else {
            return Grading::new(Verdict::Correct, detail);
        };
        let file = format!("{header}\n\n{}", sources.proof);
        // It also ends like this for lack of memory. So its objection counts only if it makes it twice.
        let check = || match second_checker.objection(&file, compiled)? {
            Some(_) => second_checker.objection(&file, compiled),
            None => Ok(None),
        };
        self.grade_run(header, &sources.statement, check, |objection| {
            let Some(objection) = objection else {
                detail["assurance"] = json!("replayed");
                return Grading::new(Verdict::Correct, detail);
            };
            let reason = format!(
                "the kernel checker does not accept it: {}",
                excerpt(&objection)
            );
            let detail = json!({ "reason": reason, "assurance": "replayed" });
            Grading::new(Verdict::Incorrect, detail).deterministic_if(false)
        })
    }

    /// Whether a jail keeps the code of proofs from this machine.
    pub fn is_jailed(&self) -> bool {
        self.jailed
    }

    /// This grader, as if its Lean ran in a jail.
    #[cfg(test)]
    pub(crate) fn in_jail(self) -> LeanGrader {
        LeanGrader {
            jailed: true,
            ..self
        }
    }

    /// Judges a correct and a wrong proof, and checks the verdicts.
    ///
    /// # Errors
    /// What went wrong, and what to do.
    pub fn self_test(&self) -> Result<(), String> {
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
        for (proof, expected) in [
            (right, Verdict::Correct),
            ("exact trivial", Verdict::Incorrect),
        ] {
            let grading = self.grade(&task, proof);
            if grading.verdict != expected {
                let needs = if mathlib {
                    "; the first of `lean.headers` imports Mathlib, which this Lean must have"
                } else {
                    ""
                };
                return Err(format!(
                    "of `{statement}`, the proof `{proof}` should be {expected:?} and was judged {:?} ({}){needs}",
                    grading.verdict, grading.detail
                ));
            }
        }
        Ok(())
    }
}

/// The grading of a proof that the kernel does not accept, or does not finish checking.
fn failure_grading(failure: CheckFailure, compiled: &Compiled) -> Grading {
    let limit_exceeded = |verdict, why: String| {
        Grading::with_reason(verdict, &format!("to check it once more, {why}"))
    };
    // What a clock or the machine's memory decided is not stored.
    let by_machine = |verdict, why| limit_exceeded(verdict, why).deterministic_if(false);
    match failure {
        CheckFailure::Task(reason) => *bad_task(&reason),
        CheckFailure::Unavailable(reason) => Grading::unavailable(&reason, true),
        CheckFailure::Failed => *incorrect(KERNEL_FAILED),
        CheckFailure::Ended(KernelExit::Crashed(why)) => {
            tracing::warn!("{KERNEL_FAILED} ({why})");
            incorrect(KERNEL_FAILED).deterministic_if(false)
        }
        CheckFailure::Ended(KernelExit::Late(seconds)) => by_machine(
            Verdict::Timeout,
            format!("the kernel took longer than {seconds} seconds"),
        ),
        CheckFailure::Ended(KernelExit::Memory(mib)) => by_machine(
            Verdict::Memory,
            format!("the kernel needed more than {mib} MiB of memory"),
        ),
        CheckFailure::Proof(error @ kernel::Error::Budget) => {
            limit_exceeded(Verdict::Timeout, error.to_string())
        }
        CheckFailure::Proof(error) => {
            let mut detail =
                json!({ "reason": excerpt(&error.to_string()), "assurance": "rechecked" });
            let messages = shown_messages(&compiled.messages);
            if !messages.is_empty() {
                detail["messages"] = json!(messages);
            }
            Grading::new(Verdict::Incorrect, detail)
        }
    }
}

/// Errors and warnings, with their lines in the proof.
fn shown_messages(messages: &Messages) -> Vec<Json> {
    let is_serious =
        |message: &&Message| matches!(message.severity, Severity::Error | Severity::Warning);
    let messages = messages.body.iter().filter(is_serious);
    messages
        .take(MAX_MESSAGES)
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
