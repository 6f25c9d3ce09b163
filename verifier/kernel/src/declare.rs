//! Checks declarations, and adds them to the environment.

use crate::Error;
use crate::checker::Checker;
use crate::decode::{self, Constant, DecodeCache, Decoder, Kind, Recursor};
use crate::infer::InferMode;
use crate::olean::Image;
use crate::store::{Expr, ExprId, LEVEL, Level, LevelId, Map, NameId};

/// The declarations of a compiled module.
pub struct Module {
    /// In the order of the file.
    pub constants: Vec<Constant>,
}

impl Module {
    /// Reads the files of a module: its own, and those of [`crate::parts`] if it has them.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn read(checker: &mut Checker<'_>, files: Vec<Vec<u8>>) -> Result<Self, Error> {
        let image = Image::read(files)?;
        let mut cache = DecodeCache::default();
        let mut decoder = Decoder {
            image: &image,
            store: &mut checker.store,
            cache: &mut cache,
        };
        let mut constants = Vec::new();
        let mut seen: Map<u64, ()> = Map::default();
        for (_, object) in decode::contents(&image)? {
            if seen.insert(object, ()).is_some() {
                return Err(Error::Unreadable("it has one declaration twice".to_owned()));
            }
            constants.push(decoder.constant(object)?);
        }
        Ok(Self { constants })
    }
}

impl Checker<'_> {
    /// Checks a definition, a theorem or an opaque constant, and adds it. Its type and value may name only constants that are declared already.
    ///
    /// # Errors
    /// [`Error::Rejected`], [`Error::Budget`].
    pub fn declare(&mut self, constant: Constant) -> Result<(), Error> {
        self.check(&constant).map_err(|error| match error {
            Error::Rejected(why) => {
                Error::Rejected(format!("`{}`: {why}", self.store.show(constant.name)))
            }
            other => other,
        })?;
        // If traversals exceeded the budget, their results mean nothing.
        self.step()?;
        self.insert(constant);
        Ok(())
    }

    fn check(&mut self, constant: &Constant) -> Result<(), Error> {
        if self.known.contains(constant.name) {
            return Err(self.reject(format_args!("it has a name that the language knows")));
        }
        if self.find(constant.name)?.is_some() {
            return Err(self.reject(format_args!("it is declared already")));
        }
        self.check_value(constant)
    }

    /// Checks a definition, a theorem or an opaque constant, whether it is declared already or not.
    ///
    /// # Errors
    /// As [`Checker::declare`].
    pub fn check_value(&mut self, constant: &Constant) -> Result<(), Error> {
        let (value, theorem) = match &constant.kind {
            Kind::Definition(value, _) | Kind::Opaque(value) => (*value, false),
            Kind::Theorem(value) => (*value, true),
            Kind::Axiom => return Err(self.reject(format_args!("it is assumed, not proved"))),
            _ => return Err(self.reject(format_args!("it cannot be added by itself"))),
        };
        self.check_terms(&constant.params, &[constant.ty, value])?;
        let level = self.sort_of(constant.ty, InferMode::Checking)?;
        if theorem && !self.store.is_zero(level) {
            return Err(self.reject(format_args!("a theorem's type is not a proposition")));
        }
        let found = self.infer(value, InferMode::Checking)?;
        if !self.equal(found, constant.ty)? {
            return Err(self.reject(format_args!("its value has another type than it says")));
        }
        Ok(())
    }

    /// Whether two declarations are the same: they are of one kind, and their terms are definitionally equal.
    ///
    /// # Errors
    /// [`Error::Budget`].
    pub fn same(&mut self, one: &Constant, other: &Constant) -> Result<bool, Error> {
        if one == other {
            return Ok(true);
        }
        let (Kind::Recursor(first), Kind::Recursor(second)) = (&one.kind, &other.kind) else {
            return Ok(false);
        };
        let heads = |constant: &Constant, recursor: &Recursor| {
            let Recursor {
                params,
                indices,
                motives,
                minors,
                k,
                ..
            } = *recursor;
            let name = constant.name;
            (
                name,
                constant.params.clone(),
                params,
                indices,
                motives,
                minors,
                k,
            )
        };
        if heads(one, first) != heads(other, second)
            || first.rules.len() != second.rules.len()
            || !self.equal(one.ty, other.ty)?
        {
            return Ok(false);
        }
        for (rule, other) in first.rules.iter().zip(&second.rules) {
            if (rule.constructor, rule.fields) != (other.constructor, other.fields)
                || !self.equal(rule.value, other.value)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether two declarations have definitionally equal types.
    ///
    /// # Errors
    /// [`Error::Budget`].
    pub fn same_type(&mut self, one: &Constant, other: &Constant) -> Result<bool, Error> {
        self.equal(one.ty, other.ty)
    }

    /// Checks that a declaration's terms are closed, and use only its own universe parameters.
    pub(crate) fn check_terms(&mut self, params: &[NameId], terms: &[ExprId]) -> Result<(), Error> {
        let mut own: Map<NameId, ()> = Map::default();
        for param in params {
            if own.insert(*param, ()).is_some() {
                return Err(self.reject(format_args!("two of its universe levels have one name")));
            }
        }
        let mut open = terms.to_vec();
        if open.iter().any(|term| self.store.loose(*term) > 0) {
            return Err(self.reject(format_args!("a variable is not bound")));
        }
        let mut seen: Map<ExprId, ()> = Map::default();
        let mut levels: Map<LevelId, ()> = Map::default();
        while let Some(id) = open.pop() {
            if seen.insert(id, ()).is_some() {
                continue;
            }
            if !self.store.charge(1) {
                return Err(Error::Budget);
            }
            match self.store.expr_of(id) {
                Expr::Free(..) => {
                    return Err(self.reject(format_args!("a variable is not bound")));
                }
                Expr::Sort(level) => self.check_level(level, &own, &mut levels)?,
                Expr::Const(_, list) => {
                    let list = self.store.levels_of(list).to_vec();
                    self.store.charge(LEVEL * list.len());
                    for level in list {
                        self.check_level(level, &own, &mut levels)?;
                    }
                }
                Expr::App(one, other) | Expr::Lam(one, other) | Expr::Pi(one, other) => {
                    open.extend([one, other]);
                }
                Expr::Let(one, other, third) => open.extend([one, other, third]),
                Expr::Proj(_, _, structure) => open.push(structure),
                Expr::Bound(_) | Expr::Nat(_) | Expr::Str(_) => {}
            }
        }
        Ok(())
    }

    fn check_level(
        &self,
        level: LevelId,
        own: &Map<NameId, ()>,
        seen: &mut Map<LevelId, ()>,
    ) -> Result<(), Error> {
        let mut open = vec![level];
        while let Some(level) = open.pop() {
            if seen.insert(level, ()).is_some() {
                continue;
            }
            match self.store.level_of(level) {
                Level::Zero => {}
                Level::Succ(inner) => open.push(inner),
                Level::Max(one, other) | Level::IMax(one, other) => open.extend([one, other]),
                Level::Param(name) if own.contains_key(&name) => {}
                Level::Param(name) => {
                    return Err(self.reject(format_args!(
                        "the universe level `{}` is not one of its own",
                        self.store.show(name)
                    )));
                }
            }
        }
        Ok(())
    }
}
