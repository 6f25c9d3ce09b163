//! Splits a sum into its terms, and counts the simplifications of each term.

use std::collections::BTreeSet;

use dashu_int::ops::Gcd as _;
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::monomial::{Atom, Monomial, Sum};
use super::{Simplification, SimplificationCounts};
use crate::arithmetic::exact::{gcd, rational};
use crate::expression::{Constant, Expr};
use crate::meter::Meter;
use crate::simplification::written_form::{
    has_sum_factor, is_constant, is_literal, is_percent_or_degrees, is_plain_number,
    is_plus_minus_one, is_whole_quotient, without_unit,
};

/// Meter steps for visiting a node.
pub(super) const NODE_COST: u64 = 20;

pub(super) struct StepCounter<'a> {
    pub counts: SimplificationCounts,
    pub meter: &'a Meter,
}

/// A term of a sum, and the constants before the brackets around it.
pub(super) struct Term<'a> {
    pub term: &'a Expr,
    pub constants: Vec<&'a Expr>,
}

impl StepCounter<'_> {
    pub(super) fn add(&mut self, kind: Simplification) {
        self.counts.add(kind, 1);
    }

    pub(super) fn add_if(&mut self, condition: bool, kind: Simplification) {
        self.counts.add(kind, usize::from(condition));
    }

    pub(super) fn visit(&mut self, expr: &Expr) {
        if self.meter.spend(NODE_COST).is_none() {
            return;
        }
        if is_plain_number(expr) {
            // 12/4 should be 3.
            let quotient = !matches!(without_unit(expr), Expr::Ratio(_));
            if quotient && is_whole_quotient(without_unit(expr), self.meter) {
                self.add(Simplification::Numbers);
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
            | Expr::Call(..) => self.count_sum(expr),
            other => {
                for part in other.parts() {
                    self.visit(part);
                }
            }
        }
    }

    /// Counts the simplifications of a sum and of its terms, after the numbers before brackets are distributed.
    fn count_sum(&mut self, expr: &Expr) {
        let terms = self.expand_terms(expr);
        let several = terms.len() > 1;
        let mut seen: BTreeSet<Vec<(Atom, RBig)>> = BTreeSet::new();
        for term in &terms {
            let monomial = self.monomial(term);
            if several && rational(term.term, self.meter).is_some_and(|value| value.is_zero()) {
                self.add(Simplification::Terms);
            }
            self.count_product(&monomial, several);
            for inner in &monomial.parts_to_visit {
                self.visit(inner);
            }
            let key: Vec<(Atom, RBig)> = monomial
                .atoms
                .into_iter()
                .map(|(atom, (power, _))| (atom, power))
                .filter(|(_, power)| !power.is_zero())
                .collect();
            if monomial.sums.is_empty() {
                self.add_if(!seen.insert(key), Simplification::Terms);
            }
        }
    }

    /// Counts the simplifications of a product.
    fn count_product(&mut self, monomial: &Monomial<'_>, in_sum: bool) {
        let more = |count: usize| count.saturating_sub(1);
        let divides = monomial.numbers_above > 0
            && monomial.numbers_below > 0
            && monomial.number.as_ref().is_some_and(RBig::is_int);
        self.counts.add(
            Simplification::Numbers,
            more(monomial.numbers_above) + more(monomial.numbers_below) + usize::from(divides),
        );
        for (atom, (_, occurrences)) in &monomial.atoms {
            let repeats = more(*occurrences);
            if !matches!(atom, Atom::Constant(Constant::I) | Atom::Surd(..)) {
                self.counts.add(Simplification::Factors, repeats);
            }
        }
        for occurrences in monomial.surds.values() {
            self.counts.add(Simplification::Factors, more(*occurrences));
        }
        // 2·2ⁿ should be 2ⁿ⁺¹, and 2ⁿ·3ⁿ should be 6ⁿ.
        let shares = |base: &IBig| {
            monomial.number.as_ref().is_some_and(|number| {
                !gcd(number.numerator(), base).is_one() || !number.denominator().gcd(base).is_one()
            })
        };
        let shared = monomial
            .exponential_bases
            .iter()
            .filter(|base| shares(base))
            .count();
        self.counts.add(
            Simplification::Factors,
            shared + more(monomial.exponential_bases.len()),
        );
        // In 33/√33 and 12√(1/2) the number in the numerator shares a factor with the radicand in the denominator.
        if let Some(number) = &monomial.number {
            let shares = |other: &UBig| !number.numerator().gcd(other).is_one();
            let cancels = monomial.atoms.iter().any(|(atom, (power, _))| match atom {
                Atom::Surd(_, radicand) => *power < RBig::ZERO && shares(radicand),
                _ => false,
            });
            let cancels = cancels || monomial.radicand_divisors.iter().any(shares);
            self.add_if(cancels, Simplification::Roots);
        }
        let (above, below) = monomial.logarithms;
        // 1/log₃ 2 is log₂ 3.
        let alone = usize::from(above == 0 && below > 0);
        self.counts
            .add(Simplification::Logarithms, above.max(below) + alone);
        let complex = monomial.count_sums(|sum| sum.complex);
        let i = monomial.atoms.get(&Atom::Constant(Constant::I));
        let (power, occurrences) = i.cloned().unwrap_or_default();
        let mut divisors = monomial.sums.iter().filter(|sum| sum.power < RBig::ZERO);
        let below = power < RBig::ZERO || divisors.any(|sum| sum.complex);
        if complex.saturating_add(occurrences) > 1 || below || power > RBig::ONE {
            self.add(Simplification::Complex);
        }
        let numbers = monomial.count_sums(|sum| !sum.variable && !sum.complex);
        self.add_if(numbers > 1, Simplification::Brackets);
        for sum in &monomial.sums {
            self.count_shared(monomial, sum);
        }
        if in_sum {
            let brackets = monomial.sums.iter().filter(|sum| sum.power > RBig::ZERO);
            self.counts.add(Simplification::Brackets, brackets.count());
        }
        let denominators = monomial.sums.iter().any(|sum| sum.power < RBig::ZERO);
        self.add_if(denominators, Simplification::Denominators);
    }

    /// Counts what a sum shares with the factors beside it: √2(√2 + √3) is 2 + √6, and (π² + π)/π is π + 1.
    fn count_shared(&mut self, monomial: &Monomial<'_>, sum: &Sum) {
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
                let is_shared = !sum.variable && sum.terms.iter().flatten().any(shares);
                self.add_if(is_shared, Simplification::Brackets);
            } else if *power < RBig::ZERO
                && !sum.terms.is_empty()
                && sum.terms.iter().all(|term| term.contains(atom))
            {
                self.add(Simplification::Factors);
            }
        }
    }

    /// Counts the simplifications of a number that multiplies or divides brackets.
    fn count_outer_number(&mut self, number: &Expr) {
        if is_plus_minus_one(number) || is_percent_or_degrees(number) {
            self.add(Simplification::Numbers);
        } else if !is_literal(number) {
            self.visit(number);
        }
    }

    /// The terms of a sum, each with the constants that multiply the whole sum.
    pub(super) fn expand_terms<'b>(&mut self, expr: &'b Expr) -> Vec<Term<'b>> {
        let mut terms = Vec::new();
        self.expand_into(expr, (0, 0), &[], &mut terms);
        terms
    }

    fn expand_into<'b>(
        &mut self,
        expr: &'b Expr,
        (mut multipliers, mut divisors): (usize, usize),
        constants: &[&'b Expr],
        terms: &mut Vec<Term<'b>>,
    ) {
        if self.meter.spend(NODE_COST).is_none() {
            return;
        }
        let mergeable = multipliers.saturating_sub(1) + divisors.saturating_sub(1);
        match expr {
            Expr::Sum(sum_terms) => {
                self.counts.add(Simplification::Numbers, mergeable);
                for term in sum_terms {
                    self.expand_into(term, (0, 0), constants, terms);
                }
                return;
            }
            Expr::Negative(inner) if has_sum_factor(inner) => {
                return self.expand_into(inner, (multipliers, divisors), constants, terms);
            }
            Expr::Quotient(above, below)
                if has_sum_factor(above) && rational(below, self.meter).is_some() =>
            {
                self.count_outer_number(below);
                divisors += 1;
                return self.expand_into(above, (multipliers, divisors), constants, terms);
            }
            Expr::Product(factors) => {
                let (constant, rest): (Vec<&Expr>, Vec<&Expr>) =
                    factors.iter().partition(|one| is_constant(one));
                if let [sum] = rest.as_slice()
                    && has_sum_factor(sum)
                {
                    let mut more = constants.to_vec();
                    for one in constant {
                        if rational(one, self.meter).is_some() {
                            multipliers += 1;
                            self.count_outer_number(one);
                        } else {
                            more.push(one);
                        }
                    }
                    return self.expand_into(sum, (multipliers, divisors), &more, terms);
                }
            }
            _ => {}
        }
        self.counts.add(Simplification::Numbers, mergeable);
        terms.push(Term {
            term: expr,
            constants: constants.to_vec(),
        });
    }
}
