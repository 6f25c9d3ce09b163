//! Compiles a file in a Lean process of its own, in its jail, and returns its messages and the compiled module.
//!
//! Elaborating a file runs the code in it. So nothing that the process writes is trusted: the messages only explain, and every reader of the compiled module checks it
//! again.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use tempfile::TempDir;
use tokio::sync::Semaphore;

use super::jail_output::{EXTENSIONS, split_output, with_files_appended};
use super::process::{MAX_WRITTEN_MIB, Process, TimeLimit};
use super::start_times::{StartTimes, imports};
use super::{Bounds, Compiled, Jail, Lean, LeanError, Message, Program, Severity, split};

/// Name of the module that a file is compiled to.
pub(super) const MODULE: &str = "Proof";

/// Maximum processor time of a start, in multiples of the shortest measured one.
const START_MARGIN: u32 = 2;

/// Starts a Lean process for each file.
#[derive(Debug)]
pub struct Compiler {
    program: Program,
    bounds: Bounds,
    /// A permit for each process that may run at a time.
    permits: Semaphore,
    start_times: StartTimes,
}

impl Compiler {
    /// A compiler that starts `program` with `-R FOLDER -o OLEAN FILE`, for at most `processes` callers at a time. Others wait.
    #[must_use]
    pub fn new(program: Program, bounds: Bounds, processes: usize) -> Self {
        Self {
            program,
            bounds,
            permits: Semaphore::new(processes.clamp(1, Semaphore::MAX_PERMITS)),
            start_times: StartTimes::default(),
        }
    }

    /// The time limit of a file with these imports that may take `seconds`. While the time of a start is unknown, a looping proof holds a worker for the whole time for
    /// starting Lean.
    fn time_limit(&self, imports: &str, seconds: u64) -> TimeLimit {
        let seconds = self.bounds.seconds.min(seconds);
        let clock = Duration::from_secs(self.bounds.start_seconds + seconds);
        let work = match self.start_times.shortest(imports) {
            Some(start) => clock.min(start * START_MARGIN + Duration::from_secs(seconds)),
            None => clock,
        };
        TimeLimit { work, clock }
    }
}

impl Lean for Compiler {
    fn compile_within(
        &self,
        header: &str,
        body: &str,
        seconds: u64,
    ) -> Result<Compiled, LeanError> {
        let header = header.trim_end();
        let folder = folder_with(&format!("{header}\n\n{body}"), &[])?;
        let path = |extension: &str| folder.path().join(format!("{MODULE}.{extension}"));
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = self.program.command.clone();
        words.extend([
            "-R".to_owned(),
            text(folder.path()),
            "-o".to_owned(),
            text(&path("olean")),
            text(&path("lean")),
        ]);

        let jailed = self.program.jail != Jail::None;
        if jailed {
            words = with_files_appended(&words, &text(&folder.path().join(MODULE)));
        }

        let _permit = block_on(self.permits.acquire());
        let imports = imports(header, body);
        let time = self.time_limit(imports, seconds);
        let (jail, memory_mib) = (self.program.jail, self.bounds.memory_mib);
        let writable = Some(folder.path());
        let command = self.program.command(&words, folder.path(), writable);
        let started = Instant::now();
        let process = Process::start(command, jail, memory_mib, writable)?;
        let (status, out, last_error_line) = process.finish(time)?;
        let (out, appended) = if jailed {
            split_output(out)
        } else {
            (out, Vec::new())
        };
        // Lines that are not messages are other output of the program.
        let messages: Vec<Message> = String::from_utf8_lossy(&out)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        // Lean exits with 1 if there are errors among the messages. Its runtime exits with 1 for lack of memory too.
        let is_error = |message: &Message| message.severity == Severity::Error;
        let errors = status.code() == Some(1) && messages.iter().any(is_error);
        if !status.success() && !errors {
            return Err(LeanError::Crashed(format!("{status}; {last_error_line}")));
        }
        let lines = header.lines().count().max(1);
        let messages = split(messages, lines + 2);
        if status.success() {
            self.start_times.record(imports, started.elapsed());
        }
        let files = match (status.success(), jailed) {
            (true, true) => appended,
            (true, false) => read_written(&EXTENSIONS.map(path))?,
            (false, _) => Vec::new(),
        };
        Ok(Compiled { messages, files })
    }
}

/// A folder with the source of [`MODULE`] and the files of its compiled form.
pub(super) fn folder_with(source: &str, files: &[Vec<u8>]) -> Result<TempDir, LeanError> {
    let create = || -> std::io::Result<TempDir> {
        let folder = tempfile::tempdir()?;
        let path = |extension: &str| folder.path().join(format!("{MODULE}.{extension}"));
        std::fs::write(path("lean"), source)?;
        for (extension, bytes) in EXTENSIONS.iter().zip(files) {
            std::fs::write(path(extension), bytes)?;
        }
        Ok(folder)
    };
    create().map_err(|error| {
        LeanError::Missing(format!(
            "the folder for its file cannot be created: {error}"
        ))
    })
}

/// Reads the files of a process, up to the first that is missing or not a regular file. A process that runs a proof may have put anything in their place.
fn read_written(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, LeanError> {
    let mut files = Vec::new();
    for path in paths {
        // Does not follow a link, nor wait for a pipe.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let Ok(file) = opened else {
            break;
        };
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            break;
        }
        let mut bytes = Vec::new();
        let limit = MAX_WRITTEN_MIB << 20;
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        if read.is_err() || bytes.len() as u64 > limit {
            return Err(LeanError::Output(MAX_WRITTEN_MIB));
        }
        files.push(bytes);
    }
    Ok(files)
}
