//! A process with all processes that it starts, limited in time, memory and output, and killed at the end.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::process_tree::{self, Member, pid, process_tree};
use super::{Jail, LeanError, jail};

/// MiB that a process may write into its folder. In a jail, that folder lies in memory and has no more room.
pub(super) const MAX_WRITTEN_MIB: u64 = 64;
/// MiB of output that are read for one file.
const MAX_OUTPUT_MIB: u64 = 8;
/// Bytes from the end of the error stream that are stored. They state why a process ended.
const MAX_STDERR: usize = 4 << 10;
/// Processes that may run at a time. Lean is one, with a few for its jail. Each takes memory that is not counted, and many could take much between two checks.
const MAX_PROCESSES: usize = 64;
/// Files that they may have open at a time. Lean closes a module once it is mapped.
const MAX_FILES: usize = 4_096;
/// How often the limits are checked.
const TICK: Duration = Duration::from_millis(50);
/// How long more output is awaited after the process has ended. One of its children may keep the streams open.
const STREAMS_DELAY: Duration = Duration::from_secs(1);

/// How long a process may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeLimit {
    /// It is ended once it has taken this long both by the clock and in processor time. So other work of the machine takes nothing from it.
    pub(super) work: Duration,
    /// It is ended after this time by the clock in any case.
    pub(super) clock: Duration,
}

/// A piece of a stream.
enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

/// A running process. It is killed with its descendants when this is dropped.
pub(super) struct Process {
    child: Child,
    started: Instant,
    /// Ends it if this process dies first.
    guard: Option<Child>,
    pieces: Receiver<Piece>,
    memory_mib: u64,
    /// MiB of output that are read.
    output_mib: u64,
    /// A folder on a disk that it may write in.
    folder: Option<PathBuf>,
    /// Folders in its jail's memory that it may write in.
    scratch: Vec<PathBuf>,
    /// The end of its error stream.
    stderr: Vec<u8>,
}

