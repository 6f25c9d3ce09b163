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
        Command::Train(args) => cmd::train::run(args),
        Command::Eval(args) => cmd::eval::run(&args),
        Command::Generate(args) => cmd::generate::run(&args),
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
    use clap::{CommandFactory as _, Parser as _};

    use super::{Cli, with_numbers_below_zero};

    #[test]
    fn the_options_of_all_commands_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_help_with_examples() {
        for command in Cli::command().get_subcommands_mut() {
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(
                help.contains("Examples:") && help.contains(&format!("rapid {name}")),
                "{name}: {help}"
            );
        }
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
            texts.push(command.render_long_help().to_string());
        }
        insta::assert_snapshot!(texts.join(&format!("\n{}\n\n", "-".repeat(80))));
    }

    #[test]
    fn usage_errors_exit_with_2() {
        for wrong in [
            "rapid",
            "rapid trian",
            "rapid report",
            "rapid train",
            "rapid train --recipe r --resume a",
            "rapid train --resume a --out b",
            "rapid eval --model m",
            "rapid generate --model m --prompts p --out o -n 0",
            "rapid bench rollout --device gpu",
            "rapid quickstart --device gpu",
            "rapid quickstart --resume r --seed 1",
            "rapid study",
            "rapid study estimator",
            "rapid study estimator --out o --model m",
            "rapid study estimator --out o --behaviour m",
            "rapid study estimator --out o --temperature 0",
        ] {
            let error = Cli::try_parse_from(wrong.split(' ')).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{wrong}");
        }
    }

    #[test]
    fn a_number_below_zero_is_answered_with_the_range() {
        let eval = "eval --model m --dataset d --verifier http://127.0.0.1:9";
        for (command, option, hint) in [
            (eval, "--temperature", "give 0, which is greedy"),
            (eval, "--top-p", "give a number above 0"),
            (eval, "--min-p", "give a number of at least 0"),
            (eval, "--k", "give a whole number from 1 to"),
            ("bench step", "--prompts", "give a whole number from 1 on"),
            (
                "bench step",
                "--shared-tokens",
                "give a whole number from 0",
            ),
            (
                "bench step",
                "--activations-mib",
                "give a whole number from 0",
            ),
            ("sweep f", "--block", "give a whole number from 1 on"),
            (
                "train --recipe r",
                "--threads",
                "give a whole number from 1 to 1024",
            ),
            (
                "bench step",
                "--threads",
                "give a whole number from 1 to 1024",
            ),
            ("quickstart", "--seed", "give a whole number"),
        ] {
            let line = format!("rapid {command} {option} -1");
            let error = with_numbers_below_zero(Cli::command())
                .try_get_matches_from(line.split(' '))
                .unwrap_err()
                .to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
