//! The libraries that are open, one for each list of imports.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use kernel::Library;

/// Libraries that are kept at a time. Mathlib's takes some 20 MB, and the files that it maps.
const MAX_LIBRARIES: usize = 4;

/// Opens what statements import, each once.
pub(in crate::grade::lean) struct Libraries {
    /// Where compiled modules are looked for.
    folders: Vec<PathBuf>,
    open: Mutex<HashMap<Vec<String>, Arc<Library>>>,
}

impl Libraries {
    pub(super) fn new(folders: Vec<PathBuf>) -> Self {
        Self {
            folders,
            open: Mutex::default(),
        }
    }

    /// The library that a statement's compiled module imports; or what is wrong with one of them.
    pub(super) fn of(&self, asked: &[Vec<u8>]) -> Result<Arc<Library>, String> {
        let wrong = |error: kernel::Error| format!("what Lean compiled of the statement: {error}");
        let imports = kernel::imports(asked.to_vec()).map_err(wrong)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = open.get(&imports) {
            return Ok(Arc::clone(known));
        }
        if open.len() >= MAX_LIBRARIES {
            open.clear();
        }
        let library = Arc::new(Library::open(&self.folders, &imports).map_err(wrong)?);
        open.insert(imports, Arc::clone(&library));
        Ok(library)
    }
}
