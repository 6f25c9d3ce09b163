//! The values of ± and ∓.

use std::borrow::Cow;

use crate::expression::{Expr, Relation, Side};
use crate::meter::Meter;

/// Maximum number of values of an expression with ±.
const MAX_VARIANTS: usize = 16;
/// Meter steps for visiting or copying a node.
const NODE_COST: u64 = 10;

/// The values of an expression with ±, as a list. The expression itself if it has none.
pub(crate) fn variants<'a>(expr: &'a Expr, meter: &Meter) -> Option<Cow<'a, Expr>> {
    match count_signs(expr, meter)? {
        0 => Some(Cow::Borrowed(expr)),
        signs => expand_signs(expr, signs, meter).map(Cow::Owned),
    }
}

/// The values of an expression with this number of signs, as a list.
fn expand_signs(expr: &Expr, signs: usize, meter: &Meter) -> Option<Expr> {
    match expr {
        Expr::List(items) | Expr::Set(items) => {
            let mut values = Vec::new();
            for item in items {
                match variants(item, meter)?.into_owned() {
                    Expr::List(more) => values.extend(more),
                    one => values.push(one),
                }
            }
            Some(if matches!(expr, Expr::Set(_)) {
                Expr::Set(values)
            } else {
                Expr::List(values)
            })
        }
        Expr::Relation(..) => {
            let (name, value) = expr.equation()?;
            let signs_of_name = count_signs(name, meter)?;
            let values = variants(value, meter)?.into_owned();
            let (0, Expr::List(values)) = (signs_of_name, values) else {
                return None;
            };
            let equation = |value| Expr::Relation(vec![name.clone(), value], vec![Relation::Equal]);
            Some(Expr::List(values.into_iter().map(equation).collect()))
        }
        _ => {
            // If there is a ∓, all signs change together. Otherwise each changes separately.
            let is_lower = |part: &Expr| matches!(part, Expr::PlusMinus(Side::MinusPlus, _));
            let linked = expr.contains(&is_lower);
            let signs = u32::try_from(signs).ok()?;
            let choices = if linked { 1 } else { signs };
            if choices > MAX_VARIANTS.ilog2() {
                return None;
            }
            let mut values = Vec::new();
            for choice in 0..1_u32 << choices {
                let mut index = 0;
                let value = with_signs(expr, &mut |side| {
                    let upper = choice >> (if linked { 0 } else { index }) & 1 == 0;
                    index += 1;
                    upper == (side == Side::PlusMinus)
                });
                // A sign in a union or a matrix does not stand for a list of values.
                if count_signs(&value, meter)? != 0 {
                    return None;
                }
                values.push(value);
            }
            Some(Expr::List(values))
        }
    }
}

/// The number of ± and ∓.
fn count_signs(expr: &Expr, meter: &Meter) -> Option<usize> {
    meter.spend(NODE_COST)?;
    let mut signs = usize::from(matches!(expr, Expr::PlusMinus(..)));
    for part in expr.parts() {
        signs += count_signs(part, meter)?;
    }
    Some(signs)
}

/// The expression with each ± or ∓ replaced. `choose` returns true for plus.
fn with_signs(expr: &Expr, choose: &mut impl FnMut(Side) -> bool) -> Expr {
    let mut inside = |expr: &Expr| Box::new(with_signs(expr, choose));
    match expr {
        Expr::PlusMinus(side, inner) => {
            let plus = choose(*side);
            with_signs(inner, choose).negated_if(!plus)
        }
        Expr::Sum(items) => Expr::Sum(each_with_signs(items, choose)),
        Expr::Product(items) => Expr::Product(each_with_signs(items, choose)),
        Expr::Call(function, items) => Expr::Call(*function, each_with_signs(items, choose)),
        Expr::Tuple(open, items, close) => {
            Expr::Tuple(*open, each_with_signs(items, choose), *close)
        }
        Expr::Quotient(a, b) => Expr::Quotient(inside(a), inside(b)),
        Expr::Power(a, b) => Expr::Power(inside(a), inside(b)),
        Expr::Root(a, b) => Expr::Root(inside(a), inside(b)),
        Expr::Negative(inner) => Expr::Negative(inside(inner)),
        Expr::Quantity(inner, words) => Expr::Quantity(inside(inner), words.clone()),
        Expr::Degrees(inner) => Expr::Degrees(inside(inner)),
        Expr::Percent(inner) => Expr::Percent(inside(inner)),
        Expr::Money(sign, inner) => Expr::Money(*sign, inside(inner)),
        other => other.clone(),
    }
}

fn each_with_signs(items: &[Expr], choose: &mut impl FnMut(Side) -> bool) -> Vec<Expr> {
    items.iter().map(|item| with_signs(item, choose)).collect()
}
