//! Arguments of trigonometric functions: sin(π − x) is sin x.

use dashu_ratio::RBig;

use crate::arithmetic::exact::rational;
use crate::expression::{Constant, Expr, Function};
use crate::meter::Meter;

/// Whether a trigonometric function has an argument that adds right angles to a variable. The right angles can be removed.
pub(super) fn is_shifted_by_right_angles(
    function: Function,
    arguments: &[Expr],
    meter: &Meter,
) -> bool {
    let is_trigonometric = matches!(
        function,
        Function::Sin
            | Function::Cos
            | Function::Tan
            | Function::Cot
            | Function::Sec
            | Function::Csc
    );
    let [Expr::Sum(terms)] = arguments else {
        return false;
    };
    let whole = |term| right_angles(term, meter).is_some_and(|angles| angles.is_int());
    is_trigonometric && terms.iter().any(Expr::has_variable) && terms.iter().any(whole)
}

/// The number of right angles in an angle, if it is rational and not 0: 3 in 3π/2 and in 270°.
fn right_angles(term: &Expr, meter: &Meter) -> Option<RBig> {
    let number = |expr: &Expr| rational(expr, meter).filter(|value| !value.is_zero());
    match term {
        Expr::Constant(Constant::Pi) => Some(RBig::from(2)),
        Expr::Degrees(degrees) => Some(number(degrees)? / RBig::from(90)),
        Expr::Negative(inner) => right_angles(inner, meter),
        Expr::Quotient(above, below) => Some(right_angles(above, meter)? / number(below)?),
        Expr::Product(factors) => {
            let (angles, numbers): (Vec<&Expr>, Vec<&Expr>) =
                factors.iter().partition(|factor| number(factor).is_none());
            let [angle] = angles.as_slice() else {
                return None;
            };
            let numbers = numbers.into_iter().filter_map(number);
            let factor = numbers.fold(RBig::ONE, |product, number| product * number);
            Some(right_angles(angle, meter)? * factor)
        }
        _ => None,
    }
}
