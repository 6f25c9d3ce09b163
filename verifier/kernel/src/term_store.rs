//! Names, universe levels and expressions, each stored once (hash-consed): equal terms have equal ids.
//!
//! Names of bound variables and their annotations are dropped, since no judgement depends on them.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use dashu_int::UBig;
use dashu_int::ops::BitTest as _;

use crate::Error;

/// A map with unpredictable hashes, since keys come from hostile files.
pub(crate) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);
    )+};
}

ids! {
    /// A [`Name`].
    NameId,
    /// A [`Level`].
    LevelId,
    /// A list of universe levels.
    LevelsId,
    /// An [`Expr`].
    ExprId,
    /// The digits of a literal number.
    NatId,
    /// The text of a literal string.
    StrId,
}

/// A name: its last part and its prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// The empty name.
    Anonymous,
    /// A word after a prefix.
    Str(NameId, Box<str>),
    /// A number after a prefix.
    Num(NameId, u64),
}

/// A universe level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// The level of `Prop`.
    Zero,
    /// The successor of a level.
    Succ(LevelId),
    /// The greater of two levels.
    Max(LevelId, LevelId),
    /// Zero if the second level is zero, otherwise the greater of both.
    IMax(LevelId, LevelId),
    /// A universe parameter of the declaration.
    Param(NameId),
}

/// An expression of Lean's core language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A bound variable: its de Bruijn index, the number of binders between it and its own.
    BVar(u32),
    /// A free variable for an opened binder: the number of binders that were open before, and its type.
    FVar(u32, ExprId),
    /// `Sort`.
    Sort(LevelId),
    /// A constant with universe levels.
    Const(NameId, LevelsId),
    /// A function applied to an argument.
    App(ExprId, ExprId),
    /// `fun`: the variable's type, the body.
    Lam(ExprId, ExprId),
    /// `∀`: the variable's type, the body.
    Pi(ExprId, ExprId),
    /// `let`: the variable's type, its value, the body.
    Let(ExprId, ExprId, ExprId),
    /// A literal natural number.
    Nat(NatId),
    /// A literal string.
    Str(StrId),
    /// A projection: the structure's name, the number of the field from 0, and the value.
    Proj(NameId, u32, ExprId),
}

/// Properties of an expression that are stored with it.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// One more than the greatest loose bound variable; 0 if there is none.
    loose: u32,
    /// Nesting depth.
    depth: u32,
    /// Whether it contains a free variable.
    free: bool,
    /// Whether it contains a universe parameter.
    param: bool,
}

/// Greatest depth of an expression. A traversal recurses as deeply.
pub(crate) const MAX_DEPTH: u32 = 50_000;

/// Greatest depth of a universe level.
const MAX_LEVEL_DEPTH: u32 = 1_000;
/// Parts of a name.
const MAX_NAME_DEPTH: u32 = 1_000;

/// Following this many links of a chain takes as long as building one term.
pub(crate) const LINKS: usize = 16;

/// Work that is charged for visiting a universe level, in visited terms. Levels have no cache.
pub(crate) const LEVEL: usize = 4;

/// Work that is charged for storing 64 bits of a number, in visited terms.
const NUMBER: usize = 4;

/// All names, universe levels and expressions of one check.
pub struct TermStore {
    names: Interned<Name>,
    levels: Interned<Level>,
    /// Whether each level contains a universe parameter, and its depth.
    level_facts: Vec<(bool, u32)>,
    name_depths: Vec<u32>,
    name_digests: Vec<u64>,
    lists: Interned<Box<[LevelId]>>,
    exprs: Interned<Expr>,
    facts: Vec<Facts>,
    nats: Interned<UBig>,
    texts: Interned<Box<str>>,
    /// Whether an added expression, level or name was too deep.
    too_deep: bool,
    /// Greatest number of expressions.
    max_terms: usize,
    /// Number of terms that were visited.
    work: Cell<u64>,
    /// Greatest number of terms that may be visited.
    max_work: u64,
}

