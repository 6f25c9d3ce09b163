//! A built Lake project: the place of its Lean, and the path of its libraries.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Jail, LeanError, Program};

/// A folder with a `lakefile` and with all its requirements built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    dir: PathBuf,
    /// Folder of the toolchain, with `bin/lean`.
    toolchain: PathBuf,
    /// `LEAN_PATH`.
    libraries: String,
}

impl Project {
    /// Runs the project's Lake to get its toolchain and its libraries.
    ///
    /// # Errors
    /// [`LeanError::Missing`], with the remedy.
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
        let lake = |words: &[&str]| {
            let output = Command::new("lake")
                .args(words)
                .current_dir(&dir)
                .stdin(Stdio::null())
                .output()
                .map_err(|error| {
                    missing(format!(
                        "needs `lake`, which does not start: {error}. elan installs it"
                    ))
                })?;
            let stdout = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if !output.status.success() || stdout.is_empty() {
                let stderr = String::from_utf8_lossy(&output.stderr);
                let last = stderr.trim().lines().next_back();
                let last = last.unwrap_or("it printed nothing");
                let words = words.join(" ");
                return Err(missing(format!("is not usable: `lake {words}`: {last}")));
            }
            Ok(stdout)
        };
        let toolchain = PathBuf::from(lake(&["env", "lean", "--print-prefix"])?);
        let libraries = lake(&["env", "printenv", "LEAN_PATH"])?;
        Ok(Self {
            dir,
            toolchain,
            libraries,
        })
    }

    /// The program that runs Lean on a file.
    #[must_use]
    pub fn lean(&self, jail: Jail) -> Program {
        let bin = self.toolchain.join("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Program {
            command: vec![text(&bin.join("lean")), "--json".to_owned()],
            env: vec![
                ("LEAN_PATH".to_owned(), self.libraries.clone()),
                ("LEAN_SYSROOT".to_owned(), text(&self.toolchain)),
                ("PATH".to_owned(), format!("{}:{path}", bin.display())),
            ],
            dir: Some(self.dir.clone()),
            jail,
            secrets: Vec::new(),
        }
    }

    /// The pinned versions of its requirements: the contents of `lean-toolchain` and `lake-manifest.json`.
    #[must_use]
    pub fn pins(&self) -> String {
        let read = |name| std::fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        read("lean-toolchain") + &read("lake-manifest.json")
    }
}
