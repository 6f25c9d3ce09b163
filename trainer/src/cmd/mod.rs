//! One file per command: its `Args`, and `run`, which resolves them once and calls the library.
//!
//! Results go to stdout through [`print()`], everything else to stderr through [`trainer::stderr::say`] and the log.

use std::io::{self, IsTerminal as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use anyhow::{Context as _, bail};
use datasets::log_levels;
use engine::Leader;
use engine::backend::cuda::nvtx::Ranges;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt, registry};

use trainer::escape;
use trainer::launcher_env::{self, Role, World};
pub(crate) use trainer::report::count;
use trainer::stderr::{log_field, say};

pub(crate) mod args;
pub(crate) mod bench;
mod checkpoint_defaults;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod exit;
pub(crate) mod export;
pub(crate) mod fetch;
pub(crate) mod generate;
mod nvtx;
pub(crate) mod progress_bar;
mod prompts;
pub(crate) mod quickstart;
pub(crate) mod report;
mod shell;
pub(crate) mod study;
pub(crate) mod sweep;
pub(crate) mod train;
mod verifier_process;

/// Sets up logging: to stderr, warnings or the filter in `RAPID_LOG`; to NVIDIA's profiler, if one is attached, the engine's phases.
pub(crate) fn logging() -> anyhow::Result<()> {
    let text = std::env::var("RAPID_LOG").unwrap_or_default();
    let filter = log_levels::filter(&text, "warn", "engine=debug")
        .map_err(|reason| Usage(format!("RAPID_LOG={text}: {reason}")))?;
    let stderr = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .fmt_fields(debug_fn(log_field))
        // It would panic if stderr is closed.
        .log_internal_errors(false)
        .with_filter(filter);
    let profiler = Ranges::open();
    let ranges = profiler.as_ref().ok().copied().flatten();
    registry().with(stderr).with(ranges.map(nvtx::layer)).init();
    if let Err(reason) = profiler {
        tracing::warn!("{reason}");
    }
    Ok(())
}

/// Writes a result to stdout. On a terminal, control characters are shown and not obeyed.
fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let shown = out.is_terminal().then(|| escape::plain(text));
    let text = shown.as_deref().unwrap_or(text);
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Writes a result to stdout. A reader that has closed the pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match write_stdout(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Options that clap accepts and that cannot be used: exit code 2, as for options that clap refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Ctrl-C ended the work early, and the user was informed: exit code 130, as a shell reports it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// The exit code of a process that panics.
const PANICKED: i32 = 101;

/// Runs a command on rank 0, with the other ranks of a launcher if there are any. `threads` are those of the CPU backend.
pub(crate) fn on_ranks(
    threads: Option<usize>,
    work: impl FnOnce(Option<&Leader>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let leader = match launcher_env::join(threads)? {
        Role::Alone => return work(None),
        Role::Followed => return Ok(()),
        Role::Leads(leader) => leader,
    };
    lead(&leader, work)
}

/// Runs a command as rank 0, then ends the other ranks.
fn lead(
    leader: &Leader,
    work: impl FnOnce(Option<&Leader>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let worked = catch_unwind(AssertUnwindSafe(|| work(Some(leader))));
    let result = worked.unwrap_or_else(|panic| {
        // The other ranks wait for this one, and not every launcher ends them with it.
        leader.abort(PANICKED);
        resume_unwind(panic)
    });
    if let Err(lost) = leader.end() {
        let error = result.err().unwrap_or_else(|| lost.into());
        say(&format!("error: {}", paragraph(&error)));
        // Does not return where the launcher ends this process too.
        leader.abort(exit::code(&error).into());
        return Err(error);
    }
    result
}

/// Refuses to run a command several times at once, by a launcher.
pub(crate) fn check_alone() -> anyhow::Result<()> {
    match World::of(|name| std::env::var(name).ok()) {
        Ok(None) => Ok(()),
        Ok(Some(world)) => bail!(Usage(format!(
            "a launcher started {} processes, and only `rapid train`, `rapid eval` and `rapid generate` divide their work; start this command without it",
            world.size
        ))),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Runtime::new()
        .context("the asynchronous runtime could not be started")?
        .block_on(work)
}

/// An error and its causes as one paragraph. A cause is left out if its parent already repeats its words.
pub(crate) fn paragraph(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        let words = words.trim();
        if words.is_empty() || text.contains(words) {
            continue;
        }
        if !text.is_empty() {
            text.truncate(text.trim_end_matches(['.', ':']).len());
            text.push_str(": ");
        }
        text.push_str(words);
    }
    escape::line(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::time::Duration;

    use anyhow::{Context as _, anyhow};
    use engine::backend::ranks::ProcessGroup;
    use engine::{EngineError, Leader};

    use super::{PANICKED, lead, paragraph};

    /// Rank 0 of two, and the code with which it has ended both.
    #[derive(Default)]
    struct Ranks(AtomicI32);

    impl ProcessGroup for Ranks {
        fn rank(&self) -> usize {
            0
        }

        fn size(&self) -> usize {
            2
        }

        fn deadline(&self) -> Duration {
            Duration::from_secs(60)
        }

        fn all_to_all(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, EngineError> {
            Ok(vec![Vec::new(); parts.len()])
        }

        fn abort(&self, code: i32) {
            self.0.store(code, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_panic_on_rank_0_ends_all_ranks() {
        let ranks = Arc::new(Ranks::default());
        let leader = Leader::new(ranks.clone()).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| lead(&leader, |_| panic!("a bug"))));
        assert!(panicked.is_err());
        assert_eq!(ranks.0.load(Ordering::Relaxed), PANICKED);
    }

    #[test]
    fn an_error_is_one_paragraph_without_repetitions() {
        let error = Err::<(), _>(anyhow!("No such file\n  or directory"))
            .context("cannot read m.gguf: No such file\n  or directory")
            .context("cannot load the model.")
            .unwrap_err();
        let text = "cannot load the model: cannot read m.gguf: No such file or directory";
        assert_eq!(paragraph(&error), text);
        let hostile = anyhow!("busy\r\nok \u{1b}[31m\u{202e}red");
        assert_eq!(paragraph(&hostile), "busy ok ␛[31m⟨U+202E⟩red");
    }
}
