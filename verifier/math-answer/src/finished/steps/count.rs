//! Sums, as terms; and what a term leaves to be done.

use std::collections::BTreeSet;

use dashu_int::ops::{Gcd as _, UnsignedAbs as _};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::product::{Atom, Monomial, Sum};
use super::{Step, Steps};
use crate::arithmetic::exact::{gcd, rational};
use crate::finished::written::{
    bare, holds_sum, is_constant, is_literal, is_share, is_unit, is_whole_quotient, is_written,
};
use crate::meter::Meter;
use crate::syntax::{Constant, Expr};

/// Steps of the meter that a look at a node costs.
pub(super) const NODE: u64 = 20;

pub(super) struct Counter<'a> {
    pub steps: Steps,
    pub meter: &'a Meter,
}

/// A term of a sum, and the constants before the brackets that it stands in.
pub(super) struct Term<'a> {
    pub term: &'a Expr,
    pub constants: Vec<&'a Expr>,
}

impl Counter<'_> {
    pub(super) fn add(&mut self, step: Step) {
        self.steps.add(step, 1);
    }

    pub(super) fn visit(&mut self, expr: &Expr) {
        if self.meter.spend(NODE).is_none() {
            return;
        }
        if is_written(expr) {
            // 12/4 is 3.
            let quotient = !matches!(bare(expr), Expr::Ratio(_));
            if quotient && is_whole_quotient(bare(expr), self.meter) {
                self.add(Step::Numbers);
            }
            return;
        }
        match expr {
            Expr::Sum(_)
            | Expr::Negative(_)
            | Expr::Product(_)
            | Expr::Quotient(..)
            | Expr::Power(..)
            | Expr::Root(..)
            | Expr::Call(..) => self.sum(expr),
            other => {
                for part in other.parts() {
                    self.visit(part);
                }
            }
        }
    }

    /// The terms of a sum, once the numbers before brackets are brought to what stands in them.
    fn sum(&mut self, expr: &Expr) {
        let terms = self.spread(expr);
        let several = terms.len() > 1;
        let mut seen: BTreeSet<Vec<(Atom, RBig)>> = BTreeSet::new();
        for term in &terms {
            let monomial = self.monomial(term);
            if several && rational(term.term, self.meter).is_some_and(|value| value.is_zero()) {
                self.add(Step::Terms);
            }
            self.count(&monomial, several);
            for inner in &monomial.inner {
                self.visit(inner);
            }
            let key: Vec<(Atom, RBig)> = monomial
                .atoms
                .into_iter()
                .map(|(atom, (power, _))| (atom, power))
                .filter(|(_, power)| !power.is_zero())
                .collect();
            if !monomial.sums.is_empty() {
                continue;
            }
            if !seen.insert(key) {
                self.add(Step::Terms);
            }
        }
    }

    /// The steps that a product leaves.
    fn count(&mut self, monomial: &Monomial<'_>, in_sum: bool) {
        let more = |count: usize| count.saturating_sub(1);
        let divides = monomial.above > 0
            && monomial.below > 0
            && monomial.number.as_ref().is_some_and(RBig::is_int);
        self.steps.add(
            Step::Numbers,
            more(monomial.above) + more(monomial.below) + usize::from(divides),
        );
        for (atom, (_, times)) in &monomial.atoms {
            let again = more(*times);
            match atom {
                Atom::Constant(Constant::I) => {}
                Atom::Surd(..) => {}
                _ => self.steps.add(Step::Factors, again),
            }
        }
        for times in monomial.surds.values() {
            self.steps.add(Step::Factors, more(*times));
        }
        // 2·2ⁿ is 2ⁿ⁺¹, 2ⁿ·3ⁿ is 6ⁿ.
        let shares = |base: &IBig| {
            monomial.number.as_ref().is_some_and(|number| {
                !gcd(number.numerator(), base).is_one() || !number.denominator().gcd(base).is_one()
            })
        };
        let shared = monomial.bases.iter().filter(|base| shares(base)).count();
        self.steps
            .add(Step::Factors, shared + more(monomial.bases.len()));
        // 33/√33 and 12√(1/2), where the number above has what is below.
        if let Some(number) = &monomial.number {
            let shares = |other: &UBig| !number.numerator().gcd(other).is_one();
            let cancels = monomial.atoms.iter().any(|(atom, (power, _))| match atom {
                Atom::Surd(_, radicand) => *power < RBig::ZERO && shares(radicand),
                _ => false,
            });
            if cancels || monomial.divisors.iter().any(shares) {
                self.add(Step::Roots);
            }
        }
        let (above, below) = monomial.logarithms;
        // 1/log₃ 2 is log₂ 3.
        let alone = usize::from(above == 0 && below > 0);
        self.steps.add(Step::Logarithms, above.max(below) + alone);
        let whole = |sum: &&Sum| sum.power.is_int();
        let size = |sum: &Sum| {
            let power = sum.power.trunc().unsigned_abs();
            power.try_into().unwrap_or(usize::MAX)
        };
        let complex: usize = monomial
            .sums
            .iter()
            .filter(whole)
            .filter(|sum| sum.complex)
            .map(size)
            .fold(0, usize::saturating_add);
        let (power, times) = monomial
            .atoms
            .get(&Atom::Constant(Constant::I))
            .cloned()
            .unwrap_or_default();
        let below = power < RBig::ZERO
            || monomial
                .sums
                .iter()
                .any(|sum| sum.complex && sum.power < RBig::ZERO);
        if complex.saturating_add(times) > 1 || below || power > RBig::ONE {
            self.add(Step::Complex);
        }
        let numbers: usize = monomial
            .sums
            .iter()
            .filter(|sum| !sum.variable && !sum.complex && sum.power.is_int())
            .map(size)
            .fold(0, usize::saturating_add);
        self.steps.add(Step::Brackets, more(numbers).min(1));
        for sum in &monomial.sums {
            self.shared(monomial, sum);
        }
        if in_sum {
            let brackets = monomial
                .sums
                .iter()
                .filter(|sum| sum.power > RBig::ZERO)
                .count();
            self.steps.add(Step::Brackets, brackets);
        }
        let denominators = monomial.sums.iter().any(|sum| sum.power < RBig::ZERO);
        self.steps
            .add(Step::Denominators, usize::from(denominators));
    }

    /// What a sum shares with the factors beside it: √2(√2 + √3) is 2 + √6, (π² + π)/π is π + 1.
    fn shared(&mut self, monomial: &Monomial<'_>, sum: &Sum) {
        if sum.power != RBig::ONE {
            return;
        }
        let roots = |atom: &Atom| match atom {
            Atom::Surd(index, radicand) => Some((*index, radicand.clone())),
            _ => None,
        };
        for (atom, (power, _)) in &monomial.atoms {
            if let Some((index, radicand)) = roots(atom) {
                let shares = |other: &Atom| {
                    roots(other)
                        .is_some_and(|(of, other)| of == index && !(&radicand).gcd(&other).is_one())
                };
                if !sum.variable && sum.terms.iter().flatten().any(shares) {
                    self.add(Step::Brackets);
                }
            } else if *power < RBig::ZERO
                && !sum.terms.is_empty()
                && sum.terms.iter().all(|term| term.contains(atom))
            {
                self.add(Step::Factors);
            }
        }
    }

    /// What a number before or below brackets leaves to be done.
    fn outside(&mut self, number: &Expr) {
        if is_unit(number) || is_share(number) {
            self.add(Step::Numbers);
        } else if !is_literal(number) {
            self.visit(number);
        }
    }

    /// The terms of a sum, each with the constants that multiply all of it.
    pub(super) fn spread<'b>(&mut self, expr: &'b Expr) -> Vec<Term<'b>> {
        let mut terms = Vec::new();
        self.spread_into(expr, (0, 0), &[], &mut terms);
        terms
    }

    fn spread_into<'b>(
        &mut self,
        expr: &'b Expr,
        (mut times, mut over): (usize, usize),
        constants: &[&'b Expr],
        terms: &mut Vec<Term<'b>>,
    ) {
        if self.meter.spend(NODE).is_none() {
            return;
        }
        match expr {
            Expr::Sum(all) => {
                self.steps.add(
                    Step::Numbers,
                    times.saturating_sub(1) + over.saturating_sub(1),
                );
                for term in all {
                    self.spread_into(term, (0, 0), constants, terms);
                }
                return;
            }
            Expr::Negative(inner) if holds_sum(inner) => {
                return self.spread_into(inner, (times, over), constants, terms);
            }
            Expr::Quotient(above, below)
                if holds_sum(above) && rational(below, self.meter).is_some() =>
            {
                self.outside(below);
                over += 1;
                return self.spread_into(above, (times, over), constants, terms);
            }
            Expr::Product(factors) => {
                let (constant, rest): (Vec<&Expr>, Vec<&Expr>) =
                    factors.iter().partition(|one| is_constant(one));
                if let [sum] = rest.as_slice()
                    && holds_sum(sum)
                {
                    let mut more = constants.to_vec();
                    for one in constant {
                        if rational(one, self.meter).is_some() {
                            times += 1;
                            self.outside(one);
                        } else {
                            more.push(one);
                        }
                    }
                    return self.spread_into(sum, (times, over), &more, terms);
                }
            }
            _ => {}
        }
        self.steps.add(
            Step::Numbers,
            times.saturating_sub(1) + over.saturating_sub(1),
        );
        terms.push(Term {
            term: expr,
            constants: constants.to_vec(),
        });
    }
}
