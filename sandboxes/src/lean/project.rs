//! A built Lake project: where its Lean is, and what it finds its libraries by.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Jail, LeanError, Program};

/// A folder with a `lakefile` and everything built that it requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    dir: PathBuf,
    /// Folder of the toolchain, which holds `bin/lean`.
    toolchain: PathBuf,
    /// `LEAN_PATH`.
    libraries: String,
}

impl Project {
    /// Asks the project's Lake for its toolchain and its libraries.
    ///
    /// # Errors
    /// [`LeanError::Missing`], with what to do.
    pub fn open(dir: &Path) -> Result<Self, LeanError> {
        let missing = |why: String| {
            LeanError::Missing(format!(
                "the Lean project {} {why}. sandboxes/lean/README.md says how to build one",
                dir.display()
            ))
        };
        let dir = dir
            .canonicalize()
            .map_err(|error| missing(format!("cannot be opened: {error}")))?;
        let ask = |words: &[&str]| {
            let output = Command::new("lake")
                .args(words)
                .current_dir(&dir)
                .stdin(Stdio::null())
                .output()
                .map_err(|error| {
                    missing(format!(
                        "needs `lake`, which does not start: {error}. elan brings it"
                    ))
                })?;
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if !output.status.success() || said.is_empty() {
                let complaint = String::from_utf8_lossy(&output.stderr);
                let last = complaint
                    .trim()
                    .lines()
                    .next_back()
                    .unwrap_or("it said nothing");
                return Err(missing(format!(
                    "is not usable: `lake {}`: {last}",
                    words.join(" ")
                )));
            }
            Ok(said)
        };
        let toolchain = PathBuf::from(ask(&["env", "lean", "--print-prefix"])?);
        let libraries = ask(&["env", "printenv", "LEAN_PATH"])?;
        Ok(Self {
            dir,
            toolchain,
            libraries,
        })
    }

    /// What starts Lean on a file.
    #[must_use]
    pub fn lean(&self, jail: Jail) -> Program {
        let lean = self.toolchain.join("bin/lean");
        self.program(
            vec![lean.to_string_lossy().into_owned(), "--json".to_owned()],
            jail,
        )
    }

    /// The pinned versions of what it requires: `lean-toolchain` and `lake-manifest.json`.
    #[must_use]
    pub fn pins(&self) -> String {
        let read = |name| std::fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        read("lean-toolchain") + &read("lake-manifest.json")
    }

    fn program(&self, command: Vec<String>, jail: Jail) -> Program {
        let bin = self.toolchain.join("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        Program {
            command,
            env: vec![
                ("LEAN_PATH".to_owned(), self.libraries.clone()),
                (
                    "LEAN_SYSROOT".to_owned(),
                    self.toolchain.to_string_lossy().into_owned(),
                ),
                ("PATH".to_owned(), format!("{}:{path}", bin.display())),
            ],
            dir: Some(self.dir.clone()),
            jail,
            secrets: Vec::new(),
        }
    }
}
