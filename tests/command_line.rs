//! The command lines: what each command says of itself, what leaves with the exit code 2, and what `--dry-run` prints and refuses.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::process::Command;

use tests::artifacts;
use tests::programs::{program, rapid, rapid_verifier, run};

#[test]
fn a_dry_run_refuses_what_the_run_would() {
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.txt"), "").unwrap();
    let taken = format!("--out {}", folder.path().display());
    for (more, says) in [
        ("--verifier foo", "http:// is missing"),
        ("--set verifier.url=foo", "`foo` is not the address"),
        (taken.as_str(), "holds other files, such as mine.txt"),
        ("--set data.dataset=nope", "no data set is called `nope`"),
        ("--set data.template=nope", "no prompt template is called"),
        ("--set data.template=nope.toml", "nope.toml cannot be read"),
        ("--set data.template={foo}", "neither {question}"),
        ("--set data.template=mbppplus", "use `boxed` or"),
        (
            "--set model.path=/nonexistent",
            "no file or folder /nonexistent",
        ),
        ("--data-dir nope", "--data-dir nope is not a folder"),
    ] {
        for dry in ["", " --dry-run"] {
            let line = format!("train --recipe quickstart --device cpu {more}{dry}");
            let mut command = rapid(line.split_whitespace());
            // Nobody is asked: what is wrong here is found before.
            command.env("RAPID_VERIFIER", "http://127.0.0.1:9");
            let said = run(&mut command).failure(2);
            assert!(said.contains(says), "{line}: {said}");
        }
    }
}

#[test]
fn what_a_dry_run_prints_is_a_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine.toml");
    let plan = |recipe: &str| {
        let line = ["train", "--dry-run", "--device", "cpu", "--recipe", recipe];
        run(&mut rapid(line)).success().stdout
    };
    let printed = plan("quickstart");
    assert!(printed.contains("\n# 300 training tasks"), "{printed}");
    std::fs::write(&mine, &printed).unwrap();
    assert_eq!(plan(mine.to_str().unwrap()), printed);
}

#[test]
fn what_comes_with_the_program_is_fetched_already() {
    for name in ["dataset:starter-math", "starter-math"] {
        let outcome = run(&mut rapid(["fetch", name])).success();
        assert_eq!(outcome.stdout, "");
        assert!(outcome.stderr.contains("nothing to fetch"), "{outcome:?}");
    }
}

#[test]
fn a_command_line_that_cannot_be_meant_leaves_with_2() {
    for line in [
        "",
        "trian",
        "train",
        "train --recipe",
        "train --recipe quickstart --nonsense",
        "generate --model m",
        "eval --dataset gsm8k",
        "bench everything",
        "bench step --random-weights nope",
        "bench rollout --min-tokens 100 --tokens 10",
        "train --recipe quickstart --resume runs/a",
        "train --resume nope",
        "report nope",
        "fetch nope",
        "generate --model m --prompts nope --out o",
        "eval --model smollm2-135m-instruct --dataset starter-math --template nope --verifier http://127.0.0.1:9",
        "eval --model smollm2-135m-instruct --dataset starter-code --template boxed --verifier http://127.0.0.1:9",
        "eval --model nope.gguf --dataset starter-math --verifier http://127.0.0.1:9",
        "quickstart --device gpu",
    ] {
        let outcome = run(&mut rapid(line.split_whitespace()));
        assert_eq!(outcome.code, Some(2), "rapid {line}: {outcome:?}");
    }
    let line = "generate --model m --prompts p --out o --temperature -1";
    let said = run(&mut rapid(line.split_whitespace())).failure(2);
    assert!(said.contains("give 0, which is greedy"), "{said}");
    let said = run(&mut rapid(["train"])).failure(2);
    assert!(
        said.contains("--recipe") && said.contains("--resume"),
        "{said}"
    );
    let said = run(&mut rapid("generate --model m --out o".split(' '))).failure(2);
    assert!(
        said.contains("--prompts") && said.contains("--dataset"),
        "{said}"
    );
    for line in [
        "",
        "serv",
        "serve --listen here",
        "score --dataset gsm8k",
        "serve --config nope.toml",
        "serve --token-file nope",
        "score --dataset nope --samples nope",
        "score --dataset starter-math --samples nope",
        "fetch nope",
        "bench math --pairs nope",
    ] {
        let outcome = run(&mut rapid_verifier(line.split_whitespace()));
        assert_eq!(outcome.code, Some(2), "rapid-verifier {line}: {outcome:?}");
    }
}

#[test]
fn every_command_explains_itself_with_examples() {
    let commands = [
        (
            "rapid",
            [
                "quickstart",
                "fetch",
                "train",
                "eval",
                "generate",
                "report",
                "doctor",
                "bench",
            ]
            .as_slice(),
        ),
        (
            "rapid-verifier",
            &["serve", "score", "bench", "fetch", "prepare", "doctor"],
        ),
    ];
    for (name, subcommands) in commands {
        for subcommand in subcommands {
            let mut command = Command::new(program(name));
            let help = run(command.args([subcommand, "--help"])).success().stdout;
            assert!(
                help.contains("Example") && help.contains(&format!("{name} {subcommand}")),
                "{name} {subcommand} --help:\n{help}"
            );
        }
    }
}
