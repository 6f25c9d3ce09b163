//! A second opinion: another program has every declaration of a compiled module checked by a kernel again.
//!
//! A checker such as lean4checker or nanoda reads only the compiled module.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use super::compile::{MODULE, folder_with};
use super::process::{Process, TimeLimit};
use super::{Bounds, Compiled, LeanError, Program};

/// Has a checker read a compiled module.
#[derive(Debug, Clone)]
pub struct SecondChecker {
    /// The checker gets this program's jail, folder and variables.
    pub lean: Program,
    /// The checker's command. `{module}`, `{file}`, `{olean}` and `{dir}` stand for the module's name, its source, its compiled form and the folder of both. That
    /// folder is first on the `LEAN_PATH`. The checker exits with 0 if it finds nothing wrong.
    pub command: Vec<String>,
    /// The time and memory that it may use.
    pub bounds: Bounds,
}

impl SecondChecker {
    /// The checker's objection to a compiled module; `None` if it has none. `file` is the module's source.
    ///
    /// # Errors
    /// [`LeanError`] if it gives no answer.
    pub fn objection(&self, file: &str, compiled: &Compiled) -> Result<Option<String>, LeanError> {
        let folder = folder_with(file, &compiled.files)?;
        let dir = folder.path().to_string_lossy();
        let replace = |word: &String| {
            word.replace("{module}", MODULE)
                .replace("{file}", &format!("{dir}/{MODULE}.lean"))
                .replace("{olean}", &format!("{dir}/{MODULE}.olean"))
                .replace("{dir}", &dir)
        };
        let words: Vec<String> = self.command.iter().map(replace).collect();
        let (status, last_line) = self.run(&words, folder.path())?;
        match status.code() {
            Some(0) => Ok(None),
            // A jail exits with 128 or more if the program in it was killed.
            Some(..128) => Ok(Some(last_line)),
            _ => Err(LeanError::Crashed(format!(
                "the checker was killed: {status}; {last_line}"
            ))),
        }
    }

    /// Runs a program. Returns how it ended and the last line of its output, or else of its error stream.
    fn run(&self, words: &[String], folder: &Path) -> Result<(ExitStatus, String), LeanError> {
        let mut command = self.lean.command(words, folder, None);
        let mut path = folder.as_os_str().to_owned();
        path.push(":");
        path.push(self.lean.variable("LEAN_PATH").unwrap_or_default());
        command.env("LEAN_PATH", path);
        let clock = Duration::from_secs(self.bounds.start_seconds + self.bounds.seconds);
        let time = TimeLimit { work: clock, clock };
        let (jail, memory_mib) = (self.lean.jail, self.bounds.memory_mib);
        let process = Process::start(command, jail, memory_mib, None)?;
        let (status, out, last_error_line) = process.finish(time)?;
        let out = String::from_utf8_lossy(&out);
        let last = out.trim().lines().next_back().map(str::to_owned);
        Ok((status, last.unwrap_or(last_error_line)))
    }
}
