//! The options of every command that judges.

use std::path::PathBuf;

use anyhow::Context as _;
use verifier::config::Config;
use verifier::grade::code::Extraction as CodeExtraction;
use verifier::grade::math::{Extraction, Policy};

use super::Usage;

/// The options that determine the configuration, for every command that judges.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file, TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder of data sets, with mbppplus/train.jsonl, math/eval.jsonl and so on
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Number of worker threads for programs and proofs [default: the number of cores]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Where the answer to a math problem is looked for in a completion [default: the configuration's, else boxed]
    #[arg(long, value_enum, value_name = "WHERE")]
    math_extraction: Option<Extraction>,
    /// When two answers to a math problem are the same [default: the configuration's, else standard]
    #[arg(long, value_enum, value_name = "POLICY")]
    math_policy: Option<Policy>,
    /// How the program is extracted from a completion [default: the configuration's, else program]
    #[arg(long, value_enum, value_name = "RULE")]
    code_extraction: Option<CodeExtraction>,
    /// Folder of the sandbox's interpreter [default: the one that `rapid-verifier fetch` writes]
    #[arg(long, value_name = "DIR")]
    sandbox_dir: Option<PathBuf>,
    /// Folder for verdicts and the warmed interpreter [default: verifier/ in the cache folder]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Store verdicts and expected values in memory only
    #[arg(long)]
    no_disk_cache: bool,
    /// Set a key of the configuration, which overrides the file: limits.items=100
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArgs {
    /// The configuration: the file, then `--set`, then the flags.
    pub(crate) fn resolve(&self) -> anyhow::Result<Config> {
        self.resolve_with(None)
    }

    /// Like [`ConfigArgs::resolve`], with one more flag in the form of `--set`.
    pub(crate) fn resolve_with(&self, flag: Option<String>) -> anyhow::Result<Config> {
        let mut sets = self.set.clone();
        sets.extend(self.workers.map(|workers| format!("workers={workers}")));
        sets.extend(flag);
        let mut config = Config::load(self.config.as_deref(), &sets)?;
        if let Some(dir) = &self.data_dir {
            if !dir.is_dir() {
                anyhow::bail!(Usage(format!(
                    "--data-dir {} is not a folder; give the one that has mbppplus/, math/ and so on",
                    dir.display()
                )));
            }
            config.data_dir = Some(dir.clone());
        }
        let (math, code) = (&mut config.math, &mut config.code);
        math.extraction = self.math_extraction.unwrap_or(math.extraction);
        math.policy = self.math_policy.unwrap_or(math.policy);
        code.extraction = self.code_extraction.unwrap_or(code.extraction);
        config.code.dir = self.sandbox_dir.clone().or(config.code.dir);
        config.cache.dir = self.cache_dir.clone().or(config.cache.dir);
        config.cache.disk &= !self.no_disk_cache;
        // This program checks proofs, in separate processes.
        let program = std::env::current_exe().context("the program's own file is not known")?;
        config.lean.kernel = Some(program);
        Ok(config)
    }
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

    /// All commands resolve their configuration in this way.
    #[test]
    fn the_service_checks_no_proof_in_its_own_process() {
        let config = Cli::parse_from(["rapid-verifier"]).config.resolve();
        let program = std::env::current_exe().unwrap();
        assert_eq!(config.unwrap().lean.kernel, Some(program));
    }
}
