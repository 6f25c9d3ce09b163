//! Sets of real numbers: intervals, unions of them, and inequalities in one variable.

use std::cmp::Ordering;

use dashu_ratio::RBig;
use dashu_ratio::ops::Abs as _;

use crate::equivalence::linear_form::LinearForm;
use crate::equivalence::value_equality::{RealNumber, ValueComparer};
use crate::expression::{Bracket, Constant, Expr, Relation, SetOperator};
use crate::meter::arithmetic_cost;

/// Maximum number of intervals of a set.
const MAX_INTERVALS: usize = 32;

/// An end of an interval: its position, its expression as written, and whether it belongs to the interval.
#[derive(Debug, Clone)]
struct Endpoint {
    at: RealNumber,
    expr: Expr,
    closed: bool,
}

/// An interval, or a point if both ends are equal.
#[derive(Debug, Clone)]
struct Interval {
    low: Endpoint,
    high: Endpoint,
}

/// Disjoint intervals in ascending order.
#[derive(Debug, Clone)]
struct Intervals(Vec<Interval>);

/// A set of real numbers, and the variable of the inequality that describes it.
#[derive(Debug, Clone)]
pub(crate) struct RealSet<'a> {
    intervals: Intervals,
    variable: Option<&'a Expr>,
}

impl<'a> RealSet<'a> {
    /// The number of finite ends of its intervals, after overlapping intervals are merged.
    pub(crate) fn end_count(&self) -> usize {
        let finite = |end: &&Endpoint| !matches!(end.at, RealNumber::Infinite(_));
        let ends = self
            .intervals
            .0
            .iter()
            .flat_map(|interval| [&interval.low, &interval.high]);
        ends.filter(finite).count()
    }

    /// The set of real numbers that `expr` denotes, or the set of its solutions.
    pub(crate) fn from_expr(comparer: &ValueComparer, expr: &'a Expr) -> Option<Self> {
        let without_variable = |intervals| Self {
            intervals,
            variable: None,
        };
        match expr {
            Expr::Tuple(
                open @ (Bracket::Round | Bracket::Square),
                ends,
                close @ (Bracket::Round | Bracket::Square),
            ) => {
                let [low, high] = ends.as_slice() else {
                    return None;
                };
                let low = endpoint(comparer, low, *open == Bracket::Square)?;
                let high = endpoint(comparer, high, *close == Bracket::Square)?;
                // (3, 1) is a point, not an empty interval.
                let interval = Intervals::interval(comparer, low, high)?;
                (!interval.0.is_empty()).then(|| without_variable(interval))
            }
            Expr::Set(items) => {
                let mut points = Intervals(Vec::new());
                for item in items {
                    points = points.union(comparer, Intervals::point(comparer, item)?)?;
                }
                Some(without_variable(points))
            }
            Expr::Symbol(name) if name == "Reals" => Some(without_variable(Intervals::line())),
            Expr::Combine(left, operator, right) => {
                let left = Self::from_item(comparer, left)?;
                let right = Self::from_item(comparer, right)?;
                let variable = common_variable(left.variable, right.variable)?;
                let (left, right) = (left.intervals, right.intervals);
                let intervals = match operator {
                    SetOperator::Union => left.union(comparer, right)?,
                    SetOperator::Intersection => left.intersection(comparer, &right)?,
                    SetOperator::Difference => {
                        left.intersection(comparer, &right.complement(comparer)?)?
                    }
                };
                Some(Self {
                    intervals,
                    variable,
                })
            }
            Expr::Relation(_, relations) if *relations == [Relation::Equal] => None,
            Expr::Relation(..) => Self::from_item(comparer, expr),
            Expr::List(items) => Self::from_list(comparer, items),
            _ => None,
        }
    }

    /// Like [`RealSet::from_expr`], for an element of a list or of a combined set. There the equation x = 0 is a set, as x > 1 is.
    fn from_item(comparer: &ValueComparer, expr: &'a Expr) -> Option<Self> {
        match expr {
            Expr::Relation(parts, relations) => {
                Self::from_name_and_bounds(comparer, parts, relations)
                    .or_else(|| Self::from_linear(comparer, parts, relations))
            }
            _ => Self::from_expr(comparer, expr),
        }
    }

