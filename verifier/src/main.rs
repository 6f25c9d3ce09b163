//! Command line of `rapid-verifier`.

#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cmd;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use datasets::log_levels;

/// Judges whether completions are correct: mathematics by comparison, Python in a sandbox, proofs by Lean.
#[derive(Debug, Parser)]
#[command(
    name = "rapid-verifier",
    version,
    propagate_version = true,
    after_help = EXAMPLES
)]
struct Cli {
    /// What is logged to stderr: error, warn, info, debug or trace, or a filter such as verifier=debug
    #[arg(
        long,
        global = true,
        env = "RAPID_LOG",
        default_value = DEFAULT_LOG
    )]
    log: String,
    #[command(subcommand)]
    command: Command,
}

const DEFAULT_LOG: &str = "warn,verifier=info,rapid_verifier=info,sandboxes=info";

const EXAMPLES: &str = "\
Begin with:
  rapid-verifier fetch        the sandbox's Python, once
  rapid-verifier serve        listen on 127.0.0.1:8700

Every command has examples of its own: rapid-verifier serve --help

Exit codes: 0, success; 1, failure; 2, the command line or a setting has to be changed; 130, ended by a second Ctrl-C";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(cmd::serve::Args),
    Score(cmd::score::Args),
    Bench(cmd::bench::Args),
    Fetch(cmd::fetch::Args),
    Prepare(cmd::prepare::Args),
    Doctor(cmd::doctor::Args),
    #[command(hide = true)]
    Kernel(cmd::kernel::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = log_to_stderr(&cli.log) {
        cmd::say(&format!("error: --log {}: {error}", cli.log));
        return ExitCode::from(2);
    }
    let done = match cli.command {
        Command::Serve(args) => cmd::serve::run(&args),
        Command::Score(args) => cmd::score::run(&args),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Fetch(args) => cmd::fetch::run(&args),
        Command::Prepare(args) => cmd::prepare::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Kernel(args) => cmd::kernel::run(args),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            cmd::say(&format!("error: {error:#}"));
            ExitCode::from(cmd::exit::code(&error))
        }
    }
}

fn log_to_stderr(filter: &str) -> Result<(), String> {
    let filter = log_levels::filter(filter, DEFAULT_LOG, "verifier=debug")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        // Without this it panics if stderr is closed.
        .log_internal_errors(false)
        .init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_command_shows_examples() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            let help = command.clone().render_long_help().to_string();
            assert!(
                help.contains("Examples:") && help.contains("rapid-verifier"),
                "{}",
                command.get_name()
            );
        }
    }
}
