//! Statements and compiled modules that answer them. Each file in `modules/` was compiled by Lean 4.28 (`lean -R NAME -o NAME/Proof.olean NAME/Proof.lean`). It begins with
//! `prelude`, and so needs no library.

use std::path::Path;

use kernel::{Budget, Error, Fault, Library};

use crate::next;

fn files(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules");
    ["olean", "olean.server", "olean.private"]
        .map(|extension| {
            std::fs::read(folder.join(name).join("Proof").with_extension(extension)).unwrap()
        })
        .to_vec()
}

fn judged(statement: &[Vec<u8>], proof: Vec<Vec<u8>>) -> Result<Option<Vec<String>>, Fault> {
    let library = Library::open(&[], &[]).unwrap();
    let budget = Budget {
        steps: 100_000,
        terms: 100_000,
    };
    crate::judged(&library, statement, "swap", proof, budget)
}

fn rejected(statement: &str, proof: &str) -> String {
    match judged(&files(statement), files(proof)) {
        Err(Fault::Proof(Error::Rejected(why))) => why,
        other => panic!("{proof}: {other:?}"),
    }
}

#[test]
fn a_proof_of_the_requested_statement_is_accepted() {
    let axioms = judged(&files("asked"), files("proved"));
    assert_eq!(axioms, Ok(Some(Vec::new())));
}

#[test]
fn a_module_that_proves_nothing_or_another_statement_is_rejected() {
    for (proof, why) in [
        ("assumed", "`cheat`: it is assumed, not proved"),
        ("asked", "`cheat`: it is assumed, not proved"),
        ("another", "what is proved is not what was asked for"),
        ("missing", "it declares no theorem `swap`"),
        (
            "redefined",
            "it defines `And.intro` differently than the statement does",
        ),
    ] {
        assert_eq!(rejected("asked", proof), why, "{proof}");
    }
    // All declarations of a module with many kinds of them are accepted, except its last theorem.
    let why = "what is proved is not what was asked for";
    assert_eq!(rejected("false", "rich"), why);
}

#[test]
fn a_statement_without_the_theorem_is_the_tasks_own_fault() {
    let fault = judged(&files("missing"), files("proved"));
    let wanted = "the statement declares no theorem `swap`".to_owned();
    assert_eq!(fault, Err(Fault::Task(wanted)));
    let fault = judged(&[b"olean".to_vec()], files("proved"));
    assert!(matches!(fault, Err(Fault::Task(_))), "{fault:?}");
}

#[test]
fn changed_files_neither_cause_a_panic_nor_prove_a_false_statement() {
    for (statement, name) in [
        ("asked", "proved"),
        ("asked", "another"),
        ("asked", "assumed"),
        ("asked", "redefined"),
        ("false", "proved"),
        ("false", "rich"),
    ] {
        let proved = (statement, name) == ("asked", "proved");
        let (statement, whole) = (files(statement), files(name));
        let mut seed = 1;
        for _ in 0..3_000 {
            let mut changed = whole.clone();
            let part = next(&mut seed) % changed.len();
            for _ in 0..=next(&mut seed) % 4 {
                let at = next(&mut seed) % changed[part].len();
                changed[part][at] = match next(&mut seed) % 3 {
                    0 => changed[part][at] ^ (1 << (next(&mut seed) % 8)),
                    1 => 0,
                    _ => next(&mut seed) as u8,
                };
            }
            if next(&mut seed).is_multiple_of(16) {
                let end = next(&mut seed) % changed[part].len();
                changed[part].truncate(end);
            }
            let judged = judged(&statement, changed);
            assert!(proved || judged.is_err(), "{name}: {judged:?}");
        }
    }
}
