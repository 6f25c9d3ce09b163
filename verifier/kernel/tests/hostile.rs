//! Compiled modules that no Lean would write: each once made the kernel accept what is false, blame the statement, or end the process.
//!
//! `RAPID_TEST_LEAN` names the folder with Lean's library (`bash scripts/lean.sh` prints it).

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kernel::{Axioms, Budget, Error, Fault, Library, Question};

/// Where a file says that it is mapped.
const BASE: u64 = 0x10_0000;
const ARRAY: u8 = 246;
const STRING: u8 = 249;
/// Nothing, zero, the empty list: a constructor without fields.
const NONE: u64 = 1;

/// Writes a module, an object after the other. What is made is where it lies.
struct Module(Vec<u8>);

impl Module {
    fn new() -> Self {
        let mut bytes = vec![0; 96];
        bytes[..7].copy_from_slice(b"olean\x02\x01");
        Self(bytes)
    }

    fn object(&mut self, tag: u8, fields: &[u64], rest: &[u8]) -> u64 {
        let at = BASE + self.0.len() as u64;
        let size = (8 + 8 * fields.len() + rest.len()) as u16;
        let count = if tag < 245 { fields.len() as u8 } else { 0 };
        self.0.extend([0; 4]);
        self.0.extend(size.to_le_bytes());
        self.0.extend([count, tag]);
        for field in fields {
            self.0.extend(field.to_le_bytes());
        }
        self.0.extend(rest);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        at
    }

    fn of(&mut self, tag: u8, fields: &[u64]) -> u64 {
        self.object(tag, fields, &[])
    }

    fn array(&mut self, items: &[u64]) -> u64 {
        let count = items.len() as u64;
        self.object(ARRAY, &[&[count, count], items].concat(), &[])
    }

    fn name(&mut self, dotted: &str) -> u64 {
        dotted.split('.').fold(NONE, |prefix, word| {
            let length = word.len() as u64 + 1;
            let bytes = [word.as_bytes(), b"\0"].concat();
            let word = self.object(STRING, &[length, length, word.len() as u64], &bytes);
            self.of(1, &[prefix, word])
        })
    }

    fn list(&mut self, items: &[u64]) -> u64 {
        items
            .iter()
            .rev()
            .fold(NONE, |rest, item| self.of(1, &[*item, rest]))
    }

    fn constant(&mut self, name: &str, levels: &[u64]) -> u64 {
        let (name, levels) = (self.name(name), self.list(levels));
        self.of(4, &[name, levels])
    }

    fn apps(&mut self, function: u64, arguments: &[u64]) -> u64 {
        arguments.iter().fold(function, |function, argument| {
            self.of(5, &[function, *argument])
        })
    }

    /// `(fun _ : ty => body) value`.
    fn given(&mut self, ty: u64, value: u64, body: u64) -> u64 {
        let function = self.of(6, &[NONE, ty, body]);
        self.apps(function, &[value])
    }

    fn number(&mut self, value: u64) -> u64 {
        let literal = self.of(0, &[value << 1 | 1]);
        self.of(9, &[literal])
    }

    fn head(&mut self, name: &str, params: &[&str], ty: u64) -> u64 {
        let params: Vec<u64> = params.iter().map(|name| self.name(name)).collect();
        let (name, params) = (self.name(name), self.list(&params));
        self.of(0, &[name, params, ty])
    }

    fn theorem(&mut self, name: &str, ty: u64, value: u64) -> u64 {
        let head = self.head(name, &[], ty);
        let theorem = self.of(0, &[head, value, NONE]);
        self.of(2, &[theorem])
    }

    fn definition(&mut self, name: &str, params: &[&str], ty: u64, value: u64) -> u64 {
        let head = self.head(name, params, ty);
        let definition = self.object(0, &[head, value, 3, NONE], &[1, 0, 0, 0, 0, 0, 0, 0]);
        self.of(1, &[definition])
    }

    /// `sorryAx proposition true`.
    fn sorry(&mut self, proposition: u64) -> u64 {
        let (sorry, yes) = (
            self.constant("sorryAx", &[NONE]),
            self.constant("Bool.true", &[]),
        );
        self.apps(sorry, &[proposition, yes])
    }

