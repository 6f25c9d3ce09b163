//! The process of one run.

use std::fs::File;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::process::Command;
use trainer::interrupt::StopSignal;
use trainer::sweep::manifest::Machine;
use trainer::sweep::{Event, ManifestLine, PlannedRun, SweepFolder};

use crate::cmd::paragraph;
use crate::cmd::verifier_process::VerifierProcess;

/// How often the process's memory is read.
const LOOK: Duration = Duration::from_millis(500);

/// A run, and what its process needs.
pub(super) struct Child<'a> {
    pub(super) folder: &'a SweepFolder,
    pub(super) run: &'a PlannedRun,
    pub(super) program: &'a Path,
    pub(super) machine: Machine,
    pub(super) data_dir: Option<&'a Path>,
    /// The verifier, if there is one already; else one is started.
    pub(super) verifier: Option<String>,
}

impl Child<'_> {
    /// Makes or resumes a run that this process has claimed, and writes what happens into the manifest: returns how the process ended, and why if it failed. `show` is
    /// called with the updates done so far.
    pub(super) async fn make(
        &self,
        log: File,
        stop: &StopSignal,
        show: impl Fn(usize),
    ) -> anyhow::Result<(Event, String)> {
        let line = |event| ManifestLine::now(&self.run.name, event, &self.machine);
        let begins = match self.folder.is_made(&self.run.name) {
            true => Event::Resume,
            false => Event::Start,
        };
        self.folder.record(&line(begins))?;
        let began = Instant::now();
        let mut peak = None;
        let look = |process| {
            peak = peak.max(peak_memory(process));
            show(self.updates_done());
        };
        let status = self.process(log, begins, stop, look).await;
        let (event, reason) = match &status {
            Ok(status) if status.success() => (Event::Finish, None),
            Ok(status) if status.code() == Some(130) && stop.requested() => (Event::Stop, None),
            Ok(status) => {
                let last = last_line(&self.folder.log(&self.run.name));
                let said = last.filter(|_| status.code().is_some());
                (
                    Event::Fail,
                    Some(said.unwrap_or_else(|| status.to_string())),
                )
            }
            Err(error) => (Event::Fail, Some(paragraph(error))),
        };
        self.folder.record(&ManifestLine {
            seconds: Some(began.elapsed().as_secs_f64()),
            peak_memory: peak,
            reason: reason.clone(),
            ..line(event)
        })?;
        Ok((event, reason.unwrap_or_default()))
    }

    /// Runs the process to its end. `look` is called with its id from time to time.
    ///
    /// It gets the log, which is the run's lock, as its stdout and stderr, so that the lock is held until both have ended. It gets a pipe as its stdin, and stops at a safe
    /// point when that ends: on request, or when this process is killed.
    async fn process(
        &self,
        log: File,
        begins: Event,
        stop: &StopSignal,
        mut look: impl FnMut(Option<u32>),
    ) -> anyhow::Result<ExitStatus> {
        let (name, folder) = (&self.run.name, self.folder.run(&self.run.name));
        let verifier = match &self.verifier {
            Some(_) => None,
            None => {
                let (verifier, log) = (VerifierProcess::program()?, self.folder.verifier_log(name));
                Some(VerifierProcess::start(&verifier, &log, &self.run.config.verifier).await?)
            }
        };
        let url = verifier.as_ref().map(VerifierProcess::url);
        let mut command = Command::new(self.program);
        command.arg("train").arg("--until-stdin-ends");
        if begins == Event::Resume {
            command.arg("--resume").arg(folder);
        } else {
            command.arg("--recipe").arg(self.folder.recipe(name));
            command.arg("--out").arg(folder);
        }
        if let Some(dir) = self.data_dir {
            command.arg("--data-dir").arg(dir);
        }
        if let Some(url) = url.or(self.verifier.as_deref()) {
            command.arg("--verifier").arg(url);
        }
        command
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", self.program.display()))?;
        let mut stdin = child.stdin.take();
        loop {
            tokio::select! {
                status = child.wait() => return Ok(status?),
                () = stop.wait(), if stdin.is_some() => drop(stdin.take()),
                () = tokio::time::sleep(LOOK) => look(child.id()),
            }
        }
    }

    /// Updates that the run has made.
    fn updates_done(&self) -> usize {
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
fn peak_memory(process: Option<u32>) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process?)).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