struct Interned<T> {
    all: Vec<T>,
    ids: Map<T, u32>,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    fn new() -> Self {
        Self {
            all: Vec::new(),
            ids: Map::default(),
        }
    }

    /// Adds a value, and returns its id and whether it is new.
    fn add(&mut self, value: T) -> (u32, bool) {
        if let Some(id) = self.ids.get(&value) {
            return (*id, false);
        }
        let id = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.ids.insert(value.clone(), id);
        self.all.push(value);
        (id, true)
    }
}

/// The digest of a name. `prefix` is the digest of its prefix.
fn digest(name: &Name, prefix: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    match name {
        Name::Anonymous => {}
        Name::Str(_, word) => (1_u8, prefix, word).hash(&mut hasher),
        Name::Num(_, number) => (2_u8, prefix, number).hash(&mut hasher),
    }
    hasher.finish()
}

impl Default for TermStore {
    fn default() -> Self {
        let mut store = Self {
            names: Interned::new(),
            levels: Interned::new(),
            level_facts: Vec::new(),
            name_depths: vec![0],
            name_digests: vec![0],
            lists: Interned::new(),
            exprs: Interned::new(),
            facts: Vec::new(),
            nats: Interned::new(),
            texts: Interned::new(),
            too_deep: false,
            max_terms: usize::MAX,
            work: Cell::new(0),
            max_work: u64::MAX,
        };
        store.names.add(Name::Anonymous);
        store.level(Level::Zero);
        store.levels(&[]);
        store
    }
}

pub(crate) const ANONYMOUS: NameId = NameId(0);
pub(crate) const ZERO: LevelId = LevelId(0);
pub(crate) const NO_LEVELS: LevelsId = LevelsId(0);

impl TermStore {
    /// The number of expressions.
    #[must_use]
    pub fn size(&self) -> usize {
        self.exprs.all.len()
    }

    /// Whether the budget is exceeded: an added term is too deep to be traversed, or more was added or traversed than allowed. Then no later result means anything.
    pub(crate) fn is_spent(&self) -> bool {
        self.too_deep || self.work.get() > self.max_work || self.exprs.all.len() > self.max_terms
    }

    /// Limits the terms that may be visited, and the expressions that may be stored.
    pub(crate) fn set_limits(&mut self, max_work: u64, max_terms: usize) {
        self.max_work = max_work;
        self.max_terms = max_terms;
    }

    /// Counts visited terms. Returns whether the budget is not exceeded.
    pub(crate) fn charge(&self, parts: usize) -> bool {
        self.work.set(self.work.get().saturating_add(parts as u64));
        !self.is_spent()
    }

    /// [`Self::charge`], with an error if the budget is exceeded.
    pub(crate) fn spend(&self, parts: usize) -> Result<(), Error> {
        self.charge(parts).then_some(()).ok_or(Error::Budget)
    }

    /// `prefix.word`.
    pub fn str_name(&mut self, prefix: NameId, word: &str) -> NameId {
        // Each word is stored twice.
        self.charge(word.len());
        self.deeper_name(prefix, Name::Str(prefix, word.into()))
    }

    /// `prefix.number`.
    pub(crate) fn num_name(&mut self, prefix: NameId, number: u64) -> NameId {
        self.deeper_name(prefix, Name::Num(prefix, number))
    }

    fn deeper_name(&mut self, prefix: NameId, name: Name) -> NameId {
        let (id, new) = self.names.add(name);
        if new {
            let depth = self.name_depths[prefix.0 as usize] + 1;
            self.too_deep |= depth > MAX_NAME_DEPTH;
            self.name_depths.push(depth);
            let name = &self.names.all[id as usize];
            let digest = digest(name, self.name_digests[prefix.0 as usize]);
            self.name_digests.push(digest);
        }
        NameId(id)
    }

    /// The name with the words of `dotted` as its parts. Full stops separate them.
    pub fn name(&mut self, dotted: &str) -> NameId {
        let mut name = ANONYMOUS;
        for word in dotted.split('.') {
            name = self.str_name(name, word);
        }
        name
    }

