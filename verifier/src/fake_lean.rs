//! A Lean for tests that runs nothing: a function returns its results.

use std::sync::{Arc, Mutex};

use sandboxes::lean::{Compiled, Lean, LeanError, Message, Position, Severity};

/// Returns the result for a header, a body and the seconds that they may take.
type CompileFn = dyn Fn(&str, &str, u64) -> Result<Compiled, LeanError> + Send + Sync;

pub(crate) struct FakeLean {
    compile: Box<CompileFn>,
    /// The headers and bodies so far.
    pub(crate) inputs: Mutex<Vec<(String, String)>>,
}

impl FakeLean {
    pub(crate) fn new(
        compile: impl Fn(&str, &str, u64) -> Result<Compiled, LeanError> + Send + Sync + 'static,
    ) -> Arc<FakeLean> {
        Arc::new(FakeLean {
            compile: Box::new(compile),
            inputs: Mutex::default(),
        })
    }

    /// Number of runs so far.
    pub(crate) fn runs(&self) -> usize {
        self.inputs.lock().unwrap().len()
    }
}

impl Lean for FakeLean {
    fn compile_within(
        &self,
        header: &str,
        body: &str,
        seconds: u64,
    ) -> Result<Compiled, LeanError> {
        let inputs = (header.to_owned(), body.to_owned());
        self.inputs.lock().unwrap().push(inputs);
        (self.compile)(header, body, seconds)
    }
}

/// A message about the first columns of a line.
pub(crate) fn message(severity: Severity, line: usize, data: &str) -> Message {
    let at = |column| Position { line, column };
    Message {
        severity,
        pos: at(0),
        end: Some(at(6)),
        data: data.to_owned(),
    }
}
