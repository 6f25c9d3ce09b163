//! Statements that were judged without a proof, once: what Lean compiled of them, and that the library is there which their header imports.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sandboxes::lean::{Lean, LeanError};

use super::checker::Objection;
use super::messages;

/// What is kept of a statement: the compiled module in which it stands.
pub(super) type Asked = Arc<Vec<Vec<u8>>>;

/// Why a statement cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoStatement {
    /// Lean does not accept it, or not its header; or what it compiled cannot be read.
    Refused(String),
    /// Lean gave no answer: another time it may.
    NoAnswer(LeanError),
    /// No process of the kernel could open its library: another time one may.
    NoKernel(String),
}

/// Statements that are kept.
#[derive(Default)]
pub(super) struct Statements {
    asked: Mutex<HashMap<[u8; 32], Place>>,
}

/// Where a statement is kept once it is known; who finds it locked waits for who asks.
type Place = Arc<Mutex<Option<Result<Asked, String>>>>;

/// Statements that are kept at a time: each takes some ten kB.
const MAX_STATEMENTS: usize = 4_096;

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Statements {
    /// What Lean compiles of a statement behind its header; `open` says whether the library can be opened that it imports.
    pub(super) fn asked(
        &self,
        lean: &dyn Lean,
        open: impl FnOnce(&Asked) -> Result<(), Objection>,
        header: &str,
        statement: &str,
    ) -> Result<Asked, NoStatement> {
        let key = *blake3::hash(format!("{header}\0{statement}").as_bytes()).as_bytes();
        let place = {
            let mut asked = locked(&self.asked);
            if asked.len() >= MAX_STATEMENTS && !asked.contains_key(&key) {
                asked.clear();
            }
            Arc::clone(asked.entry(key).or_default())
        };
        let mut place = locked(&place);
        if let Some(known) = &*place {
            return known.clone().map_err(NoStatement::Refused);
        }
        let made = compile(lean, open, header, statement)?;
        *place = Some(made.clone());
        made.map_err(NoStatement::Refused)
    }
}

fn compile(
    lean: &dyn Lean,
    open: impl FnOnce(&Asked) -> Result<(), Objection>,
    header: &str,
    statement: &str,
) -> Result<Result<Asked, String>, NoStatement> {
    let (compiled, _) = lean.compile_with_retry(header, statement);
    let compiled = compiled.map_err(NoStatement::NoAnswer)?;
    if compiled.files.is_empty() {
        let fault = messages::fault(&compiled.messages);
        return Ok(Err(match fault {
            Some((why, None)) => why,
            Some((why, Some(_))) => format!("Lean does not accept the statement: {why}"),
            None => "Lean compiled nothing of the statement, and said nothing of it".to_owned(),
        }));
    }
    let asked = Arc::new(compiled.files);
    match open(&asked) {
        Ok(()) => Ok(Ok(asked)),
        Err(Objection::Absent(reason)) => Err(NoStatement::NoKernel(reason)),
        Err(Objection::Task(reason)) => Ok(Err(reason)),
        Err(other) => Err(NoStatement::NoKernel(format!("{other:?}"))),
    }
}
