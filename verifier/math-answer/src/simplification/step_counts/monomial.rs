//! Products, decomposed into numbers, powers of atoms, and sums.

use std::collections::{BTreeMap, BTreeSet};

use dashu_int::ops::{Abs as _, UnsignedAbs as _};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::perfect_powers::{MAX_RADICAND, has_whole_root, is_multiple, is_perfect, is_power};
use super::right_angles::is_shifted_by_right_angles;
use super::sum::{NODE_COST, StepCounter, Term};
use super::{Simplification, SimplificationCounts};
use crate::arithmetic::exact::{bits, multiply, rational, whole_root};
use crate::expression::{Constant, Expr, FullDebug, Function};
use crate::meter::Meter;
use crate::simplification::written_form::{
    has_inverse, has_sum_factor, is_literal, is_one, is_plus_minus_one, is_signed, is_ten,
    is_whole_quotient,
};

/// Powers of larger numbers are not looked for in a radicand.
const MAX_FACTOR: u32 = 1 << 12;

/// The base of `exp`.
static EULER: Expr = Expr::Constant(Constant::E);

/// The base of a power in a product.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Atom {
    Name(String),
    Constant(Constant),
    /// The root with this index of this number.
    Surd(u32, UBig),
    /// Any other expression, by its Debug text.
    Text(String),
}

/// A factor that is a sum, to an integer power.
pub(super) struct Sum {
    pub power: RBig,
    /// Whether it is a number that contains i.
    pub complex: bool,
    /// Whether it contains a variable.
    pub variable: bool,
    /// For each term, the atoms with a positive power.
    pub terms: Vec<BTreeSet<Atom>>,
}

/// A decomposed product.
#[derive(Default)]
pub(super) struct Monomial<'a> {
    /// The numeric coefficient, if it can be computed.
    pub number: Option<RBig>,
    /// How many numbers multiply, and how many divide.
    pub numbers_above: usize,
    pub numbers_below: usize,
    /// The power of each atom, and how often the atom is written.
    pub atoms: BTreeMap<Atom, (RBig, usize)>,
    pub sums: Vec<Sum>,
    /// How many roots of numbers there are of each index.
    pub surds: BTreeMap<u32, usize>,
    /// The denominators of radicands.
    pub radicand_divisors: Vec<UBig>,
    /// Whole numbers with an exponent that is not a number.
    pub exponential_bases: Vec<IBig>,
    /// How many logarithms multiply, and how many divide.
    pub logarithms: (usize, usize),
    pub parts_to_visit: Vec<&'a Expr>,
}

impl Monomial<'_> {
    fn multiply(&mut self, number: &RBig, meter: &Meter) {
        let before = self.number.take().unwrap_or(RBig::ONE);
        self.number = multiply(&before, number, meter);
    }

    /// The number of sums that pass `test`, each as often as its power says.
    pub(super) fn count_sums(&self, test: impl Fn(&Sum) -> bool) -> usize {
        let sums = self.sums.iter().filter(|sum| test(sum));
        sums.map(|sum| sum.power.trunc().unsigned_abs())
            .map(|power| power.try_into().unwrap_or(usize::MAX))
            .fold(0, usize::saturating_add)
    }

    fn add_atom(&mut self, atom: Atom, power: RBig) {
        let (total, occurrences) = self.atoms.entry(atom).or_insert_with(|| (RBig::ZERO, 0));
        *total += power;
        *occurrences += 1;
    }
}

