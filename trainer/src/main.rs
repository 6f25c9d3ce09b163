//! The `rapid` command line: one match that tells the whole program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cmd;

/// Trains small language models by reinforcement learning on rewards from a verifier's URL, on a CPU or a CUDA GPU.
#[derive(Debug, Parser)]
#[command(name = "rapid", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Begin with:
  rapid quickstart                          train a small model here, now, and see it improve

Every command has examples of its own: rapid train --help";

#[derive(Debug, Subcommand)]
enum Command {
    Quickstart(cmd::quickstart::Args),
    Fetch(cmd::fetch::Args),
    Train(cmd::train::Args),
    Eval(cmd::eval::Args),
    Generate(cmd::generate::Args),
    Report(cmd::report::Args),
    Doctor(cmd::doctor::Args),
    Bench(cmd::bench::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    cmd::logging();
    let result = match cli.command {
        Command::Quickstart(args) => cmd::quickstart::run(&args),
        Command::Fetch(args) => cmd::fetch::run(&args),
        Command::Train(args) => cmd::train::run(args),
        Command::Eval(args) => cmd::eval::run(&args),
        Command::Generate(args) => cmd::generate::run(&args),
        Command::Report(args) => cmd::report::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Bench(args) => cmd::bench::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", cmd::paragraph(&error));
            ExitCode::FAILURE
        }
    }
}
