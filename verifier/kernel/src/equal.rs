//! Whether two expressions are equal by definition.

use std::cmp::Ordering;

use dashu_int::UBig;

use crate::Error;
use crate::checker::Checker;
use crate::decode::Hint;
use crate::reduce::Fields;
use crate::store::{Expr, ExprId, NO_LEVELS};

/// What a step of unfolding came to.
enum Unfolded {
    /// It is decided.
    Decided(bool),
    /// One of both was unfolded.
    Next(ExprId, ExprId),
    /// Neither can be unfolded.
    Stuck,
}

impl Checker<'_> {
    /// Whether two expressions, which have types, are equal by definition.
    pub(crate) fn equal(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        if one == other {
            return Ok(true);
        }
        let equal = self.deeper(|checker| checker.equal_new(one, other))?;
        if equal {
            self.join(one, other);
        }
        Ok(equal)
    }

    fn class(&mut self, mut id: ExprId) -> ExprId {
        while let Some(next) = self.classes.get(&id).copied() {
            // Halves the way for those who come after.
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

    /// What can be decided without reducing.
    fn equal_at_once(&mut self, one: ExprId, other: ExprId) -> Result<Option<bool>, Error> {
        if one == other || self.class(one) == self.class(other) {
            return Ok(Some(true));
        }
        Ok(match (self.store.of(one), self.store.of(other)) {
            (Expr::Lam(..), Expr::Lam(..)) | (Expr::Pi(..), Expr::Pi(..)) => {
                Some(self.equal_binders(one, other)?)
            }
            (Expr::Sort(one), Expr::Sort(other)) => Some(self.store.levels_equal(one, other)),
            (Expr::Nat(one), Expr::Nat(other)) => Some(one == other),
            (Expr::Str(one), Expr::Str(other)) => Some(one == other),
            _ => None,
        })
    }

    fn equal_binders(&mut self, mut one: ExprId, mut other: ExprId) -> Result<bool, Error> {
        let before = self.open;
        let mut locals = Vec::new();
        let equal = loop {
            let (a, b, c, d) = match (self.store.of(one), self.store.of(other)) {
                (Expr::Lam(a, b), Expr::Lam(c, d)) | (Expr::Pi(a, b), Expr::Pi(c, d)) => {
                    (a, b, c, d)
                }
                _ => {
                    let one = self.store.instantiate(one, &locals);
                    let other = self.store.instantiate(other, &locals);
                    break self.equal(one, other)?;
                }
            };
            let domain = self.store.instantiate(a, &locals);
            if a != c {
                let second = self.store.instantiate(c, &locals);
                if !self.equal(domain, second)? {
                    break false;
                }
            }
            locals.push(self.local(domain));
            (one, other) = (b, d);
        };
        self.open = before;
        Ok(equal)
    }

    fn equal_new(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        if let Some(decided) = self.equal_at_once(one, other)? {
            return Ok(decided);
        }
        // `decide` leaves a closed expression that comes to `true`.
        if !self.store.has_free(one)
            && let Expr::Const(name, _) = self.store.of(other)
            && name == self.known.yes
            && self.whnf(one)? == other
        {
            return Ok(true);
        }
        let first = self.whnf_core(one, Fields::Cheap)?;
        let second = self.whnf_core(other, Fields::Cheap)?;
        if (first != one || second != other)
            && let Some(decided) = self.equal_at_once(first, second)?
        {
            return Ok(decided);
        }
        if let Some(decided) = self.equal_proofs(first, second)? {
            return Ok(decided);
        }
        let (first, second) = match self.unfold_both(first, second)? {
            Ok(decided) => return Ok(decided),
            Err(stuck) => stuck,
        };
        match (self.store.of(first), self.store.of(second)) {
            (Expr::Const(a, levels), Expr::Const(b, others))
                if a == b && self.store.lists_equal(levels, others) =>
            {
                return Ok(true);
            }
            (Expr::Proj(_, a, one), Expr::Proj(_, b, other))
                if a == b && self.equal(one, other)? =>
            {
                return Ok(true);
            }
            _ => {}
        }
        let third = self.whnf_core(first, Fields::Full)?;
        let fourth = self.whnf_core(second, Fields::Full)?;
        if third != first || fourth != second {
            return self.equal(third, fourth);
        }
        if self.equal_applications(first, second)?
            || self.equal_by_eta(first, second)?
            || self.equal_by_eta(second, first)?
            || self.equal_structures(first, second)?
            || self.equal_structures(second, first)?
            || self.equal_strings(first, second)?
            || self.equal_strings(second, first)?
        {
            return Ok(true);
        }
        self.equal_units(first, second)
    }

    /// Two proofs of one proposition are equal; `None` where they are no proofs.
    fn equal_proofs(&mut self, one: ExprId, other: ExprId) -> Result<Option<bool>, Error> {
        let ty = self.type_of(one)?;
        if !self.is_proposition(ty)? {
            return Ok(None);
        }
        let second = self.type_of(other)?;
        Ok(if self.equal(ty, second)? {
            Some(true)
        } else {
            None
        })
    }

    /// Unfolds the later definition of both again and again, until it is decided or neither has one.
    #[allow(clippy::type_complexity)]
    fn unfold_both(
        &mut self,
        mut one: ExprId,
        mut other: ExprId,
    ) -> Result<Result<bool, (ExprId, ExprId)>, Error> {
        loop {
            self.step()?;
            if let Some(decided) = self.equal_numbers(one, other)? {
                return Ok(Ok(decided));
            }
            if !self.store.has_free(one) && !self.store.has_free(other) {
                if let Some(number) = self.computed(one)? {
                    return Ok(Ok(self.equal(number, other)?));
                }
                if let Some(number) = self.computed(other)? {
                    return Ok(Ok(self.equal(one, number)?));
                }
            }
            match self.unfold_one(one, other)? {
                Unfolded::Decided(decided) => return Ok(Ok(decided)),
                Unfolded::Next(first, second) => (one, other) = (first, second),
                Unfolded::Stuck => return Ok(Err((one, other))),
            }
            if let Some(decided) = self.equal_at_once(one, other)? {
                return Ok(Ok(decided));
            }
        }
    }

    fn unfold_one(&mut self, one: ExprId, other: ExprId) -> Result<Unfolded, Error> {
        let first = self.definition(one)?;
        let second = self.definition(other)?;
        let order = match (first, second) {
            (None, None) => return Ok(Unfolded::Stuck),
            (Some(_), None) => {
                // A projection of what is stuck may have to be unfolded on the other side first.
                if let Some(next) = self.unfolded_projection(other)? {
                    return Ok(Unfolded::Next(one, next));
                }
                Ordering::Greater
            }
            (None, Some(_)) => {
                if let Some(next) = self.unfolded_projection(one)? {
                    return Ok(Unfolded::Next(next, other));
                }
                Ordering::Less
            }
            (Some((name, hint)), Some((another, second))) => {
                let order = hint.cmp(&second);
                if order == Ordering::Equal
                    && name == another
                    && matches!(hint, Hint::Regular(_))
                    && matches!(
                        (self.store.of(one), self.store.of(other)),
                        (Expr::App(..), Expr::App(..))
                    )
                    && !self.unequal.contains_key(&(one, other))
                {
                    if self.equal_arguments(one, other)? {
                        return Ok(Unfolded::Decided(true));
                    }
                    self.unequal.insert((one, other), ());
                }
                order
            }
        };
        let one = match order {
            Ordering::Less => one,
            _ => self.unfolded_core(one)?,
        };
        let other = match order {
            Ordering::Greater => other,
            _ => self.unfolded_core(other)?,
        };
        Ok(Unfolded::Next(one, other))
    }

    fn unfolded_core(&mut self, id: ExprId) -> Result<ExprId, Error> {
        match self.unfolded(id)? {
            Some(unfolded) => self.whnf_core(unfolded, Fields::Cheap),
            None => Ok(id),
        }
    }

    /// An application of a projection, with its structure reduced as far as it takes.
    fn unfolded_projection(&mut self, id: ExprId) -> Result<Option<ExprId>, Error> {
        if !matches!(self.store.of(self.store.head(id)), Expr::Proj(..)) {
            return Ok(None);
        }
        let reduced = self.whnf_core(id, Fields::Full)?;
        Ok((reduced != id).then_some(reduced))
    }

    /// Applications of one constant to equal arguments.
    fn equal_arguments(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let (head, arguments) = self.store.spine(one);
        let (another, others) = self.store.spine(other);
        if arguments.len() != others.len() {
            return Ok(false);
        }
        let (Expr::Const(_, levels), Expr::Const(_, second)) =
            (self.store.of(head), self.store.of(another))
        else {
            return Ok(false);
        };
        if !self.store.lists_equal(levels, second) {
            return Ok(false);
        }
        for (argument, other) in arguments.into_iter().zip(others) {
            if !self.equal(argument, other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equal_applications(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let (Expr::App(..), Expr::App(..)) = (self.store.of(one), self.store.of(other)) else {
            return Ok(false);
        };
        let (head, arguments) = self.store.spine(one);
        let (another, others) = self.store.spine(other);
        if arguments.len() != others.len() || !self.equal(head, another)? {
            return Ok(false);
        }
        for (argument, other) in arguments.into_iter().zip(others) {
            if !self.equal(argument, other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number before a literal, or before `Nat.succ`.
    fn before(&mut self, id: ExprId) -> Option<ExprId> {
        match self.store.of(id) {
            Expr::Nat(literal) => {
                let value = self.store.nat_of(literal);
                if value.is_zero() {
                    return None;
                }
                let before = value - UBig::ONE;
                Some(self.store.nat(before))
            }
            Expr::App(function, argument) => match self.store.of(function) {
                Expr::Const(name, _) if name == self.known.succ => Some(argument),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_zero_number(&self, id: ExprId) -> bool {
        match self.store.of(id) {
            Expr::Nat(literal) => self.store.nat_of(literal).is_zero(),
            Expr::Const(name, _) => name == self.known.zero,
            _ => false,
        }
    }

    /// Numbers that are both zero, or both one more than another.
    fn equal_numbers(&mut self, one: ExprId, other: ExprId) -> Result<Option<bool>, Error> {
        if self.is_zero_number(one) && self.is_zero_number(other) {
            return Ok(Some(true));
        }
        if let (Expr::Nat(one), Expr::Nat(other)) = (self.store.of(one), self.store.of(other)) {
            return Ok(Some(one == other));
        }
        let Some(first) = self.before(one) else {
            return Ok(None);
        };
        let Some(second) = self.before(other) else {
            return Ok(None);
        };
        Ok(Some(self.equal(first, second)?))
    }

    /// `fun x => f x` is `f`.
    fn equal_by_eta(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        if !matches!(self.store.of(one), Expr::Lam(..))
            || matches!(self.store.of(other), Expr::Lam(..))
        {
            return Ok(false);
        }
        let ty = self.type_of(other)?;
        let ty = self.whnf(ty)?;
        let Expr::Pi(domain, _) = self.store.of(ty) else {
            return Ok(false);
        };
        let variable = self.store.expr(Expr::Bound(0));
        let lifted = self.store.lift(other, 1);
        let body = self.store.app(lifted, variable);
        let function = self.store.expr(Expr::Lam(domain, body));
        self.equal(one, function)
    }

    /// A structure is what its constructor makes of its fields.
    fn equal_structures(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let (head, arguments) = self.store.spine(other);
        let Expr::Const(name, _) = self.store.of(head) else {
            return Ok(false);
        };
        let Some(constructor) = self.constructor(name)? else {
            return Ok(false);
        };
        if arguments.len() != (constructor.params + constructor.fields) as usize
            || self.structure(constructor.of)? != Some(name)
        {
            return Ok(false);
        }
        let (first, second) = (self.type_of(one)?, self.type_of(other)?);
        if !self.equal(first, second)? {
            return Ok(false);
        }
        for at in 0..constructor.fields {
            let field = self.store.expr(Expr::Proj(constructor.of, at, one));
            if !self.equal(field, arguments[(constructor.params + at) as usize])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A literal string, and one that is made of its characters.
    fn equal_strings(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let (Expr::Str(_), Expr::App(function, _)) = (self.store.of(one), self.store.of(other))
        else {
            return Ok(false);
        };
        match self.store.of(function) {
            Expr::Const(name, levels)
                if levels == NO_LEVELS
                    && (name == self.known.string_mk || name == self.known.string_of_list) =>
            {
                let spelled = self.spelled(one)?;
                self.equal(spelled, other)
            }
            _ => Ok(false),
        }
    }

    /// All values of a structure without fields are equal.
    fn equal_units(&mut self, one: ExprId, other: ExprId) -> Result<bool, Error> {
        let ty = self.type_of(one)?;
        let ty = self.whnf(ty)?;
        let Some((name, _)) = self.store.head_name(ty) else {
            return Ok(false);
        };
        let Some(constructor) = self.structure(name)? else {
            return Ok(false);
        };
        if self
            .constructor(constructor)?
            .is_none_or(|constructor| constructor.fields != 0)
        {
            return Ok(false);
        }
        let second = self.type_of(other)?;
        self.equal(ty, second)
    }
}
