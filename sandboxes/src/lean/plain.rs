//! A process a file: `lean --json FILE`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::process::Process;
use super::{Bounds, Lean, LeanError, Message, Program, Said, split};

/// Starts Lean anew for each file.
#[derive(Debug, Clone)]
pub struct Plain {
    /// What starts it; the file's path comes last.
    pub program: Program,
    /// What a process may cost.
    pub bounds: Bounds,
}

impl Lean for Plain {
    fn run(&self, header: &str, body: &str) -> Result<Said, LeanError> {
        let broken = |error: std::io::Error| {
            LeanError::Missing(format!("the folder for its file cannot be made: {error}"))
        };
        let folder = tempfile::tempdir().map_err(broken)?;
        let path = folder.path().join("Proof.lean");
        let header = header.trim_end();
        std::fs::write(&path, format!("{header}\n\n{body}")).map_err(broken)?;
        let mut words = self.program.command.clone();
        words.push(path.to_string_lossy().into_owned());

        let seconds = self.bounds.start_seconds + self.bounds.seconds;
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let mut command = self.program.command(&words, &[folder.path()], None);
        let process = Process::start(&mut command, self.bounds.memory_mib)?;
        let (status, out, complaint) = process.finish(deadline, seconds)?;
        // Other lines are the program's own chatter.
        let messages: Vec<Message> = String::from_utf8_lossy(&out)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        // 1 is how Lean says that there are errors among the messages.
        let errors = status.code() == Some(1) && !messages.is_empty();
        if !status.success() && !errors {
            return Err(LeanError::Crashed(format!("{status}; {complaint}")));
        }
        let lines = header.lines().count().max(1);
        Ok(split(messages, lines + 2))
    }
}

impl Program {
    /// What starts `words` as this program is started; it sees the folders `shown`, and may write in `writable`.
    pub(super) fn command(
        &self,
        words: &[String],
        shown: &[&Path],
        writable: Option<&Path>,
    ) -> Command {
        let mut shown = shown.to_vec();
        shown.extend(self.dir.as_deref());
        let mut command = self.jail.wrap(words, &shown, writable);
        // What this process knows by its environment, such as a token, is no proof's affair.
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| is_leans(name)));
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }
}

/// Variables that Lean and its tools read.
const VARIABLES: [&str; 8] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "TZ",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
];
/// What their other variables begin with.
const PREFIXES: [&str; 4] = ["LEAN_", "LAKE_", "ELAN_", "LC_"];

fn is_leans(variable: &OsStr) -> bool {
    let Some(name) = variable.to_str() else {
        return false;
    };
    VARIABLES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leans_variables_are_told_from_the_services() {
        for (name, wanted) in [
            ("PATH", true),
            ("LEAN_PATH", true),
            ("LC_ALL", true),
            ("RAPID_VERIFIER_TOKEN", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("LEAN", false),
        ] {
            assert_eq!(is_leans(OsStr::new(name)), wanted, "{name}");
        }
    }
}