    /// `(2 ^ 2 ^ 18 == 0) = false`, which takes much work and few steps, and its proof.
    fn large(&mut self) -> (u64, u64) {
        let (two, many, zero) = (self.number(2), self.number(1 << 18), self.number(0));
        let (pow, beq) = (self.constant("Nat.pow", &[]), self.constant("Nat.beq", &[]));
        let power = self.apps(pow, &[two, many]);
        let equal = self.apps(beq, &[power, zero]);
        let (truth, no) = (self.constant("Bool", &[]), self.constant("Bool.false", &[]));
        let one = self.of(1, &[NONE]);
        let (eq, refl) = (
            self.constant("Eq", &[one]),
            self.constant("Eq.refl", &[one]),
        );
        let equation = self.apps(eq, &[truth, equal, no]);
        (equation, self.apps(refl, &[truth, no]))
    }

    fn file(mut self, constants: &[u64]) -> Vec<Vec<u8>> {
        let names = self.array(&vec![NONE; constants.len()]);
        let (imports, constants) = (self.array(&[]), self.array(constants));
        let root = self.of(0, &[imports, names, constants]);
        self.0[80..88].copy_from_slice(&BASE.to_le_bytes());
        self.0[88..96].copy_from_slice(&root.to_le_bytes());
        vec![self.0]
    }
}

fn library() -> Option<Library> {
    let Some(lean) = std::env::var_os("RAPID_TEST_LEAN") else {
        println!(
            "SKIPPED: Lean's library: RAPID_TEST_LEAN does not name it (scripts/lean.sh fetches it)"
        );
        return None;
    };
    Some(Library::open(&[PathBuf::from(lean).join("lib")], &["Init".to_owned()]).unwrap())
}

fn judged(
    library: &Library,
    asked: &[Vec<u8>],
    proof: &[Vec<u8>],
    budget: Budget,
) -> Result<Option<Vec<String>>, Fault> {
    let question = Question {
        library,
        asked,
        theorem: "t",
        axioms: Axioms::Followed,
        budget,
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(kernel::STACK_BYTES);
        let judging = thread.spawn_scoped(scope, || question.proved_by(proof.to_vec()));
        judging.unwrap().join().unwrap()
    })
}

/// `theorem t : False := sorry`, between other declarations.
fn left_open(
    before: impl FnOnce(&mut Module) -> Vec<u64>,
    bind: impl FnOnce(&mut Module, u64) -> u64,
) -> Vec<Vec<u8>> {
    let mut module = Module::new();
    let mut constants = before(&mut module);
    let falsity = module.constant("False", &[]);
    let sorry = module.sorry(falsity);
    let value = bind(&mut module, sorry);
    constants.push(module.theorem("t", falsity, value));
    module.file(&constants)
}

/// Where the work that is allowed ends while axioms are looked for, those that were not found yet were missed.
#[test]
fn no_budget_makes_a_proof_of_what_is_left_open() {
    let Some(library) = library() else { return };
    let asked = left_open(|_| Vec::new(), |_, sorry| sorry);
    let proof = left_open(
        |module| {
            let nat = module.constant("Nat", &[]);
            let add = module.constant("Nat.add", &[]);
            let mut sum = module.number(0);
            for value in 0..2_000 {
                let value = module.number(value);
                sum = module.apps(add, &[value, sum]);
            }
            let junk = module.definition("junk", &[], nat, sum);
            let (equation, value) = module.large();
            vec![junk, module.theorem("work", equation, value)]
        },
        |module, sorry| {
            let (nat, junk) = (module.constant("Nat", &[]), module.constant("junk", &[]));
            let (equation, _) = module.large();
            let work = module.constant("work", &[]);
            let inner = module.given(nat, junk, sorry);
            module.given(equation, work, inner)
        },
    );
    let (mut spent, mut refused) = (0, 0);
    for steps in (100..12_000).step_by(10) {
        let budget = Budget {
            steps,
            ..Budget::default()
        };
        match judged(&library, &asked, &proof, budget) {
            Err(Fault::Proof(Error::Budget)) => spent += 1,
            Err(Fault::Proof(Error::Rejected(why))) if why.contains("sorryAx") => refused += 1,
            // So little that the statement cannot be read.
            Err(Fault::Task(_)) => {}
            other => panic!("{steps} steps: {other:?}"),
        }
    }
    assert!(spent > 10 && refused > 10, "{spent} {refused}");
}

