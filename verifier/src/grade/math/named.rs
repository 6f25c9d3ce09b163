//! What an equation says of a name: x = 5 is 5, where the other answer names nothing.

use std::borrow::Cow;

use super::syntax::{Expr, Function, Relation};
use super::value::Judge;

/// What `x = 5` says of x, where the other answer does not name it; and the set of `x ∈ [0, 1]`.
pub(super) fn assigned<'a>(expr: &'a Expr, other: &Expr) -> &'a Expr {
    let Expr::Relation(parts, relations) = expr else {
        return expr;
    };
    let ([left, value], [relation]) = (parts.as_slice(), relations.as_slice()) else {
        return expr;
    };
    let strips = match relation {
        Relation::Equal => is_name(left) && !matches!(other, Expr::Relation(..)),
        Relation::In => {
            matches!(left, Expr::Symbol(_))
                || matches!(left, Expr::Apply(_, of) if matches!(of.as_slice(), [Expr::Symbol(_)]))
        }
        _ => false,
    };
    if strips { value } else { expr }
}

/// What may be called by a value: x, (x, y), f(2), |z|, sin A, MN/AB, Area. A sum or a product is a step on the way.
fn is_name(expr: &Expr) -> bool {
    let is_symbol = |expr: &Expr| matches!(expr, Expr::Symbol(_));
    match expr {
        Expr::Symbol(_) | Expr::Apply(..) | Expr::Words(_) => true,
        Expr::Tuple(_, parts, _) => parts.iter().all(is_symbol),
        Expr::Call(function, of) => {
            let step = matches!(
                function,
                Function::Factorial
                    | Function::Binomial
                    | Function::Floor
                    | Function::Ceiling
                    | Function::Exp
            );
            !step && of.iter().all(is_symbol)
        }
        Expr::Quotient(above, below) => is_segment(above) && is_segment(below),
        // m∠ABC
        Expr::Product(factors) => matches!(factors.as_slice(),
            [Expr::Symbol(m), Expr::Symbol(angle)] if m == "m" && angle.starts_with("angle ")),
        _ => false,
    }
}

/// AB, by the letters of its ends.
fn is_segment(expr: &Expr) -> bool {
    let named = |name: &str| name.len() == 2 && name.chars().all(|c| c.is_ascii_uppercase());
    match expr {
        Expr::Symbol(name) => named(name) || name.strip_prefix("overline ").is_some_and(named),
        _ => false,
    }
}

/// The last of several equal values: ½ = 0.5 says ½, and x = ½ = 0.5 says x = ½.
pub(super) fn chained<'a>(judge: &Judge, expr: &'a Expr) -> Cow<'a, Expr> {
    let kept = Cow::Borrowed(expr);
    let Expr::Relation(parts, relations) = expr else {
        return kept;
    };
    let equal = relations.iter().all(|one| *one == Relation::Equal);
    let (true, [first, .., last]) = (equal, parts.as_slice()) else {
        return kept;
    };
    let says_last = |part: &Expr| judge.same(bare(part), bare(last)).is_some();
    let is_number = |part: &Expr| judge.place(bare(part)).is_some();
    if is_number(first) {
        let all = parts[..parts.len() - 1]
            .iter()
            .all(|part| is_number(part) && says_last(part));
        return if all { Cow::Borrowed(last) } else { kept };
    }
    let between = &parts[1..parts.len() - 1];
    let named = !between.is_empty()
        && is_name(first)
        && between
            .iter()
            .all(|part| !is_number(part) || says_last(part));
    if named {
        let said = vec![first.clone(), last.clone()];
        return Cow::Owned(Expr::Relation(said, vec![Relation::Equal]));
    }
    kept
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Money(_, inner) | Expr::Quantity(inner, _) => inner,
        other => other,
    }
}
