//! Statements that were judged without a proof, once: what Lean compiled of them, and the library that their header imports.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use kernel::Library;
use sandboxes::lean::{Lean, LeanError};

use super::messages;

/// What is kept of a statement.
#[derive(Clone)]
pub(super) struct Asked {
    /// The compiled module in which it stands.
    pub files: Arc<Vec<Vec<u8>>>,
    /// What its header imports.
    pub library: Arc<Library>,
}

/// Why a statement cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoStatement {
    /// Lean does not accept it, or not its header; or what it compiled cannot be read.
    Refused(String),
    /// Lean gave no answer: another time it may.
    NoAnswer(LeanError),
}

/// Statements and libraries that are kept.
#[derive(Default)]
pub(super) struct Statements {
    asked: Mutex<HashMap<[u8; 32], Place>>,
    libraries: Mutex<HashMap<Vec<String>, Arc<Library>>>,
}

/// Where a statement is kept once it is known; who finds it locked waits for who asks.
type Place = Arc<Mutex<Option<Result<Asked, String>>>>;

/// Statements that are kept at a time: each takes some ten kB.
const MAX_STATEMENTS: usize = 4_096;
/// Libraries that are kept at a time: one for each list of imports. Mathlib's takes some 20 MB, and the files that it maps.
const MAX_LIBRARIES: usize = 8;

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Statements {
    /// What Lean compiles of a statement behind its header.
    pub(super) fn asked(
        &self,
        lean: &dyn Lean,
        folders: &[PathBuf],
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
        let made = self.compile(lean, folders, header, statement)?;
        *place = Some(made.clone());
        made.map_err(NoStatement::Refused)
    }

    fn compile(
        &self,
        lean: &dyn Lean,
        folders: &[PathBuf],
        header: &str,
        statement: &str,
    ) -> Result<Result<Asked, String>, NoStatement> {
        let (compiled, _) = lean.compile_patiently(header, statement);
        let compiled = compiled.map_err(NoStatement::NoAnswer)?;
        if compiled.files.is_empty() {
            let fault = messages::fault(&compiled.said);
            return Ok(Err(match fault {
                Some((why, None)) => why,
                Some((why, Some(_))) => format!("Lean does not accept the statement: {why}"),
                None => "Lean compiled nothing of the statement, and said nothing of it".to_owned(),
            }));
        }
        let library = kernel::imports(compiled.files.clone())
            .and_then(|imports| self.library(folders, imports));
        Ok(match library {
            Ok(library) => Ok(Asked {
                files: Arc::new(compiled.files),
                library,
            }),
            Err(error) => Err(format!("what Lean compiled of the statement: {error}")),
        })
    }

    fn library(
        &self,
        folders: &[PathBuf],
        imports: Vec<String>,
    ) -> Result<Arc<Library>, kernel::Error> {
        let mut libraries = locked(&self.libraries);
        if let Some(known) = libraries.get(&imports) {
            return Ok(Arc::clone(known));
        }
        if libraries.len() >= MAX_LIBRARIES {
            libraries.clear();
        }
        let library = Arc::new(Library::open(folders, &imports)?);
        libraries.insert(imports, Arc::clone(&library));
        Ok(library)
    }
}
