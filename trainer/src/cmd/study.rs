//! `rapid study`: measurements of what the algorithms rest on.

mod estimator;

use clap::Subcommand;

/// Measure what the algorithms rest on
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid study estimator --out study")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Estimator(Box<estimator::Args>),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Estimator(args) => estimator::run(args),
    }
}