impl StepCounter<'_> {
    pub(super) fn monomial<'b>(&mut self, term: &Term<'b>) -> Monomial<'b> {
        let mut monomial = Monomial::default();
        for constant in &term.constants {
            self.add_factor(constant, &RBig::ONE, &mut monomial);
        }
        self.add_factor(term.term, &RBig::ONE, &mut monomial);
        monomial
    }

    /// Multiplies `product` by `expr` to the power `power`.
    fn add_factor<'b>(&mut self, expr: &'b Expr, power: &RBig, product: &mut Monomial<'b>) {
        if self.meter.spend(NODE_COST).is_none() {
            return;
        }
        let single = power.clone().abs().is_one();
        let whole = power.is_int();
        // A power of a product, a root, a quotient or another power, or a quotient in a denominator.
        if whole
            && (!single && matches!(expr, Expr::Negative(_) | Expr::Product(_) | Expr::Root(..))
                || *power != RBig::ONE && matches!(expr, Expr::Quotient(..))
                || !single && matches!(expr, Expr::Power(..)))
        {
            let ten = matches!(expr, Expr::Power(base, _) if is_ten(base));
            self.add_if(!ten, Simplification::Factors);
        }
        match expr {
            Expr::Number(_) | Expr::Mixed(..) => self.add_number(expr, power, product),
            Expr::Quotient(above, below) if is_literal(above) && is_literal(below) => {
                self.add_number(expr, power, product);
            }
            Expr::Negative(inner) => {
                self.add_if(is_signed(inner), Simplification::Numbers);
                self.add_factor(inner, power, product);
            }
            Expr::Product(factors) => {
                let signs = factors.iter().filter(|one| is_signed(one)).count();
                self.add_if(signs > 1, Simplification::Numbers);
                for factor in factors {
                    // 1·x should be x.
                    self.add_if(is_plus_minus_one(factor), Simplification::Numbers);
                    self.add_factor(factor, power, product);
                }
            }
            Expr::Quotient(above, below) => {
                if is_signed(above) && is_signed(below) {
                    self.add(Simplification::Numbers);
                }
                if is_plus_minus_one(below) && !is_literal(above) {
                    self.add(Simplification::Numbers);
                }
                // 1/x⁻¹ should be x.
                self.add_if(has_inverse(below), Simplification::Factors);
                // The numerator of 1/x is not a coefficient.
                if !is_one(above) {
                    self.add_factor(above, power, product);
                }
                self.add_factor(below, &-power, product);
            }
            Expr::Power(base, exponent) => match rational(exponent, self.meter) {
                Some(exponent_value) if is_number(exponent) => {
                    // x^{6/3} should be x².
                    if is_whole_quotient(exponent, self.meter) {
                        self.add(Simplification::Numbers);
                    }
                    self.add_power(base, &exponent_value, power, product);
                }
                _ => self.add_exponential(expr, base, exponent, power, product),
            },
            Expr::Root(index, inner) => match rational(index, self.meter) {
                Some(index) if index.is_int() && index > RBig::ONE => {
                    self.add_root(inner, &index, power, product);
                }
                // Roots of index 1 or ½ are powers.
                Some(_) => {
                    self.add(Simplification::Roots);
                    self.add_opaque(expr, power, product);
                }
                None => self.add_opaque(expr, power, product),
            },
            Expr::Symbol(name) => product.add_atom(Atom::Name(name.clone()), power.clone()),
            Expr::Constant(constant) => product.add_atom(Atom::Constant(*constant), power.clone()),
            Expr::Sum(_) if whole => {
                product.sums.push(Sum {
                    power: power.clone(),
                    complex: is_complex(expr),
                    variable: expr.has_variable(),
                    terms: self.atoms_of(expr),
                });
                product.parts_to_visit.push(expr);
            }
            Expr::Sum(_) => {
                product.add_atom(self.text(expr), power.clone());
                product.parts_to_visit.push(expr);
            }
            Expr::Call(Function::Exp, arguments) if arguments.len() == 1 => {
                self.add_exponential(expr, &EULER, &arguments[0], power, product);
                if rational(&arguments[0], self.meter)
                    .is_some_and(|value| value.is_zero() || value.is_one())
                {
                    self.add(Simplification::Functions);
                }
            }
            Expr::Call(function, arguments) => {
                match function {
                    // ln 3/ln 2 is one logarithm.
                    Function::Ln | Function::Log if *power > RBig::ZERO => {
                        product.logarithms.0 += 1;
                    }
                    Function::Ln | Function::Log => product.logarithms.1 += 1,
                    _ => self.add(Simplification::Functions),
                }
                // cos(−x) is cos x, and sin(π − x) is sin x.
                if arguments.iter().any(is_signed)
                    || is_shifted_by_right_angles(*function, arguments, self.meter)
                {
                    self.add(Simplification::Functions);
                }
                if matches!(function, Function::Ln)
                    && matches!(arguments.as_slice(), [Expr::Power(base, _)] if is_e(base))
                    || matches!(arguments.as_slice(), [one] if is_e(one))
                {
                    self.add(Simplification::Functions);
                }
                self.add_opaque(expr, power, product);
            }
            Expr::Percent(_) | Expr::Degrees(_) => {
                self.add(Simplification::Numbers);
                self.add_opaque(expr, power, product);
            }
            _ => self.add_opaque(expr, power, product),
        }
    }

    /// The atoms of each term of a sum. Their simplifications are not counted.
    fn atoms_of(&self, sum: &Expr) -> Vec<BTreeSet<Atom>> {
        let mut counter = StepCounter {
            counts: SimplificationCounts::default(),
            meter: self.meter,
        };
        let terms = counter.expand_terms(sum);
        let atoms = |term: &Term<'_>| {
            let atoms = counter.monomial(term).atoms.into_iter();
            atoms
                .filter(|(_, (power, _))| *power > RBig::ZERO)
                .map(|(atom, _)| atom)
                .collect()
        };
        terms.iter().map(atoms).collect()
    }

    /// Multiplies by an expression that is not decomposed. Its parts are visited separately.
    fn add_opaque<'b>(&mut self, expr: &'b Expr, power: &RBig, product: &mut Monomial<'b>) {
        product.add_atom(self.text(expr), power.clone());
        product.parts_to_visit.extend(expr.parts());
    }

    fn add_number<'b>(&mut self, expr: &'b Expr, power: &RBig, product: &mut Monomial<'b>) {
        let Some(value) = rational(expr, self.meter) else {
            return;
        };
        // 12/4 should be 3.
        if value.is_int() && matches!(expr, Expr::Quotient(..)) {
            self.add(Simplification::Numbers);
        }
        if !power.is_int() {
            return self.add_surd(&value, power, product);
        }
        self.add_if(!power.clone().abs().is_one(), Simplification::Numbers);
        if *power > RBig::ZERO {
            product.numbers_above += 1;
            product.multiply(&value, self.meter);
        } else {
            product.numbers_below += 1;
            if !value.is_zero() {
                product.multiply(&value.pow(-1), self.meter);
            }
        }
    }

    /// Multiplies by `base^exponent` to the power `power`.
    fn add_power<'b>(
        &mut self,
        base: &'b Expr,
        exponent: &RBig,
        power: &RBig,
        product: &mut Monomial<'b>,
    ) {
        let total_power = exponent * power;
        if is_number(base) {
            // (12/4)ˣ should be 3ˣ, and 5¹ under a root should be 5.
            let under_root = exponent.is_int() && !total_power.is_int();
            if under_root || is_whole_quotient(base, self.meter) {
                self.add(Simplification::Numbers);
            }
            let value = rational(base, self.meter);
            return match value {
                Some(value) if !total_power.is_int() => {
                    self.add_surd(&value, &total_power, product);
                }
                Some(_) if is_ten(base) && !exponent.is_zero() && !exponent.is_one() => {
                    if *power > RBig::ZERO {
                        product.numbers_above += 1;
                    } else {
                        product.numbers_below += 1;
                    }
                }
                _ => {
                    self.add(Simplification::Numbers);
                    product.numbers_above += 1;
                }
            };
        }
        // A simplified answer has no x⁰ or x¹.
        if exponent.is_zero() || exponent.is_one() {
            self.add(Simplification::Numbers);
        }
        if matches!(base, Expr::Constant(Constant::I)) || !total_power.is_int() && is_complex(base)
        {
            self.add(Simplification::Complex);
        }
        // (x³)^{1/3} and (x⁻¹)⁻¹ should be x.
        let inverse = *exponent == RBig::NEG_ONE;
        if (inverse || !exponent.is_int()) && matches!(base, Expr::Power(..)) {
            self.add(Simplification::Factors);
        }
        self.add_factor(base, &total_power, product);
    }

    /// Multiplies by a power with an exponent that is not a number.
    fn add_exponential<'b>(
        &mut self,
        expr: &'b Expr,
        base: &'b Expr,
        exponent: &'b Expr,
        power: &RBig,
        product: &mut Monomial<'b>,
    ) {
        if holds_i(exponent) && !exponent.has_variable() {
            self.add(Simplification::Complex);
        }
        self.add_if(holds_logarithm(exponent), Simplification::Functions);
        if matches!(base, Expr::Sum(_)) && !expr.has_variable() {
            self.add(Simplification::Brackets);
        }
        if let Expr::Number(FullDebug(number)) = base {
            self.add_if(number.is_one(), Simplification::Numbers);
            product.exponential_bases.push(number.trunc());
        }
        // (√2)^{2n} and 4^{n/2} should be 2ⁿ.
        let halved = matches!(exponent, Expr::Quotient(_, index)
            if rational(index, self.meter)
                .is_some_and(|index| is_perfect(base, &index.trunc())));
        if halved || matches!(base, Expr::Root(..)) && is_multiple(exponent, &IBig::from(2)) {
            self.add(Simplification::Roots);
        }
        // eˣ·eʸ has the same base twice.
        let key = Atom::Text(format!("{:?}^", self.text(base)));
        self.add_if(product.atoms.contains_key(&key), Simplification::Factors);
        product.add_atom(key, RBig::ZERO);
        // 2ⁿ⁺¹ is twice 2ⁿ.
        let key = match (base, exponent) {
            (Expr::Number(_), Expr::Sum(terms)) => {
                let (_, rest): (Vec<&Expr>, Vec<&Expr>) =
                    terms.iter().partition(|term| is_number(term));
                match rest.as_slice() {
                    [one] => Expr::Power(Box::new(base.clone()), Box::new((*one).clone())),
                    _ => expr.clone(),
                }
            }
            _ => expr.clone(),
        };
        product.add_atom(self.text(&key), power.clone());
        product.parts_to_visit.push(base);
        product.parts_to_visit.push(exponent);
    }

    fn add_root<'b>(
        &mut self,
        inner: &'b Expr,
        index: &RBig,
        power: &RBig,
        product: &mut Monomial<'b>,
    ) {
        let total_power = power / index;
        self.add_if(total_power.is_int(), Simplification::Factors);
        if let Some(value) = rational(inner, self.meter) {
            // A radicand has to be evaluated too.
            if !is_number(inner) || is_whole_quotient(inner, self.meter) {
                self.add(Simplification::Numbers);
                self.visit(inner);
            }
            return self.add_surd(&value, &total_power, product);
        }
        // √(2i) should be 1 + i.
        self.add_if(is_complex(inner), Simplification::Complex);
        match inner {
            Expr::Product(_)
            | Expr::Quotient(..)
            | Expr::Power(..)
            | Expr::Symbol(_)
            | Expr::Constant(Constant::Pi | Constant::E) => {
                let holds_power = |part: &Expr| {
                    matches!(part, Expr::Power(_, exponent)
                        if rational(exponent, self.meter).is_some_and(|exponent| exponent.abs() >= *index))
                };
                let index = index.trunc();
                let is_power = |part: &Expr| holds_power(part) || has_whole_root(part, &index);
                let powers = is_power(inner) || inner.parts().into_iter().any(is_power);
                let sums = match inner {
                    Expr::Quotient(above, below) => {
                        u8::from(has_sum_factor(above)) + u8::from(has_sum_factor(below))
                    }
                    _ => has_sum_factor(inner).into(),
                };
                for _ in 0..sums.max(powers.into()) {
                    self.add(Simplification::Roots);
                }
                // |x| is simpler than √(x²), and x√x than √(x³).
                if powers {
                    self.add(Simplification::Functions);
                    self.add(Simplification::Factors);
                }
                self.add_factor(inner, &total_power, product);
            }
            _ => {
                if matches!(inner, Expr::Root(..)) || !inner.has_variable() && holds_root(inner) {
                    self.add(Simplification::Nested);
                }
                // √(x⁴ + 2x² + 1) should be x² + 1, and √(3 + 4i) should be 2 + i.
                self.add_if(has_sum_factor(inner), Simplification::Roots);
                product.add_atom(self.text(inner), total_power);
                product.parts_to_visit.push(inner);
            }
        }
    }

    /// Multiplies by `value^power`, where `power` is not an integer.
    fn add_surd(&mut self, value: &RBig, power: &RBig, product: &mut Monomial<'_>) {
        let Some(index) = u32::try_from(power.denominator())
            .ok()
            .filter(|index| (2..=64).contains(index))
        else {
            return;
        };
        if *value < RBig::ZERO && index % 2 == 0 {
            self.add(Simplification::Complex);
        }
        self.add_if(power.clone().abs() > RBig::ONE, Simplification::Roots);
        if bits(value) > MAX_RADICAND {
            product.add_atom(Atom::Text(value.to_string()), power.clone());
            return;
        }
        let above = self.without_powers(&value.numerator().unsigned_abs(), index);
        let below = self.without_powers(value.denominator(), index);
        let (Some((above, above_reduced)), Some((below, below_reduced))) = (above, below) else {
            return;
        };
        if above.is_one() && below.is_one() {
            // √16, or 1 to any power.
            self.add(Simplification::Numbers);
            return;
        }
        // The fourth root of 25 should be √5.
        let lower = |divisor: u32| {
            index.is_multiple_of(divisor) && is_power(&above, divisor) && is_power(&below, divisor)
        };
        if above_reduced || below_reduced || (2..index).any(lower) {
            self.add(Simplification::Roots);
        }
        *product.surds.entry(index).or_default() += 1;
        if *power > RBig::ZERO {
            product.radicand_divisors.push(below.clone());
        }
        // √(a/b) is √(ab)/b.
        let mut radicand = above;
        for _ in 1..index.min(8) {
            radicand *= &below;
        }
        if let Some((radicand, _)) = self.without_powers(&radicand, index) {
            let power = RBig::from(power.numerator().clone());
            product.add_atom(Atom::Surd(index, radicand), power);
        }
    }

    fn text(&self, expr: &Expr) -> Atom {
        let text = format!("{expr:?}");
        // A failed charge ends the comparison soon, and the text is already built, with a bounded length.
        let _ = self.meter.spend(text.len() as u64);
        Atom::Text(text)
    }

    /// The number without the powers of this index that divide it, and whether there were any.
    fn without_powers(&self, number: &UBig, index: u32) -> Option<(UBig, bool)> {
        let (mut remaining, mut removed) = (number.clone(), false);
        if remaining.is_zero() {
            return Some((UBig::ONE, true));
        }
        let root = whole_root(&remaining, index);
        if !remaining.is_one() && root.pow(index as usize) == remaining {
            return Some((UBig::ONE, true));
        }
        let limit = MAX_FACTOR.min(root.try_into().unwrap_or(u32::MAX));
        for factor in 2..=limit {
            self.meter.spend(2)?;
            let power = UBig::from(factor).pow(index as usize);
            if power > remaining {
                break;
            }
            while (&remaining % &power).is_zero() {
                remaining /= &power;
                removed = true;
            }
        }
        Some((remaining, removed))
    }
}

/// A number in digits, with or without a sign, or a fraction of such numbers.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Mixed(..) => true,
        Expr::Quotient(above, below) => is_literal(above) && is_literal(below),
        Expr::Negative(inner) => !is_signed(inner) && is_number(inner),
        other => is_literal(other),
    }
}

fn is_e(expr: &Expr) -> bool {
    matches!(expr, Expr::Constant(Constant::E))
}

fn holds_i(expr: &Expr) -> bool {
    expr.contains(&|part| matches!(part, Expr::Constant(Constant::I)))
}

/// Whether it is a number that contains i.
fn is_complex(expr: &Expr) -> bool {
    !expr.has_variable() && holds_i(expr)
}

fn holds_root(expr: &Expr) -> bool {
    expr.contains(&|part| match part {
        Expr::Root(..) => true,
        Expr::Power(_, exponent) => matches!(**exponent, Expr::Quotient(..)),
        _ => false,
    })
}

fn holds_logarithm(expr: &Expr) -> bool {
    expr.contains(&|part| matches!(part, Expr::Call(Function::Ln | Function::Log, _)))
}