impl Process {
    /// Starts `command` in a process group of its own. The command starts a program in `jail`. It is ended if it writes more than [`MAX_WRITTEN_MIB`] into the
    /// `writable` folder. In a jail it writes to memory, and appends the files in the folder to its output.
    pub(super) fn start(
        mut command: Command,
        jail: Jail,
        memory_mib: u64,
        writable: Option<&Path>,
    ) -> Result<Self, LeanError> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|error| LeanError::Missing(format!("{name}: {error}")))?;
        let guard = guard(child.id(), jail);
        let (folder, scratch) = match (jail, writable) {
            (Jail::None, folder) => (folder.map(Path::to_owned), Vec::new()),
            (Jail::Bubblewrap, Some(folder)) => (None, jail::scratch(folder)),
            (Jail::Bubblewrap, None) => (None, Vec::new()),
        };
        let output_mib = match scratch.is_empty() {
            true => MAX_OUTPUT_MIB,
            false => MAX_OUTPUT_MIB + MAX_WRITTEN_MIB,
        };
        // The queue of pieces is short, so that a process has to wait if it writes faster than this one reads.
        let (sender, pieces) = sync_channel(16);
        if let Some(stream) = child.stdout.take() {
            read(stream, sender.clone(), Piece::Out);
        }
        if let Some(stream) = child.stderr.take() {
            read(stream, sender, Piece::Err);
        }
        Ok(Self {
            child,
            started,
            guard,
            pieces,
            memory_mib,
            output_mib,
            folder,
            scratch,
            stderr: Vec::new(),
        })
    }

    /// Reads everything up to the end. Returns how it ended, its standard output, and the last line of its error stream.
    pub(super) fn finish(
        mut self,
        time: TimeLimit,
    ) -> Result<(ExitStatus, Vec<u8>, String), LeanError> {
        let out = self.read(time)?;
        // It closes its streams a little before it ends.
        let mut last_check = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.check_use(&process_tree(self.child.id()))?;
                let stderr = String::from_utf8_lossy(&self.stderr);
                return Ok((status, out, last_line(&stderr).to_owned()));
            }
            if last_check.elapsed() > TICK {
                last_check = Instant::now();
                self.check_limits(time)?;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Reads standard output until the process closes its streams, or has ended.
    fn read(&mut self, time: TimeLimit) -> Result<Vec<u8>, LeanError> {
        let mut all = Vec::new();
        let mut ended = None;
        let mut last_check = Instant::now();
        loop {
            let piece = self.pieces.recv_timeout(TICK);
            let arrived = piece.is_ok();
            match piece {
                Ok(Piece::Out(piece)) => {
                    all.extend_from_slice(&piece);
                    if all.len() as u64 > self.output_mib << 20 {
                        return Err(LeanError::Output(self.output_mib));
                    }
                }
                Ok(Piece::Err(piece)) => append_to_end(&mut self.stderr, &piece),
                Err(RecvTimeoutError::Disconnected) => return Ok(all),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            let has_ended = ended.is_some() || matches!(self.child.try_wait(), Ok(Some(_)));
            if has_ended && (ended.is_none() || arrived) {
                ended = Some(now);
            }
            if ended.is_some_and(|ended| now - ended > STREAMS_DELAY) {
                return Ok(all);
            }
            if now - last_check > TICK {
                last_check = now;
                self.check_limits(time)?;
            }
        }
    }

    /// Returns an error if it exceeds a limit.
    fn check_limits(&self, time: TimeLimit) -> Result<(), LeanError> {
        let process_tree = process_tree(self.child.id());
        process_tree::set_oom_score(&process_tree);
        self.check_use(&process_tree)?;
        self.check_time(&process_tree, time)
    }

    /// Returns an error if it has taken more time than it may.
    fn check_time(&self, process_tree: &[Member], time: TimeLimit) -> Result<(), LeanError> {
        let taken = self.started.elapsed();
        let processor = process_tree::processor_time(process_tree);
        if taken.min(processor) >= time.work {
            return Err(LeanError::ProcessorTime(time.work.as_secs()));
        }
        if taken < time.clock {
            return Ok(());
        }
        let seconds = time.clock.as_secs();
        // A process with a processor for most of the time was hardly kept from its work.
        Err(if processor >= time.clock / 2 {
            LeanError::ProcessorTime(seconds)
        } else {
            LeanError::Timeout(seconds)
        })
    }

    /// Returns an error if it uses more memory than it may, or has written too much.
    fn check_use(&self, process_tree: &[Member]) -> Result<(), LeanError> {
        if process_tree.len() > MAX_PROCESSES {
            return Err(LeanError::TooMany(MAX_PROCESSES, "processes"));
        }
        let files_mib = process_tree::anonymous_files_mib(process_tree, MAX_FILES)?;
        if process_tree::memory_mib(process_tree) + files_mib > self.memory_mib {
            return Err(LeanError::Memory(self.memory_mib));
        }
        let has_too_many_files =
            |member: &Member| jail::has_too_many_files(member.thread, &self.scratch);
        let written_mib = self.folder.as_deref().map_or(0, written_mib);
        if process_tree.iter().any(has_too_many_files) || written_mib > MAX_WRITTEN_MIB {
            return Err(LeanError::Output(MAX_WRITTEN_MIB));
        }
        Ok(())
    }
}

/// Adds a piece to the stored end of an error stream.
pub(super) fn append_to_end(stderr: &mut Vec<u8>, piece: &[u8]) {
    stderr.extend_from_slice(piece);
    let surplus = stderr.len().saturating_sub(MAX_STDERR);
    stderr.drain(..surplus);
}

/// The last line of an error stream.
pub(super) fn last_line(stderr: &str) -> &str {
    let last = stderr.trim().lines().next_back();
    last.unwrap_or("it printed no reason").trim()
}

impl Drop for Process {
    fn drop(&mut self) {
        process_tree::kill(self.child.id());
        if let Some(guard) = &mut self.guard {
            let _ = guard.wait();
        }
        let _ = self.child.wait();
    }
}

/// Starts a shell in the group of the process `leader`, unless that is in bubblewrap, which dies with this process. The shell kills the group when its input ends, which
/// happens when this process ends in any way. Without a shell, the process tree of `leader` continues after this process is killed, until it ends by itself.
pub(super) fn guard(leader: u32, jail: Jail) -> Option<Child> {
    let group = pid(leader).filter(|_| jail == Jail::None)?;
    Command::new("sh")
        .args(["-c", "read -r line; kill -s KILL 0"])
        .env_clear()
        .process_group(group.as_raw_nonzero().get())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

fn read(
    mut stream: impl Read + Send + 'static,
    sender: SyncSender<Piece>,
    piece: fn(Vec<u8>) -> Piece,
) {
    std::thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            if sender.send(piece(buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
}

/// MiB of the files in a folder and all its subfolders; links are not followed.
fn written_mib(folder: &Path) -> u64 {
    let mut bytes = 0_u64;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            // An empty file takes space, too.
            bytes += metadata.len().max(4096);
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    bytes >> 20
}
