//! How deep programs may recurse: as deep as natively, but not deeper than the sandbox survives.

use sandboxes::{Call, End, Run};

use super::support::sandbox;
use crate::cases::{changed, run, run_within};

/// Programs with an `f(n)` that recurses to the depth `n` and returns it.
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

fn returns(source: &str, depth: usize) -> bool {
    let run = run(sandbox(), source, &[&format!("[{depth}]")]);
    run.calls == [Call::Returned(depth.to_string())]
}

#[test]
fn recursion_through_c_code_goes_as_deep_as_natively() {
    let shallow = programs(SHAPES).filter(|(_, source)| !returns(source, 320));
    let shallow: Vec<&str> = shallow.map(|(name, _)| name).collect();
    assert_eq!(shallow, [""; 0]);
    // Only the recursion limit bounds plain recursion.
    assert!(returns("def f(n): return 1 + f(n - 1) if n else 0", 950));
}

/// Shapes with levels that take so much stack that fewer than 5,000 fit.
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

/// How `f` of a program ends, without and with a raised recursion limit, with a description.
fn ends(name: &str, source: &str) -> [(Run, String); 2] {
    let limits = changed(|it| (it.fuel, it.memory) = (5_000_000_000, 1 << 30));
    ["", "import sys\nsys.setrecursionlimit(10**7)\n"].map(|limit| {
        let run = run_within(sandbox(), &format!("{limit}{source}"), &["[]"], &limits);
        let words = format!("{name}: {:?} {:?}", run.end, run.calls.first());
        let words: String = words.replace('\n', " ").chars().take(150).collect();
        (run, words)
    })
}

#[test]
fn endless_recursion_ends_only_its_own_run() {
    let mut wrong = Vec::new();
    for (file, may_die) in [(ENDLESS, false), (UNGUARDED, true)] {
        for (name, source) in programs(file) {
            for (run, words) in ends(name, source) {
                // Some of these programs do not recurse, or not endlessly.
                let limited = match run.end {
                    End::Completed | End::OutOfFuel | End::OutOfMemory => true,
                    End::Died(_) => may_die,
                    _ => false,
                };
                if !limited {
                    wrong.push(words);
                }
                assert!(returns("def f(n): return n", 1));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}
