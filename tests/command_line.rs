//! The command lines: the usage errors with exit code 2, and the output and the errors of `--dry-run`.

use std::process::Command;

use tests::artifacts;
use tests::programs::{assert_has, rapid, run};
use tests::repository::root;

#[test]
fn a_dry_run_has_the_same_errors_as_the_run() {
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.txt"), "").unwrap();
    let occupied = format!("--out {}", folder.path().display());
    for (more, expected) in [
        ("--verifier foo", "http:// is missing"),
        ("--set verifier.url=foo", "`foo` is not the address"),
        (occupied.as_str(), "holds other files, such as mine.txt"),
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
            // The verifier is never contacted: these errors are detected before.
            command.env("RAPID_VERIFIER", "http://127.0.0.1:9");
            let error = run(&mut command).failure(2);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}

#[test]
fn a_dry_run_has_the_warnings_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = folder.path().join("mine.jsonl");
    let line = |n| format!("{{\"question\": \"What is {n} + 0?\", \"answer\": \"{n}\"}}\n");
    std::fs::write(&tasks, [1, 2, 3].map(line).concat()).unwrap();
    let dataset = format!("data.dataset={}", tasks.display());
    let line = "train --recipe quickstart --dry-run --set algorithm.preset=pg --set";
    let outcome = run(rapid(line.split(' ')).arg(&dataset)).success();
    let tasks = "3 training tasks, 3 to evaluate on, all of them trained on too";
    assert_has(&outcome.stdout, &[tasks]);
    let line = line.replace("dry-run", "print-config");
    let printed = run(rapid(line.split(' ')).arg(dataset)).success();
    assert!(outcome.stdout.starts_with(printed.stdout.trim_end()));
    assert_eq!(printed.stderr, "");
    let warnings = [
        "every evaluation task is trained on too",
        "the factor `one`",
    ];
    assert_has(&outcome.stderr, &warnings);
}

#[test]
fn built_in_artifacts_need_no_fetching() {
    for name in ["dataset:starter-math", "starter-math"] {
        let outcome = run(&mut rapid(["fetch", name])).success();
        assert_eq!(outcome.stdout, "");
        assert!(outcome.stderr.contains("nothing to fetch"), "{outcome:?}");
    }
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for line in [
        "",
        "trian",
        "train",
        "train --recipe",
        "train --recipe quickstart --nonsense",
        "generate --model m",
        "eval --dataset gsm8k",
        "bench everything",
        "bench rollout --device cuda:pan",
        "doctor --device cuda:plan",
        "bench step --random-weights nope",
        "bench rollout --min-tokens 100 --tokens 10",
        "train --recipe quickstart --resume runs/a",
        "train --resume nope",
        "report nope",
        "fetch nope",
        "generate --model m --prompts nope --out o",
        "generate --model m --out o",
        "eval --model smollm2-135m-instruct --dataset starter-math --template nope --verifier http://127.0.0.1:9",
        "eval --model smollm2-135m-instruct --dataset starter-code --template boxed --verifier http://127.0.0.1:9",
        "eval --model nope.gguf --dataset starter-math --verifier http://127.0.0.1:9",
    ] {
        let outcome = run(&mut rapid(line.split_whitespace()));
        assert_eq!(outcome.code, Some(2), "rapid {line}: {outcome:?}");
    }
    let error = run(rapid(["fetch"]).env("RAPID_LOG", "wran")).failure(2);
    assert!(error.contains("error, warn, info"), "{error}");
}

#[test]
fn packages_known_by_name_alone_are_installed() {
    let fakes = "dpkg-query() { printf $STATUS; }; apt-get() { echo $* >&2; }; id() { echo 0; }";
    let install = "install apt.log mpich && grep --quiet mpich apt.log";
    let nothing = "install apt.log mpich && ! test -e apt.log";
    for (ci, status, lines, succeeds) in [
        ("", "installed\\n", "installed mpich", true),
        ("", "installed\\ninstalled\\n", nothing, true),
        ("", "not-installed\\n", install, true),
        ("", "half-installed\\n", install, true),
        ("", "", install, true),
        ("1", "", "must_have bash no-such-program", false),
        ("1", "", "must_have bash", true),
        ("", "", "must_have no-such-program", true),
        // Another user cannot install it.
        (
            "1",
            "",
            "id() { echo 1000; }; must_have no-such-program",
            true,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("source \"$0\"; {fakes}; {lines}")])
            .arg(root().join("scripts/packages.sh"))
            .current_dir(folder.path())
            .envs([("CI", ci), ("STATUS", status)]);
        let succeeded = bash.output().unwrap().status.success();
        assert_eq!(succeeded, succeeds, "{ci} {status} {lines}");
    }
}
