//! How deep programs may recurse: as deep as natively, but not deeper than the sandbox survives.

use std::fmt::Write as _;
use std::process::Command;

use sandboxes::{Call, End, Run};

use super::support::sandbox;
use crate::cases::{changed, run, run_within};

/// Programs whose `f(n)` recurses to the depth `n` and returns it.
const SHAPES: &str = include_str!("recursive_shapes.py");
/// Endless recursion in C code.
const ENDLESS: &str = include_str!("recursive_endless.py");
/// Chains of objects that are too long for C code that checks no limit.
const UNGUARDED: &str = include_str!("recursive_unguarded.py");

/// The programs in a file, each with the name in the comment before it.
fn programs(file: &str) -> impl Iterator<Item = (&str, &str)> {
    file.split("\n## ").skip(1).map(|part| {
        let (name, source) = part.split_once('\n').unwrap();
        (name, source.trim_end())
    })
}

/// A script for the machine's own interpreter. It prints the greatest `n` for which `f(n)` returns.
const NATIVE: &str = "
def _deep(n):
    try: return f(n) == n
    except RecursionError: return False
low, high = 0, 4000
while low + 1 < high:
    middle = (low + high) // 2
    if hasattr(f, 'cache_clear'): f.cache_clear()
    low, high = (middle, high) if _deep(middle) else (low, middle)
print(low)
";

fn returns(source: &str, depth: usize) -> bool {
    let run = run(sandbox(), source, &[&format!("[{depth}]")]);
    run.calls == [Call::Returned(depth.to_string())]
}

fn deepest(source: &str) -> usize {
    let (mut low, mut high) = (0, 4000);
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        if returns(source, middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn natively(source: &str) -> String {
    let program = format!("{source}\n{NATIVE}");
    let output = Command::new("python3").args(["-c", &program]).output();
    output.map_or_else(
        |_| "no python3".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[test]
fn recursion_through_c_code_goes_as_deep_as_natively() {
    let mut shallow = Vec::new();
    let mut table = String::new();
    for (name, source) in programs(SHAPES) {
        if !returns(source, 320) {
            shallow.push(name);
        }
        if std::env::var("RAPID_TEST_LONG").is_ok_and(|value| value == "1") {
            let _ = writeln!(
                table,
                "{name:<28}{:>6}{:>10}",
                deepest(source),
                natively(source)
            );
        }
    }
    eprintln!("shape, deepest in the sandbox, deepest in python3 of this machine\n{table}");
    assert_eq!(shallow, [""; 0]);
}

/// Shapes whose levels take so much stack that fewer than 5,000 fit.
const WIDE: &[&str] = &["sorted with a key"];

#[test]
fn recursion_through_c_code_passes_4999_levels_or_raises() {
    let mut shallow = Vec::new();
    for (name, source) in programs(SHAPES) {
        let source = format!("import sys\nsys.setrecursionlimit(10**6)\n{source}");
        let run = run(sandbox(), &source, &["[4999]"]);
        match run.calls.as_slice() {
            [Call::Returned(depth)] if depth == "4999" => {}
            [Call::Raised { kind, .. }] if kind == "RecursionError" => shallow.push(name),
            other => shallow.push(format!("{name}: {:?} {other:?}", run.end).leak()),
        }
    }
    assert_eq!(shallow, WIDE);
}

#[test]
fn only_the_recursion_limit_bounds_plain_recursion() {
    let plain = "def f(n): return 1 + f(n - 1) if n else 0";
    assert!(returns(plain, 950));
    eprintln!("deepest: {}, natively {}", deepest(plain), natively(plain));
}

/// How `f` of a program ends, without and with a raised recursion limit, with a description.
fn ends(name: &str, source: &str) -> [(Run, String); 2] {
    let limits = changed(|it| {
        it.fuel = 5_000_000_000;
        it.memory = 1 << 30;
    });
    ["", "import sys\nsys.setrecursionlimit(10**7)\n"].map(|limit| {
        let run = run_within(sandbox(), &format!("{limit}{source}"), &["[]"], &limits);
        let words = format!("{name}: {:?} {:?}", run.end, run.calls.first());
        let words: String = words.replace('\n', " ").chars().take(150).collect();
        eprintln!("{words}");
        (run, words)
    })
}

#[test]
fn endless_recursion_of_every_shape_ends_in_an_exception_or_at_a_limit() {
    let mut wrong = Vec::new();
    for (name, source) in programs(ENDLESS) {
        for (run, words) in ends(name, source) {
            // Some of these programs do not recurse, or not endlessly.
            let limited = matches!(run.end, End::Completed | End::OutOfFuel | End::OutOfMemory);
            if !limited {
                wrong.push(words);
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn c_code_that_checks_no_limit_ends_only_its_own_run() {
    let mut wrong = Vec::new();
    for (name, source) in programs(UNGUARDED) {
        for (run, words) in ends(name, source) {
            if !matches!(
                run.end,
                End::Completed | End::OutOfFuel | End::OutOfMemory | End::Died(_)
            ) {
                wrong.push(words);
            }
            assert!(returns("def f(n): return n", 1));
        }
    }
    assert_eq!(wrong, [""; 0]);
}
