//! A cache of open libraries, one for each list of imports.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use kernel::Library;

use crate::mutex::lock;

/// Maximum number of open libraries. Mathlib's takes some 20 MB, in addition to the files that it maps.
const MAX_LIBRARIES: usize = 4;

/// Opens the libraries that statements import, each once.
pub(in crate::grade::lean) struct Libraries {
    /// The folders of the compiled modules.
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

    /// The library that a statement's compiled module imports, or the error in the module or the library.
    pub(super) fn library_of(&self, module: &[Vec<u8>]) -> Result<Arc<Library>, String> {
        let wrong = |error: kernel::Error| format!("what Lean compiled of the statement: {error}");
        let imports = kernel::imports(module.to_vec()).map_err(wrong)?;
        let mut open = lock(&self.open);
        if let Some(library) = open.get(&imports) {
            return Ok(Arc::clone(library));
        }
        if open.len() >= MAX_LIBRARIES {
            open.clear();
        }
        let library = Arc::new(Library::open(&self.folders, &imports).map_err(wrong)?);
        open.insert(imports, Arc::clone(&library));
        Ok(library)
    }
}