#[test]
fn what_is_too_deep_in_a_proof_is_not_the_statements_fault() {
    let Some(library) = library() else { return };
    let file = |deep: bool| {
        let mut module = Module::new();
        let (proposition, falsity) = (module.of(3, &[NONE]), module.constant("False", &[]));
        let mut constants = vec![module.definition("own", &[], proposition, falsity)];
        let own = module.constant("own", &[]);
        let sorry = module.sorry(own);
        constants.push(module.theorem("t", own, sorry));
        if deep {
            let junk = (0..60_000).fold(own, |junk, _| module.apps(own, &[junk]));
            constants.push(module.definition("junk", &[], proposition, junk));
        }
        module.file(&constants)
    };
    let found = judged(&library, &file(false), &file(true), Budget::default());
    assert!(matches!(found, Err(Fault::Proof(_))), "{found:?}");
}

/// Each definition is the one before at a level that is greater by thousands.
#[test]
fn levels_do_not_grow_until_the_stack_overflows() {
    let Some(library) = library() else { return };
    let asked = left_open(|_| Vec::new(), |_, sorry| sorry);
    let proof = left_open(
        |module| {
            let proposition = module.of(3, &[NONE]);
            let u = module.name("u");
            let u = module.of(4, &[u]);
            let next = module.of(1, &[u]);
            let large = (0..900).fold(u, |level, _| module.of(1, &[level]));
            let sort = module.of(3, &[u]);
            let (unit, eq) = (
                module.constant("PUnit", &[u]),
                module.constant("Eq", &[next]),
            );
            let equation = module.apps(eq, &[sort, unit, unit]);
            let mut constants = vec![module.definition("f0", &["u"], proposition, equation)];
            for at in 1..=600 {
                let before = module.constant(&format!("f{}", at - 1), &[large]);
                constants.push(module.definition(&format!("f{at}"), &["u"], proposition, before));
            }
            constants
        },
        |module, sorry| {
            let last = module.constant("f600", &[NONE]);
            let truth = module.constant("True", &[]);
            let one = module.of(1, &[NONE]);
            let (eq, sort) = (module.constant("Eq", &[one]), module.of(3, &[NONE]));
            let goal = module.apps(eq, &[sort, truth, truth]);
            let variable = module.of(0, &[1]);
            let inner = module.given(goal, variable, sorry);
            module.of(6, &[NONE, last, inner])
        },
    );
    let found = judged(&library, &asked, &proof, Budget::default());
    assert_eq!(found, Err(Fault::Proof(Error::Budget)));
}

/// A thousand definitions in a namespace of four million letters: each step that wrote or read a whole name took seconds together, and none was counted.
#[test]
fn long_names_cost_what_is_counted() {
    let Some(library) = library() else { return };
    let asked = left_open(|_| Vec::new(), |_, sorry| sorry);
    let proof = left_open(
        |module| {
            let space = module.name(&"n".repeat(4 << 20));
            let (proposition, truth) = (module.of(3, &[NONE]), module.constant("True", &[]));
            let mut all = truth;
            let mut constants = Vec::new();
            for number in 0..1_000 {
                let name = module.of(2, &[space, number << 1 | 1]);
                let head = module.of(0, &[name, NONE, proposition]);
                let value = module.object(0, &[head, truth, 3, NONE], &[1, 0, 0, 0, 0, 0, 0, 0]);
                constants.push(module.of(1, &[value]));
                let one = module.of(4, &[name, NONE]);
                all = module.of(7, &[NONE, one, all]);
            }
            constants.push(module.definition("all", &[], proposition, all));
            constants
        },
        |module, sorry| {
            let (proposition, all) = (module.of(3, &[NONE]), module.constant("all", &[]));
            module.given(proposition, all, sorry)
        },
    );
    let started = Instant::now();
    let found = judged(&library, &asked, &proof, Budget::default());
    assert!(
        matches!(&found, Err(Fault::Proof(Error::Rejected(why))) if why.contains("sorryAx")),
        "{found:?}"
    );
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
}