    /// The name with this id.
    pub(crate) fn name_of(&self, id: NameId) -> &Name {
        &self.names.all[id.0 as usize]
    }

    /// A digest of all parts of a name, the same in every store. It rarely collides by chance, but an attacker can find names with equal digests.
    pub(crate) fn digest(&self, id: NameId) -> u64 {
        self.name_digests[id.0 as usize]
    }

    /// The name as people write it. Lean puts `_private.MODULE.0.` before private names, and all names in a file of its module system are private.
    #[must_use]
    pub fn show(&self, id: NameId) -> String {
        let whole = self.whole(id);
        let private = whole.strip_prefix("_private.");
        let inside = private.and_then(|name| Some(name.split_once(".0.")?.1.to_owned()));
        inside.unwrap_or(whole)
    }

    /// The name with all its parts.
    #[must_use]
    pub fn whole(&self, mut id: NameId) -> String {
        let mut parts = Vec::new();
        loop {
            let (prefix, part) = match self.name_of(id) {
                Name::Anonymous => break,
                Name::Str(prefix, word) => (*prefix, word.to_string()),
                Name::Num(prefix, number) => (*prefix, number.to_string()),
            };
            parts.push(part);
            id = prefix;
        }
        parts.reverse();
        parts.join(".")
    }

    /// Adds a level.
    pub fn level(&mut self, level: Level) -> LevelId {
        let (id, new) = self.levels.add(level);
        if new {
            let facts = |id: LevelId| self.level_facts[id.0 as usize];
            let (param, depth) = match level {
                Level::Zero => (false, 0),
                Level::Param(_) => (true, 0),
                Level::Succ(inner) => {
                    let (param, depth) = facts(inner);
                    (param, depth + 1)
                }
                Level::Max(one, other) | Level::IMax(one, other) => {
                    let (param, depth) = facts(one);
                    let (other_param, other_depth) = facts(other);
                    (param || other_param, depth.max(other_depth) + 1)
                }
            };
            self.too_deep |= depth > MAX_LEVEL_DEPTH;
            self.level_facts.push((param, depth));
        }
        LevelId(id)
    }

    /// The level with this id.
    pub(crate) fn level_of(&self, id: LevelId) -> Level {
        self.levels.all[id.0 as usize]
    }

    pub(crate) fn level_has_param(&self, id: LevelId) -> bool {
        self.level_facts[id.0 as usize].0
    }

    /// Adds a list of levels.
    pub fn levels(&mut self, levels: &[LevelId]) -> LevelsId {
        LevelsId(self.lists.add(levels.into()).0)
    }

    /// The list of the universe parameters with these names.
    pub(crate) fn param_levels(&mut self, names: &[NameId]) -> LevelsId {
        let levels = names.iter().map(|name| self.level(Level::Param(*name)));
        let levels: Vec<LevelId> = levels.collect();
        self.levels(&levels)
    }

    /// The levels of a list.
    pub(crate) fn levels_of(&self, id: LevelsId) -> &[LevelId] {
        &self.lists.all[id.0 as usize]
    }

    /// Adds a literal number.
    pub fn nat(&mut self, value: UBig) -> ExprId {
        self.charge(NUMBER * (value.bit_len() / 64));
        let id = NatId(self.nats.add(value).0);
        self.expr(Expr::Nat(id))
    }

    /// The value of a literal number.
    pub(crate) fn nat_of(&self, id: NatId) -> &UBig {
        &self.nats.all[id.0 as usize]
    }

    /// Adds a literal string.
    pub(crate) fn text(&mut self, value: &str) -> ExprId {
        let id = StrId(self.texts.add(value.into()).0);
        self.expr(Expr::Str(id))
    }

    /// The value of a literal string.
    pub(crate) fn text_of(&self, id: StrId) -> &str {
        &self.texts.all[id.0 as usize]
    }

    /// The expression with this id.
    pub(crate) fn expr_of(&self, id: ExprId) -> Expr {
        self.exprs.all[id.0 as usize]
    }

    fn facts(&self, id: ExprId) -> Facts {
        self.facts[id.0 as usize]
    }

