//! A cache of compiled statements. Each statement is compiled once without a proof, and the library that its header imports is opened once, to check that it exists.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sandboxes::lean::{Lean, LeanError, with_retry};

use super::kernel_runner::CheckFailure;
use super::messages;

/// The compiled module of a statement.
pub(super) type StatementModule = Arc<Vec<Vec<u8>>>;

/// Why a statement cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoStatement {
    /// Lean does not accept the statement or its header, or the compiled module cannot be read.
    Refused(String),
    /// Lean gave no answer; another try may succeed.
    NoAnswer(LeanError),
    /// No process of the kernel could open the library; another try may succeed.
    NoKernel(String),
}

/// The cached statements.
#[derive(Default)]
pub(super) struct Statements {
    modules: Mutex<HashMap<[u8; 32], CachedStatement>>,
}

/// The result for one statement, once it is known. While it is computed it is locked, so concurrent callers wait for the first.
type CachedStatement = Arc<Mutex<Option<Result<StatementModule, String>>>>;

/// Maximum number of cached statements. Each takes some ten kB.
const MAX_STATEMENTS: usize = 4_096;

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Statements {
    /// Compiles a statement after its header, or returns the cached module. `open` opens the library that the header imports.
    pub(super) fn compile(
        &self,
        lean: &dyn Lean,
        open: impl FnOnce(&StatementModule) -> Result<(), CheckFailure>,
        header: &str,
        statement: &str,
    ) -> Result<StatementModule, NoStatement> {
        let key = *blake3::hash(format!("{header}\0{statement}").as_bytes()).as_bytes();
        let entry = {
            let mut modules = locked(&self.modules);
            if modules.len() >= MAX_STATEMENTS && !modules.contains_key(&key) {
                modules.clear();
            }
            Arc::clone(modules.entry(key).or_default())
        };
        let mut entry = locked(&entry);
        if let Some(cached) = &*entry {
            return cached.clone().map_err(NoStatement::Refused);
        }
        let result = compile(lean, open, header, statement)?;
        *entry = Some(result.clone());
        result.map_err(NoStatement::Refused)
    }
}

/// Compiles a statement and opens its library. The inner error is permanent and is cached; the outer one is not.
fn compile(
    lean: &dyn Lean,
    open: impl FnOnce(&StatementModule) -> Result<(), CheckFailure>,
    header: &str,
    statement: &str,
) -> Result<Result<StatementModule, String>, NoStatement> {
    let (compiled, _) = with_retry(|| lean.compile(header, statement));
    let compiled = compiled.map_err(NoStatement::NoAnswer)?;
    if compiled.files.is_empty() {
        let error = messages::first_error(&compiled.messages);
        return Ok(Err(match error {
            Some((why, None)) => why,
            Some((why, Some(_))) => format!("Lean does not accept the statement: {why}"),
            None => "Lean compiled nothing of the statement, and printed no message".to_owned(),
        }));
    }
    let module = Arc::new(compiled.files);
    match open(&module) {
        Ok(()) => Ok(Ok(module)),
        Err(CheckFailure::Unavailable(reason)) => Err(NoStatement::NoKernel(reason)),
        Err(CheckFailure::Task(reason)) => Ok(Err(reason)),
        Err(other) => Err(NoStatement::NoKernel(format!("{other:?}"))),
    }
}
