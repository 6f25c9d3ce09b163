//! A process that stays and answers requests. It runs in a jail, communicates through its standard streams, has limited time for each answer, and ends with its user.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Jail;
use super::jail::View;
use super::process::{self, TimeLimit};
use super::process_tree::{self, process_tree};

/// How often the time of an answer is checked.
const TICK: Duration = Duration::from_millis(200);
/// Wall-clock time for an answer, in multiples of the processor time, for a machine that does other things too.
const CLOCK_FACTOR: u32 = 5;
/// A process that has closed its streams, or lost its input, may take this long to end.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// How a [`HelperProcess`] is started.
#[derive(Debug, Clone)]
pub struct HelperCommand {
    /// The program, an absolute path, and its arguments.
    pub words: Vec<String>,
    /// The jail that separates it from the rest of the machine. In bubblewrap it may write only in an empty `/tmp`.
    pub jail: Jail,
    /// Files and folders that a jail shows it in addition to its program.
    pub shown: Vec<PathBuf>,
    /// Files that a jail hides from it.
    pub secrets: Vec<PathBuf>,
    /// Its environment. `PATH` is passed on in addition.
    pub env: Vec<(String, OsString)>,
    /// The folder in which it is started.
    pub dir: PathBuf,
    /// The name in the log for the lines of its error stream; `None` logs none.
    pub log: Option<String>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Why it ended.
    pub cause: EndCause,
    /// The end of its error stream.
    pub stderr: String,
}

impl End {
    /// The last line of its error stream.
    #[must_use]
    pub fn last_line(&self) -> &str {
        process::last_line(&self.stderr)
    }
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// It exited by itself, with this code.
    Exited(i32),
    /// A signal ended it. It caused the signal, or another process sent it.
    Signal(i32),
    /// An answer was due, and its time was over.
    Late,
    /// It was no longer needed.
    Dismissed,
}

/// The end of a process, without a reason in itself.
const DISMISSED: End = End {
    cause: EndCause::Dismissed,
    stderr: String::new(),
};

/// A running process. It ends when this is dropped, and when this process ends in any way.
pub struct HelperProcess {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// Sends the time limits of answers to the supervisor. Dropping it dismisses the supervisor.
    due: Option<Sender<Option<TimeLimit>>>,
    supervisor: Option<JoinHandle<End>>,
}

impl HelperProcess {
    /// Starts a process.
    ///
    /// # Errors
    /// If the system cannot start it.
    pub fn start(launch: &HelperCommand) -> io::Result<Self> {
        let mut command = command(launch);
        let (jail, log) = (launch.jail, launch.log.clone());
        let (started, start) = sync_channel(1);
        let (due, dues) = channel();
        // A process set to end with its parent ends with the thread that started it. So that thread stays as long as the process.
        let supervisor = std::thread::Builder::new()
            .name("lean-helper".to_owned())
            .spawn(move || supervise(&mut command, jail, log, &started, &dues))?;
        let (stdin, stdout) = start
            .recv()
            .map_err(|_| io::Error::other("its thread ended"))??;
        Ok(Self {
            stdin: Some(stdin),
            stdout,
            due: Some(due),
            supervisor: Some(supervisor),
        })
    }

    /// From now on an answer is due within this processor time of the process tree; with `None`, no answer is due.
    pub fn allow(&self, processor: Option<Duration>) {
        self.set_limit(processor.map(|work| TimeLimit {
            work,
            clock: work.saturating_mul(CLOCK_FACTOR),
        }));
    }

    /// From now on an answer is due within this time by the clock, even if the process only waits, for example for another machine.
    pub fn allow_clock(&self, clock: Duration) {
        let work = Duration::MAX;
        self.set_limit(Some(TimeLimit { work, clock }));
    }

    fn set_limit(&self, limit: Option<TimeLimit>) {
        if let Some(due) = &self.due {
            // If the supervisor has ended, it has ended the process too. The reader of the answer then notices.
            let _ = due.send(limit);
        }
    }

    /// Whether it still runs, as far as is known.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.supervisor
            .as_ref()
            .is_some_and(|supervisor| !supervisor.is_finished())
    }

    /// Ends it if it has not ended by itself, and returns how it ended.
    #[must_use]
    pub fn end(mut self) -> End {
        self.dismiss().unwrap_or(DISMISSED)
    }

    fn dismiss(&mut self) -> Option<End> {
        self.stdin = None;
        self.due = None;
        self.supervisor.take()?.join().ok()
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        self.dismiss();
    }
}

