//! Decodes a compiled module's objects into names, expressions and declarations.

use dashu_int::ops::BitTest as _;

use crate::declaration::{
    ConstantInfo, ConstructorVal, InductiveVal, Kind, RecursorRule, RecursorVal, ReducibilityHint,
};
use crate::olean::{Image, Object};
use crate::term_store::{ANONYMOUS, Expr, ExprId, Level, LevelId, Map, NameId, TermStore, ZERO};
use crate::{Error, unreadable};

/// The objects of one module that were decoded into one store.
#[derive(Default)]
pub(crate) struct DecodeCache {
    names: Map<Object, NameId>,
    levels: Map<Object, LevelId>,
    exprs: Map<Object, ExprId>,
}

/// Reads objects of one module.
pub(crate) struct Decoder<'a> {
    pub(crate) image: &'a Image,
    pub(crate) store: &'a mut TermStore,
    pub(crate) cache: &'a mut DecodeCache,
}

/// Parts of a module, in the order of its fields.
const IMPORTS: u64 = 0;
const NAMES: u64 = 1;
const CONSTANTS: u64 = 2;

/// The names of a module's declarations, each with its declaration.
pub(crate) fn contents(image: &Image) -> Result<Vec<(Object, Object)>, Error> {
    let names = image.array(image.field(image.root(), NAMES)?)?;
    let constants = image.array(image.field(image.root(), CONSTANTS)?)?;
    if names.len() != constants.len() {
        return Err(unreadable("a module has names without declarations"));
    }
    Ok(names.into_iter().zip(constants).collect())
}

/// The names of the modules that a module imports.
pub(crate) fn imports(image: &Image) -> Result<Vec<String>, Error> {
    let mut store = TermStore::default();
    let mut cache = DecodeCache::default();
    let mut decoder = Decoder {
        image,
        store: &mut store,
        cache: &mut cache,
    };
    let imports = image.array(image.field(image.root(), IMPORTS)?)?;
    let mut all = Vec::with_capacity(imports.len());
    for import in imports {
        let name = decoder.name(image.field(import, 0)?)?;
        let name = decoder.store.whole(name);
        // It becomes a path.
        if name.contains(['/', '\\', '\0']) || name.split('.').any(str::is_empty) {
            return Err(unreadable("a module's name is not a valid file name"));
        }
        all.push(name);
    }
    Ok(all)
}

/// Whether a module is of Lean's module system, with its private part in another file.
pub(crate) fn is_module(image: &Image) -> bool {
    // Older Leans have no such flag.
    image.byte(image.root(), 0).is_ok_and(|flag| flag == 1)
}

/// Work that is charged for storing a declaration or a rule of a recursor, in visited terms.
const CONSTANT: usize = 16;
/// Names that a declaration may list: constructors, types declared together, universe parameters.
const MAX_NAMES: usize = 10_000;
/// Universe levels that a constant may have.
const MAX_LEVELS: usize = 1_000;

