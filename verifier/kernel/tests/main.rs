//! Tests of the kernel by its public interface.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod costs;
mod hostile;
mod lean;
mod library;
mod modules;
mod numbers;
mod rules;
mod terms;

use kernel::{Axioms, Budget, Fault, Library, TheoremCheck};

/// The axioms that a proof of a statement depends on.
fn judged(
    library: &Library,
    statement: &[Vec<u8>],
    theorem: &str,
    proof: Vec<Vec<u8>>,
    budget: Budget,
) -> Result<Option<Vec<String>>, Fault> {
    let question = TheoremCheck {
        library,
        statement,
        theorem,
        axioms: Axioms::Followed,
        budget,
    };
    question.proved_by(proof)
}

/// Pseudo-random numbers.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 33) as usize
}
