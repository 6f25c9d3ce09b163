//! Traverses expressions: replaces variables and universe levels, and collects constants.

use crate::Error;
use crate::term_store::{Expr, ExprId, LEVEL, LINKS, Level, LevelId, Map, NameId, TermStore};

impl TermStore {
    /// `body` with `values` in place of its loose bound variables; the last value replaces variable 0.
    pub(crate) fn instantiate(&mut self, body: ExprId, values: &[ExprId]) -> ExprId {
        if self.loose_bvar_range(body) == 0 || values.is_empty() {
            return body;
        }
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        self.walk(body, &mut |store, id, offset| {
            if store.loose_bvar_range(id) <= offset {
                return Some(id);
            }
            let Expr::BVar(at) = store.expr_of(id) else {
                return None;
            };
            let at = at - offset;
            Some(if at < count {
                let value = values[(count - 1 - at) as usize];
                store.lift(value, offset)
            } else {
                store.expr(Expr::BVar(at - count + offset))
            })
        })
    }

    /// The expression with its loose bound variables lifted over `by` more binders.
    pub(crate) fn lift(&mut self, id: ExprId, by: u32) -> ExprId {
        if by == 0 || self.loose_bvar_range(id) == 0 {
            return id;
        }
        self.walk(id, &mut |store, id, offset| {
            if store.loose_bvar_range(id) <= offset {
                return Some(id);
            }
            match store.expr_of(id) {
                Expr::BVar(at) => Some(store.expr(Expr::BVar(at.saturating_add(by)))),
                _ => None,
            }
        })
    }

    /// Abstracts `locals`: `body` with bound variables in place of these free variables; the last becomes variable 0.
    pub(crate) fn abstract_fvars(&mut self, body: ExprId, locals: &[ExprId]) -> ExprId {
        let count = u32::try_from(locals.len()).unwrap_or(u32::MAX);
        self.walk(body, &mut |store, id, offset| {
            if !store.has_fvar(id) {
                return Some(id);
            }
            if !matches!(store.expr_of(id), Expr::FVar(..)) {
                return None;
            }
            store.charge(locals.len() / LINKS);
            let at = locals.iter().rposition(|local| *local == id);
            Some(match at.and_then(|at| u32::try_from(at).ok()) {
                Some(at) => store.expr(Expr::BVar(offset + count - 1 - at)),
                None => id,
            })
        })
    }

    /// `∀ locals, body`.
    pub(crate) fn bind_pi(&mut self, locals: &[ExprId], body: ExprId) -> ExprId {
        self.bind(locals, body, Expr::Pi)
    }

    /// `fun locals => body`.
    pub(crate) fn bind_lambda(&mut self, locals: &[ExprId], body: ExprId) -> ExprId {
        self.bind(locals, body, Expr::Lam)
    }

    fn bind(
        &mut self,
        locals: &[ExprId],
        mut body: ExprId,
        binder: fn(ExprId, ExprId) -> Expr,
    ) -> ExprId {
        for local in locals.iter().rev() {
            if let Expr::FVar(_, ty) = self.expr_of(*local) {
                body = self.abstract_fvars(body, &[*local]);
                body = self.expr(binder(ty, body));
            }
        }
        body
    }

    /// The expression with `levels` in place of the universe parameters `params`.
    pub(crate) fn instantiate_levels(
        &mut self,
        id: ExprId,
        params: &[NameId],
        levels: &[LevelId],
    ) -> ExprId {
        if params.is_empty() || !self.has_level_param(id) {
            return id;
        }
        self.walk(id, &mut |store, id, _| {
            if !store.has_level_param(id) {
                return Some(id);
            }
            match store.expr_of(id) {
                Expr::Sort(level) => {
                    let level = store.instantiate_level(level, params, levels);
                    Some(store.expr(Expr::Sort(level)))
                }
                Expr::Const(name, list) => {
                    let list: Vec<LevelId> = store.levels_of(list).to_vec();
                    store.charge(LEVEL * list.len());
                    let list: Vec<LevelId> = list
                        .into_iter()
                        .map(|level| store.instantiate_level(level, params, levels))
                        .collect();
                    let list = store.levels(&list);
                    Some(store.constant(name, list))
                }
                _ => None,
            }
        })
    }

