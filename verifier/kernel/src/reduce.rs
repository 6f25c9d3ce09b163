//! Weak head normal forms: what an expression comes to on the outside.

use dashu_int::UBig;
use dashu_int::ops::{BitTest as _, Gcd as _};

use crate::Error;
use crate::checker::Checker;
use crate::decode::{Hint, Kind};
use crate::store::{Expr, ExprId, LINKS, LevelsId, NO_LEVELS, NameId, ZERO};

/// Greatest exponent of a power, and of two in a shift, that is computed.
const MAX_EXPONENT: u32 = 1 << 24;

/// How far a projection's structure is reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fields {
    /// Without unfolding definitions.
    Cheap,
    /// Whatever it takes.
    Full,
}

impl Checker<'_> {
    /// Reduces until the head is no definition's any more.
    pub(crate) fn whnf(&mut self, id: ExprId) -> Result<ExprId, Error> {
        match self.store.of(id) {
            Expr::Bound(_)
            | Expr::Free(..)
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
                at = checker.whnf_core(at, Fields::Full)?;
                if let Some(number) = checker.computed(at)? {
                    return Ok(number);
                }
                match checker.unfolded(at)? {
                    Some(unfolded) => at = unfolded,
                    None => return Ok(at),
                }
            }
        })?;
        self.reduced.insert(id, reduced);
        Ok(reduced)
    }

    /// Reduces without unfolding definitions at the head.
    pub(crate) fn whnf_core(&mut self, id: ExprId, fields: Fields) -> Result<ExprId, Error> {
        match self.store.of(id) {
            Expr::App(..) | Expr::Let(..) | Expr::Proj(..) => {}
            _ => return Ok(id),
        }
        if let Some(known) = self.reduced_core.get(&id) {
            return Ok(*known);
        }
        let reduced = self.deeper(|checker| checker.whnf_core_new(id, fields))?;
        if fields == Fields::Full {
            self.reduced_core.insert(id, reduced);
        }
        Ok(reduced)
    }

    fn whnf_core_new(&mut self, id: ExprId, fields: Fields) -> Result<ExprId, Error> {
        match self.store.of(id) {
            Expr::App(..) => {
                let (head, arguments) = self.store.spine(id);
                let reduced = self.whnf_core(head, fields)?;
                if let Expr::Lam(..) = self.store.of(reduced) {
                    let applied = self.beta(reduced, &arguments);
                    return self.whnf_core(applied, fields);
                }
                if reduced != head {
                    let applied = self.store.apps(reduced, &arguments);
                    return self.whnf_core(applied, fields);
                }
                match self.recursed(head, &arguments)? {
                    Some(next) => self.whnf_core(next, fields),
                    None => Ok(id),
                }
            }
            Expr::Let(_, value, body) => {
                let body = self.store.instantiate(body, &[value]);
                self.whnf_core(body, fields)
            }
            Expr::Proj(_, at, of) => match self.projected(at, of, fields)? {
                Some(field) => self.whnf_core(field, fields),
                None => Ok(id),
            },
            _ => Ok(id),
        }
    }

    /// A function applied to arguments, without the `fun`s that these fill.
    pub(crate) fn beta(&mut self, function: ExprId, arguments: &[ExprId]) -> ExprId {
        let (mut body, mut taken) = (function, 0);
        while taken < arguments.len()
            && let Expr::Lam(_, inner) = self.store.of(body)
        {
            body = inner;
            taken += 1;
        }
        let body = self.store.instantiate(body, &arguments[..taken]);
        self.store.apps(body, &arguments[taken..])
    }

    /// The field of a structure whose constructor can be seen.
    pub(crate) fn projected(
        &mut self,
        at: u32,
        of: ExprId,
        fields: Fields,
    ) -> Result<Option<ExprId>, Error> {
        let mut of = match fields {
            Fields::Cheap => self.whnf_core(of, fields)?,
            Fields::Full => self.whnf(of)?,
        };
        if let Expr::Str(_) = self.store.of(of) {
            let spelled = self.spelled(of)?;
            of = self.whnf(spelled)?;
        }
        let (head, arguments) = self.store.spine(of);
        let Expr::Const(name, _) = self.store.of(head) else {
            return Ok(None);
        };
        let Some(constructor) = self.constructor(name)? else {
            return Ok(None);
        };
        Ok(arguments.get((constructor.params + at) as usize).copied())
    }

    /// A definition at the head, unfolded.
    pub(crate) fn unfolded(&mut self, id: ExprId) -> Result<Option<ExprId>, Error> {
        let (head, arguments) = self.store.spine(id);
        let Expr::Const(name, levels) = self.store.of(head) else {
            return Ok(None);
        };
        let Some(value) = self.value_at(name, levels)? else {
            return Ok(None);
        };
        Ok(Some(self.beta(value, &arguments)))
    }

    /// The definition at the head, and how soon it is unfolded.
    pub(crate) fn definition(&mut self, id: ExprId) -> Result<Option<(NameId, Hint)>, Error> {
        let Some((name, levels)) = self.store.head_name(id) else {
            return Ok(None);
        };
        if self.value_at(name, levels)?.is_none() {
            return Ok(None);
        }
        Ok(self.find(name)?.map(|constant| match constant.kind {
            Kind::Definition(_, hint) => (name, hint),
            _ => (name, Hint::Opaque),
        }))
    }

    /// What a recursor or a quotient's function makes of its arguments.
    fn recursed(&mut self, head: ExprId, arguments: &[ExprId]) -> Result<Option<ExprId>, Error> {
        let Expr::Const(name, levels) = self.store.of(head) else {
            return Ok(None);
        };
        let quotient = if name == self.known.quot_lift {
            Some((5, 3))
        } else if name == self.known.quot_ind {
            Some((4, 3))
        } else {
            None
        };
        match quotient {
            Some((major, function)) => self.lifted(arguments, major, function),
            None => self.eliminated(name, levels, arguments),
        }
    }

    fn lifted(
        &mut self,
        arguments: &[ExprId],
        major: usize,
        function: usize,
    ) -> Result<Option<ExprId>, Error> {
        let Some(value) = arguments.get(major) else {
            return Ok(None);
        };
        let value = self.whnf(*value)?;
        let (head, parts) = self.store.spine(value);
        let Expr::Const(name, _) = self.store.of(head) else {
            return Ok(None);
        };
        if name != self.known.quot_mk || parts.len() != 3 {
            return Ok(None);
        }
        let applied = self.store.app(arguments[function], parts[2]);
        Ok(Some(self.store.apps(applied, &arguments[major + 1..])))
    }

    fn eliminated(
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
        let Some(value) = arguments.get(major).copied() else {
            return Ok(None);
        };
        let mut value = value;
        if recursor.k
            && let Some(made) = self.only_value(&recursor.rules, recursor.params, value)?
        {
            value = made;
        }
        value = self.whnf(value)?;
        value = match self.store.of(value) {
            Expr::Nat(_) => self.counted(value),
            Expr::Str(_) => {
                let spelled = self.spelled(value)?;
                self.whnf(spelled)?
            }
            _ => self.as_constructed(value)?,
        };
        let (head, fields) = self.store.spine(value);
        let Expr::Const(constructor, _) = self.store.of(head) else {
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
        let rule = self.store.at_levels(rule.value, &constant.params, &list);
        let mut all = arguments[..own].to_vec();
        all.extend_from_slice(&fields[fields.len() - count..]);
        all.extend_from_slice(&arguments[major + 1..]);
        Ok(Some(self.beta(rule, &all)))
    }

    /// The one value of a proposition with one constructor without fields, where the type of `value` is that constructor's.
    fn only_value(
        &mut self,
        rules: &[crate::decode::Rule],
        params: u32,
        value: ExprId,
    ) -> Result<Option<ExprId>, Error> {
        let [rule] = rules else {
            return Ok(None);
        };
        let ty = self.type_of(value)?;
        let ty = self.whnf(ty)?;
        let (head, arguments) = self.store.spine(ty);
        let Expr::Const(name, levels) = self.store.of(head) else {
            return Ok(None);
        };
        let of = self.constructor(rule.constructor)?;
        if of.is_none_or(|constructor| constructor.of != name) || arguments.len() < params as usize
        {
            return Ok(None);
        }
        let made = self.store.constant(rule.constructor, levels);
        let made = self.store.apps(made, &arguments[..params as usize]);
        let found = self.type_of(made)?;
        Ok(self.equal(ty, found)?.then_some(made))
    }

    /// A value of a structure as its constructor of its fields.
    fn as_constructed(&mut self, value: ExprId) -> Result<ExprId, Error> {
        if let Some((name, _)) = self.store.head_name(value)
            && self.constructor(name)?.is_some()
        {
            return Ok(value);
        }
        let ty = self.type_of(value)?;
        let ty = self.whnf(ty)?;
        let (head, arguments) = self.store.spine(ty);
        let Expr::Const(name, levels) = self.store.of(head) else {
            return Ok(value);
        };
        let Some(constructor) = self.structure(name)? else {
            return Ok(value);
        };
        if self.is_proposition(ty)? {
            return Ok(value);
        }
        let Some(known) = self.constructor(constructor)? else {
            return Ok(value);
        };
        if arguments.len() < known.params as usize {
            return Ok(value);
        }
        let made = self.store.constant(constructor, levels);
        let mut made = self.store.apps(made, &arguments[..known.params as usize]);
        for at in 0..known.fields {
            let field = self.store.expr(Expr::Proj(name, at, value));
            made = self.store.app(made, field);
        }
        Ok(made)
    }

    /// The constructor of a type with one constructor, no indices and no values of itself.
    pub(crate) fn structure(&mut self, name: NameId) -> Result<Option<NameId>, Error> {
        let constant = self.find(name)?;
        Ok(match constant.as_deref().map(|constant| &constant.kind) {
            Some(Kind::Inductive(inductive)) => match inductive.constructors.as_slice() {
                [one] if inductive.indices == 0 && !inductive.recursive => Some(*one),
                _ => None,
            },
            _ => None,
        })
    }

    /// A literal number as a constructor.
    pub(crate) fn counted(&mut self, id: ExprId) -> ExprId {
        let Expr::Nat(literal) = self.store.of(id) else {
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

    /// A literal string as a list of its characters.
    pub(crate) fn spelled(&mut self, id: ExprId) -> Result<ExprId, Error> {
        let Expr::Str(literal) = self.store.of(id) else {
            return Ok(id);
        };
        let text: Vec<char> = self.store.text_of(literal).chars().collect();
        self.store.works(text.len());
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
        // Before Lean made strings of bytes, they were made of characters.
        let old = self.constructor(self.known.string_mk)?.is_some();
        let name = if old {
            self.known.string_mk
        } else {
            self.known.string_of_list
        };
        let make = self.store.constant(name, NO_LEVELS);
        Ok(self.store.app(make, list))
    }

    /// A number that an expression can be computed to.
    pub(crate) fn computed(&mut self, id: ExprId) -> Result<Option<ExprId>, Error> {
        if self.store.has_free(id) || self.store.loose(id) > 0 {
            return Ok(None);
        }
        let Expr::App(function, last) = self.store.of(id) else {
            return Ok(None);
        };
        match self.store.of(function) {
            Expr::Const(name, _) if name == self.known.succ || name == self.known.log2 => {
                let Some(value) = self.number(last)? else {
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
                let Expr::Const(name, _) = self.store.of(head) else {
                    return Ok(None);
                };
                let pow = self.known.pow == name;
                let at = self.known.binary.iter().position(|known| *known == name);
                if at.is_none() && !pow {
                    return Ok(None);
                }
                let Some(one) = self.number(first)? else {
                    return Ok(None);
                };
                let Some(other) = self.number(last)? else {
                    return Ok(None);
                };
                Ok(match at {
                    Some(at) => self.binary(at, one, other),
                    None => self.power(&one, &other),
                })
            }
            _ => Ok(None),
        }
    }

    /// The value of an expression that comes to a literal.
    fn number(&mut self, id: ExprId) -> Result<Option<UBig>, Error> {
        let reduced = self.whnf(id)?;
        Ok(match self.store.of(reduced) {
            Expr::Nat(literal) => {
                let value = self.store.nat_of(literal).clone();
                self.store.works(words(&value));
                Some(value)
            }
            Expr::Const(name, _) if name == self.known.zero => Some(UBig::ZERO),
            _ => None,
        })
    }

    /// A power, unless it is too large to be computed.
    fn power(&mut self, base: &UBig, exponent: &UBig) -> Option<ExprId> {
        let exponent = u32::try_from(exponent)
            .ok()
            .filter(|exponent| *exponent <= MAX_EXPONENT)?;
        let exponent = exponent as usize;
        let words = base.bit_len().checked_mul(exponent)? / 64 + 1;
        if !self.store.works(words.checked_mul(words.isqrt())? / LINKS) {
            return None;
        }
        let value = base.pow(exponent);
        Some(self.store.nat(value))
    }

    /// One of [`crate::checker::BINARY`]; nothing where it would take more than is allowed.
    fn binary(&mut self, at: usize, one: UBig, other: UBig) -> Option<ExprId> {
        let work = match at {
            2 => product(&one, &other),
            3 | 4 => 4 * product(&one, &other),
            5 => words(&one) * words(&other) / LINKS,
            _ => 0,
        };
        if !self.store.works(work) {
            return None;
        }
        let truth = |checker: &mut Self, yes: bool| {
            let name = if yes {
                checker.known.yes
            } else {
                checker.known.no
            };
            checker.store.constant(name, NO_LEVELS)
        };
        let value = match at {
            0 => one + other,
            1 if one < other => UBig::ZERO,
            1 => one - other,
            2 => one * other,
            3 if other.is_zero() => UBig::ZERO,
            3 => one / other,
            4 if other.is_zero() => one,
            4 => one % other,
            5 if one.is_zero() => other,
            5 if other.is_zero() => one,
            5 => one.gcd(other),
            6 => return Some(truth(self, one == other)),
            7 => return Some(truth(self, one <= other)),
            8 => one & other,
            9 => one | other,
            10 => one ^ other,
            11 => {
                let by = u32::try_from(&other)
                    .ok()
                    .filter(|by| *by <= MAX_EXPONENT)?;
                one << by as usize
            }
            _ => match usize::try_from(&other) {
                Ok(by) if by < one.bit_len() => one >> by,
                _ => UBig::ZERO,
            },
        };
        Some(self.store.nat(value))
    }
}

/// 64 bits each, and one for the number itself.
fn words(number: &UBig) -> usize {
    number.bit_len() / 64 + 1
}

/// What it takes to multiply, in parts of a walk: long multiplication costs the product of both lengths, faster ways about the length to the power of 3/2.
fn product(one: &UBig, other: &UBig) -> usize {
    let (one, other) = (words(one), words(other));
    one.max(other) * one.min(other).isqrt() / LINKS
}
