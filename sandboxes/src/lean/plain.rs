//! A process a file: `lean --json FILE`.

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
        let command = self.program.command(&words, &[folder.path()], None);
        let process = Process::start(command, self.program.jail, self.bounds.memory_mib)?;
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
