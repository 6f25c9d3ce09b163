//! The state of one check: the environment of declarations, the caches of the judgements, and the budget.

use std::rc::Rc;

use crate::declaration::{ConstantInfo, ConstructorVal, Kind};
use crate::library::{DecodeCaches, Library};
use crate::term_store::{Expr, ExprId, LevelsId, Map, NameId, TermStore};
use crate::{Budget, Error, rejected};

/// Terms that may be visited per allowed step.
const WORK: u64 = 10;

/// How deeply judgements may call each other. A call takes some hundred bytes of the stack.
const MAX_NESTING: u32 = 100_000;

/// Checks declarations on top of a library.
pub struct TypeChecker<'a> {
    pub(crate) store: TermStore,
    pub(crate) known: Known,
    library: &'a Library,
    caches: DecodeCaches,
    /// The declarations that were read or added, by name; `None` if a name has no declaration.
    constants: Map<NameId, Option<Rc<ConstantInfo>>>,
    /// The names of the declarations that were added.
    added: Map<NameId, ()>,
    pub(crate) inferred: [Map<ExprId, ExprId>; 2],
    pub(crate) reduced: Map<ExprId, ExprId>,
    pub(crate) reduced_core: Map<ExprId, ExprId>,
    /// The classes of expressions that are known to be equal, as a union-find: each expression with another one of its class.
    pub(crate) classes: Map<ExprId, ExprId>,
    /// Pairs of applications of one constant with arguments that are known not to be equal.
    pub(crate) unequal: Map<(ExprId, ExprId), ()>,
    types: Map<(NameId, LevelsId), ExprId>,
    values: Map<(NameId, LevelsId), Option<ExprId>>,
    /// Number of open binders.
    pub(crate) open: u32,
    nesting: u32,
    steps: u64,
    budget: Budget,
}

/// The operations on two natural numbers that the kernel computes.
pub(crate) const BINARY: [&str; 14] = [
    "Nat.add",
    "Nat.sub",
    "Nat.mul",
    "Nat.div",
    "Nat.mod",
    "Nat.gcd",
    "Nat.beq",
    "Nat.ble",
    "Nat.land",
    "Nat.lor",
    "Nat.xor",
    "Nat.shiftLeft",
    "Nat.shiftRight",
    "Nat.pow",
];

macro_rules! known_names {
    ($($field:ident = $name:literal),+ $(,)?) => {
        /// The names that the kernel treats specially.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Known {
            $(pub(crate) $field: NameId,)+
            /// The names of [`BINARY`].
            pub(crate) binary: [NameId; BINARY.len()],
        }

        impl Known {
            fn new(store: &mut TermStore) -> Self {
                Self {
                    binary: BINARY.map(|name| store.name(name)),
                    $($field: store.name($name),)+
                }
            }

            /// Whether the kernel treats a name specially. A proof may not declare it.
            pub(crate) fn contains(&self, name: NameId) -> bool {
                [$(self.$field),+].contains(&name) || self.binary.contains(&name)
            }
        }
    };
}

known_names! {
    nat = "Nat",
    zero = "Nat.zero",
    succ = "Nat.succ",
    string = "String",
    string_mk = "String.mk",
    string_of_list = "String.ofList",
    char = "Char",
    char_of_nat = "Char.ofNat",
    nil = "List.nil",
    cons = "List.cons",
    bool_true = "Bool.true",
    bool_false = "Bool.false",
    quot_mk = "Quot.mk",
    quot_lift = "Quot.lift",
    quot_ind = "Quot.ind",
    log2 = "Nat.log2",
}

impl<'a> TypeChecker<'a> {
    /// A checker with the library as its environment.
    #[must_use]
    pub fn new(library: &'a Library, budget: Budget) -> Self {
        let mut store = TermStore::default();
        store.set_limits(budget.steps.saturating_mul(WORK), budget.terms);
        let known = Known::new(&mut store);
        Self {
            store,
            known,
            library,
            caches: DecodeCaches::default(),
            constants: Map::default(),
            added: Map::default(),
            inferred: Default::default(),
            reduced: Map::default(),
            reduced_core: Map::default(),
            classes: Map::default(),
            unequal: Map::default(),
            types: Map::default(),
            values: Map::default(),
            open: 0,
            nesting: 0,
            steps: 0,
            budget,
        }
    }

