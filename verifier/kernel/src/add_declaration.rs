//! Checks declarations, and adds them to the environment.

use crate::declaration::{ConstantInfo, Kind, RecursorVal};
use crate::decode::{self, DecodeCache, Decoder};
use crate::infer::InferMode;
use crate::olean::Image;
use crate::term_store::{Expr, ExprId, LEVEL, Level, LevelId, Map, NameId, TermStore};
use crate::type_checker::TypeChecker;
use crate::{Error, rejected, unreadable};

/// The declarations of a compiled module.
pub struct CompiledModule {
    /// In the order of the file.
    pub constants: Vec<ConstantInfo>,
}

impl CompiledModule {
    /// Reads the files of a module: its own, and those of [`crate::parts`] if it has them.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn read(checker: &mut TypeChecker<'_>, files: Vec<Vec<u8>>) -> Result<Self, Error> {
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
                return Err(unreadable("it has one declaration twice"));
            }
            constants.push(decoder.constant(object)?);
        }
        Ok(Self { constants })
    }
}

impl TypeChecker<'_> {
    /// Checks a definition, a theorem or an opaque constant, and adds it. Its type and value may name only constants that are declared already.
    ///
    /// # Errors
    /// [`Error::Rejected`], [`Error::Budget`].
    pub fn declare(&mut self, constant: ConstantInfo) -> Result<(), Error> {
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

    fn check(&mut self, constant: &ConstantInfo) -> Result<(), Error> {
        if self.known.contains(constant.name) {
            return Err(rejected("it has a name that the language knows"));
        }
        if self.find(constant.name)?.is_some() {
            return Err(rejected("it is declared already"));
        }
        self.check_value(constant)
    }

    /// Checks a definition, a theorem or an opaque constant, whether it is declared already or not.
    ///
    /// # Errors
    /// As [`TypeChecker::declare`].
    pub fn check_value(&mut self, constant: &ConstantInfo) -> Result<(), Error> {
        let (value, theorem) = match &constant.kind {
            Kind::Definition(value, _) | Kind::Opaque(value) => (*value, false),
            Kind::Theorem(value) => (*value, true),
            Kind::Axiom => return Err(rejected("it is assumed, not proved")),
            _ => return Err(rejected("it cannot be added by itself")),
        };
        self.check_terms(&constant.params, &[constant.ty, value])?;
        let level = self.infer_sort(constant.ty, InferMode::Checking)?;
        if theorem && !self.store.is_zero(level) {
            return Err(rejected("a theorem's type is not a proposition"));
        }
        let found = self.infer(value, InferMode::Checking)?;
        if !self.is_def_eq(found, constant.ty)? {
            return Err(rejected("its value has another type than it says"));
        }
        Ok(())
    }

    /// Whether two declarations are the same: they are of one kind, and their terms are definitionally equal.
    ///
    /// # Errors
    /// [`Error::Budget`].
    pub fn same(&mut self, one: &ConstantInfo, other: &ConstantInfo) -> Result<bool, Error> {
        if one == other {
            return Ok(true);
        }
        let (Kind::Recursor(first), Kind::Recursor(second)) = (&one.kind, &other.kind) else {
            return Ok(false);
        };
        let without_rules = |recursor: &RecursorVal| RecursorVal {
            rules: Vec::new(),
            ..*recursor
        };
        if (one.name, &one.params) != (other.name, &other.params)
            || without_rules(first) != without_rules(second)
            || first.rules.len() != second.rules.len()
            || !self.is_def_eq(one.ty, other.ty)?
        {
            return Ok(false);
        }
        for (rule, other) in first.rules.iter().zip(&second.rules) {
            if (rule.constructor, rule.fields) != (other.constructor, other.fields)
                || !self.is_def_eq(rule.value, other.value)?
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
    pub fn same_type(&mut self, one: &ConstantInfo, other: &ConstantInfo) -> Result<bool, Error> {
        self.is_def_eq(one.ty, other.ty)
    }

    /// Checks that a declaration's terms are closed, and use only its own universe parameters.
    pub(crate) fn check_terms(&mut self, params: &[NameId], terms: &[ExprId]) -> Result<(), Error> {
        let mut own: Map<NameId, ()> = Map::default();
        for param in params {
            if own.insert(*param, ()).is_some() {
                return Err(rejected("two of its universe levels have one name"));
            }
        }
        if terms
            .iter()
            .any(|term| self.store.loose_bvar_range(*term) > 0)
        {
            return Err(rejected("a variable is not bound"));
        }
        let mut levels: Map<LevelId, ()> = Map::default();
        self.store.visit_parts(terms, |store, expr| match expr {
            Expr::FVar(..) => Err(rejected("a variable is not bound")),
            Expr::Sort(level) => check_level(store, level, &own, &mut levels),
            Expr::Const(_, list) => {
                let list = store.levels_of(list);
                store.charge(LEVEL * list.len());
                let mut list = list.iter();
                list.try_for_each(|level| check_level(store, *level, &own, &mut levels))
            }
            _ => Ok(()),
        })
    }
}

/// Checks that a level uses only the parameters `own`.
fn check_level(
    store: &TermStore,
    level: LevelId,
    own: &Map<NameId, ()>,
    seen: &mut Map<LevelId, ()>,
) -> Result<(), Error> {
    let mut open = vec![level];
    while let Some(level) = open.pop() {
        if seen.insert(level, ()).is_some() {
            continue;
        }
        match store.level_of(level) {
            Level::Zero => {}
            Level::Succ(inner) => open.push(inner),
            Level::Max(one, other) | Level::IMax(one, other) => open.extend([one, other]),
            Level::Param(name) if own.contains_key(&name) => {}
            Level::Param(name) => {
                let shown = store.show(name);
                let why = format!("the universe level `{shown}` is not one of its own");
                return Err(rejected(why));
            }
        }
    }
    Ok(())
}
