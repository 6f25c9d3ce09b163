//! The kernel on Lean's own library: 140,000 declarations that Lean 4.28 compiled, of `Init`, `Std` and `Lean`.
//!
//! Its modules contain only the public part: most theorems have no proofs, and some definitions have no values. So lemmas about their equations cannot be checked.

use std::collections::BTreeMap;

use kernel::{Budget, ConstantInfo, Error, InductiveFamily, InductiveVal, Kind, TypeChecker};

use crate::lean::{deep, library};

/// So small that a slow check fails instead of making the test wait.
const BUDGET: Budget = Budget {
    steps: 20_000_000,
    terms: 20_000_000,
};

fn value(constant: &ConstantInfo) -> Option<&'static str> {
    match constant.kind {
        Kind::Definition(..) => Some("definition"),
        Kind::Theorem(_) => Some("theorem"),
        Kind::Opaque(_) => Some("opaque"),
        _ => None,
    }
}

#[test]
fn leans_own_library_is_accepted_but_for_hidden_values() {
    deep(|| {
        let Some(library) = library(&["Std", "Lean"]) else {
            return;
        };
        let mut places: Vec<(u32, u64)> = library.places().collect();
        places.sort_unstable();
        let mut checker = TypeChecker::new(&library, BUDGET);
        let (mut counts, mut wrong, mut nested) = (BTreeMap::new(), Vec::new(), 0);
        for place in places {
            if checker.store().size() > 3_000_000 {
                checker = TypeChecker::new(&library, BUDGET);
            }
            let constant = checker.read(place).unwrap();
            let (kind, checked) = match &constant.kind {
                Kind::Inductive(inductive) if inductive.all[0] == constant.name => {
                    ("inductive", recursors(&mut checker, &constant, inductive))
                }
                _ => match value(&constant) {
                    Some(kind) => (kind, checker.check_value(&constant)),
                    None => continue,
                },
            };
            *counts.entry(kind).or_insert(0) += 1;
            match checked {
                Ok(()) => {}
                Err(Error::Rejected(why)) if why.contains("within another one") => nested += 1,
                Err(error) => wrong.push((checker.store().whole(constant.name), error)),
            }
        }
        println!("{counts:?}, {} not accepted, {nested} nested", wrong.len());
        assert!(counts["definition"] > 40_000 && counts["theorem"] > 7_000);
        assert!(counts["inductive"] > 2_000 && nested < 40);
        // Lemmas that Lean generates from a definition's equations.
        let lemmas = [
            "eq_",
            "congr_eq_",
            "splitter",
            "else_eq",
            "_sizeOf_",
            "induct_unfolding",
        ];
        wrong.retain(|(name, error)| {
            let last = name.rsplit('.').next().unwrap_or(name);
            let hidden = matches!(error, Error::Rejected(why) if why.contains("is not declared"));
            !hidden && !lemmas.iter().any(|lemma| last.starts_with(lemma))
        });
        assert!(wrong.len() <= 1, "{wrong:#?}");
        assert!(!wrong.iter().any(|(_, error)| *error == Error::Budget));
    });
}

#[test]
fn a_value_of_another_type_is_rejected() {
    deep(|| {
        let Some(library) = library(&["Std", "Lean"]) else {
            return;
        };
        let mut places: Vec<(u32, u64)> = library.places().collect();
        places.sort_unstable();
        let mut checker = TypeChecker::new(&library, BUDGET);
        let (mut before, mut tried, mut accepted): (Option<ConstantInfo>, u32, Vec<String>) =
            (None, 0, Vec::new());
        for place in places.into_iter().step_by(3) {
            if checker.store().size() > 3_000_000 {
                (checker, before) = (TypeChecker::new(&library, BUDGET), None);
            }
            let constant = checker.read(place).unwrap();
            if value(&constant).is_none() || checker.check_value(&constant).is_err() {
                continue;
            }
            if let Some(before) = before.replace(constant.clone())
                && !checker.same_type(&before, &constant).unwrap_or(true)
            {
                let mixed = ConstantInfo {
                    ty: before.ty,
                    params: before.params.clone(),
                    ..constant
                };
                tried += 1;
                if checker.check_value(&mixed).is_ok() {
                    accepted.push(checker.store().show(mixed.name));
                }
            }
        }
        println!("{tried} values under the type of another");
        assert!(tried > 10_000, "{tried}");
        assert_eq!(accepted, Vec::<String>::new());
    });
}

/// Checks that the kernel derives the same recursors as Lean.
fn recursors(
    checker: &mut TypeChecker<'_>,
    constant: &ConstantInfo,
    inductive: &InductiveVal,
) -> Result<(), Error> {
    let find = |name| checker.find(name).unwrap();
    let family = InductiveFamily::collect(constant, inductive, find).unwrap();
    let mut known = Vec::new();
    for name in &inductive.all {
        let name = checker.store().str_name(*name, "rec");
        known.push(checker.find(name)?.unwrap());
    }
    for (derived, known) in checker.recursors(&family)?.into_iter().zip(known) {
        if !checker.same(&derived, &known)? {
            return Err(Error::Rejected("the recursor differs".to_owned()));
        }
    }
    Ok(())
}