impl Write for HelperProcess {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stdin = self.stdin.as_mut();
        stdin.ok_or(io::ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for HelperProcess {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stdout.read(bytes)
    }
}

fn command(launch: &HelperCommand) -> Command {
    let program = launch.words.iter().take(1).map(PathBuf::from);
    let view = View {
        shown: launch.shown.iter().cloned().chain(program).collect(),
        writable: None,
        secrets: &launch.secrets,
    };
    let mut command = launch.jail.command(&launch.words, &view);
    command.env_clear();
    // `bwrap` is found through it.
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.envs(launch.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&launch.dir).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

type Started = io::Result<(ChildStdin, ChildStdout)>;

/// Starts a process and waits until it has ended.
fn supervise(
    command: &mut Command,
    jail: Jail,
    log: Option<String>,
    started: &SyncSender<Started>,
    dues: &Receiver<Option<TimeLimit>>,
) -> End {
    let spawned = command.spawn().and_then(|mut child| {
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((child, stdin, stdout, stderr)),
            _ => Err(io::Error::other("it has no streams")),
        }
    });
    let (mut child, stdin, stdout, stderr) = match spawned {
        Ok(all) => all,
        Err(error) => {
            let _ = started.send(Err(error));
            return DISMISSED;
        }
    };
    let guard = process::guard(child.id(), jail);
    let stderr = std::thread::spawn(move || read_end(stderr, log.as_deref()));
    let _ = started.send(Ok((stdin, stdout)));
    let late = wait_until_overdue(&child, dues);
    let status = if late {
        None
    } else {
        wait_for_exit(&mut child)
    };
    process_tree::kill(child.id());
    let _ = child.wait();
    if let Some(mut guard) = guard {
        let _ = guard.wait();
    }
    let cause = match status {
        Some(status) => cause(status),
        None if late => EndCause::Late,
        None => EndCause::Dismissed,
    };
    End {
        cause,
        stderr: stderr.join().unwrap_or_default(),
    }
}

/// An answer that is due.
struct Due {
    since: Instant,
    /// Processor time before the answer was due. It is read at the first tick, since few answers take that long.
    used: Option<Duration>,
    limit: TimeLimit,
}

impl Due {
    fn is_over(&mut self, used: Duration) -> bool {
        let before = *self.used.get_or_insert(used);
        self.since.elapsed() >= self.limit.clock || used.saturating_sub(before) >= self.limit.work
    }
}

/// Waits until an answer is overdue, or the process is no longer needed. Returns whether an answer is overdue.
fn wait_until_overdue(child: &Child, dues: &Receiver<Option<TimeLimit>>) -> bool {
    let mut due: Option<Due> = None;
    loop {
        let received = match due {
            None => dues.recv().map_err(RecvTimeoutError::from),
            Some(_) => dues.recv_timeout(TICK),
        };
        match received {
            Ok(limit) => {
                due = limit.map(|limit| Due {
                    since: Instant::now(),
                    used: None,
                    limit,
                });
            }
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {
                let used = || process_tree::processor_time(&process_tree(child.id()));
                if due.as_mut().is_some_and(|due| due.is_over(used())) {
                    return true;
                }
            }
        }
    }
}

/// Waits a short time for the process to end by itself, and returns how it ended, if it did.
fn wait_for_exit(child: &mut Child) -> Option<ExitStatus> {
    let until = Instant::now() + EXIT_GRACE;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(TICK);
    }
}

fn cause(status: ExitStatus) -> EndCause {
    match (status.signal(), status.code()) {
        (Some(signal), _) => EndCause::Signal(signal),
        // A jail exits with such a code if a signal ended the program in it.
        (None, Some(code @ 129..=192)) => EndCause::Signal(code - 128),
        (None, code) => EndCause::Exited(code.unwrap_or(-1)),
    }
}

/// Reads a stream to its end, logs its lines under the name `log`, and returns its last bytes.
fn read_end(mut stream: ChildStderr, log: Option<&str>) -> String {
    let (mut end, mut buffer) = (Vec::new(), [0; 4 << 10]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        let piece = &buffer[..read];
        if let Some(name) = log {
            for line in String::from_utf8_lossy(piece).lines() {
                tracing::info!("{name}: {line}");
            }
        }
        process::append_to_end(&mut end, piece);
    }
    String::from_utf8_lossy(&end).into_owned()
}
