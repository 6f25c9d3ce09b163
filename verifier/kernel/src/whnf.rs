//! Reduces expressions to weak head normal form.

use dashu_int::UBig;
use dashu_int::ops::{BitTest as _, Gcd as _};

use crate::Error;
use crate::declaration::{Kind, RecursorRule, ReducibilityHint};
use crate::term_store::{Expr, ExprId, LINKS, LevelsId, NO_LEVELS, NameId, ZERO};
use crate::type_checker::{BINARY, TypeChecker};

/// Greatest exponent of a power that is computed, and greatest left shift.
const MAX_EXPONENT: u32 = 1 << 24;

/// How far the structure under a projection is reduced. Lean's kernel calls this `cheap_proj`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProjReduction {
    /// Without unfolding definitions.
    Cheap,
    /// To weak head normal form.
    Full,
}

impl TypeChecker<'_> {
    /// Weak head normal form: also unfolds definitions at the head.
    pub(crate) fn whnf(&mut self, id: ExprId) -> Result<ExprId, Error> {
        match self.store.expr_of(id) {
            Expr::BVar(_)
            | Expr::FVar(..)
            | Expr::Sort(_)
            | Expr::Lam(..)
            | Expr::Pi(..)
            | Expr::Nat(_)
            | Expr::Str(_) => return Ok(id),
            _ => {}
        }
        if let Some(known) = self.reduced.get(&id) {
            return Ok(*known);
        }
        let reduced = self.deeper(|checker| {
            let mut at = id;
            loop {
                checker.step()?;
                at = checker.whnf_core(at, ProjReduction::Full)?;
                if let Some(number) = checker.reduce_nat(at)? {
                    return Ok(number);
                }
                match checker.unfold_definition(at)? {
                    Some(unfolded) => at = unfolded,
                    None => return Ok(at),
                }
            }
        })?;
        self.reduced.insert(id, reduced);
        Ok(reduced)
    }

    /// Weak head normal form without unfolding definitions at the head.
    pub(crate) fn whnf_core(&mut self, id: ExprId, proj: ProjReduction) -> Result<ExprId, Error> {
        match self.store.expr_of(id) {
            Expr::App(..) | Expr::Let(..) | Expr::Proj(..) => {}
            _ => return Ok(id),
        }
        if let Some(known) = self.reduced_core.get(&id) {
            return Ok(*known);
        }
        let reduced = self.deeper(|checker| checker.whnf_core_new(id, proj))?;
        if proj == ProjReduction::Full {
            self.reduced_core.insert(id, reduced);
        }
        Ok(reduced)
    }

    fn whnf_core_new(&mut self, id: ExprId, proj: ProjReduction) -> Result<ExprId, Error> {
        match self.store.expr_of(id) {
            Expr::App(..) => {
                let (head, arguments) = self.store.spine(id);
                let reduced = self.whnf_core(head, proj)?;
                if let Expr::Lam(..) = self.store.expr_of(reduced) {
                    let applied = self.beta(reduced, &arguments);
                    return self.whnf_core(applied, proj);
                }
                if reduced != head {
                    let applied = self.store.apps(reduced, &arguments);
                    return self.whnf_core(applied, proj);
                }
                match self.reduce_eliminator(head, &arguments)? {
                    Some(next) => self.whnf_core(next, proj),
                    None => Ok(id),
                }
            }
            Expr::Let(_, value, body) => {
                let body = self.store.instantiate(body, &[value]);
                self.whnf_core(body, proj)
            }
            Expr::Proj(_, at, structure) => match self.reduce_proj(at, structure, proj)? {
                Some(field) => self.whnf_core(field, proj),
                None => Ok(id),
            },
            _ => Ok(id),
        }
    }

    /// Beta reduction: a function applied to arguments, with the arguments substituted into its `fun`s.
    pub(crate) fn beta(&mut self, function: ExprId, arguments: &[ExprId]) -> ExprId {
        let (mut body, mut taken) = (function, 0);
        while taken < arguments.len()
            && let Expr::Lam(_, inner) = self.store.expr_of(body)
        {
            body = inner;
            taken += 1;
        }
        let body = self.store.instantiate(body, &arguments[..taken]);
        self.store.apps(body, &arguments[taken..])
    }

    /// The field `at` of `structure`, if that reduces to an application of a constructor.
    pub(crate) fn reduce_proj(
        &mut self,
        at: u32,
        structure: ExprId,
        proj: ProjReduction,
    ) -> Result<Option<ExprId>, Error> {
        let mut structure = match proj {
            ProjReduction::Cheap => self.whnf_core(structure, proj)?,
            ProjReduction::Full => self.whnf(structure)?,
        };
        if let Expr::Str(_) = self.store.expr_of(structure) {
            let expanded = self.string_to_constructor(structure)?;
            structure = self.whnf(expanded)?;
        }
        let (head, arguments) = self.store.spine(structure);
        let Expr::Const(name, _) = self.store.expr_of(head) else {
            return Ok(None);
        };
        let Some(constructor) = self.constructor(name)? else {
            return Ok(None);
        };
        Ok(arguments.get((constructor.params + at) as usize).copied())
    }

    /// Delta reduction: the expression with the definition at its head unfolded.
    pub(crate) fn unfold_definition(&mut self, id: ExprId) -> Result<Option<ExprId>, Error> {
        let (head, arguments) = self.store.spine(id);
        let Expr::Const(name, levels) = self.store.expr_of(head) else {
            return Ok(None);
        };
        let Some(value) = self.value_at(name, levels)? else {
            return Ok(None);
        };
        Ok(Some(self.beta(value, &arguments)))
    }

    /// The definition at the head, with its reducibility hint.
    pub(crate) fn definition(
        &mut self,
        id: ExprId,
    ) -> Result<Option<(NameId, ReducibilityHint)>, Error> {
        let Some((name, levels)) = self.store.head_name(id) else {
            return Ok(None);
        };
        if self.value_at(name, levels)?.is_none() {
            return Ok(None);
        }
        Ok(self.find(name)?.map(|constant| match constant.kind {
            Kind::Definition(_, hint) => (name, hint),
            _ => (name, ReducibilityHint::Opaque),
        }))
    }

    /// Reduces an application of a recursor, or of `Quot.lift` or `Quot.ind`.
    fn reduce_eliminator(
        &mut self,
        head: ExprId,
        arguments: &[ExprId],
    ) -> Result<Option<ExprId>, Error> {
        let Expr::Const(name, levels) = self.store.expr_of(head) else {
            return Ok(None);
        };
        if name == self.known.quot_lift {
            self.reduce_quotient(arguments, 5)
        } else if name == self.known.quot_ind {
            self.reduce_quotient(arguments, 4)
        } else {
            self.reduce_recursor(name, levels, arguments)
        }
    }

    /// Applies the function, argument 3, to the value in the `Quot.mk` that is argument `major`.
    fn reduce_quotient(
        &mut self,
        arguments: &[ExprId],
        major: usize,
    ) -> Result<Option<ExprId>, Error> {
        let Some(value) = arguments.get(major) else {
            return Ok(None);
        };
        let value = self.whnf(*value)?;
        let (head, parts) = self.store.spine(value);
        let Expr::Const(name, _) = self.store.expr_of(head) else {
            return Ok(None);
        };
        if name != self.known.quot_mk || parts.len() != 3 {
            return Ok(None);
        }
        let applied = self.store.app(arguments[3], parts[2]);
        Ok(Some(self.store.apps(applied, &arguments[major + 1..])))
    }

    fn reduce_recursor(
        &mut self,
        name: NameId,
        levels: LevelsId,
        arguments: &[ExprId],
    ) -> Result<Option<ExprId>, Error> {
        let Some(constant) = self.find(name)? else {
            return Ok(None);
        };
        let Kind::Recursor(recursor) = &constant.kind else {
            return Ok(None);
        };
        let own = (recursor.params + recursor.motives + recursor.minors) as usize;
        let major = own + recursor.indices as usize;
        let Some(mut value) = arguments.get(major).copied() else {
            return Ok(None);
        };
        if recursor.k
            && let Some(proof) = self.reduce_k(&recursor.rules, recursor.params, value)?
        {
            value = proof;
        }
        value = self.whnf(value)?;
        value = match self.store.expr_of(value) {
            Expr::Nat(_) => self.nat_to_constructor(value),
            Expr::Str(_) => {
                let expanded = self.string_to_constructor(value)?;
                self.whnf(expanded)?
            }
            _ => self.eta_expand_structure(value)?,
        };
        let (head, fields) = self.store.spine(value);
        let Expr::Const(constructor, _) = self.store.expr_of(head) else {
            return Ok(None);
        };
        let Some(rule) = recursor
            .rules
            .iter()
            .find(|rule| rule.constructor == constructor)
        else {
            return Ok(None);
        };
        let list = self.store.levels_of(levels).to_vec();
        let count = rule.fields as usize;
        if fields.len() < count || list.len() != constant.params.len() {
            return Ok(None);
        }
        let rule = self
            .store
            .instantiate_levels(rule.value, &constant.params, &list);
        let mut all = arguments[..own].to_vec();
        all.extend_from_slice(&fields[fields.len() - count..]);
        all.extend_from_slice(&arguments[major + 1..]);
        Ok(Some(self.beta(rule, &all)))
    }

    /// K-like reduction: the constructor of a proposition with a single constructor without fields, if its type equals the type of `value`.
    fn reduce_k(
        &mut self,
        rules: &[RecursorRule],
        params: u32,
        value: ExprId,
    ) -> Result<Option<ExprId>, Error> {
        let [rule] = rules else {
            return Ok(None);
        };
        let ty = self.type_of(value)?;
        let ty = self.whnf(ty)?;
        let (head, arguments) = self.store.spine(ty);
        let Expr::Const(name, levels) = self.store.expr_of(head) else {
            return Ok(None);
        };
        let constructor = self.constructor(rule.constructor)?;
        if constructor.is_none_or(|constructor| constructor.of != name)
            || arguments.len() < params as usize
        {
            return Ok(None);
        }
        let proof = self.store.constant(rule.constructor, levels);
        let proof = self.store.apps(proof, &arguments[..params as usize]);
        let found = self.type_of(proof)?;
        Ok(self.is_def_eq(ty, found)?.then_some(proof))
    }

    /// Eta for structures: a value of a structure as its constructor applied to its projections. Other values are returned as they are.
    fn eta_expand_structure(&mut self, value: ExprId) -> Result<ExprId, Error> {
        if let Some((name, _)) = self.store.head_name(value)
            && self.constructor(name)?.is_some()
        {
            return Ok(value);
        }
        let ty = self.type_of(value)?;
        let ty = self.whnf(ty)?;
        let (head, arguments) = self.store.spine(ty);
        let Expr::Const(name, levels) = self.store.expr_of(head) else {
            return Ok(value);
        };
        let Some(constructor) = self.structure_constructor(name)? else {
            return Ok(value);
        };
        if self.is_prop(ty)? {
            return Ok(value);
        }
        let Some(known) = self.constructor(constructor)? else {
            return Ok(value);
        };
        if arguments.len() < known.params as usize {
            return Ok(value);
        }
        let applied = self.store.constant(constructor, levels);
        let mut applied = self
            .store
            .apps(applied, &arguments[..known.params as usize]);
        for at in 0..known.fields {
            let field = self.store.expr(Expr::Proj(name, at, value));
            applied = self.store.app(applied, field);
        }
        Ok(applied)
    }

    /// The constructor of a structure: an inductive type with one constructor, no indices and no recursive fields.
    pub(crate) fn structure_constructor(&mut self, name: NameId) -> Result<Option<NameId>, Error> {
        let constant = self.find(name)?;
        Ok(match constant.as_deref().map(|constant| &constant.kind) {
            Some(Kind::Inductive(inductive)) => match inductive.constructors.as_slice() {
                [one] if inductive.indices == 0 && !inductive.recursive => Some(*one),
                _ => None,
            },
            _ => None,
        })
    }

    /// A literal number as an application of `Nat.zero` or `Nat.succ`.
    pub(crate) fn nat_to_constructor(&mut self, id: ExprId) -> ExprId {
        let Expr::Nat(literal) = self.store.expr_of(id) else {
            return id;
        };
        let value = self.store.nat_of(literal).clone();
        if value.is_zero() {
            return self.store.constant(self.known.zero, NO_LEVELS);
        }
        let succ = self.store.constant(self.known.succ, NO_LEVELS);
        let before = self.store.nat(value - UBig::ONE);
        self.store.app(succ, before)
    }

    /// A literal string as the constructor or function of strings, applied to the list of its characters.
    pub(crate) fn string_to_constructor(&mut self, id: ExprId) -> Result<ExprId, Error> {
        let Expr::Str(literal) = self.store.expr_of(id) else {
            return Ok(id);
        };
        let text: Vec<char> = self.store.text_of(literal).chars().collect();
        self.store.charge(text.len());
        let zero = self.store.levels(&[ZERO]);
        let char = self.store.constant(self.known.char, NO_LEVELS);
        let of_nat = self.store.constant(self.known.char_of_nat, NO_LEVELS);
        let cons = self.store.constant(self.known.cons, zero);
        let cons = self.store.app(cons, char);
        let nil = self.store.constant(self.known.nil, zero);
        let mut list = self.store.app(nil, char);
        for char in text.into_iter().rev() {
            let code = self.store.nat(UBig::from(u32::from(char)));
            let char = self.store.app(of_nat, code);
            list = self.store.apps(cons, &[char, list]);
        }
        // In older versions of Lean, a string is a list of characters; in newer ones, it consists of bytes.
        let old = self.constructor(self.known.string_mk)?.is_some();
        let name = if old {
            self.known.string_mk
        } else {
            self.known.string_of_list
        };
        let make = self.store.constant(name, NO_LEVELS);
        Ok(self.store.app(make, list))
    }

    /// The literal value of a closed application of an operation on natural numbers.
    pub(crate) fn reduce_nat(&mut self, id: ExprId) -> Result<Option<ExprId>, Error> {
        if self.store.has_fvar(id) || self.store.loose_bvar_range(id) > 0 {
            return Ok(None);
        }
        let Expr::App(function, last) = self.store.expr_of(id) else {
            return Ok(None);
        };
        match self.store.expr_of(function) {
            Expr::Const(name, _) if name == self.known.succ || name == self.known.log2 => {
                let Some(value) = self.nat_value(last)? else {
                    return Ok(None);
                };
                let value = if name == self.known.succ {
                    value + UBig::ONE
                } else {
                    UBig::from(value.bit_len().saturating_sub(1))
                };
                Ok(Some(self.store.nat(value)))
            }
            Expr::App(head, first) => {
                let known = &self.known.binary;
                if let Expr::Const(name, _) = self.store.expr_of(head)
                    && let Some(operation) = known.iter().position(|known| *known == name)
                    && let Some(one) = self.nat_value(first)?
                    && let Some(other) = self.nat_value(last)?
                {
                    return Ok(self.reduce_binary(BINARY[operation], one, other));
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The value of an expression that reduces to a literal number or to `Nat.zero`.
    fn nat_value(&mut self, id: ExprId) -> Result<Option<UBig>, Error> {
        let reduced = self.whnf(id)?;
        Ok(match self.store.expr_of(reduced) {
            Expr::Nat(literal) => {
                let value = self.store.nat_of(literal).clone();
                self.store.charge(words(&value));
                Some(value)
            }
            Expr::Const(name, _) if name == self.known.zero => Some(UBig::ZERO),
            _ => None,
        })
    }

    /// A power; `None` if it is too large to be computed.
    fn power(&self, base: &UBig, exponent: &UBig) -> Option<UBig> {
        let exponent = bounded_exponent(exponent)?;
        let words = base.bit_len().checked_mul(exponent)? / 64 + 1;
        if !self.store.charge(words.checked_mul(words.isqrt())? / LINKS) {
            return None;
        }
        Some(base.pow(exponent))
    }

    /// The result of an operation of [`BINARY`]; `None` if it would cost more than is allowed.
    fn reduce_binary(&mut self, operation: &str, one: UBig, other: UBig) -> Option<ExprId> {
        let work = match operation {
            "Nat.mul" => product(&one, &other),
            "Nat.div" | "Nat.mod" => 4 * product(&one, &other),
            "Nat.gcd" => words(&one) * words(&other) / LINKS,
            _ => 0,
        };
        if !self.store.charge(work) {
            return None;
        }
        let truth = |checker: &mut Self, yes: bool| {
            let name = if yes {
                checker.known.bool_true
            } else {
                checker.known.bool_false
            };
            checker.store.constant(name, NO_LEVELS)
        };
        let value = match operation {
            "Nat.add" => one + other,
            "Nat.sub" if one < other => UBig::ZERO,
            "Nat.sub" => one - other,
            "Nat.mul" => one * other,
            "Nat.div" if other.is_zero() => UBig::ZERO,
            "Nat.div" => one / other,
            "Nat.mod" if other.is_zero() => one,
            "Nat.mod" => one % other,
            "Nat.gcd" if one.is_zero() => other,
            "Nat.gcd" if other.is_zero() => one,
            "Nat.gcd" => one.gcd(other),
            "Nat.beq" => return Some(truth(self, one == other)),
            "Nat.ble" => return Some(truth(self, one <= other)),
            "Nat.land" => one & other,
            "Nat.lor" => one | other,
            "Nat.xor" => one ^ other,
            "Nat.shiftLeft" => one << bounded_exponent(&other)?,
            "Nat.shiftRight" => match usize::try_from(&other) {
                Ok(by) if by < one.bit_len() => one >> by,
                _ => UBig::ZERO,
            },
            "Nat.pow" => self.power(&one, &other)?,
            _ => return None,
        };
        Some(self.store.nat(value))
    }
}

/// The exponent of a power, or the number of bits of a left shift; `None` if it is too large.
fn bounded_exponent(number: &UBig) -> Option<usize> {
    let number = u32::try_from(number).ok()?;
    (number <= MAX_EXPONENT).then_some(number as usize)
}

/// Size of a number in words of 64 bits, plus one.
fn words(number: &UBig) -> usize {
    number.bit_len() / 64 + 1
}

/// The cost of a multiplication, in parts of a traversal. Long multiplication costs the product of both lengths; faster algorithms cost about the length to the power
/// of 3/2.
fn product(one: &UBig, other: &UBig) -> usize {
    let (one, other) = (words(one), words(other));
    one.max(other) * one.min(other).isqrt() / LINKS
}
