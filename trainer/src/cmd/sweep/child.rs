//! The process of one run.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;
use trainer::interrupt::StopSignal;
use trainer::sweep::manifest::Machine;
use trainer::sweep::{Event, ManifestLine, PlannedRun, RunState, SweepFolder};

use crate::cmd::verifier_process::VerifierProcess;

/// How often the process's memory is read.
const LOOK: Duration = Duration::from_millis(500);

/// How a process ended.
pub(super) enum Ended {
    /// After the run's last update.
    Finished,
    /// On request; the run can be resumed.
    Stopped,
    /// Since its weights no longer computed finite numbers: the last line of its log.
    Diverged(String),
    /// With another error, or killed: the last line of its log.
    Failed(String),
}

/// A run, and what its process needs.
#[derive(Clone, Copy)]
pub(super) struct Child<'a> {
    pub(super) folder: &'a SweepFolder,
    pub(super) run: &'a PlannedRun,
    pub(super) machine: &'a Machine,
    pub(super) data_dir: Option<&'a Path>,
    /// The verifier, if there is one already; else one is started.
    pub(super) verifier: Option<&'a str>,
}

impl Child<'_> {
    /// Makes or resumes a run that this process has claimed, and writes what happens into the manifest. `show` is called with the seconds so far and the updates done.
    ///
    /// The process gets the log, which is the run's lock, as its stdout and stderr, so that the lock is held until both have ended. It gets a pipe as its stdin, and
    /// stops at a safe point when that ends: on request, or when this process is killed.
    pub(super) async fn make(
        self,
        log: File,
        state: RunState,
        program: &Path,
        stop: &StopSignal,
        show: impl Fn(f64, usize),
    ) -> anyhow::Result<Ended> {
        let event = if state == RunState::Begun {
            Event::Resume
        } else {
            Event::Start
        };
        let mut command = Command::new(program);
        command.arg("train").arg("--until-stdin-ends");
        if event == Event::Resume {
            command.arg("--resume").arg(self.folder.run(&self.run.name));
        } else {
            command
                .arg("--recipe")
                .arg(self.folder.recipe(&self.run.name));
            command.arg("--out").arg(self.folder.run(&self.run.name));
        }
        if let Some(dir) = self.data_dir {
            command.arg("--data-dir").arg(dir);
        }
        let verifier = match self.start_verifier().await {
            Ok(verifier) => verifier,
            Err(error) => {
                let line = ManifestLine::now(&self.run.name, Event::Fail, self.machine);
                return self.fail(line, crate::cmd::paragraph(&error));
            }
        };
        let url = verifier.as_ref().map(VerifierProcess::url);
        if let Some(url) = url.or(self.verifier) {
            command.arg("--verifier").arg(url);
        }
        command
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        #[cfg(unix)]
        command.process_group(0);
        self.folder
            .record(&ManifestLine::now(&self.run.name, event, self.machine))?;
        let began = Instant::now();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let line = ManifestLine::now(&self.run.name, Event::Fail, self.machine);
                return self.fail(
                    line,
                    format!("{} cannot be started: {error}", program.display()),
                );
            }
        };
        let id = child.id();
        let mut stdin = child.stdin.take();
        let mut peak = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                () = stop.wait(), if stdin.is_some() => drop(stdin.take()),
                () = tokio::time::sleep(LOOK) => {
                    peak = peak.max(peak_memory(id));
                    show(began.elapsed().as_secs_f64(), self.updates_done());
                }
            }
        };
        let measured = |event| ManifestLine {
            seconds: Some(began.elapsed().as_secs_f64()),
            peak_memory: peak,
            ..ManifestLine::now(&self.run.name, event, self.machine)
        };
        match status.code() {
            Some(0) => {
                self.folder.record(&measured(Event::Finish))?;
                Ok(Ended::Finished)
            }
            Some(130) if stop.requested() => {
                self.folder.record(&measured(Event::Stop))?;
                Ok(Ended::Stopped)
            }
            code => {
                let reason = last_line(&self.folder.log(&self.run.name))
                    .filter(|_| code.is_some())
                    .unwrap_or_else(|| status.to_string());
                self.fail(measured(Event::Fail), reason)
            }
        }
    }

    /// A verifier for the run, unless there is one already.
    async fn start_verifier(self) -> anyhow::Result<Option<VerifierProcess>> {
        if self.verifier.is_some() {
            return Ok(None);
        }
        let recipe = &self.run.config.verifier;
        let program = VerifierProcess::program()?;
        let log = self.folder.verifier_log(&self.run.name);
        Ok(Some(VerifierProcess::start(&program, &log, recipe).await?))
    }

    fn fail(self, line: ManifestLine, reason: String) -> anyhow::Result<Ended> {
        let line = ManifestLine {
            reason: Some(reason.clone()),
            ..line
        };
        self.folder.record(&line)?;
        Ok(if line.is_divergence() {
            Ended::Diverged(reason)
        } else {
            Ended::Failed(reason)
        })
    }

    /// Updates that the run has made.
    fn updates_done(self) -> usize {
        let metrics = self.folder.run(&self.run.name).join("metrics.jsonl");
        let text = std::fs::read(metrics).unwrap_or_default();
        text.iter().filter(|byte| **byte == b'\n').count()
    }
}

/// The last line of a log that is not empty.
fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim_start_matches("error: ").to_owned())
}

/// The largest resident memory of a process so far, in bytes; `None` where the system does not tell.
fn peak_memory(id: Option<u32>) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", id?)).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
