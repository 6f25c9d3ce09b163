//! A second opinion: another program puts every declaration of a compiled file through the kernel again.
//!
//! Elaboration runs in the process whose messages are read; a checker such as lean4checker or comparator reads only what that process compiled.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::process::Process;
use super::{Bounds, LeanError, Program};

/// Compiles a file and has a checker read it.
#[derive(Debug, Clone)]
pub struct Replay {
    /// What starts Lean on a file.
    pub lean: Program,
    /// The checker's command. `{module}`, `{file}`, `{olean}` and `{dir}` stand for the module's name, its source, its compiled form and the folder of both, which is
    /// first on the `LEAN_PATH`. It ends with 0 where it finds nothing wrong.
    pub command: Vec<String>,
    /// What each of both may cost.
    pub bounds: Bounds,
}

/// Name of the module that a file is compiled to.
const MODULE: &str = "Proof";

impl Replay {
    /// What the checker finds wrong with a file that Lean accepts; `None` where nothing.
    ///
    /// # Errors
    /// [`LeanError`] where one of both gives no answer.
    pub fn objection(&self, file: &str) -> Result<Option<String>, LeanError> {
        let broken = |error: std::io::Error| {
            LeanError::Missing(format!("the folder for its file cannot be made: {error}"))
        };
        let folder = tempfile::tempdir().map_err(broken)?;
        let path = |extension: &str| folder.path().join(format!("{MODULE}.{extension}"));
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        std::fs::write(path("lean"), file).map_err(broken)?;

        let mut words = self.lean.command.clone();
        words.extend(["-o".to_owned(), text(path("olean")), text(path("lean"))]);
        let (status, complaint) = self.end_of(&words, folder.path(), true)?;
        if !status.success() || !path("olean").is_file() {
            return Err(LeanError::Crashed(format!(
                "the proof could not be compiled for the checker: {status}; {complaint}"
            )));
        }

        let replace = |word: &String| {
            word.replace("{module}", MODULE)
                .replace("{file}", &text(path("lean")))
                .replace("{olean}", &text(path("olean")))
                .replace("{dir}", &folder.path().to_string_lossy())
        };
        let words: Vec<String> = self.command.iter().map(replace).collect();
        let (status, complaint) = self.end_of(&words, folder.path(), false)?;
        match status.code() {
            Some(0) => Ok(None),
            // A jail says 128 and more where the program in it was killed.
            Some(..128) => Ok(Some(complaint)),
            _ => Err(LeanError::Crashed(format!(
                "the checker was killed: {status}; {complaint}"
            ))),
        }
    }

    /// How a program ended, and its last words.
    fn end_of(
        &self,
        words: &[String],
        folder: &Path,
        writes: bool,
    ) -> Result<(ExitStatus, String), LeanError> {
        let mut command = self
            .lean
            .command(words, &[folder], writes.then_some(folder));
        let mut path = folder.as_os_str().to_owned();
        path.push(":");
        path.push(self.lean.variable("LEAN_PATH").unwrap_or_default());
        command.env("LEAN_PATH", path);
        let seconds = self.bounds.start_seconds + self.bounds.seconds;
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let process = Process::start(command, self.lean.jail, self.bounds.memory_mib)?;
        let (status, out, complaint) = process.finish(deadline, seconds)?;
        let out = String::from_utf8_lossy(&out);
        let last = out
            .trim()
            .lines()
            .next_back()
            .map(str::to_owned)
            .filter(|line| !line.is_empty());
        Ok((status, last.unwrap_or(complaint)))
    }
}
