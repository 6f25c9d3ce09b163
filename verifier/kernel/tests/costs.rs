//! The kernel counts the cost of a check: proofs that would take hours or all of the memory are given up, always at the same step.

use kernel::{Budget, Error, Expr, ExprId, TermStore, TypeChecker};

use crate::lean::{deep, library};
use crate::terms::{equation, term};

/// The two sides of an equation of numbers, written as terms.
fn written(store: &mut TermStore, left: &str, right: &str) -> [ExprId; 2] {
    [left, right].map(|side| term(store, side))
}

/// Fails unless a fresh checker has this result for an equation, proved by computing.
fn assert_judged(
    sides: impl FnOnce(&mut TermStore) -> [ExprId; 2] + Send,
    expected: &Result<(), Error>,
) {
    deep(|| {
        let Some(library) = library(&["Init"]) else {
            return;
        };
        let mut checker = TypeChecker::new(&library, Budget::default());
        let [left, right] = sides(checker.store());
        let theorem = equation(checker.store(), "Nat", left, right);
        let judged = checker.declare(theorem);
        println!("{judged:?} after {} steps", checker.steps());
        assert_eq!(judged, *expected);
    });
}

#[test]
fn cheap_numbers_are_computed() {
    let product = "Nat.mul (Nat.pow 3 1000) (Nat.pow 3 1000)";
    assert_judged(|store| written(store, product, "Nat.pow 3 2000"), &Ok(()));
}

#[test]
fn numbers_that_fill_the_memory_are_not_computed() {
    let power = |store: &mut TermStore| {
        let [mut power, mul] = written(store, "Nat.pow 2 16777216", "Nat.mul");
        for _ in 0..30 {
            power = store.apps(mul, &[power, power]);
        }
        let [sub, zero] = written(store, "Nat.sub", "0");
        [store.apps(sub, &[power, power]), zero]
    };
    assert_judged(power, &Err(Error::Budget));
}

#[test]
fn recursion_over_a_large_number_is_given_up() {
    let power = "Nat.rec@1 (fun (n : Nat) => Nat) 0 (fun (n : Nat) (known : Nat) => known) (Nat.pow 2 1048576)";
    assert_judged(|store| written(store, power, "0"), &Err(Error::Budget));
}

/// It is 2ⁿ − 1, but takes as many steps.
#[test]
fn a_proof_of_exponentially_many_steps_is_given_up() {
    let many = "Nat.rec@1 (fun (n : Nat) => Nat -> Nat) (fun (x : Nat) => x) (fun (n : Nat) (f : Nat -> Nat) (x : Nat) => f (f (Nat.succ x))) 60 0";
    assert_judged(|store| written(store, many, "0"), &Err(Error::Budget));
}

/// A function of 20,000 arguments, applied to all of them at each step.
#[test]
fn steps_with_thousands_of_arguments_are_given_up() {
    const MANY: usize = 20_000;
    let many = |store: &mut TermStore| {
        let [nat, zero] = written(store, "Nat", "0");
        let functions = (0..MANY).fold(nat, |to, _| store.expr(Expr::Pi(nat, to)));
        let constant = (0..MANY).fold(zero, |body, _| store.expr(Expr::Lam(nat, body)));
        let motive = store.expr(Expr::Lam(nat, functions));
        let known = store.expr(Expr::BVar(0));
        let step = store.expr(Expr::Lam(functions, known));
        let step = store.expr(Expr::Lam(nat, step));
        let [rec, count] = written(store, "Nat.rec@1", "1152921504606846976");
        let mut arguments = vec![motive, constant, step, count];
        arguments.extend([zero; MANY]);
        [store.apps(rec, &arguments), zero]
    };
    assert_judged(many, &Err(Error::Budget));
}
