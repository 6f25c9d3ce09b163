//! Runs a snippet: a file of Lean that stands for itself, without a theorem to prove. Its verdict is what Lean's messages say.
//!
//! Elaborating a snippet runs its code, and that may write messages of its own. So this verdict says less than the verdict on a proof, and a service gives it only in a
//! jail.

use sandboxes::lean::{Compiled, LeanError, Message, Position, Severity, imports, with_retry};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use super::grader::LeanGrader;
use super::gradings::{grading_without_answer, no_answer};
use crate::grade::Grading;

/// Why no snippet is run without a jail.
pub const NO_JAIL: &str = "a snippet may run any code while Lean reads it, and no jail keeps it from this machine (lean.jail = \"none\"); install bubblewrap, and set lean.jail = \"bubblewrap\"";

/// Maximum number of messages.
const MAX_MESSAGES: usize = 1000;
/// Maximum bytes of all messages' texts together.
const MAX_MESSAGES_BYTES: usize = 1 << 20;

/// Lean's message about a declaration with `sorry`, in either of its quotation marks.
const SORRIES: [&str; 2] = ["declaration uses 'sorry'", "declaration uses `sorry`"];

impl LeanGrader {
    /// Runs a snippet for at most `seconds`, in addition to the time for starting Lean. Runs it once more if a busy machine may have made it fail. Blocks while Lean
    /// works. The detail has Lean's `messages` and the positions of its `sorries`, or the `reason` why there are none.
    pub fn run_snippet(&self, code: &str, seconds: u64) -> Grading {
        if !self.is_jailed() {
            return Grading::unavailable(NO_JAIL, false);
        }
        let run = || self.lean.compile_within("", code, seconds);
        let (mut compiled, mut once) = with_retry(run);
        let fails = |compiled: &Compiled| fails_at_imports(code, compiled);
        if once && compiled.as_ref().is_ok_and(fails) {
            (compiled, once) = (run(), false);
        }
        let grading = match compiled {
            Ok(compiled) => grading(&compiled),
            Err(LeanError::Timeout(seconds) | LeanError::ProcessorTime(seconds)) => {
                let reason = format!("Lean timed out after {seconds} seconds");
                // This depends on a clock.
                Grading::with_reason(Verdict::Timeout, &reason).deterministic_if(false)
            }
            Err(error) => {
                let may_be_lean = matches!(error, LeanError::Header(_) | LeanError::Crashed(_));
                // A failure is the snippet's fault if Lean works without the snippet.
                match may_be_lean.then(|| self.lean.compile("", "")) {
                    Some(Err(error)) => *no_answer(&error),
                    _ => grading_without_answer(&error),
                }
            }
        };
        grading.deterministic_if(once)
    }
}

/// Whether Lean reports an error up to the end of the snippet's imports. The machine may have had no memory for them.
fn fails_at_imports(code: &str, compiled: &Compiled) -> bool {
    let lines = imports("", code).lines().count();
    let is_at_imports =
        |message: &Message| message.severity == Severity::Error && message.pos.line <= lines;
    compiled.messages.header_error().is_some() || compiled.messages.body.iter().any(is_at_imports)
}

/// The grading of a snippet that Lean has read.
fn grading(compiled: &Compiled) -> Grading {
    let mut messages: Vec<&Message> = compiled.messages.header.iter().collect();
    messages.extend(&compiled.messages.body);
    let bytes: usize = messages.iter().map(|message| message.data.len()).sum();
    if bytes > MAX_MESSAGES_BYTES {
        let reason = format!("Lean's messages have {bytes} bytes, more than {MAX_MESSAGES_BYTES}");
        return Grading::with_reason(Verdict::Incorrect, &reason);
    }
    let count = messages.len();
    if count > MAX_MESSAGES {
        let reason = format!("Lean has {count} messages, more than {MAX_MESSAGES}");
        return Grading::with_reason(Verdict::Incorrect, &reason);
    }
    let has_error = messages
        .iter()
        .any(|message| message.severity == Severity::Error);
    // Without an error, Lean compiles every file to a module.
    let ended_early = compiled.files.is_empty() && !has_error;
    let end = Message {
        severity: Severity::Error,
        pos: Position { line: 1, column: 0 },
        end: None,
        data: "Lean ended before it had read the whole snippet".to_owned(),
    };
    messages.extend(ended_early.then_some(&end));
    let sorries: Vec<Json> = messages
        .iter()
        .filter(|message| SORRIES.iter().any(|text| message.data.starts_with(text)))
        .map(|message| json!({ "pos": message.pos, "endPos": message.end, "goal": "" }))
        .collect();
    let verdict = match has_error || ended_early || !sorries.is_empty() {
        true => Verdict::Incorrect,
        false => Verdict::Correct,
    };
    let messages: Vec<Json> = messages.into_iter().map(shown).collect();
    // A busy machine may have kept the rest of its output.
    Grading::new(verdict, json!({ "messages": messages, "sorries": sorries }))
        .deterministic_if(!ended_early)
}

/// A message in the form of Lean's REPL.
fn shown(message: &Message) -> Json {
    let severity = match message.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Information => "info",
    };
    json!({ "severity": severity, "pos": message.pos, "endPos": message.end, "data": message.data })
}