    /// Commas between inequalities mean "and" if some number satisfies all of them: x > 0, x < 5. Otherwise they mean "or": x < 2, x > 3.
    fn from_list(comparer: &ValueComparer, items: &'a [Expr]) -> Option<Self> {
        let is_inequality = |item: &Expr| matches!(item, Expr::Relation(_, relations) if *relations != [Relation::Equal]);
        if !items.iter().any(is_inequality) {
            return None;
        }
        let mut variable = None;
        let (mut intersection, mut union) = (Some(Intervals::line()), Some(Intervals(Vec::new())));
        for item in items {
            let set = match (item, &items[0]) {
                // x ≠ 2, 3
                (item, Expr::Relation(parts, relations))
                    if *relations == [Relation::Unequal] && !matches!(item, Expr::Relation(..)) =>
                {
                    Self {
                        intervals: Intervals::point(comparer, item)?.complement(comparer)?,
                        variable: parts.first(),
                    }
                }
                (Expr::Relation(..), _) => Self::from_item(comparer, item)?,
                _ => return None,
            };
            variable = common_variable(variable, set.variable)?;
            intersection = intersection.and_then(|all| all.intersection(comparer, &set.intervals));
            union = union.and_then(|any| any.union(comparer, set.intervals));
        }
        let intersection = intersection?;
        let intervals = if intersection.0.is_empty() {
            union?
        } else {
            intersection
        };
        Some(Self {
            intervals,
            variable,
        })
    }

    /// The solutions of relations between linear forms in one variable: −2y ≥ 6, −3 < 2x + 1 ≤ 7.
    fn from_linear(
        comparer: &ValueComparer,
        parts: &'a [Expr],
        relations: &[Relation],
    ) -> Option<Self> {
        if relations.len() + 1 != parts.len() {
            return None;
        }
        let mut solutions = Self {
            intervals: Intervals::line(),
            variable: None,
        };
        for (sides, relation) in parts.windows(2).zip(relations) {
            let form = LinearForm::difference(&sides[0], &sides[1], &comparer.meter)?;
            let variable = form.variable.filter(|_| !form.slope.is_zero())?;
            comparer
                .meter
                .spend(arithmetic_cost(&form.constant, &form.slope))?;
            let bound = number_expr(-form.constant / &form.slope);
            // Dividing by a negative number reverses the relation.
            let relation = if form.slope < RBig::ZERO {
                relation.mirrored()
            } else {
                *relation
            };
            let intervals = Intervals::satisfying(comparer, relation, &bound)?;
            solutions = Self {
                intervals: solutions.intervals.intersection(comparer, &intervals)?,
                variable: common_variable(solutions.variable, Some(variable))?,
            };
        }
        Some(solutions)
    }

    /// The solutions of relations between a name and numbers.
    fn from_name_and_bounds(
        comparer: &ValueComparer,
        parts: &'a [Expr],
        relations: &[Relation],
    ) -> Option<Self> {
        let index = parts.iter().position(is_name)?;
        if parts.iter().skip(index + 1).any(is_name) || relations.len() + 1 != parts.len() {
            return None;
        }
        let mut solutions = Intervals::line();
        for (position, relation) in relations.iter().enumerate() {
            let (bound, relation) = if position + 1 == index && *relation != Relation::In {
                (&parts[position], relation.mirrored())
            } else if position == index {
                (&parts[position + 1], *relation)
            } else {
                return None;
            };
            let set = match relation {
                Relation::In => {
                    Self::from_expr(comparer, bound)
                        .filter(|set| set.variable.is_none())?
                        .intervals
                }
                relation => Intervals::satisfying(comparer, relation, bound)?,
            };
            solutions = solutions.intersection(comparer, &set)?;
        }
        Some(Self {
            intervals: solutions,
            variable: parts.get(index),
        })
    }

    /// Whether both are the same set, and not of different variables.
    pub(crate) fn is_same_set(&self, comparer: &ValueComparer, other: &Self) -> bool {
        let same_end = |a: &Endpoint, b: &Endpoint| {
            a.closed == b.closed && comparer.equality(&a.expr, &b.expr).is_some()
        };
        let (intervals, other_intervals) = (&self.intervals.0, &other.intervals.0);
        common_variable(self.variable, other.variable).is_some()
            && intervals.len() == other_intervals.len()
            && intervals
                .iter()
                .zip(other_intervals)
                .all(|(a, b)| same_end(&a.low, &b.low) && same_end(&a.high, &b.high))
    }
}

/// The variable of both: the one that they share, or the only one. The outer `None` means that they differ.
fn common_variable<'a>(a: Option<&'a Expr>, b: Option<&'a Expr>) -> Option<Option<&'a Expr>> {
    match (a, b) {
        (Some(a), Some(b)) => (a == b).then_some(Some(a)),
        (one, other) => Some(one.or(other)),
    }
}

impl Intervals {
    fn line() -> Self {
        Self(vec![Interval {
            low: infinite(false),
            high: infinite(true),
        }])
    }

