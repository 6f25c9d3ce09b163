//! What keeps a Lean process from the rest of the machine: bubblewrap, where there is one.

use std::path::Path;
use std::process::{Command, Stdio};

/// What a process is started in.
///
/// In bubblewrap it sees the machine's files but can write none (`/tmp` is an empty one of its own), has no network, and sees no other process; all that it started dies
/// with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jail {
    /// Bubblewrap, `bwrap`.
    Bubblewrap,
    /// Nothing but the bounds on time, memory and output.
    None,
}

impl Jail {
    /// Bubblewrap where it works here: it must be installed, and the system must allow user namespaces.
    #[must_use]
    pub fn found() -> Jail {
        let works = |program: &str| {
            command(&[], None, &[program.to_owned()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        if works("true") {
            Jail::Bubblewrap
        } else {
            Jail::None
        }
    }

    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Jail::Bubblewrap => "bubblewrap",
            Jail::None => "none",
        }
    }

    /// What starts `words`, which sees the folders `shown` although they may lie in `/tmp`, and may write in `writable`.
    pub(super) fn wrap(
        self,
        words: &[String],
        shown: &[&Path],
        writable: Option<&Path>,
    ) -> Command {
        match self {
            Jail::Bubblewrap => command(shown, writable, words),
            Jail::None => {
                let mut words = words.iter();
                let mut command = Command::new(words.next().map_or("", String::as_str));
                command.args(words);
                command
            }
        }
    }
}

fn command(shown: &[&Path], writable: Option<&Path>, words: &[String]) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    command.args(["--tmpfs", "/tmp"]);
    for folder in shown {
        command.arg("--ro-bind").arg(folder).arg(folder);
    }
    if let Some(folder) = writable {
        command.arg("--bind").arg(folder).arg(folder);
    }
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--"]);
    command.args(words);
    command
}
