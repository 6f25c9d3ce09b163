//! The process of one run.

use std::fs::File;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::process::Command;
use trainer::resident_memory;
use trainer::sweep::manifest::Machine;
use trainer::sweep::{Event, ManifestLine, PlannedRun};

use super::{Sweep, verifier};
use crate::cmd::paragraph;
use crate::cmd::verifier_process::{VerifierProcess, last_line};

/// How often the process's memory is read.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Makes or resumes a run that this process has claimed, and writes what happens into the manifest. Returns how the process ended, and why if it failed. `show` is
/// called with the updates done so far.
pub(super) async fn make(
    sweep: &Sweep<'_>,
    run: &PlannedRun,
    log: File,
    show: impl Fn(usize),
) -> anyhow::Result<(Event, String)> {
    let folder = sweep.folder;
    // The program's file may be another one than for the run before.
    let machine = Machine::here(&sweep.program)?;
    let line = |event| ManifestLine::now(&run.name, event, &machine);
    let begins = match folder.is_made(&run.name) {
        true => Event::Resume,
        false => Event::Start,
    };
    folder.record(&line(begins))?;
    let began = Instant::now();
    let mut peak = None;
    let look = |process: Option<u32>| {
        peak = peak.max(process.and_then(resident_memory::peak_of));
        show(updates_done(&folder.run(&run.name)));
    };
    let status = process(sweep, run, log, begins, look).await;
    let (event, reason) = match &status {
        Ok(status) if status.success() => (Event::Finish, None),
        Ok(status) if status.code() == Some(130) && sweep.stop.requested() => (Event::Stop, None),
        Ok(status) => {
            let last = last_line(&folder.log(&run.name), 0);
            let said = last.filter(|_| status.code().is_some());
            let said = said.map(|line| line.trim_start_matches("error: ").to_owned());
            (Event::Fail, said.or_else(|| Some(status.to_string())))
        }
        Err(error) => (Event::Fail, Some(paragraph(error))),
    };
    folder.record(&ManifestLine {
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
    sweep: &Sweep<'_>,
    run: &PlannedRun,
    log: File,
    begins: Event,
    mut look: impl FnMut(Option<u32>),
) -> anyhow::Result<ExitStatus> {
    let folder = sweep.folder.run(&run.name);
    let known = verifier(sweep.args, run).url;
    let started = match &known {
        Some(_) => None,
        None => {
            let log = sweep.folder.run(&format!("{}.verifier.log", run.name));
            let program = VerifierProcess::program()?;
            Some(VerifierProcess::start(&program, &log, &run.config.verifier, false, None).await?)
        }
    };
    let url = started.as_ref().map(VerifierProcess::url);
    let mut command = Command::new(&sweep.program);
    command.arg("train").arg("--until-stdin-ends");
    if begins == Event::Resume {
        command.arg("--resume").arg(folder);
    } else {
        command.arg("--recipe").arg(sweep.folder.recipe(&run.name));
        command.arg("--out").arg(folder);
    }
    if let Some(dir) = &sweep.args.data_dir {
        command.arg("--data-dir").arg(dir);
    }
    if let Some(url) = url.or(known.as_deref()) {
        command.arg("--verifier").arg(url);
    }
    command
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    command.process_group(0);
    let mut child = command
        .spawn()
        .with_context(|| format!("{} cannot be started", sweep.program.display()))?;
    let mut stdin = child.stdin.take();
    loop {
        tokio::select! {
            status = child.wait() => return Ok(status?),
            () = sweep.stop.wait(), if stdin.is_some() => drop(stdin.take()),
            () = tokio::time::sleep(POLL_INTERVAL) => look(child.id()),
        }
    }
}

/// Updates that the run in a folder has made.
fn updates_done(folder: &Path) -> usize {
    let text = std::fs::read(folder.join("metrics.jsonl")).unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count()
}
