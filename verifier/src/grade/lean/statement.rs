//! A cache of compiled statements. Each statement is compiled once without a proof. The library that its header imports is opened once, to check that it exists. Of the
//! failures that may pass, only an error in the header is cached, for a minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sandboxes::lean::{Lean, LeanError, with_retry};

use super::gradings::{bad_task, no_answer};
use super::kernel_runner::CheckFailure;
use crate::grade::Grading;
use crate::mutex::lock;

/// The compiled module of a statement.
pub(super) type StatementModule = Arc<Vec<Vec<u8>>>;

/// The cached statements. While one is compiled it is locked, so concurrent callers wait for the first.
pub(super) struct Statements {
    modules: Mutex<HashMap<[u8; 32], Arc<Mutex<CachedStatement>>>>,
    /// How long after an error in its header a statement is not compiled again.
    header_delay: Duration,
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            modules: Mutex::default(),
            header_delay: HEADER_DELAY,
        }
    }
}

#[derive(Default)]
struct CachedStatement {
    /// The compiled statement, or Lean's objection to it.
    compiled: Option<Result<CompiledStatement, String>>,
    header_error: Option<HeaderError>,
}

/// The last error in a statement's header.
struct HeaderError {
    error: LeanError,
    since: Instant,
    /// Whether Lean reported one before it, too.
    again: bool,
}

impl HeaderError {
    /// A first error may pass, for example when many processes read the same library at once.
    fn grading(&self) -> Box<Grading> {
        match self.again {
            false => no_answer(&self.error),
            true => bad_task(&self.error.to_string()),
        }
    }
}

struct CompiledStatement {
    module: StatementModule,
    /// Whether its library was opened. A library that could not be opened may be repaired, or opened when the machine has more memory.
    opened: bool,
}

/// Maximum number of cached statements. Each takes some ten kB.
const MAX_STATEMENTS: usize = 4_096;

/// The machine may have been out of memory, so the header is tried again. But if the header is wrong, each try starts Lean twice, while all samples of the task wait.
const HEADER_DELAY: Duration = Duration::from_secs(60);

impl Statements {
    /// Compiles a statement after its header, or returns the cached module. `open` opens the library that the header imports.
    ///
    /// # Errors
    /// The `unavailable` grading. Another try may succeed, except after Lean's objection to the statement, after a second error in its header, or if the compiled
    /// module or its library cannot be read.
    pub(super) fn compile(
        &self,
        lean: &dyn Lean,
        open: impl FnOnce(&StatementModule) -> Result<(), CheckFailure>,
        header: &str,
        statement: &str,
    ) -> Result<StatementModule, Box<Grading>> {
        let key = *blake3::hash(format!("{header}\0{statement}").as_bytes()).as_bytes();
        let entry = {
            let mut modules = lock(&self.modules);
            if modules.len() >= MAX_STATEMENTS && !modules.contains_key(&key) {
                modules.clear();
            }
            Arc::clone(modules.entry(key).or_default())
        };
        let mut entry = lock(&entry);
        let CachedStatement {
            compiled,
            header_error,
        } = &mut *entry;
        let result = match compiled.take() {
            Some(cached) => cached,
            None => {
                if let Some(last) = header_error.as_ref()
                    && last.since.elapsed() < self.header_delay
                {
                    return Err(last.grading());
                }
                compile(lean, header, statement).map_err(|error| match error {
                    LeanError::Header(_) => {
                        let last = HeaderError {
                            error,
                            since: Instant::now(),
                            again: header_error.is_some(),
                        };
                        header_error.insert(last).grading()
                    }
                    other => no_answer(&other),
                })?
            }
        };
        let statement = match compiled.insert(result) {
            Ok(statement) => statement,
            Err(objection) => return Err(bad_task(objection)),
        };
        if !statement.opened {
            let unavailable = |reason: &str| Box::new(Grading::unavailable(reason, true));
            open(&statement.module).map_err(|failure| match failure {
                CheckFailure::Task(reason) => bad_task(&reason),
                CheckFailure::Unavailable(reason) => unavailable(&reason),
                other => unavailable(&format!("{other:?}")),
            })?;
            statement.opened = true;
        }
        Ok(Arc::clone(&statement.module))
    }
}

/// Compiles a statement. The inner error is Lean's objection to it, and is permanent. The outer one may pass.
fn compile(
    lean: &dyn Lean,
    header: &str,
    statement: &str,
) -> Result<Result<CompiledStatement, String>, LeanError> {
    let (compiled, _) = with_retry(|| lean.compile(header, statement));
    let compiled = compiled?;
    if compiled.files.is_empty() {
        return match compiled.messages.body_error() {
            Some(error) => Ok(Err(format!(
                "Lean does not accept the statement: {}",
                error.data
            ))),
            None => Err(LeanError::Crashed(
                "it compiled nothing of the statement, and printed no error".to_owned(),
            )),
        };
    }
    Ok(Ok(CompiledStatement {
        module: Arc::new(compiled.files),
        opened: false,
    }))
}

#[cfg(test)]
mod tests {
    use sandboxes::lean::Compiled;

    use super::*;
    use crate::fake_lean::FakeLean;

    /// A Lean that compiles everything after some errors in the header.
    fn lean(errors: usize) -> Arc<FakeLean> {
        let error = LeanError::Header("failed to read file".to_owned());
        let left = Mutex::new(vec![error; errors]);
        FakeLean::new(move |_, _, _| match lock(&left).pop() {
            Some(error) => Err(error),
            None => Ok(Compiled {
                files: vec![b"module".to_vec()],
                ..Compiled::default()
            }),
        })
    }

    #[test]
    fn a_library_is_opened_until_that_succeeds_once() {
        let (lean, statements) = (lean(0), Statements::default());
        let compile = |opened| statements.compile(&*lean, |_| opened, "import A", "theorem t");
        let missing = "there is no compiled module A";
        let failed = compile(Err(CheckFailure::Task(missing.to_owned())));
        assert_eq!(failed, Err(bad_task(missing)));
        let module = Ok(Arc::new(vec![b"module".to_vec()]));
        assert_eq!(compile(Ok(())), module);
        // It stays open.
        assert_eq!(compile(Err(CheckFailure::Failed)), module);
        assert_eq!(lean.runs(), 1);
    }

    #[test]
    fn a_failed_header_is_tried_again_after_a_while() {
        let (lean, mut statements) = (lean(4), Statements::default());
        let compile = |statements: &Statements| {
            statements.compile(&*lean, |_| Ok(()), "import A", "theorem t")
        };
        let error = LeanError::Header("failed to read file".to_owned());
        for _ in 0..2 {
            assert_eq!(compile(&statements), Err(no_answer(&error)));
        }
        assert_eq!(lean.runs(), 2);
        // The machine may have caused one error, but hardly two.
        statements.header_delay = Duration::ZERO;
        assert_eq!(compile(&statements), Err(bad_task(&error.to_string())));
        assert!(compile(&statements).is_ok());
    }
}
