//! Expressions that may have a value assigned: x = 5.

use crate::expression::{Expr, Function};

/// Whether it may have a value assigned: x, (x, y), f(2), |z|, sin A, Area, and a ratio of two of these, MN/AB or x:y. An equation with a sum or a product on this side
/// is a step on the way to an answer.
pub(crate) fn is_assignable(expr: &Expr) -> bool {
    let is_symbol = |expr: &Expr| matches!(expr, Expr::Symbol(_));
    match expr {
        Expr::Symbol(_) | Expr::Apply(..) | Expr::Words(_) => true,
        Expr::Tuple(_, parts, _) => parts.iter().all(is_symbol),
        Expr::Call(function, arguments) => {
            let is_operation = matches!(
                function,
                Function::Factorial
                    | Function::Binomial
                    | Function::Floor
                    | Function::Ceiling
                    | Function::Exp
            );
            !is_operation && arguments.iter().all(is_symbol)
        }
        Expr::Quotient(above, below) => is_ratio_part(above) && is_ratio_part(below),
        // "x : f(x) = 0" means "such that".
        Expr::Ratio(parts) => {
            let values = parts.iter().filter(|part| matches!(part, Expr::Apply(..)));
            let alike = [0, parts.len()].contains(&values.count());
            alike && parts.iter().all(is_ratio_part)
        }
        // m∠ABC
        Expr::Product(_) => is_ratio_part(expr),
        _ => false,
    }
}

/// Whether it is a name that may be part of a ratio: x, AB, f(2), m∠ABC.
fn is_ratio_part(expr: &Expr) -> bool {
    match expr {
        Expr::Symbol(_) | Expr::Apply(..) => true,
        Expr::Product(factors) => matches!(factors.as_slice(),
            [Expr::Symbol(m), Expr::Symbol(angle)] if m == "m" && angle.starts_with("angle ")),
        _ => false,
    }
}
