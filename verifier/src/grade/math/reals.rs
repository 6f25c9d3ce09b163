//! Sets of real numbers: intervals, unions of them, and inequalities in one variable.

use super::syntax::{Bracket, Constant, Expr, Relation, SetOperator};
use super::value::Judge;

/// Sets of more pieces are not computed with.
const MAX_PIECES: usize = 32;

/// An end of an interval: where it is, as it was written, and whether it belongs to it.
#[derive(Debug, Clone)]
struct End {
    at: f64,
    written: Expr,
    closed: bool,
}

/// An interval, or a point where both ends are one.
#[derive(Debug, Clone)]
struct Piece {
    low: End,
    high: End,
}

/// Pieces in order, apart from each other.
#[derive(Debug, Clone)]
pub(super) struct Reals(Vec<Piece>);

impl Reals {
    /// The set of real numbers that `expr` is, or that satisfy it.
    pub(super) fn of(judge: &Judge, expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Tuple(
                open @ (Bracket::Round | Bracket::Square),
                ends,
                close @ (Bracket::Round | Bracket::Square),
            ) => {
                let [low, high] = ends.as_slice() else {
                    return None;
                };
                let low = end(judge, low, *open == Bracket::Square)?;
                let high = end(judge, high, *close == Bracket::Square)?;
                Some(Self::piece(low, high))
            }
            Expr::Set(items) => {
                let mut all = Self(Vec::new());
                for item in items {
                    let point = end(judge, item, true)?;
                    all = all.union(Self::piece(point.clone(), point))?;
                }
                Some(all)
            }
            Expr::Symbol(name) if name == "Reals" => Some(Self::line()),
            Expr::Combine(left, operator, right) => {
                let (left, right) = (Self::of(judge, left)?, Self::of(judge, right)?);
                match operator {
                    SetOperator::Union => left.union(right),
                    SetOperator::Intersection => left
                        .complement()
                        .union(right.complement())
                        .map(|all| all.complement()),
                    SetOperator::Difference => {
                        left.complement().union(right).map(|all| all.complement())
                    }
                }
            }
            Expr::Relation(parts, relations) => Self::of_relation(judge, parts, relations),
            // x < 1 or x > 3
            Expr::List(items) => {
                let mut all = Self(Vec::new());
                for item in items {
                    if !matches!(item, Expr::Relation(..)) {
                        return None;
                    }
                    all = all.union(Self::of(judge, item)?)?;
                }
                Some(all)
            }
            _ => None,
        }
    }

    fn of_relation(judge: &Judge, parts: &[Expr], relations: &[Relation]) -> Option<Self> {
        let place = parts.iter().position(is_name)?;
        if parts.iter().skip(place + 1).any(is_name) || relations.len() + 1 != parts.len() {
            return None;
        }
        let mut all = Self::line();
        for (number, relation) in relations.iter().enumerate() {
            let (bound, relation) = if number + 1 == place {
                (&parts[number], reversed(*relation)?)
            } else if number == place {
                (&parts[number + 1], *relation)
            } else {
                return None;
            };
            let set = match relation {
                Relation::In => Self::of(judge, bound)?,
                Relation::Unequal => Self::of(judge, &Expr::Set(vec![bound.clone()]))?.complement(),
                Relation::Equal => return None,
                Relation::Less | Relation::LessOrEqual => {
                    let high = end(judge, bound, relation == Relation::LessOrEqual)?;
                    Self::piece(infinite(false), high)
                }
                Relation::Greater | Relation::GreaterOrEqual => {
                    let low = end(judge, bound, relation == Relation::GreaterOrEqual)?;
                    Self::piece(low, infinite(true))
                }
            };
            all = all.complement().union(set.complement())?.complement();
        }
        Some(all)
    }

    /// Whether both are the same set.
    pub(super) fn same(&self, judge: &Judge, other: &Self) -> bool {
        let same_end =
            |a: &End, b: &End| a.closed == b.closed && judge.same(&a.written, &b.written).is_some();
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(a, b)| same_end(&a.low, &b.low) && same_end(&a.high, &b.high))
    }

    fn line() -> Self {
        Self(vec![Piece {
            low: infinite(false),
            high: infinite(true),
        }])
    }

    fn piece(low: End, high: End) -> Self {
        let empty = low.at > high.at || (low.at == high.at && !(low.closed && high.closed));
        Self(if empty {
            Vec::new()
        } else {
            vec![Piece { low, high }]
        })
    }

    fn union(self, other: Self) -> Option<Self> {
        let mut pieces = self.0;
        pieces.extend(other.0);
        if pieces.len() > MAX_PIECES {
            return None;
        }
        pieces.sort_by(|a, b| {
            a.low
                .at
                .total_cmp(&b.low.at)
                .then(b.low.closed.cmp(&a.low.closed))
        });
        let mut joined: Vec<Piece> = Vec::new();
        for piece in pieces {
            match joined.last_mut() {
                Some(last)
                    if piece.low.at < last.high.at
                        || (piece.low.at == last.high.at
                            && (piece.low.closed || last.high.closed)) =>
                {
                    let further = piece.high.at > last.high.at
                        || (piece.high.at == last.high.at && piece.high.closed);
                    if further {
                        last.high = piece.high;
                    }
                }
                _ => joined.push(piece),
            }
        }
        Some(Self(joined))
    }

    fn complement(&self) -> Self {
        let mut pieces = Vec::new();
        let mut low = infinite(false);
        for piece in &self.0 {
            let high = End {
                closed: !piece.low.closed,
                ..piece.low.clone()
            };
            pieces.extend(Self::piece(low, high).0);
            low = End {
                closed: !piece.high.closed,
                ..piece.high.clone()
            };
        }
        pieces.extend(Self::piece(low, infinite(true)).0);
        pieces.retain(|piece| piece.low.at < piece.high.at || piece.low.at.is_finite());
        Self(pieces)
    }
}

fn infinite(positive: bool) -> End {
    let infinity = Expr::Constant(Constant::Infinity);
    End {
        at: if positive {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        },
        written: if positive {
            infinity
        } else {
            Expr::Negative(Box::new(infinity))
        },
        closed: false,
    }
}

fn end(judge: &Judge, written: &Expr, closed: bool) -> Option<End> {
    let at = judge.real(written)?;
    Some(End {
        at,
        written: written.clone(),
        closed: closed && at.is_finite(),
    })
}

/// A variable, or a function of one: what an inequality is about.
fn is_name(expr: &Expr) -> bool {
    match expr {
        Expr::Symbol(name) => name != "Reals",
        Expr::Apply(_, arguments) => matches!(arguments.as_slice(), [Expr::Symbol(_)]),
        _ => false,
    }
}

fn reversed(relation: Relation) -> Option<Relation> {
    Some(match relation {
        Relation::Less => Relation::Greater,
        Relation::LessOrEqual => Relation::GreaterOrEqual,
        Relation::Greater => Relation::Less,
        Relation::GreaterOrEqual => Relation::LessOrEqual,
        Relation::Equal | Relation::Unequal => relation,
        Relation::In => return None,
    })
}
