//! Definitional equality of two expressions.

use std::cmp::Ordering;

use dashu_int::UBig;

use crate::Error;
use crate::declaration::ReducibilityHint;
use crate::term_store::{Expr, ExprId, NO_LEVELS};
use crate::type_checker::TypeChecker;
use crate::whnf::ProjReduction;

/// The outcome of a step of delta reduction.
enum DeltaStep {
    /// The expressions are equal or not.
    Decided(bool),
    /// One or both were unfolded.
    Next(ExprId, ExprId),
    /// Neither can be unfolded.
    Stuck,
}

impl TypeChecker<'_> {
    /// Whether two type-correct expressions are definitionally equal.
    pub(crate) fn is_def_eq(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        if one == other {
            return Ok(true);
        }
        let equal = self.deeper(|checker| checker.is_def_eq_core(one, other))?;
        if equal {
            self.join(one, other);
        }
        Ok(equal)
    }

    fn class(&mut self, mut id: ExprId) -> ExprId {
        while let Some(next) = self.classes.get(&id).copied() {
            // Path halving, for later look-ups.
            if let Some(after) = self.classes.get(&next).copied() {
                self.classes.insert(id, after);
            }
            id = next;
        }
        id
    }

    fn join(&mut self, one: ExprId, other: ExprId) {
        let (one, other) = (self.class(one), self.class(other));
        if one != other {
            self.classes.insert(one, other);
        }
    }

    /// Decides equality without reducing, if that is possible.
    fn quick_is_def_eq(&mut self, one: ExprId, other: ExprId) -> Result<Option<bool>, Error> {
        if one == other || self.class(one) == self.class(other) {
            return Ok(Some(true));
        }
        Ok(match (self.store.expr_of(one), self.store.expr_of(other)) {
            (Expr::Lam(..), Expr::Lam(..)) | (Expr::Pi(..), Expr::Pi(..)) => {
                Some(self.is_def_eq_binding(one, other)?)
            }
            (Expr::Sort(one), Expr::Sort(other)) => Some(self.store.levels_equal(one, other)),
            (Expr::Nat(one), Expr::Nat(other)) => Some(one == other),
            (Expr::Str(one), Expr::Str(other)) => Some(one == other),
            _ => None,
        })
    }

    fn is_def_eq_binding(&mut self, mut one: ExprId, mut other: ExprId) -> Result<bool, Error> {
        let before = self.open;
        let mut locals = Vec::new();
        let equal = loop {
            let (a, b, c, d) = match (self.store.expr_of(one), self.store.expr_of(other)) {
                (Expr::Lam(a, b), Expr::Lam(c, d)) | (Expr::Pi(a, b), Expr::Pi(c, d)) => {
                    (a, b, c, d)
                }
                _ => {
                    let one = self.store.instantiate(one, &locals);
                    let other = self.store.instantiate(other, &locals);
                    break self.is_def_eq(one, other)?;
                }
            };
            let domain = self.store.instantiate(a, &locals);
            if a != c {
                let second = self.store.instantiate(c, &locals);
                if !self.is_def_eq(domain, second)? {
                    break false;
                }
            }
            locals.push(self.fresh_fvar(domain));
            (one, other) = (b, d);
        };
        self.open = before;
        Ok(equal)
    }

    fn is_def_eq_core(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        if let Some(decided) = self.quick_is_def_eq(one, other)? {
            return Ok(decided);
        }
        // A proof by `decide` needs a closed expression to reduce to `true`.
        if !self.store.has_fvar(one)
            && let Expr::Const(name, _) = self.store.expr_of(other)
            && name == self.known.bool_true
            && self.whnf(one)? == other
        {
            return Ok(true);
        }
        let first = self.whnf_core(one, ProjReduction::Cheap)?;
        let second = self.whnf_core(other, ProjReduction::Cheap)?;
        if (first != one || second != other)
            && let Some(decided) = self.quick_is_def_eq(first, second)?
        {
            return Ok(decided);
        }
        if let Some(decided) = self.is_def_eq_proof_irrel(first, second)? {
            return Ok(decided);
        }
        let (first, second) = match self.lazy_delta_reduction(first, second)? {
            Ok(decided) => return Ok(decided),
            Err(stuck) => stuck,
        };
        match (self.store.expr_of(first), self.store.expr_of(second)) {
            (Expr::Const(a, levels), Expr::Const(b, others))
                if a == b && self.store.level_lists_equal(levels, others) =>
            {
                return Ok(true);
            }
            (Expr::Proj(_, a, one), Expr::Proj(_, b, other))
                if a == b && self.is_def_eq(one, other)? =>
            {
                return Ok(true);
            }
            _ => {}
        }
        let third = self.whnf_core(first, ProjReduction::Full)?;
        let fourth = self.whnf_core(second, ProjReduction::Full)?;
        if third != first || fourth != second {
            return self.is_def_eq(third, fourth);
        }
        if self.is_def_eq_app(first, second)?
            || self.try_eta_expansion(first, second)?
            || self.try_eta_expansion(second, first)?
            || self.try_eta_struct(first, second)?
            || self.try_eta_struct(second, first)?
            || self.try_string_lit_expansion(first, second)?
            || self.try_string_lit_expansion(second, first)?
        {
            return Ok(true);
        }
        self.is_def_eq_unit_like(first, second)
    }

    /// Proof irrelevance: two proofs of one proposition are equal; `None` if they are not.
    fn is_def_eq_proof_irrel(&mut self, one: ExprId, other: ExprId) -> Result<Option<bool>, Error> {
        let ty = self.type_of(one)?;
        if !self.is_prop(ty)? {
            return Ok(None);
        }
        let second = self.type_of(other)?;
        Ok(self.is_def_eq(ty, second)?.then_some(true))
    }

    /// Lazy delta reduction: repeatedly unfolds the definition that comes first by its hint. Ends when equality is decided or neither side can be unfolded.
    fn lazy_delta_reduction(
        &mut self,
        mut one: ExprId,
        mut other: ExprId,
    ) -> Result<Result<bool, (ExprId, ExprId)>, Error> {
        loop {
            self.step()?;
            if let Some(decided) = self.is_def_eq_offset_nat(one, other)? {
                return Ok(Ok(decided));
            }
            if !self.store.has_fvar(one) && !self.store.has_fvar(other) {
                if let Some(number) = self.reduce_nat(one)? {
                    return Ok(Ok(self.is_def_eq(number, other)?));
                }
                if let Some(number) = self.reduce_nat(other)? {
                    return Ok(Ok(self.is_def_eq(one, number)?));
                }
            }
            match self.lazy_delta_step(one, other)? {
                DeltaStep::Decided(decided) => return Ok(Ok(decided)),
                DeltaStep::Next(first, second) => (one, other) = (first, second),
                DeltaStep::Stuck => return Ok(Err((one, other))),
            }
            if let Some(decided) = self.quick_is_def_eq(one, other)? {
                return Ok(Ok(decided));
            }
        }
    }

    fn lazy_delta_step(&mut self, one: ExprId, other: ExprId) -> Result<DeltaStep, Error> {
        let first = self.definition(one)?;
        let second = self.definition(other)?;
        let order = match (first, second) {
            (None, None) => return Ok(DeltaStep::Stuck),
            (Some(_), None) => {
                // A stuck projection on the other side may have to be unfolded first.
                if let Some(next) = self.unfold_proj_app(other)? {
                    return Ok(DeltaStep::Next(one, next));
                }
                Ordering::Greater
            }
            (None, Some(_)) => {
                if let Some(next) = self.unfold_proj_app(one)? {
                    return Ok(DeltaStep::Next(next, other));
                }
                Ordering::Less
            }
            (Some((name, hint)), Some((another, second))) => {
                let order = hint.cmp(&second);
                if order == Ordering::Equal
                    && name == another
                    && matches!(hint, ReducibilityHint::Regular(_))
                    && matches!(
                        (self.store.expr_of(one), self.store.expr_of(other)),
                        (Expr::App(..), Expr::App(..))
                    )
                    && !self.unequal.contains_key(&(one, other))
                {
                    if self.is_def_eq_args(one, other)? {
                        return Ok(DeltaStep::Decided(true));
                    }
                    self.unequal.insert((one, other), ());
                }
                order
            }
        };
        let one = match order {
            Ordering::Less => one,
            _ => self.unfold_and_reduce(one)?,
        };
        let other = match order {
            Ordering::Greater => other,
            _ => self.unfold_and_reduce(other)?,
        };
        Ok(DeltaStep::Next(one, other))
    }

    fn unfold_and_reduce(&mut self, id: ExprId) -> Result<ExprId, Error> {
        match self.unfold_definition(id)? {
            Some(unfolded) => self.whnf_core(unfolded, ProjReduction::Cheap),
            None => Ok(id),
        }
    }

    /// An application of a projection, with its structure fully reduced; `None` if that changes nothing.
    fn unfold_proj_app(&mut self, id: ExprId) -> Result<Option<ExprId>, Error> {
        if !matches!(self.store.expr_of(self.store.head(id)), Expr::Proj(..)) {
            return Ok(None);
        }
        let reduced = self.whnf_core(id, ProjReduction::Full)?;
        Ok((reduced != id).then_some(reduced))
    }

    /// Whether two applications of one constant have equal levels and equal arguments.
    fn is_def_eq_args(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let (head, arguments) = self.store.spine(one);
        let (another, others) = self.store.spine(other);
        let (Expr::Const(_, levels), Expr::Const(_, second)) =
            (self.store.expr_of(head), self.store.expr_of(another))
        else {
            return Ok(false);
        };
        Ok(arguments.len() == others.len()
            && self.store.level_lists_equal(levels, second)
            && self.all_def_eq(&arguments, &others)?)
    }

    fn is_def_eq_app(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let (Expr::App(..), Expr::App(..)) = (self.store.expr_of(one), self.store.expr_of(other))
        else {
            return Ok(false);
        };
        let (head, arguments) = self.store.spine(one);
        let (another, others) = self.store.spine(other);
        Ok(arguments.len() == others.len()
            && self.is_def_eq(head, another)?
            && self.all_def_eq(&arguments, &others)?)
    }

    /// Whether each expression is definitionally equal to the other at its place.
    pub(crate) fn all_def_eq(
        &mut self,
        these: &[ExprId],
        others: &[ExprId],
    ) -> Result<bool, Error> {
        for (one, other) in these.iter().zip(others) {
            if !self.is_def_eq(*one, *other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The predecessor of a literal, or of an application of `Nat.succ`.
    fn predecessor(&mut self, id: ExprId) -> Option<ExprId> {
        match self.store.expr_of(id) {
            Expr::Nat(literal) => {
                let value = self.store.nat_of(literal);
                if value.is_zero() {
                    return None;
                }
                let before = value - UBig::ONE;
                Some(self.store.nat(before))
            }
            Expr::App(function, argument) => match self.store.expr_of(function) {
                Expr::Const(name, _) if name == self.known.succ => Some(argument),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_zero_number(&self, id: ExprId) -> bool {
        match self.store.expr_of(id) {
            Expr::Nat(literal) => self.store.nat_of(literal).is_zero(),
            Expr::Const(name, _) => name == self.known.zero,
            _ => false,
        }
    }

    /// Compares numbers that are both zero, both literals, or both successors; `None` for others.
    fn is_def_eq_offset_nat(&mut self, one: ExprId, other: ExprId) -> Result<Option<bool>, Error> {
        if self.is_zero_number(one) && self.is_zero_number(other) {
            return Ok(Some(true));
        }
        if let (Expr::Nat(one), Expr::Nat(other)) =
            (self.store.expr_of(one), self.store.expr_of(other))
        {
            return Ok(Some(one == other));
        }
        let Some(first) = self.predecessor(one) else {
            return Ok(None);
        };
        let Some(second) = self.predecessor(other) else {
            return Ok(None);
        };
        Ok(Some(self.is_def_eq(first, second)?))
    }

    /// Eta for functions: `fun x => f x` equals `f`.
    fn try_eta_expansion(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        if !matches!(self.store.expr_of(one), Expr::Lam(..))
            || matches!(self.store.expr_of(other), Expr::Lam(..))
        {
            return Ok(false);
        }
        let ty = self.type_of(other)?;
        let Some((domain, _)) = self.whnf_pi(ty)? else {
            return Ok(false);
        };
        let variable = self.store.expr(Expr::BVar(0));
        let lifted = self.store.lift(other, 1);
        let body = self.store.app(lifted, variable);
        let function = self.store.expr(Expr::Lam(domain, body));
        self.is_def_eq(one, function)
    }

    /// Eta for structures: a structure equals its constructor applied to its projections.
    fn try_eta_struct(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let (head, arguments) = self.store.spine(other);
        let Expr::Const(name, _) = self.store.expr_of(head) else {
            return Ok(false);
        };
        let Some(constructor) = self.constructor(name)? else {
            return Ok(false);
        };
        if arguments.len() != (constructor.params + constructor.fields) as usize
            || self.structure_constructor(constructor.of)? != Some(name)
        {
            return Ok(false);
        }
        let (first, second) = (self.type_of(one)?, self.type_of(other)?);
        if !self.is_def_eq(first, second)? {
            return Ok(false);
        }
        for at in 0..constructor.fields {
            let field = self.store.expr(Expr::Proj(constructor.of, at, one));
            if !self.is_def_eq(field, arguments[(constructor.params + at) as usize])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares a literal string with a string that is built from a list of characters.
    fn try_string_lit_expansion(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let (Expr::Str(_), Expr::App(function, _)) =
            (self.store.expr_of(one), self.store.expr_of(other))
        else {
            return Ok(false);
        };
        match self.store.expr_of(function) {
            Expr::Const(name, levels)
                if levels == NO_LEVELS
                    && (name == self.known.string_mk || name == self.known.string_of_list) =>
            {
                let expanded = self.string_to_constructor(one)?;
                self.is_def_eq(expanded, other)
            }
            _ => Ok(false),
        }
    }

    /// Eta for unit-like types: all values of a structure without fields are equal.
    fn is_def_eq_unit_like(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let ty = self.type_of(one)?;
        let ty = self.whnf(ty)?;
        let Some((name, _)) = self.store.head_name(ty) else {
            return Ok(false);
        };
        let Some(constructor) = self.structure_constructor(name)? else {
            return Ok(false);
        };
        if self
            .constructor(constructor)?
            .is_none_or(|constructor| constructor.fields != 0)
        {
            return Ok(false);
        }
        let second = self.type_of(other)?;
        self.is_def_eq(ty, second)
    }
}
