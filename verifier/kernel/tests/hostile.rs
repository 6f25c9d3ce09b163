//! Compiled modules that Lean would never write. Each once made the kernel accept a false statement, blame the statement, or end the process.

use std::time::{Duration, Instant};

use kernel::{Budget, Error, Fault, Library};

use crate::lean::{deep, library};

/// The address at which a file claims to be mapped.
const BASE: u64 = 0x10_0000;
const ARRAY: u8 = 246;
const STRING: u8 = 249;
/// A boxed constructor without fields: the anonymous name, level zero, the empty list.
const NONE: u64 = 1;

/// Writes a module, one object after the other. The methods return an object's address.
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

    fn constructor(&mut self, tag: u8, fields: &[u64]) -> u64 {
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
            self.constructor(1, &[prefix, word])
        })
    }

    fn list(&mut self, items: &[u64]) -> u64 {
        items
            .iter()
            .rev()
            .fold(NONE, |rest, item| self.constructor(1, &[*item, rest]))
    }

    fn constant(&mut self, name: &str, levels: &[u64]) -> u64 {
        let (name, levels) = (self.name(name), self.list(levels));
        self.constructor(4, &[name, levels])
    }

    fn apps(&mut self, function: u64, arguments: &[u64]) -> u64 {
        arguments.iter().fold(function, |function, argument| {
            self.constructor(5, &[function, *argument])
        })
    }

    /// `(fun _ : ty => body) value`.
    fn given(&mut self, ty: u64, value: u64, body: u64) -> u64 {
        let function = self.constructor(6, &[NONE, ty, body]);
        self.apps(function, &[value])
    }

    fn number(&mut self, value: u64) -> u64 {
        let literal = self.constructor(0, &[value << 1 | 1]);
        self.constructor(9, &[literal])
    }

    fn head(&mut self, name: &str, params: &[&str], ty: u64) -> u64 {
        let params: Vec<u64> = params.iter().map(|name| self.name(name)).collect();
        let (name, params) = (self.name(name), self.list(&params));
        self.constructor(0, &[name, params, ty])
    }

    fn theorem(&mut self, name: &str, ty: u64, value: u64) -> u64 {
        let head = self.head(name, &[], ty);
        let theorem = self.constructor(0, &[head, value, NONE]);
        self.constructor(2, &[theorem])
    }

    fn definition(&mut self, name: &str, params: &[&str], ty: u64, value: u64) -> u64 {
        let head = self.head(name, params, ty);
        let definition = self.object(0, &[head, value, 3, NONE], &[1, 0, 0, 0, 0, 0, 0, 0]);
        self.constructor(1, &[definition])
    }

    /// `sorryAx proposition true`.
    fn sorry(&mut self, proposition: u64) -> u64 {
        let sorry = self.constant("sorryAx", &[NONE]);
        let yes = self.constant("Bool.true", &[]);
        self.apps(sorry, &[proposition, yes])
    }

    /// `(2 ^ 2 ^ 18 == 0) = false`, which takes much work and few steps, with its proof.
    fn large(&mut self) -> (u64, u64) {
        let (two, many, zero) = (self.number(2), self.number(1 << 18), self.number(0));
        let (pow, beq) = (self.constant("Nat.pow", &[]), self.constant("Nat.beq", &[]));
        let power = self.apps(pow, &[two, many]);
        let equal = self.apps(beq, &[power, zero]);
        let (truth, no) = (self.constant("Bool", &[]), self.constant("Bool.false", &[]));
        let one = self.constructor(1, &[NONE]);
        let [eq, refl] = ["Eq", "Eq.refl"].map(|name| self.constant(name, &[one]));
        let equation = self.apps(eq, &[truth, equal, no]);
        (equation, self.apps(refl, &[truth, no]))
    }

    fn file(mut self, constants: &[u64]) -> Vec<Vec<u8>> {
        let names = self.array(&vec![NONE; constants.len()]);
        let (imports, constants) = (self.array(&[]), self.array(constants));
        let root = self.constructor(0, &[imports, names, constants]);
        self.0[80..88].copy_from_slice(&BASE.to_le_bytes());
        self.0[88..96].copy_from_slice(&root.to_le_bytes());
        vec![self.0]
    }
}

