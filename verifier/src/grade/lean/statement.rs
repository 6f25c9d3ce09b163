//! A cache of compiled statements. Each statement is compiled once without a proof, and the library that its header imports is opened once, to check that it exists. A failure
//! that may pass is not cached.

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
    /// Lean does not accept the statement, or what it compiled or its library cannot be read.
    Refused(String),
    /// Lean gave no answer about the statement; another try may succeed.
    NoAnswer(LeanError),
    /// No process of the kernel could open the library; another try may succeed.
    NoKernel(String),
}

/// The cached statements.
#[derive(Default)]
pub(super) struct Statements {
    modules: Mutex<HashMap<[u8; 32], CachedStatement>>,
}

/// A statement, or Lean's objection to it, once it is compiled. While it is computed it is locked, so concurrent callers wait for the first.
type CachedStatement = Arc<Mutex<Option<Result<CompiledStatement, String>>>>;

struct CompiledStatement {
    module: StatementModule,
    /// Whether its library was opened. A library that could not be opened may be repaired, or opened when the machine has more memory.
    opened: bool,
}

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
        let result = match entry.take() {
            Some(cached) => cached,
            None => compile(lean, header, statement)?,
        };
        let statement = match entry.insert(result) {
            Ok(statement) => statement,
            Err(objection) => return Err(NoStatement::Refused(objection.clone())),
        };
        if !statement.opened {
            open(&statement.module).map_err(|failure| match failure {
                CheckFailure::Task(reason) => NoStatement::Refused(reason),
                CheckFailure::Unavailable(reason) => NoStatement::NoKernel(reason),
                other => NoStatement::NoKernel(format!("{other:?}")),
            })?;
            statement.opened = true;
        }
        Ok(Arc::clone(&statement.module))
    }
}

/// Compiles a statement. The inner error is Lean's objection to it, which is permanent; the outer one may pass.
fn compile(
    lean: &dyn Lean,
    header: &str,
    statement: &str,
) -> Result<Result<CompiledStatement, String>, NoStatement> {
    let (compiled, _) = with_retry(|| lean.compile(header, statement));
    let compiled = compiled.map_err(NoStatement::NoAnswer)?;
    if compiled.files.is_empty() {
        return match messages::first_error(&compiled.messages) {
            Some(error) => Ok(Err(format!(
                "Lean does not accept the statement: {}",
                error.data
            ))),
            None => Err(NoStatement::NoAnswer(LeanError::Crashed(
                "it compiled nothing of the statement, and printed no error".to_owned(),
            ))),
        };
    }
    Ok(Ok(CompiledStatement {
        module: Arc::new(compiled.files),
        opened: false,
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sandboxes::lean::Compiled;

    use super::*;

    /// A Lean that compiles everything, and counts.
    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Lean for Counter {
        fn compile_within(&self, _: &str, _: &str, _: u64) -> Result<Compiled, LeanError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(Compiled {
                files: vec![b"module".to_vec()],
                ..Compiled::default()
            })
        }
    }

    #[test]
    fn a_library_is_opened_until_that_succeeds_once() {
        let (lean, statements) = (Counter::default(), Statements::default());
        let compile = |opened| statements.compile(&lean, |_| opened, "import A", "theorem t");
        let missing = "there is no compiled module A";
        assert_eq!(
            compile(Err(CheckFailure::Task(missing.to_owned()))),
            Err(NoStatement::Refused(missing.to_owned()))
        );
        let module = Ok(Arc::new(vec![b"module".to_vec()]));
        assert_eq!(compile(Ok(())), module);
        // It stays open.
        assert_eq!(compile(Err(CheckFailure::Failed)), module);
        assert_eq!(lean.0.load(Ordering::SeqCst), 1);
    }
}
