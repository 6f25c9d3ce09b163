//! The `rapid` command line. The match in `main` shows the whole program.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use trainer::stderr::say;

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

Every command has examples of its own: rapid train --help

RAPID_LOG sets what is logged to stderr: error, warn (the default), info, debug or trace, or a filter such as engine=debug.

Exit codes: 0, success; 1, failure; 2, the command line or a setting has to be changed; 130, interrupted";

#[derive(Debug, Subcommand)]
enum Command {
    Quickstart(cmd::quickstart::Args),
    Fetch(cmd::fetch::Args),
    Train(cmd::train::Args),
    Eval(cmd::eval::Args),
    Generate(cmd::generate::Args),
    Export(cmd::export::Args),
    Report(cmd::report::Args),
    Study(cmd::study::Args),
    Sweep(cmd::sweep::Args),
    Doctor(cmd::doctor::Args),
    Bench(cmd::bench::Args),
}

/// Reads `-1` after an option as the option's value and not as another option, so that the error states which numbers the option takes.
fn with_numbers_below_zero(command: clap::Command) -> clap::Command {
    let options = command.mut_args(|arg| {
        let takes_value = !arg.is_positional() && arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_value)
    });
    options.mut_subcommands(with_numbers_below_zero)
}

fn main() -> ExitCode {
    let command_line = with_numbers_below_zero(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&command_line).unwrap_or_else(|error| error.exit());
    let divides = matches!(
        cli.command,
        Command::Train(_) | Command::Eval(_) | Command::Generate(_)
    );
    let logs = cmd::logging();
    let alone = logs.and_then(|()| if divides { Ok(()) } else { cmd::check_alone() });
    let result = alone.and_then(|()| match cli.command {
        Command::Quickstart(args) => cmd::quickstart::run(&args),
        Command::Fetch(args) => cmd::fetch::run(&args),
        Command::Train(args) => cmd::train::run(&args),
        Command::Eval(args) => cmd::eval::run(&args),
        Command::Generate(args) => cmd::generate::run(&args),
        Command::Export(args) => cmd::export::run(&args),
        Command::Report(args) => cmd::report::run(&args),
        Command::Study(args) => cmd::study::run(&args),
        Command::Sweep(args) => cmd::sweep::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Bench(args) => cmd::bench::run(&args),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is::<cmd::Interrupted>() {
                say(&format!("error: {}", cmd::paragraph(&error)));
            }
            ExitCode::from(cmd::exit::code(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_options_of_all_commands_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_reads_as_written() {
        let mut program = Cli::command().term_width(100);
        let mut texts = vec![program.render_long_help().to_string()];
        program.build();
        for command in program
            .get_subcommands_mut()
            .filter(|command| command.get_name() != "help")
        {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:\n  rapid"), "{help}");
            texts.push(help);
        }
        insta::assert_snapshot!(texts.join(&format!("\n{}\n\n", "-".repeat(80))));
    }
}
