//! The kernel computes operations on numbers directly instead of unfolding their definitions. The results are right, and no wrong result is accepted.
//!
//! `RAPID_TEST_LEAN` names the folder with Lean's library (`bash scripts/lean.sh` prints it).

use std::path::PathBuf;

use dashu_int::UBig;
use kernel::{Budget, Checker, Constant, Error, ExprId, Kind, Level, Library, Store};

/// The result of an operation on two numbers by Rust's arithmetic; `None` if that overflows.
type Wanted = fn(u128, u128) -> Option<u128>;

const NUMBERS: [(&str, Wanted); 12] = [
    ("add", u128::checked_add),
    ("sub", |a, b| Some(a.saturating_sub(b))),
    ("mul", u128::checked_mul),
    ("div", |a, b| Some(a.checked_div(b).unwrap_or(0))),
    ("mod", |a, b| Some(a.checked_rem(b).unwrap_or(a))),
    ("gcd", |a, b| Some(gcd(a, b))),
    ("land", |a, b| Some(a & b)),
    ("lor", |a, b| Some(a | b)),
    ("xor", |a, b| Some(a ^ b)),
    ("shiftLeft", |a, b| {
        let power = 2_u128.checked_pow(u32::try_from(b).ok()?)?;
        a.checked_mul(power)
    }),
    ("shiftRight", |a, b| {
        let by = u32::try_from(b).ok();
        Some(by.and_then(|by| a.checked_shr(by)).unwrap_or(0))
    }),
    ("pow", |a, b| a.checked_pow(u32::try_from(b).ok()?)),
];

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn constant(store: &mut Store, name: &str, levels: u32) -> ExprId {
    let zero = store.level(Level::Zero);
    let one = store.level(Level::Succ(zero));
    let levels = store.levels(&vec![one; levels as usize]);
    let name = store.name(name);
    store.constant(name, levels)
}

/// Checks a proof of `left = right`, both of type `ty`, by computing.
fn equal(
    library: &Library,
    ty: &str,
    sides: impl FnOnce(&mut Store) -> (ExprId, ExprId),
) -> Result<(), Error> {
    let mut checker = Checker::new(library, Budget::default());
    let store = checker.store();
    let (left, right) = sides(store);
    let (ty, eq, refl) = (
        constant(store, ty, 0),
        constant(store, "Eq", 1),
        constant(store, "Eq.refl", 1),
    );
    let equation = store.apps(eq, &[ty, left, right]);
    let proof = store.apps(refl, &[ty, right]);
    let name = store.name("t");
    checker.declare(Constant {
        name,
        params: Vec::new(),
        ty: equation,
        kind: Kind::Theorem(proof),
    })
}

#[test]
fn computed_numbers_are_right() {
    let Some(lean) = std::env::var_os("RAPID_TEST_LEAN") else {
        println!(
            "SKIPPED: Lean's library: RAPID_TEST_LEAN does not name it (scripts/lean.sh fetches it)"
        );
        return;
    };
    let library = Library::open(&[PathBuf::from(lean).join("lib")], &["Init".to_owned()]).unwrap();
    let large = u128::from(u64::MAX);
    let some = [
        0,
        1,
        2,
        3,
        6,
        10,
        63,
        64,
        65,
        large,
        large + 1,
        large * 3 + 7,
    ];
    let number = |store: &mut Store, value: u128| store.nat(UBig::from(value));
    let call = |store: &mut Store, name: &str, arguments: &[u128]| {
        let arguments: Vec<ExprId> = arguments.iter().map(|at| number(store, *at)).collect();
        let function = constant(store, &format!("Nat.{name}"), 0);
        store.apps(function, &arguments)
    };
    let check = |name: &str, arguments: &[u128], value: u128| {
        for (claimed, right) in [(value, true), (value ^ 1, false)] {
            let judged = equal(&library, "Nat", |store| {
                (call(store, name, arguments), number(store, claimed))
            });
            assert_eq!(
                judged.is_ok(),
                right,
                "{name} {arguments:?} = {claimed}: {judged:?}"
            );
        }
    };
    for a in some {
        check("succ", &[a], a + 1);
        check("log2", &[a], u128::from(a.checked_ilog2().unwrap_or(0)));
        for b in some {
            for (name, wanted) in NUMBERS {
                if let Some(value) = wanted(a, b) {
                    check(name, &[a, b], value);
                }
            }
            for (name, wanted) in [("beq", a == b), ("ble", a <= b)] {
                for claimed in [true, false] {
                    let judged = equal(&library, "Bool", |store| {
                        let truth = constant(store, &format!("Bool.{claimed}"), 0);
                        (call(store, name, &[a, b]), truth)
                    });
                    assert_eq!(
                        judged.is_ok(),
                        claimed == wanted,
                        "{name} {a} {b}: {judged:?}"
                    );
                }
            }
        }
    }
}