// Each reference to an object charges the work of reading it, since it is read again.
impl Decoder<'_> {
    pub(crate) fn name(&mut self, object: Object) -> Result<NameId, Error> {
        let mut chain = Vec::new();
        let mut at = object;
        let mut name = loop {
            if at & 1 == 1 {
                break ANONYMOUS;
            }
            if let Some(known) = self.cache.names.get(&at) {
                break *known;
            }
            chain.push(at);
            if chain.len() > 10_000 {
                return Err(unreadable("a name has no end"));
            }
            at = self.image.field(at, 0)?;
        };
        for object in chain.into_iter().rev() {
            let part = self.image.field(object, 1)?;
            name = match self.image.variant(object)? {
                1 => {
                    let word = self.image.text(part)?;
                    self.store.spend(word.len())?;
                    self.store.str_name(name, word)
                }
                2 => {
                    let number = self.image.nat(part)?;
                    let number = u64::try_from(&number)
                        .map_err(|_| unreadable("a name's number is too large"))?;
                    self.store.num_name(name, number)
                }
                _ => return Err(unreadable("a name is of an unknown kind")),
            };
            self.cache.names.insert(object, name);
        }
        Ok(name)
    }

    fn name_list(&mut self, object: Object) -> Result<Vec<NameId>, Error> {
        let list = self.image.list(object, MAX_NAMES)?;
        self.store.spend(2 * list.len())?;
        list.into_iter().map(|object| self.name(object)).collect()
    }

    fn level(&mut self, root: Object) -> Result<LevelId, Error> {
        let mut open = vec![(root, false)];
        let mut parents: Map<Object, ()> = Map::default();
        while let Some((object, seen)) = open.pop() {
            if object & 1 == 1 || self.cache.levels.contains_key(&object) {
                continue;
            }
            let tag = self.image.variant(object)?;
            let parts: &[u64] = match tag {
                1 => &[0],
                2 | 3 => &[0, 1],
                _ => &[],
            };
            if !seen && !parts.is_empty() {
                if parents.insert(object, ()).is_some() || open.len() > 1 << 16 {
                    return Err(unreadable("a level holds itself"));
                }
                open.push((object, true));
                for part in parts {
                    open.push((self.image.field(object, *part)?, false));
                }
                continue;
            }
            let mut operands = [ZERO; 2];
            for (operand, part) in operands.iter_mut().zip(parts) {
                let part = self.image.field(object, *part)?;
                *operand = self.known_level(part)?;
            }
            let level = match tag {
                0 => Level::Zero,
                1 => Level::Succ(operands[0]),
                2 => Level::Max(operands[0], operands[1]),
                3 => Level::IMax(operands[0], operands[1]),
                4 => Level::Param(self.name(self.image.field(object, 0)?)?),
                _ => return Err(unreadable("a level is not determined")),
            };
            let id = self.store.level(level);
            self.cache.levels.insert(object, id);
        }
        self.known_level(root)
    }

    fn known_level(&self, object: Object) -> Result<LevelId, Error> {
        if object & 1 == 1 {
            return Ok(ZERO);
        }
        let known = self.cache.levels.get(&object);
        known
            .copied()
            .ok_or_else(|| unreadable("a level holds itself"))
    }

    /// Decodes an expression, without `mdata`.
    pub(crate) fn expr(&mut self, root: Object) -> Result<ExprId, Error> {
        let mut open = vec![(root, false)];
        let mut parents: Map<Object, ()> = Map::default();
        while let Some((object, seen)) = open.pop() {
            if self.cache.exprs.contains_key(&object) {
                continue;
            }
            let tag = self.image.variant(object)?;
            let parts: &[u64] = match tag {
                5 => &[0, 1],
                6 | 7 => &[1, 2],
                8 => &[1, 2, 3],
                10 => &[1],
                11 => &[2],
                _ => &[],
            };
            if !seen && !parts.is_empty() {
                // An object that occurs below itself has no end.
                if parents.insert(object, ()).is_some() {
                    return Err(unreadable("an expression holds itself"));
                }
                open.push((object, true));
                for part in parts {
                    open.push((self.image.field(object, *part)?, false));
                }
                continue;
            }
            let mut operands = [None; 3];
            for (operand, part) in operands.iter_mut().zip(parts) {
                let part = self.image.field(object, *part)?;
                let known = self.cache.exprs.get(&part);
                *operand = Some(*known.ok_or_else(|| unreadable("an expression holds itself"))?);
            }
            let id = self.leaf_or_node(object, tag, operands)?;
            self.cache.exprs.insert(object, id);
        }
        let known = self.cache.exprs.get(&root);
        known
            .copied()
            .ok_or_else(|| unreadable("an expression holds itself"))
    }

    fn leaf_or_node(
        &mut self,
        object: Object,
        tag: u64,
        operands: [Option<ExprId>; 3],
    ) -> Result<ExprId, Error> {
        let field = |at| self.image.field(object, at);
        let expr = match (tag, operands) {
            (0, _) => Expr::BVar(self.image.small(field(0)?)?),
            (3, _) => Expr::Sort(self.level(field(0)?)?),
            (4, _) => {
                let name = self.name(self.image.field(object, 0)?)?;
                let list = self.image.list(self.image.field(object, 1)?, MAX_LEVELS)?;
                self.store.spend(4 * list.len())?;
                let levels = list.into_iter().map(|level| self.level(level));
                let levels = levels.collect::<Result<Vec<_>, _>>()?;
                Expr::Const(name, self.store.levels(&levels))
            }
            (5, [Some(function), Some(argument), _]) => Expr::App(function, argument),
            (6, [Some(ty), Some(body), _]) => Expr::Lam(ty, body),
            (7, [Some(ty), Some(body), _]) => Expr::Pi(ty, body),
            (8, [Some(ty), Some(value), Some(body)]) => Expr::Let(ty, value, body),
            (9, _) => {
                let literal = field(0)?;
                let value = self.image.field(literal, 0)?;
                return match self.image.variant(literal)? {
                    0 => {
                        let value = self.image.nat(value)?;
                        self.store.spend(value.bit_len() / 64)?;
                        Ok(self.store.nat(value))
                    }
                    1 => {
                        let text = self.image.text(value)?;
                        self.store.spend(text.len() / 8)?;
                        Ok(self.store.text(text))
                    }
                    _ => Err(unreadable("a literal is of an unknown kind")),
                };
            }
            (10, [Some(inner), ..]) => return Ok(inner),
            (11, [Some(inner), ..]) => {
                let at = self.image.small(field(1)?)?;
                Expr::Proj(self.name(self.image.field(object, 0)?)?, at, inner)
            }
            _ => return Err(unreadable("an expression is not finished")),
        };
        Ok(self.store.expr(expr))
    }

    /// Decodes a declaration.
    pub(crate) fn constant(&mut self, object: Object) -> Result<ConstantInfo, Error> {
        let image = self.image;
        let tag = image.variant(object)?;
        let value = image.field(object, 0)?;
        let head = image.field(value, 0)?;
        self.store.spend(CONSTANT)?;
        let name = self.name(image.field(head, 0)?)?;
        let params = self.name_list(image.field(head, 1)?)?;
        let ty = self.expr(image.field(head, 2)?)?;
        let kind = match tag {
            0 if image.byte(value, 0)? == 0 => Kind::Axiom,
            1 if image.byte(value, 0)? == 1 => {
                let hint = match image.variant(image.field(value, 2)?)? {
                    0 => ReducibilityHint::Opaque,
                    1 => ReducibilityHint::Abbreviation,
                    _ => ReducibilityHint::Regular(image.number32(image.field(value, 2)?)?),
                };
                Kind::Definition(self.expr(image.field(value, 1)?)?, hint)
            }
            2 => Kind::Theorem(self.expr(image.field(value, 1)?)?),
            3 if image.byte(value, 0)? == 0 => Kind::Opaque(self.expr(image.field(value, 1)?)?),
            4 => Kind::Quotient,
            5 if image.byte(value, 1)? == 0 => Kind::Inductive(InductiveVal {
                params: image.small(image.field(value, 1)?)?,
                indices: image.small(image.field(value, 2)?)?,
                all: self.name_list(image.field(value, 3)?)?,
                constructors: self.name_list(image.field(value, 4)?)?,
                recursive: image.byte(value, 0)? == 1,
            }),
            6 if image.byte(value, 0)? == 0 => Kind::Constructor(ConstructorVal {
                of: self.name(image.field(value, 1)?)?,
                params: image.small(image.field(value, 3)?)?,
                fields: image.small(image.field(value, 4)?)?,
            }),
            7 if image.byte(value, 1)? == 0 => {
                let mut rules = Vec::new();
                let list = image.list(image.field(value, 6)?, MAX_NAMES)?;
                self.store.spend(CONSTANT * list.len())?;
                for rule in list {
                    rules.push(RecursorRule {
                        constructor: self.name(image.field(rule, 0)?)?,
                        fields: image.small(image.field(rule, 1)?)?,
                        value: self.expr(image.field(rule, 2)?)?,
                    });
                }
                Kind::Recursor(RecursorVal {
                    params: image.small(image.field(value, 2)?)?,
                    indices: image.small(image.field(value, 3)?)?,
                    motives: image.small(image.field(value, 4)?)?,
                    minors: image.small(image.field(value, 5)?)?,
                    rules,
                    k: image.byte(value, 0)? == 1,
                })
            }
            _ => Kind::Unsafe,
        };
        Ok(ConstantInfo {
            name,
            params,
            ty,
            kind,
        })
    }
}
