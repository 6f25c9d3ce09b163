//! One file a command, and what several of them take.
//!
//! Results go to stdout through [`print()`], everything else to stderr through [`say`] and the log.

pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod exit;
pub(crate) mod fetch;
pub(crate) mod kernel;
pub(crate) mod prepare;
pub(crate) mod progress;
pub(crate) mod score;
pub(crate) mod serve;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use verifier::config::Config;
use verifier::grade::code::Extraction as CodeExtraction;
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
    #[arg(long, value_name = "WHERE", value_parser = named(Extraction::ALL.map(|one| (one, one.name(), one.summary()))))]
    math_extraction: Option<Extraction>,
    /// What makes two answers to a math problem the same
    #[arg(long, value_name = "POLICY", value_parser = named(Policy::ALL.map(|one| (one, one.name(), one.summary()))))]
    math_policy: Option<Policy>,
    /// How the program is found in a completion
    #[arg(long, value_enum, value_name = "RULE")]
    code_extraction: Option<CodeExtraction>,
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

/// Reads one of the values by its name; the help shows what is said of each.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    values: [(T, &'static str, &'static str); N],
) -> impl TypedValueParser<Value = T> {
    let shown = values.map(|(_, name, summary)| PossibleValue::new(name).help(summary));
    PossibleValuesParser::new(shown).map(move |given| {
        let found = values.into_iter().find(|(_, name, _)| *name == given);
        found.expect("the parser lets only these names through").0
    })
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
        if let Some(extraction) = self.code_extraction {
            config.code.extraction = extraction;
        }
        if let Some(dir) = &self.sandbox_dir {
            config.code.dir = Some(dir.clone());
        }
        if let Some(dir) = &self.cache_dir {
            config.cache.dir = Some(dir.clone());
        }
        config.cache.disk &= !self.no_disk_cache;
        // Proofs are checked by this program, in processes of their own.
        let own = std::env::current_exe().context("the program's own file is not known")?;
        config.lean.kernel = Some(own);
        Ok(config)
    }
}

/// A bar on stderr where that is a terminal, and nothing elsewhere.
pub(crate) fn progress_bar(length: usize) -> ProgressBar {
    progress_bar_of("judging", length)
}

/// The same, with another word for what is being done.
pub(crate) fn progress_bar_of(what: &'static str, length: usize) -> ProgressBar {
    let target = if io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length as u64), target)
        .with_style(style)
        .with_message(what)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        config: ConfigArgs,
    }

    /// Nor does any other command check one in its own process.
    #[test]
    fn the_service_checks_no_proof_in_its_own_process() {
        let config = Cli::parse_from(["rapid-verifier"]).config.resolve();
        let own = std::env::current_exe().unwrap();
        assert_eq!(config.unwrap().lean.kernel, Some(own));
    }
}
