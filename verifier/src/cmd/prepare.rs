//! `rapid-verifier prepare`. Where the sandbox has yet to be made, every command that judges has this done by a process of its own: the compiler
//! leaves 1.6 GB of freed memory behind, which a service would keep for as long as it runs.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use sandboxes::SandboxError;
use verifier::ahead::{self, Step};
use verifier::config::{Config, SandboxKind};
use verifier::graders::{Graders, OpenSandbox};
use verifier::registry::Registry;
use verifier::service::DiskStores;
use verifier::setup;
use verifier_api::GraderState;

use super::{ConfigArgs, Usage, print, progress_bar_of, say};

/// Do ahead of time what first use would wait for: make the WebAssembly sandbox, which takes a minute or two, and run the solutions of data sets
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier prepare
  rapid-verifier prepare --dataset mbppplus --data-dir data
  rapid-verifier prepare --dataset tasks.jsonl --cache-dir /var/cache/rapid --sandbox-dir python-wasi

With --dataset, each task's own solution is run once, with all workers, and what it returns is kept in the cache folder, where serve and score find it. That takes
three minutes of processor time for mbppplus, more than half of it for one task. A run that is interrupted, or a second one beside it, makes nothing twice.")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Data set whose solutions are run: a name, or a .jsonl file of one's own; several separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    dataset: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config.resolve()?;
    if args.dataset.is_empty() {
        setup::wasm_folders(&config).make(&|line| {
            // Whoever asked may have gone away; the work is for the next one, too.
            let _ = writeln!(std::io::stdout(), "{line}");
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if !config.cache.disk {
        return Err(Usage(
            "what is prepared would not be kept: leave out --no-disk-cache and cache.disk = false"
                .to_owned(),
        )
        .into());
    }
    let mut lists = Vec::new();
    for name in &args.dataset {
        let dataset = datasets::open(name, config.data_dir.as_deref())?;
        let name = dataset.name.clone();
        let wanted = ahead::wanted(dataset);
        if wanted.is_empty() {
            say(&format!(
                "{name}: none of its tasks is judged by what its solution returns; there is nothing to prepare"
            ));
        } else {
            lists.push((name, wanted));
        }
    }
    if lists.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let shelf = setup::open_expected_values(&config);
    anyhow::ensure!(
        shelf.is_some(),
        "what is prepared would not be kept; name a folder that can be written to with --cache-dir"
    );
    let kept = DiskStores { disk: None, shelf };
    let (service, open) = setup::with_registry(&config, None, Registry::default(), kept)?;
    service.prepare(apart(&config, open));
    let state = service.graders().info();
    if let Some(code) = state.iter().find(|grader| grader.name == "code")
        && code.state != GraderState::Ready
    {
        let reason = code.reason.as_deref().unwrap_or_default();
        anyhow::bail!("no solution can be run: {reason}");
    }
    for (name, wanted) in lists {
        solutions(service.graders(), &name, &wanted, setup::workers(&config))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What has come of a data set's solutions so far.
#[derive(Default)]
struct Count {
    there: usize,
    made: usize,
    faulty: usize,
    /// Of those, solutions that another run may make.
    retryable: usize,
}

/// Runs the solutions of the data set `name`.
fn solutions(
    graders: &Graders,
    name: &str,
    wanted: &[ahead::Wanted],
    workers: usize,
) -> anyhow::Result<()> {
    let (started, total) = (Instant::now(), wanted.len());
    let bar = progress_bar_of("preparing", total);
    let plain = !std::io::stderr().is_terminal();
    let count = Mutex::new(Count::default());
    ahead::make(graders, wanted, workers, |place, step| {
        let mut count = count
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match step {
            Step::There => count.there += 1,
            Step::Made => count.made += 1,
            Step::Faulty { reason, retryable } => {
                count.faulty += 1;
                count.retryable += usize::from(retryable);
                bar.suspend(|| say(&format!("{}: {reason}", wanted[place].id)));
            }
        }
        bar.inc(1);
        let done = count.there + count.made + count.faulty;
        // A line at each tenth, and no more than one at each step.
        if plain && done * 10 / total > (done - 1) * 10 / total {
            say(&format!("{name}: {done} of {total} solutions"));
        }
    });
    bar.finish_and_clear();
    let Count {
        there,
        made,
        faulty,
        retryable,
    } = count.into_inner().unwrap_or_default();
    let without = match faulty {
        0 => String::new(),
        faulty => format!(", {faulty} without a result"),
    };
    print(&format!(
        "{name}: {made} of {total} solutions run in {:.1} s, {there} were known{without}\n",
        started.elapsed().as_secs_f64()
    ))?;
    anyhow::ensure!(
        retryable == 0,
        "{retryable} of the solutions of {name} could not be run this time; run the command again"
    );
    Ok(())
}

/// What does as `open` does, but for the making of a WebAssembly sandbox, which is left to a process of its own.
pub(crate) fn apart(config: &Config, open: OpenSandbox) -> OpenSandbox {
    if config.code.sandbox != SandboxKind::Wasm {
        return open;
    }
    let (place, cache) = (setup::wasm_folders(config), setup::cache_dir(config));
    Box::new(move || {
        if let Some(sandbox) = place.load()? {
            return Ok(sandbox);
        }
        if let Some(artifact) = &place.artifact_dir {
            make(artifact, &cache)?;
        }
        open()
    })
}

/// Has the sandbox made. Where no process can be started for it, that is left to this one.
fn make(artifact: &Path, cache: &Path) -> Result<(), SandboxError> {
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(["prepare", "--log", "error", "--sandbox-dir"])
            .arg(artifact)
            .arg("--cache-dir")
            .arg(cache)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    });
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!("no process could be started to prepare the sandbox in ({error})");
            return Ok(());
        }
    };
    if let Some(lines) = child.stdout.take() {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            tracing::info!("{line}");
        }
    }
    let output = child
        .wait_with_output()
        .map_err(|error| SandboxError::Unusable(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said
        .lines()
        .find_map(|line| line.strip_prefix("error: "))
        .map_or_else(
            || {
                format!(
                    "the process that prepared the Python sandbox ended with {}; that takes 3 GB of memory, once: see what `rapid-verifier prepare` says",
                    output.status
                )
            },
            str::to_owned,
        );
    Err(SandboxError::Unusable(reason))
}