    /// One more than the greatest bound variable without a binder in the expression; 0 if there is none.
    pub(crate) fn loose_bvar_range(&self, id: ExprId) -> u32 {
        self.facts(id).loose
    }

    /// Whether the expression contains a free variable.
    pub(crate) fn has_fvar(&self, id: ExprId) -> bool {
        self.facts(id).free
    }

    /// Whether the expression contains a universe parameter.
    pub(crate) fn has_level_param(&self, id: ExprId) -> bool {
        self.facts(id).param
    }

    /// Adds an expression.
    pub fn expr(&mut self, expr: Expr) -> ExprId {
        let (id, new) = self.exprs.add(expr);
        if new {
            let facts = self.facts_of(expr);
            self.too_deep |= facts.depth > MAX_DEPTH;
            self.facts.push(facts);
        }
        ExprId(id)
    }

    fn facts_of(&self, expr: Expr) -> Facts {
        let leaf = Facts {
            loose: 0,
            depth: 0,
            free: false,
            param: false,
        };
        let all = |parts: &[(ExprId, u32)]| {
            parts.iter().fold(leaf, |sum, (part, binders)| {
                let part = self.facts(*part);
                Facts {
                    loose: sum.loose.max(part.loose.saturating_sub(*binders)),
                    depth: sum.depth.max(part.depth + 1),
                    free: sum.free || part.free,
                    param: sum.param || part.param,
                }
            })
        };
        match expr {
            Expr::BVar(at) => Facts {
                loose: at.saturating_add(1),
                ..leaf
            },
            Expr::FVar(_, ty) => Facts {
                free: true,
                param: self.facts(ty).param,
                ..leaf
            },
            Expr::Sort(level) => Facts {
                param: self.level_has_param(level),
                ..leaf
            },
            Expr::Const(_, levels) => Facts {
                param: self
                    .levels_of(levels)
                    .iter()
                    .any(|level| self.level_has_param(*level)),
                ..leaf
            },
            Expr::App(function, argument) => all(&[(function, 0), (argument, 0)]),
            Expr::Lam(ty, body) | Expr::Pi(ty, body) => all(&[(ty, 0), (body, 1)]),
            Expr::Let(ty, value, body) => all(&[(ty, 0), (value, 0), (body, 1)]),
            Expr::Nat(_) | Expr::Str(_) => leaf,
            Expr::Proj(_, _, structure) => all(&[(structure, 0)]),
        }
    }

    /// A constant with universe levels.
    pub fn constant(&mut self, name: NameId, levels: LevelsId) -> ExprId {
        self.expr(Expr::Const(name, levels))
    }

    /// `function argument`.
    pub fn app(&mut self, function: ExprId, argument: ExprId) -> ExprId {
        self.expr(Expr::App(function, argument))
    }

    /// `function a b …`.
    pub fn apps(&mut self, function: ExprId, arguments: &[ExprId]) -> ExprId {
        self.charge(arguments.len());
        arguments
            .iter()
            .fold(function, |function, argument| self.app(function, *argument))
    }

    /// The function and the arguments of an application.
    pub(crate) fn spine(&self, mut id: ExprId) -> (ExprId, Vec<ExprId>) {
        let mut arguments = Vec::new();
        while let Expr::App(function, argument) = self.expr_of(id) {
            arguments.push(argument);
            id = function;
        }
        arguments.reverse();
        self.charge(arguments.len() / LINKS);
        (id, arguments)
    }

    /// The function of an application.
    pub(crate) fn head(&self, mut id: ExprId) -> ExprId {
        let mut links = 0;
        while let Expr::App(function, _) = self.expr_of(id) {
            id = function;
            links += 1;
        }
        self.charge(links / LINKS);
        id
    }

    /// The name of the constant that an application applies.
    pub(crate) fn head_name(&self, id: ExprId) -> Option<(NameId, LevelsId)> {
        match self.expr_of(self.head(id)) {
            Expr::Const(name, levels) => Some((name, levels)),
            _ => None,
        }
    }
}
