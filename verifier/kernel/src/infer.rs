//! Infers the type of an expression.

use crate::declaration::Kind;
use crate::term_store::{Expr, ExprId, Level, LevelId, NO_LEVELS, NameId, ZERO};
use crate::type_checker::TypeChecker;
use crate::{Error, rejected};

/// How much type inference checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InferMode {
    /// Nothing: the expression is known to be type-correct. Lean's kernel calls this `infer_only`.
    Trusting,
    /// That the expression is type-correct.
    Checking,
}

impl TypeChecker<'_> {
    /// The type of an expression that is known to be type-correct.
    pub(crate) fn type_of(&mut self, id: ExprId) -> Result<ExprId, Error> {
        self.infer(id, InferMode::Trusting)
    }

    /// The type of an expression.
    pub(crate) fn infer(&mut self, id: ExprId, mode: InferMode) -> Result<ExprId, Error> {
        if let Expr::FVar(_, ty) = self.store.expr_of(id) {
            return Ok(ty);
        }
        // A checked expression need not be inferred again.
        if let Some(known) = self.inferred[InferMode::Checking as usize].get(&id) {
            return Ok(*known);
        }
        if mode == InferMode::Trusting
            && let Some(known) = self.inferred[InferMode::Trusting as usize].get(&id)
        {
            return Ok(*known);
        }
        let ty = self.deeper(|checker| checker.infer_new(id, mode))?;
        self.inferred[mode as usize].insert(id, ty);
        Ok(ty)
    }

    fn infer_new(&mut self, id: ExprId, mode: InferMode) -> Result<ExprId, Error> {
        match self.store.expr_of(id) {
            Expr::BVar(_) => Err(rejected("a variable is not bound")),
            Expr::FVar(_, ty) => Ok(ty),
            Expr::Sort(level) => {
                let next = self.store.level(Level::Succ(level));
                Ok(self.store.expr(Expr::Sort(next)))
            }
            Expr::Const(name, levels) => self.type_at(name, levels),
            Expr::App(..) => self.infer_app(id, mode),
            Expr::Lam(..) => self.infer_lambda(id, mode),
            Expr::Pi(..) => self.infer_pi(id, mode),
            Expr::Let(ty, value, body) => {
                if mode == InferMode::Checking {
                    self.infer_sort(ty, mode)?;
                    let found = self.infer(value, mode)?;
                    self.must_equal(found, ty, "the value of a `let`")?;
                }
                let body = self.store.instantiate(body, &[value]);
                self.infer(body, mode)
            }
            Expr::Nat(_) => Ok(self.store.constant(self.known.nat, NO_LEVELS)),
            Expr::Str(_) => Ok(self.store.constant(self.known.string, NO_LEVELS)),
            Expr::Proj(name, at, structure) => self.infer_proj(name, at, structure, mode),
        }
    }

    fn must_equal(&mut self, found: ExprId, wanted: ExprId, what: &str) -> Result<(), Error> {
        if self.is_def_eq(found, wanted)? {
            return Ok(());
        }
        Err(rejected(format!("{what} has another type than it should")))
    }

    /// The universe level of an expression that has a sort as its type.
    pub(crate) fn infer_sort(&mut self, id: ExprId, mode: InferMode) -> Result<LevelId, Error> {
        let ty = self.infer(id, mode)?;
        self.ensure_sort(ty)
    }

    fn ensure_sort(&mut self, ty: ExprId) -> Result<LevelId, Error> {
        if let Expr::Sort(level) = self.store.expr_of(ty) {
            return Ok(level);
        }
        let reduced = self.whnf(ty)?;
        match self.store.expr_of(reduced) {
            Expr::Sort(level) => Ok(level),
            _ => Err(rejected(
                "an expression that should be a type is not a type",
            )),
        }
    }

    /// The domain and the body of the `∀` that a type reduces to; `None` if it is another type.
    pub(crate) fn whnf_pi(&mut self, ty: ExprId) -> Result<Option<(ExprId, ExprId)>, Error> {
        let ty = self.whnf(ty)?;
        Ok(match self.store.expr_of(ty) {
            Expr::Pi(domain, body) => Some((domain, body)),
            _ => None,
        })
    }

    fn infer_app(&mut self, id: ExprId, mode: InferMode) -> Result<ExprId, Error> {
        let (function, arguments) = self.store.spine(id);
        self.store.charge(arguments.len());
        let mut ty = self.infer(function, mode)?;
        // The arguments from here on are the values of the loose bound variables of `ty`.
        let mut from = 0;
        for at in 0..arguments.len() {
            let (domain, body) = match self.store.expr_of(ty) {
                Expr::Pi(domain, body) => (domain, body),
                _ => {
                    let whole = self.store.instantiate(ty, &arguments[from..at]);
                    from = at;
                    self.whnf_pi(whole)?.ok_or_else(|| {
                        rejected("an expression is applied that is not a function")
                    })?
                }
            };
            if mode == InferMode::Checking {
                let found = self.infer(arguments[at], mode)?;
                let wanted = self.store.instantiate(domain, &arguments[from..at]);
                self.must_equal(found, wanted, "an argument")?;
            }
            ty = body;
        }
        Ok(self.store.instantiate(ty, &arguments[from..]))
    }

    fn infer_lambda(&mut self, mut id: ExprId, mode: InferMode) -> Result<ExprId, Error> {
        let before = self.open;
        let mut locals = Vec::new();
        while let Expr::Lam(ty, body) = self.store.expr_of(id) {
            let ty = self.store.instantiate(ty, &locals);
            if mode == InferMode::Checking {
                self.infer_sort(ty, mode)?;
            }
            locals.push(self.fresh_fvar(ty));
            id = body;
        }
        let body = self.store.instantiate(id, &locals);
        let ty = self.infer(body, mode)?;
        self.open = before;
        Ok(self.store.bind_pi(&locals, ty))
    }

    fn infer_pi(&mut self, mut id: ExprId, mode: InferMode) -> Result<ExprId, Error> {
        let before = self.open;
        let (mut locals, mut levels) = (Vec::new(), Vec::new());
        while let Expr::Pi(ty, body) = self.store.expr_of(id) {
            let ty = self.store.instantiate(ty, &locals);
            levels.push(self.infer_sort(ty, mode)?);
            locals.push(self.fresh_fvar(ty));
            id = body;
        }
        let body = self.store.instantiate(id, &locals);
        let mut level = self.infer_sort(body, mode)?;
        self.open = before;
        for domain in levels.into_iter().rev() {
            level = self.store.level(Level::IMax(domain, level));
        }
        Ok(self.store.expr(Expr::Sort(level)))
    }

    fn infer_proj(
        &mut self,
        name: NameId,
        at: u32,
        structure: ExprId,
        mode: InferMode,
    ) -> Result<ExprId, Error> {
        let bad = || rejected("a projection takes a field that does not exist");
        let ty = self.infer(structure, mode)?;
        let ty = self.whnf(ty)?;
        let (head, arguments) = self.store.spine(ty);
        let Expr::Const(found, levels) = self.store.expr_of(head) else {
            return Err(bad());
        };
        let constant = self.find(name)?;
        let Some(Kind::Inductive(inductive)) = constant.as_deref().map(|constant| &constant.kind)
        else {
            return Err(bad());
        };
        let [constructor] = inductive.constructors.as_slice() else {
            return Err(bad());
        };
        if found != name || inductive.indices != 0 || arguments.len() != inductive.params as usize {
            return Err(bad());
        }
        let mut rest = self.type_at(*constructor, levels)?;
        for argument in &arguments {
            let (_, body) = self.whnf_pi(rest)?.ok_or_else(bad)?;
            rest = self.store.instantiate(body, &[*argument]);
        }
        let proposition = self.is_prop(ty)?;
        for before in 0..at {
            self.step()?;
            let (domain, body) = self.whnf_pi(rest)?.ok_or_else(bad)?;
            if self.store.loose_bvar_range(body) == 0 {
                rest = body;
                continue;
            }
            if proposition && !self.is_prop(domain)? {
                return Err(bad());
            }
            let field = self.store.expr(Expr::Proj(name, before, structure));
            rest = self.store.instantiate(body, &[field]);
        }
        let (domain, _) = self.whnf_pi(rest)?.ok_or_else(bad)?;
        if proposition && !self.is_prop(domain)? {
            return Err(bad());
        }
        Ok(domain)
    }

    /// Whether a type is a proposition.
    pub(crate) fn is_prop(&mut self, ty: ExprId) -> Result<bool, Error> {
        let sort = self.type_of(ty)?;
        let sort = self.whnf(sort)?;
        Ok(match self.store.expr_of(sort) {
            Expr::Sort(level) => level == ZERO || self.store.is_zero(level),
            _ => false,
        })
    }
}
