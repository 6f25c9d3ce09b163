//! `rapid study`: measurements of the gradient estimators.

mod estimator;

use clap::Subcommand;

/// Measure the bias and variance of the gradient estimators
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
