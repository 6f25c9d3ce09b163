//! The `rapid` command line. The match in `main` shows the whole program.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
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

fn main() -> ExitCode {
    let cli = Cli::parse();
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

    use super::Cli;

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
            &["rapid"][..],
            &["rapid", "trian"],
            &["rapid", "report"],
            &["rapid", "train"],
            &["rapid", "train", "--recipe", "r", "--resume", "a"],
            &["rapid", "train", "--resume", "a", "--out", "b"],
            &["rapid", "eval", "--model", "m"],
            &[
                "rapid",
                "generate",
                "--model",
                "m",
                "--prompts",
                "p",
                "--out",
                "o",
                "-n",
                "0",
            ],
            &["rapid", "bench", "rollout", "--device", "gpu"],
            &["rapid", "quickstart", "--device", "gpu"],
            &["rapid", "quickstart", "--resume", "r", "--seed", "1"],
            &["rapid", "study"],
            &["rapid", "study", "estimator"],
            &["rapid", "study", "estimator", "--out", "o", "--model", "m"],
            &[
                "rapid",
                "study",
                "estimator",
                "--out",
                "o",
                "--behaviour",
                "m",
            ],
            &[
                "rapid",
                "study",
                "estimator",
                "--out",
                "o",
                "--temperature",
                "0",
            ],
        ] {
            let error = Cli::try_parse_from(wrong).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{wrong:?}");
        }
        let former = ["rapid", "train", "--recipe", "r", "--run-dir", "d"];
        assert!(Cli::try_parse_from(former).is_ok());
    }

    #[test]
    fn a_number_below_zero_is_answered_with_the_range() {
        let needed = ["rapid", "eval", "--model", "m", "--dataset", "d"];
        let needed = [&needed[..], &["--verifier", "http://127.0.0.1:9"]].concat();
        for (option, hint) in [
            ("--temperature", "give 0, which is greedy"),
            ("--top-p", "give a number above 0"),
            ("--min-p", "give a number of at least 0"),
        ] {
            let line = [&needed[..], &[option, "-1"]].concat();
            let error = Cli::try_parse_from(line).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
