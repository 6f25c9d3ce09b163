//! The kernel computes operations on numbers directly instead of unfolding their definitions. The results are right, and no wrong result is accepted.

use kernel::{Budget, Error, Library, TypeChecker};

use crate::lean::library;
use crate::terms::{equation, term};

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

/// Checks a proof of `left = right`, both of type `ty`, by computing.
fn equal(library: &Library, ty: &str, left: &str, right: &str) -> Result<(), Error> {
    let mut checker = TypeChecker::new(library, Budget::default());
    let [left, right] = [left, right].map(|side| term(checker.store(), side));
    let theorem = equation(checker.store(), ty, left, right);
    checker.declare(theorem)
}

#[test]
fn computed_numbers_are_right() {
    let Some(library) = library(&["Init"]) else {
        return;
    };
    let large = u128::from(u64::MAX);
    let larger = large * 3 + 7;
    let some = [0, 1, 2, 3, 6, 10, 63, 64, 65, large, large + 1, larger];
    let check = |call: &str, value: u128| {
        for (claimed, right) in [(value, true), (value ^ 1, false)] {
            let judged = equal(&library, "Nat", call, &claimed.to_string());
            assert_eq!(judged.is_ok(), right, "{call} = {claimed}: {judged:?}");
        }
    };
    for a in some {
        check(&format!("Nat.succ {a}"), a + 1);
        let log2 = u128::from(a.checked_ilog2().unwrap_or(0));
        check(&format!("Nat.log2 {a}"), log2);
        for b in some {
            for (name, wanted) in NUMBERS {
                if let Some(value) = wanted(a, b) {
                    check(&format!("Nat.{name} {a} {b}"), value);
                }
            }
            for (name, wanted) in [("beq", a == b), ("ble", a <= b)] {
                for claimed in [true, false] {
                    let call = format!("Nat.{name} {a} {b}");
                    let judged = equal(&library, "Bool", &call, &format!("Bool.{claimed}"));
                    assert_eq!(judged.is_ok(), claimed == wanted, "{call}: {judged:?}");
                }
            }
        }
    }
}
