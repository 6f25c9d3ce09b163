//! Arbitrary bytes as the compiled module of a false theorem's proof: the kernel accepts none, does not panic, and stays within its budget.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 modules
//! ```
#![no_main]

use std::sync::LazyLock;

use kernel::{Axioms, Budget, Library, TheoremCheck};
use libfuzzer_sys::fuzz_target;

/// The files of a module except the last. The last has its declarations.
const FIRST: [&[u8]; 2] = [
    include_bytes!("../../kernel/tests/modules/rich/Proof.olean"),
    include_bytes!("../../kernel/tests/modules/rich/Proof.olean.server"),
];
/// `theorem swap (p q : Prop) (h : p) : And q p`.
static STATEMENT: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    vec![
        include_bytes!("../../kernel/tests/modules/false/Proof.olean").to_vec(),
        include_bytes!("../../kernel/tests/modules/false/Proof.olean.server").to_vec(),
        include_bytes!("../../kernel/tests/modules/false/Proof.olean.private").to_vec(),
    ]
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(library) = Library::open(&[], &[]) else {
        panic!("a library of nothing can always be opened");
    };
    let question = TheoremCheck {
        library: &library,
        statement: &STATEMENT,
        theorem: "swap",
        axioms: Axioms::Followed,
        budget: Budget {
            steps: 100_000,
            terms: 100_000,
        },
    };
    let mut files = FIRST.map(<[u8]>::to_vec).to_vec();
    files.push(bytes.to_vec());
    let judged = question.proved_by(files);
    assert!(judged.is_err(), "a false statement was proved: {judged:?}");
});
