//! The kernel counts the cost of a check: proofs that would take hours or all of the memory are given up, always at the same step.
//!
//! `RAPID_TEST_LEAN` names the folder with Lean's library (`bash scripts/lean.sh` prints it).

use std::path::PathBuf;

use dashu_int::UBig;
use kernel::{Budget, Checker, Constant, Error, Expr, ExprId, Kind, Level, Library, Store};

/// Terms over Lean's numbers.
struct Terms<'a>(&'a mut Store);

impl Terms<'_> {
    fn at(&mut self, name: &str, levels: &[u32]) -> ExprId {
        let levels: Vec<_> = levels.iter().map(|level| self.sort(*level)).collect();
        let levels = self.0.levels(&levels);
        let name = self.0.name(name);
        self.0.constant(name, levels)
    }

    fn sort(&mut self, level: u32) -> kernel::LevelId {
        let mut id = self.0.level(Level::Zero);
        for _ in 0..level {
            id = self.0.level(Level::Succ(id));
        }
        id
    }

    fn call(&mut self, name: &str, arguments: &[ExprId]) -> ExprId {
        let function = self.at(name, &[]);
        self.0.apps(function, arguments)
    }

    fn number(&mut self, value: u64) -> ExprId {
        self.0.nat(UBig::from(value))
    }

    fn bound(&mut self, at: u32) -> ExprId {
        self.0.expr(Expr::Bound(at))
    }

    fn fun(&mut self, ty: ExprId, body: ExprId) -> ExprId {
        self.0.expr(Expr::Lam(ty, body))
    }

    fn arrow(&mut self, from: ExprId, to: ExprId) -> ExprId {
        self.0.expr(Expr::Pi(from, to))
    }

    /// `one = other` for two numbers, and the term that proves it if both reduce to the same number.
    fn equation(&mut self, one: ExprId, other: ExprId) -> (ExprId, ExprId) {
        let nat = self.at("Nat", &[]);
        let eq = self.at("Eq", &[1]);
        let refl = self.at("Eq.refl", &[1]);
        (
            self.0.apps(eq, &[nat, one, other]),
            self.0.apps(refl, &[nat, other]),
        )
    }
}

/// The result of a fresh checker for `one = other`, proved by computing.
fn computed(
    equation: impl FnOnce(&mut Terms<'_>) -> (ExprId, ExprId) + Send + 'static,
) -> Option<Result<(), Error>> {
    let Some(lean) = std::env::var_os("RAPID_TEST_LEAN") else {
        println!(
            "SKIPPED: Lean's library: RAPID_TEST_LEAN does not name it (scripts/lean.sh fetches it)"
        );
        return None;
    };
    let thread = std::thread::Builder::new().stack_size(kernel::STACK_BYTES);
    let judged = thread.spawn(move || {
        let folders = [PathBuf::from(lean).join("lib")];
        let library = Library::open(&folders, &["Init".to_owned()]).unwrap();
        let mut checker = Checker::new(&library, Budget::default());
        let (one, other) = equation(&mut Terms(checker.store()));
        let (ty, value) = Terms(checker.store()).equation(one, other);
        let name = checker.store().name("costs");
        let judged = checker.declare(Constant {
            name,
            params: Vec::new(),
            ty,
            kind: Kind::Theorem(value),
        });
        println!("{judged:?} after {} steps", checker.steps());
        judged
    });
    Some(judged.unwrap().join().unwrap())
}

#[test]
fn cheap_numbers_are_computed() {
    let judged = computed(|terms| {
        let (base, exponent) = (terms.number(3), terms.number(1_000));
        let power = terms.call("Nat.pow", &[base, exponent]);
        let product = terms.call("Nat.mul", &[power, power]);
        let double = terms.number(2_000);
        (product, terms.call("Nat.pow", &[base, double]))
    });
    assert!(judged.is_none_or(|judged| judged == Ok(())));
}

#[test]
fn numbers_that_fill_the_memory_are_not_computed() {
    let judged = computed(|terms| {
        let (base, exponent) = (terms.number(2), terms.number(1 << 24));
        let mut power = terms.call("Nat.pow", &[base, exponent]);
        for _ in 0..30 {
            power = terms.call("Nat.mul", &[power, power]);
        }
        let zero = terms.number(0);
        (terms.call("Nat.sub", &[power, power]), zero)
    });
    assert!(judged.is_none_or(|judged| judged == Err(Error::Budget)));
}

#[test]
fn recursion_over_a_large_number_is_given_up() {
    let judged = computed(|terms| {
        let (base, exponent) = (terms.number(2), terms.number(1 << 20));
        let power = terms.call("Nat.pow", &[base, exponent]);
        let nat = terms.at("Nat", &[]);
        let motive = terms.fun(nat, nat);
        let known = terms.bound(0);
        let step = terms.fun(nat, known);
        let step = terms.fun(nat, step);
        let zero = terms.number(0);
        let rec = terms.at("Nat.rec", &[1]);
        (terms.0.apps(rec, &[motive, zero, step, power]), zero)
    });
    assert!(judged.is_none_or(|judged| judged == Err(Error::Budget)));
}

/// `rec id (fun _ f x => f (f (succ x))) n 0`, which is 2ⁿ − 1 but takes as many steps.
#[test]
fn a_proof_of_exponentially_many_steps_is_given_up() {
    let judged = computed(|terms| {
        let nat = terms.at("Nat", &[]);
        let functions = terms.arrow(nat, nat);
        let motive = terms.fun(nat, functions);
        let variable = terms.bound(0);
        let identity = terms.fun(nat, variable);
        let next = terms.call("Nat.succ", &[variable]);
        let function = terms.bound(1);
        let inner = terms.0.app(function, next);
        let outer = terms.0.app(function, inner);
        let step = terms.fun(nat, outer);
        let step = terms.fun(functions, step);
        let step = terms.fun(nat, step);
        let (rec, many, zero) = (terms.at("Nat.rec", &[1]), terms.number(60), terms.number(0));
        let many = terms.0.apps(rec, &[motive, identity, step, many, zero]);
        (many, zero)
    });
    assert!(judged.is_none_or(|judged| judged == Err(Error::Budget)));
}

/// A function of 20,000 arguments, applied to all of them at each step.
#[test]
fn steps_with_thousands_of_arguments_are_given_up() {
    let judged = computed(|terms| {
        let nat = terms.at("Nat", &[]);
        let mut functions = nat;
        for _ in 0..20_000 {
            functions = terms.arrow(nat, functions);
        }
        let motive = terms.fun(nat, functions);
        let mut constant = terms.number(0);
        let zero = constant;
        for _ in 0..20_000 {
            constant = terms.fun(nat, constant);
        }
        let known = terms.bound(0);
        let step = terms.fun(functions, known);
        let step = terms.fun(nat, step);
        let (rec, many) = (terms.at("Nat.rec", &[1]), terms.number(1 << 60));
        let mut arguments = vec![motive, constant, step, many];
        arguments.extend([zero; 20_000]);
        (terms.0.apps(rec, &arguments), zero)
    });
    assert!(judged.is_none_or(|judged| judged == Err(Error::Budget)));
}