    /// The level with `levels` in place of the universe parameters `params`.
    pub(crate) fn instantiate_level(
        &mut self,
        id: LevelId,
        params: &[NameId],
        levels: &[LevelId],
    ) -> LevelId {
        if !self.level_has_param(id) || !self.charge(LEVEL) {
            return id;
        }
        match self.level_of(id) {
            Level::Zero => id,
            Level::Succ(inner) => {
                let inner = self.instantiate_level(inner, params, levels);
                self.level(Level::Succ(inner))
            }
            Level::Max(one, other) => {
                let one = self.instantiate_level(one, params, levels);
                let other = self.instantiate_level(other, params, levels);
                self.level(Level::Max(one, other))
            }
            Level::IMax(one, other) => {
                let one = self.instantiate_level(one, params, levels);
                let other = self.instantiate_level(other, params, levels);
                self.level(Level::IMax(one, other))
            }
            Level::Param(name) => {
                let at = params.iter().position(|param| *param == name);
                at.and_then(|at| levels.get(at).copied()).unwrap_or(id)
            }
        }
    }

    /// Rebuilds an expression bottom-up. `replace` gets each part and the number of binders above it, and returns its replacement, or `None` to descend into the part.
    fn walk(
        &mut self,
        id: ExprId,
        replace: &mut dyn FnMut(&mut Self, ExprId, u32) -> Option<ExprId>,
    ) -> ExprId {
        let mut done = Map::default();
        self.walk_at(id, 0, replace, &mut done)
    }

    fn walk_at(
        &mut self,
        id: ExprId,
        offset: u32,
        replace: &mut dyn FnMut(&mut Self, ExprId, u32) -> Option<ExprId>,
        done: &mut Map<(ExprId, u32), ExprId>,
    ) -> ExprId {
        if !self.charge(1) {
            return id;
        }
        if let Some(new) = replace(self, id, offset) {
            return new;
        }
        if let Some(new) = done.get(&(id, offset)) {
            return *new;
        }
        let new = match self.expr_of(id) {
            Expr::App(function, argument) => {
                let function = self.walk_at(function, offset, replace, done);
                let argument = self.walk_at(argument, offset, replace, done);
                self.app(function, argument)
            }
            Expr::Lam(ty, body) => {
                let ty = self.walk_at(ty, offset, replace, done);
                let body = self.walk_at(body, offset + 1, replace, done);
                self.expr(Expr::Lam(ty, body))
            }
            Expr::Pi(ty, body) => {
                let ty = self.walk_at(ty, offset, replace, done);
                let body = self.walk_at(body, offset + 1, replace, done);
                self.expr(Expr::Pi(ty, body))
            }
            Expr::Let(ty, value, body) => {
                let ty = self.walk_at(ty, offset, replace, done);
                let value = self.walk_at(value, offset, replace, done);
                let body = self.walk_at(body, offset + 1, replace, done);
                self.expr(Expr::Let(ty, value, body))
            }
            Expr::Proj(name, at, structure) => {
                let structure = self.walk_at(structure, offset, replace, done);
                self.expr(Expr::Proj(name, at, structure))
            }
            Expr::FVar(depth, ty) => {
                // Only levels are replaced in the type of a free variable.
                let ty = self.walk_at(ty, offset, replace, done);
                self.expr(Expr::FVar(depth, ty))
            }
            Expr::BVar(_) | Expr::Sort(_) | Expr::Const(..) | Expr::Nat(_) | Expr::Str(_) => id,
        };
        done.insert((id, offset), new);
        new
    }

    /// All constants that expressions name, each once; [`Error::Budget`] if the budget does not suffice.
    pub(crate) fn constants_of(&self, roots: &[ExprId]) -> Result<Vec<NameId>, Error> {
        let (mut names, mut known) = (Vec::new(), Map::default());
        self.visit_parts(roots, |_, expr| {
            if let Expr::Const(name, _) | Expr::Proj(name, ..) = expr
                && known.insert(name, ()).is_none()
            {
                names.push(name);
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// Visits each part of expressions once; [`Error::Budget`] if the budget does not suffice.
    pub(crate) fn visit_parts(
        &self,
        roots: &[ExprId],
        mut visit: impl FnMut(&Self, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut seen: Map<ExprId, ()> = Map::default();
        let mut open: Vec<ExprId> = roots.to_vec();
        while let Some(id) = open.pop() {
            if seen.insert(id, ()).is_some() {
                continue;
            }
            self.spend(1)?;
            let expr = self.expr_of(id);
            visit(self, expr)?;
            match expr {
                Expr::App(one, other) | Expr::Lam(one, other) | Expr::Pi(one, other) => {
                    open.extend([one, other]);
                }
                Expr::Let(one, other, third) => open.extend([one, other, third]),
                Expr::Proj(_, _, structure) => open.push(structure),
                Expr::BVar(_) | Expr::FVar(..) | Expr::Sort(_) | Expr::Const(..) => {}
                Expr::Nat(_) | Expr::Str(_) => {}
            }
        }
        Ok(())
    }
}
