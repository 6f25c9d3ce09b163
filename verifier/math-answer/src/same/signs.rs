//! What ± stands for.

use std::borrow::Cow;

use crate::meter::Meter;
use crate::syntax::{Expr, Relation, Side};

/// Values that signs of ± stand for, at most.
const MAX_VARIANTS: usize = 16;
/// Steps that a look at a node costs, or a copy of it.
const NODE: u64 = 10;

/// The values that the signs of ± stand for, as a list.
pub(crate) fn variants<'a>(expr: &'a Expr, meter: &Meter) -> Option<Cow<'a, Expr>> {
    match count(expr, meter)? {
        0 => Some(Cow::Borrowed(expr)),
        signs => spread(expr, signs, meter).map(Cow::Owned),
    }
}

/// The same, where there are some signs.
fn spread(expr: &Expr, signs: usize, meter: &Meter) -> Option<Expr> {
    match expr {
        Expr::List(items) | Expr::Set(items) => {
            let mut all = Vec::new();
            for item in items {
                match variants(item, meter)?.into_owned() {
                    Expr::List(more) => all.extend(more),
                    one => all.push(one),
                }
            }
            Some(if matches!(expr, Expr::Set(_)) {
                Expr::Set(all)
            } else {
                Expr::List(all)
            })
        }
        Expr::Relation(parts, relations) => {
            let ([name, value], [Relation::Equal]) = (parts.as_slice(), relations.as_slice())
            else {
                return None;
            };
            match (count(name, meter)?, variants(value, meter)?.into_owned()) {
                (0, Expr::List(values)) => Some(Expr::List(
                    values
                        .into_iter()
                        .map(|value| {
                            Expr::Relation(vec![name.clone(), value], vec![Relation::Equal])
                        })
                        .collect(),
                )),
                _ => None,
            }
        }
        _ => {
            // With ∓ among them all signs go together; else each goes by itself.
            let together = has_lower(expr);
            let free = if together {
                1
            } else {
                u32::try_from(signs).ok()?
            };
            if free > MAX_VARIANTS.ilog2() {
                return None;
            }
            let mut all = Vec::new();
            for choice in 0..1_u32 << free {
                let mut at = 0;
                let one = chosen(expr, &mut |side| {
                    let upper = choice >> (if together { 0 } else { at }) & 1 == 0;
                    at += 1;
                    upper == (side == Side::PlusMinus)
                });
                // In a union or a matrix a sign is no list of values.
                if count(&one, meter)? != 0 {
                    return None;
                }
                all.push(one);
            }
            Some(Expr::List(all))
        }
    }
}

/// Signs of ± and ∓.
fn count(expr: &Expr, meter: &Meter) -> Option<usize> {
    meter.spend(NODE)?;
    let mut signs = usize::from(matches!(expr, Expr::PlusMinus(..)));
    for part in expr.parts() {
        signs += count(part, meter)?;
    }
    Some(signs)
}

fn has_lower(expr: &Expr) -> bool {
    matches!(expr, Expr::PlusMinus(Side::MinusPlus, _)) || expr.parts().into_iter().any(has_lower)
}

/// The expression with each sign chosen: true keeps plus.
fn chosen(expr: &Expr, choose: &mut impl FnMut(Side) -> bool) -> Expr {
    let mut one = |expr: &Expr| Box::new(chosen(expr, choose));
    match expr {
        Expr::PlusMinus(side, inner) => {
            let plus = choose(*side);
            let inner = chosen(inner, choose);
            if plus {
                inner
            } else {
                Expr::Negative(Box::new(inner))
            }
        }
        Expr::Sum(all) => Expr::Sum(all.iter().map(|x| chosen(x, choose)).collect()),
        Expr::Product(all) => Expr::Product(all.iter().map(|x| chosen(x, choose)).collect()),
        Expr::Call(function, all) => {
            Expr::Call(*function, all.iter().map(|x| chosen(x, choose)).collect())
        }
        Expr::Tuple(open, all, close) => Expr::Tuple(
            *open,
            all.iter().map(|x| chosen(x, choose)).collect(),
            *close,
        ),
        Expr::Quotient(a, b) => Expr::Quotient(one(a), one(b)),
        Expr::Power(a, b) => Expr::Power(one(a), one(b)),
        Expr::Root(a, b) => Expr::Root(one(a), one(b)),
        Expr::Negative(inner) => Expr::Negative(one(inner)),
        Expr::Quantity(inner, words) => Expr::Quantity(one(inner), words.clone()),
        Expr::Degrees(inner) => Expr::Degrees(one(inner)),
        Expr::Percent(inner) => Expr::Percent(one(inner)),
        Expr::Money(sign, inner) => Expr::Money(*sign, one(inner)),
        other => other.clone(),
    }
}