fn judged(
    library: &Library,
    statement: &[Vec<u8>],
    proof: &[Vec<u8>],
    budget: Budget,
) -> Result<Option<Vec<String>>, Fault> {
    deep(|| crate::judged(library, statement, "t", proof.to_vec(), budget))
}

/// `theorem t : False := sorry`, after other declarations.
fn unproved(
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

/// If the budget ended during the search for axioms, the search missed the rest of them.
#[test]
fn an_unproved_statement_is_refused_under_every_budget() {
    let Some(library) = library(&["Init"]) else {
        return;
    };
    let statement = unproved(|_| Vec::new(), |_, sorry| sorry);
    let proof = unproved(
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
        match judged(&library, &statement, &proof, budget) {
            Err(Fault::Proof(Error::Budget)) => spent += 1,
            Err(Fault::Proof(Error::Rejected(why))) if why.contains("sorryAx") => refused += 1,
            // The budget is too small to read the statement.
            Err(Fault::Task(_)) => {}
            other => panic!("{steps} steps: {other:?}"),
        }
    }
    assert!(spent > 10 && refused > 10, "{spent} {refused}");
}

#[test]
fn a_proof_that_is_too_deep_is_not_the_statements_fault() {
    let Some(library) = library(&["Init"]) else {
        return;
    };
    let file = |deep: bool| {
        let mut module = Module::new();
        let proposition = module.constructor(3, &[NONE]);
        let falsity = module.constant("False", &[]);
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

/// Each definition is the previous one with a universe level that is greater by 900.
#[test]
fn levels_do_not_grow_until_the_stack_overflows() {
    let Some(library) = library(&["Init"]) else {
        return;
    };
    let statement = unproved(|_| Vec::new(), |_, sorry| sorry);
    let proof = unproved(
        |module| {
            let proposition = module.constructor(3, &[NONE]);
            let u = module.name("u");
            let u = module.constructor(4, &[u]);
            let next = module.constructor(1, &[u]);
            let large = (0..900).fold(u, |level, _| module.constructor(1, &[level]));
            let sort = module.constructor(3, &[u]);
            let unit = module.constant("PUnit", &[u]);
            let eq = module.constant("Eq", &[next]);
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
            let one = module.constructor(1, &[NONE]);
            let eq = module.constant("Eq", &[one]);
            let sort = module.constructor(3, &[NONE]);
            let goal = module.apps(eq, &[sort, truth, truth]);
            let variable = module.constructor(0, &[1]);
            let inner = module.given(goal, variable, sorry);
            module.constructor(6, &[NONE, last, inner])
        },
    );
    let found = judged(&library, &statement, &proof, Budget::default());
    assert_eq!(found, Err(Fault::Proof(Error::Budget)));
}

/// A thousand definitions in a namespace of four million letters. The steps that wrote or read a whole name took seconds in total, and were not counted.
#[test]
fn work_on_long_names_is_counted() {
    let Some(library) = library(&["Init"]) else {
        return;
    };
    let statement = unproved(|_| Vec::new(), |_, sorry| sorry);
    let proof = unproved(
        |module| {
            let space = module.name(&"n".repeat(4 << 20));
            let (proposition, truth) =
                (module.constructor(3, &[NONE]), module.constant("True", &[]));
            let mut all = truth;
            let mut constants = Vec::new();
            for number in 0..1_000 {
                let name = module.constructor(2, &[space, number << 1 | 1]);
                let head = module.constructor(0, &[name, NONE, proposition]);
                let value = module.object(0, &[head, truth, 3, NONE], &[1, 0, 0, 0, 0, 0, 0, 0]);
                constants.push(module.constructor(1, &[value]));
                let one = module.constructor(4, &[name, NONE]);
                all = module.constructor(7, &[NONE, one, all]);
            }
            constants.push(module.definition("all", &[], proposition, all));
            constants
        },
        |module, sorry| {
            let (proposition, all) = (module.constructor(3, &[NONE]), module.constant("all", &[]));
            module.given(proposition, all, sorry)
        },
    );
    let started = Instant::now();
    let found = judged(&library, &statement, &proof, Budget::default());
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
