//! A process with all that it starts: bounded in time, memory and output, and gone at the end.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::family::{self, family, pid};
use super::{Jail, LeanError, jail};

/// MiB of output that are read for one file.
const MAX_OUTPUT_MIB: u64 = 8;
/// Bytes from the end of the error stream that say why a process ended.
const MAX_COMPLAINT: usize = 4 << 10;
/// How often memory is looked at, and the deadline.
const TICK: Duration = Duration::from_millis(50);
/// How long the streams of a process that has ended are waited for: one of its children may hold them open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A piece of a stream.
enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

/// A running process; killed with all that it started when it is dropped.
pub(super) struct Process {
    child: Child,
    /// Ends it where this process cannot any more.
    guard: Option<Child>,
    pieces: Receiver<Piece>,
    memory_mib: u64,
    /// MiB of output that are read.
    output_mib: u64,
    /// A folder that it may write in, on a disk, and how many MiB.
    folder: Option<(PathBuf, u64)>,
    /// Folders that it may write in, in its jail's memory, and how many MiB each has.
    scratch: Option<(Vec<PathBuf>, u64)>,
    complaint: Vec<u8>,
}

impl Process {
    /// Starts `command`, which starts something in `jail`, in a process group of its own.
    pub(super) fn start(
        mut command: Command,
        jail: Jail,
        memory_mib: u64,
    ) -> Result<Self, LeanError> {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| LeanError::Missing(format!("{name}: {error}")))?;
        let guard = match jail {
            Jail::None => guard(child.id()),
            // A jail dies with this process.
            Jail::Bubblewrap => None,
        };
        // Few pieces wait: who writes more than is read stands still.
        let (sender, pieces) = sync_channel(16);
        if let Some(stream) = child.stdout.take() {
            read(stream, sender.clone(), Piece::Out);
        }
        if let Some(stream) = child.stderr.take() {
            read(stream, sender, Piece::Err);
        }
        Ok(Self {
            child,
            guard,
            pieces,
            memory_mib,
            output_mib: MAX_OUTPUT_MIB,
            folder: None,
            scratch: None,
            complaint: Vec::new(),
        })
    }

    /// Ends it, too, where it writes more than `mib` into `folder`.
    pub(super) fn watching(mut self, folder: &Path, mib: u64) -> Self {
        self.folder = Some((folder.to_owned(), mib));
        self
    }

    /// As [`Process::watching`], in a jail: it writes to memory, and hands out what `folder` holds behind its output.
    pub(super) fn handing_out(mut self, folder: &Path, mib: u64) -> Self {
        self.scratch = Some((jail::scratch(folder), mib));
        self.output_mib += mib;
        self
    }

    /// Reads everything up to the end: how it ended, its standard output, the last line of its error stream.
    pub(super) fn finish(
        mut self,
        deadline: Instant,
        seconds: u64,
    ) -> Result<(ExitStatus, Vec<u8>, String), LeanError> {
        let out = self.read(deadline, seconds)?;
        // It closes its streams a little before it ends.
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.weigh()?;
                return Ok((status, out, self.complaint()));
            }
            if Instant::now() >= deadline {
                return Err(LeanError::Timeout(seconds));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Reads standard output until the process closes its streams, or has ended.
    fn read(&mut self, deadline: Instant, seconds: u64) -> Result<Vec<u8>, LeanError> {
        let mut all = Vec::new();
        let mut ended = None;
        let mut looked = Instant::now();
        loop {
            match self.pieces.recv_timeout(TICK) {
                Ok(Piece::Out(piece)) => {
                    all.extend_from_slice(&piece);
                    if all.len() as u64 > self.output_mib << 20 {
                        return Err(LeanError::Output(self.output_mib));
                    }
                }
                Ok(Piece::Err(piece)) => self.complain(&piece),
                Err(RecvTimeoutError::Disconnected) => return Ok(all),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(LeanError::Timeout(seconds));
            }
            if ended.is_none() && matches!(self.child.try_wait(), Ok(Some(_))) {
                ended = Some(now);
            }
            if ended.is_some_and(|ended| now - ended > LAST_WORDS) {
                return Ok(all);
            }
            if now - looked > TICK {
                looked = now;
                self.weigh()?;
            }
        }
    }

    /// The last line that it wrote to its error stream.
    fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.complaint);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.unwrap_or("it said nothing of it").trim().to_owned()
    }

    /// An error where it has grown beyond its bound, or has written too much.
    fn weigh(&self) -> Result<(), LeanError> {
        let family = family(self.child.id());
        if family::memory_mib(&family) > self.memory_mib {
            return Err(LeanError::Memory(self.memory_mib));
        }
        if let Some((folders, mib)) = &self.scratch
            && family
                .iter()
                .any(|member| jail::littered(member.id, folders))
        {
            return Err(LeanError::Output(*mib));
        }
        match &self.folder {
            Some((folder, mib)) if written_mib(folder) > *mib => Err(LeanError::Output(*mib)),
            _ => Ok(()),
        }
    }

    fn complain(&mut self, piece: &[u8]) {
        self.complaint.extend_from_slice(piece);
        let surplus = self.complaint.len().saturating_sub(MAX_COMPLAINT);
        self.complaint.drain(..surplus);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        family::kill(self.child.id());
        if let Some(guard) = &mut self.guard {
            let _ = guard.wait();
        }
        let _ = self.child.wait();
    }
}

/// A shell in the group of the process `leader` that ends the group when its input ends: when this process does, however it does. Where there is no shell, what
/// a process that is killed has started goes on until it ends by itself.
fn guard(leader: u32) -> Option<Child> {
    Command::new("sh")
        .args(["-c", "read -r line; kill -s KILL 0"])
        .env_clear()
        .process_group(pid(leader)?.as_raw_nonzero().get())
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

/// MiB of the files in a folder and all folders in it; links are not followed.
fn written_mib(folder: &Path) -> u64 {
    let mut bytes = 0_u64;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            // An empty file takes a place, too.
            bytes += metadata.len().max(4096);
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    bytes >> 20
}