    /// The numbers x with `x relation bound`. [`Relation::In`] and [`Relation::Near`] give no set.
    fn satisfying(comparer: &ValueComparer, relation: Relation, bound: &Expr) -> Option<Self> {
        match relation {
            Relation::In | Relation::Near => None,
            Relation::Unequal => Self::point(comparer, bound)?.complement(comparer),
            Relation::Equal => Self::point(comparer, bound),
            Relation::Less | Relation::LessOrEqual => {
                let high = endpoint(comparer, bound, relation == Relation::LessOrEqual)?;
                Self::interval(comparer, infinite(false), high)
            }
            Relation::Greater | Relation::GreaterOrEqual => {
                let low = endpoint(comparer, bound, relation == Relation::GreaterOrEqual)?;
                Self::interval(comparer, low, infinite(true))
            }
        }
    }

    fn point(comparer: &ValueComparer, at: &Expr) -> Option<Self> {
        let point = endpoint(comparer, at, true)?;
        Self::interval(comparer, point.clone(), point)
    }

    fn interval(comparer: &ValueComparer, low: Endpoint, high: Endpoint) -> Option<Self> {
        let has_numbers = match comparer.order(&low.at, &high.at)? {
            Ordering::Less => true,
            Ordering::Equal => low.closed && high.closed,
            Ordering::Greater => false,
        };
        let interval = has_numbers.then_some(Interval { low, high });
        Some(Self(interval.into_iter().collect()))
    }

    fn intersection(&self, comparer: &ValueComparer, other: &Self) -> Option<Self> {
        self.complement(comparer)?
            .union(comparer, other.complement(comparer)?)?
            .complement(comparer)
    }

    fn union(self, comparer: &ValueComparer, other: Self) -> Option<Self> {
        let mut intervals = self.0;
        for interval in other.0 {
            let mut index = intervals.len();
            while index > 0 {
                let (a, b) = (&intervals[index - 1].low, &interval.low);
                match comparer.order(&a.at, &b.at)?.then(b.closed.cmp(&a.closed)) {
                    Ordering::Greater => index -= 1,
                    _ => break,
                }
            }
            intervals.insert(index, interval);
        }
        if intervals.len() > MAX_INTERVALS {
            return None;
        }
        let mut joined: Vec<Interval> = Vec::new();
        for interval in intervals {
            let Some(last) = joined.last_mut() else {
                joined.push(interval);
                continue;
            };
            let touches = match comparer.order(&interval.low.at, &last.high.at)? {
                Ordering::Less => true,
                Ordering::Equal => interval.low.closed || last.high.closed,
                Ordering::Greater => false,
            };
            if !touches {
                joined.push(interval);
                continue;
            }
            let further = match comparer.order(&interval.high.at, &last.high.at)? {
                Ordering::Greater => true,
                Ordering::Equal => interval.high.closed,
                Ordering::Less => false,
            };
            if further {
                last.high = interval.high;
            }
        }
        Some(Self(joined))
    }

    fn complement(&self, comparer: &ValueComparer) -> Option<Self> {
        let mut intervals = Vec::new();
        let mut low = infinite(false);
        for interval in &self.0 {
            let high = interval.low.opposite();
            intervals.extend(Self::interval(comparer, low, high)?.0);
            low = interval.high.opposite();
        }
        intervals.extend(Self::interval(comparer, low, infinite(true))?.0);
        Some(Self(intervals))
    }
}

impl Endpoint {
    /// The adjacent end of the complement. Infinity does not belong to any set.
    fn opposite(&self) -> Self {
        Self {
            closed: !self.closed && !matches!(self.at, RealNumber::Infinite(_)),
            ..self.clone()
        }
    }
}

fn infinite(positive: bool) -> Endpoint {
    Endpoint {
        at: RealNumber::Infinite(positive),
        expr: Expr::Constant(Constant::Infinity).negated_if(!positive),
        closed: false,
    }
}

/// A number as the parser represents it, a negative one as [`Expr::Negative`].
fn number_expr(number: RBig) -> Expr {
    let negative = number < RBig::ZERO;
    Expr::number(number.abs()).negated_if(negative)
}

fn endpoint(comparer: &ValueComparer, expr: &Expr, closed: bool) -> Option<Endpoint> {
    let at = comparer.real_number(expr)?;
    comparer.meter.spend(20)?;
    Some(Endpoint {
        closed: closed && !matches!(at, RealNumber::Infinite(_)),
        at,
        expr: expr.clone(),
    })
}

/// Whether it is a variable or a function of one. An inequality may bound those.
fn is_name(expr: &Expr) -> bool {
    match expr {
        Expr::Symbol(name) => name != "Reals",
        Expr::Apply(_, arguments) => matches!(arguments.as_slice(), [Expr::Symbol(_)]),
        _ => false,
    }
}