    /// The store of its terms.
    pub fn store(&mut self) -> &mut TermStore {
        &mut self.store
    }

    /// The number of steps so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn step(&mut self) -> Result<(), Error> {
        self.steps += 1;
        if self.steps > self.budget.steps || self.store.is_spent() {
            return Err(Error::Budget);
        }
        Ok(())
    }

    /// Runs `judgement` one level deeper.
    pub(crate) fn deeper<T>(
        &mut self,
        judgement: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.step()?;
        if self.nesting >= MAX_NESTING {
            return Err(Error::Budget);
        }
        self.nesting += 1;
        let result = judgement(self);
        self.nesting -= 1;
        result
    }

    /// The declaration of a name.
    pub fn find(&mut self, name: NameId) -> Result<Option<Rc<ConstantInfo>>, Error> {
        if let Some(found) = self.constants.get(&name) {
            return Ok(found.clone());
        }
        let place = self.library.place(&self.store, name);
        let found = place.map(|place| self.read(place)).transpose()?;
        // Two names may have one digest.
        let found = found
            .filter(|constant| constant.name == name && constant.kind != Kind::Unsafe)
            .map(Rc::new);
        self.constants.insert(name, found.clone());
        Ok(found)
    }

    /// The declaration at a place of the library.
    pub fn read(&mut self, place: (u32, u64)) -> Result<ConstantInfo, Error> {
        self.library.read(place, &mut self.store, &mut self.caches)
    }

    /// As [`TypeChecker::find`], but with an error if there is no declaration.
    pub(crate) fn declared(&mut self, name: NameId) -> Result<Rc<ConstantInfo>, Error> {
        let found = self.find(name)?;
        found.ok_or_else(|| rejected(format!("`{}` is not declared", self.store.show(name))))
    }

    /// Whether a declaration was added, and not imported.
    pub(crate) fn is_added(&self, name: NameId) -> bool {
        self.added.contains_key(&name)
    }

    /// Adds a checked declaration.
    pub(crate) fn insert(&mut self, constant: ConstantInfo) {
        self.added.insert(constant.name, ());
        self.constants
            .insert(constant.name, Some(Rc::new(constant)));
    }

    /// The type of a constant with these universe levels.
    pub(crate) fn type_at(&mut self, name: NameId, levels: LevelsId) -> Result<ExprId, Error> {
        if let Some(known) = self.types.get(&(name, levels)) {
            return Ok(*known);
        }
        let constant = self.declared(name)?;
        let list = self.store.levels_of(levels).to_vec();
        if list.len() != constant.params.len() {
            return Err(rejected(format!(
                "`{}` has {} universe levels, not {}",
                self.store.show(name),
                constant.params.len(),
                list.len()
            )));
        }
        let ty = self
            .store
            .instantiate_levels(constant.ty, &constant.params, &list);
        self.types.insert((name, levels), ty);
        Ok(ty)
    }

    /// The value of a definition or a theorem with these universe levels; `None` for other constants.
    pub(crate) fn value_at(
        &mut self,
        name: NameId,
        levels: LevelsId,
    ) -> Result<Option<ExprId>, Error> {
        if let Some(known) = self.values.get(&(name, levels)) {
            return Ok(*known);
        }
        let value = match self.find(name)? {
            Some(constant) => match constant.kind {
                Kind::Definition(value, _) | Kind::Theorem(value) => {
                    let list = self.store.levels_of(levels).to_vec();
                    (list.len() == constant.params.len()).then(|| {
                        self.store
                            .instantiate_levels(value, &constant.params, &list)
                    })
                }
                _ => None,
            },
            None => None,
        };
        self.values.insert((name, levels), value);
        Ok(value)
    }

    pub(crate) fn constructor(&mut self, name: NameId) -> Result<Option<ConstructorVal>, Error> {
        Ok(self.find(name)?.and_then(|constant| match &constant.kind {
            Kind::Constructor(constructor) => Some(constructor.clone()),
            _ => None,
        }))
    }

    /// A fresh free variable of type `ty`, for an opened binder.
    pub(crate) fn fresh_fvar(&mut self, ty: ExprId) -> ExprId {
        let local = self.store.expr(Expr::FVar(self.open, ty));
        self.open += 1;
        local
    }
}
