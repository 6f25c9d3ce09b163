//! One file a command, and what several of them take.
//!
//! Results go to stdout through [`print()`], everything else to stderr through [`say`] and the log.

pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod exit;
pub(crate) mod fetch;
pub(crate) mod prepare;
pub(crate) mod score;
pub(crate) mod serve;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use verifier::config::Config;
use verifier::grade::math::{Extraction, Policy};

/// Writes a result to stdout. A reader that has gone (`| head`) is no error of ours.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a line to stderr, if anybody still reads it.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// A fault in what was asked for: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// What makes a configuration, for every command that judges.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file, TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder that holds mbppplus/train.jsonl, math/eval.jsonl, …
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Worker threads for programs [default: as many as cores]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Where in a completion the answer to a math problem may stand
    #[arg(long, value_enum, value_name = "WHERE")]
    math_extraction: Option<Extraction>,
    /// What makes two answers to a math problem the same
    #[arg(long, value_enum, value_name = "POLICY")]
    math_policy: Option<Policy>,
    /// Folder of the sandbox's artifact [default: where `rapid-verifier fetch` puts it]
    #[arg(long, value_name = "DIR")]
    sandbox_dir: Option<PathBuf>,
    /// Folder for verdicts and the warmed interpreter [default: verifier/ in the cache folder]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Keep verdicts in memory only
    #[arg(long)]
    no_disk_cache: bool,
    /// Any key of the configuration, over the file's: limits.items=100
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArgs {
    /// The file, then `--set`, then the flags.
    pub(crate) fn resolve(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(self.config.as_deref(), &self.set)?;
        if let Some(dir) = &self.data_dir {
            if !dir.is_dir() {
                return Err(Usage(format!(
                    "--data-dir {} is not a folder; it is the one that holds mbppplus/, math/, …",
                    dir.display()
                ))
                .into());
            }
            config.data_dir = Some(dir.clone());
        }
        if let Some(workers) = self.workers {
            config.workers = workers;
        }
        if let Some(extraction) = self.math_extraction {
            config.math.extraction = extraction;
        }
        if let Some(policy) = self.math_policy {
            config.math.policy = policy;
        }
        if let Some(dir) = &self.sandbox_dir {
            config.code.dir = Some(dir.clone());
        }
        if let Some(dir) = &self.cache_dir {
            config.cache.dir = Some(dir.clone());
        }
        config.cache.disk &= !self.no_disk_cache;
        Ok(config)
    }
}

/// Fails where [`write_whole`] would: asked before the work whose result it is to write.
pub(crate) fn check_place(path: &Path) -> Result<(), Usage> {
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(Usage(format!(
            "{} is there already and is no regular file, so it cannot be replaced; name another file",
            path.display()
        )));
    }
    let aside = aside(path);
    std::fs::write(&aside, "")
        .and_then(|()| std::fs::remove_file(&aside))
        .map_err(|error| Usage(format!("{}: {error}", unwritten(path))))
}

/// Writes `text` aside and renames it to `path`.
pub(crate) fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let aside = aside(path);
    std::fs::write(&aside, text)
        .and_then(|()| std::fs::rename(&aside, path))
        .with_context(|| unwritten(path))
}

fn aside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    aside.into()
}

fn unwritten(path: &Path) -> String {
    format!(
        "{} cannot be written; check that its folder exists and the disk has room",
        path.display()
    )
}

/// A bar on stderr where that is a terminal, and nothing elsewhere.
pub(crate) fn progress_bar(length: usize) -> ProgressBar {
    let target = if io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length as u64), target)
        .with_style(style)
        .with_message("judging")
}
