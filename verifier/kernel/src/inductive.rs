//! Inductive types: checks which may be declared, and derives their recursors.
//!
//! Types declared together (`mutual`) are supported. Nested inductive types are not: their constructors take, for example, a list of the type itself.

use std::collections::HashSet;
use std::rc::Rc;

use crate::declaration::{
    ConstantInfo, ConstructorVal, InductiveVal, Kind, RecursorRule, RecursorVal,
};
use crate::infer::InferMode;
use crate::term_store::{Expr, ExprId, LINKS, Level, LevelId, LevelsId, NameId, ZERO};
use crate::type_checker::TypeChecker;
use crate::{Error, rejected};

/// An inductive family: inductive types that are declared together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InductiveFamily {
    /// The names of their universe parameters.
    pub levels: Vec<NameId>,
    /// Number of parameters: arguments that are the same in all constructors.
    pub params: u32,
    /// The types of the family.
    pub types: Vec<InductiveType>,
}

/// One type of an inductive family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InductiveType {
    /// Its name.
    pub name: NameId,
    /// Its type.
    pub ty: ExprId,
    /// The names and types of its constructors.
    pub constructors: Vec<(NameId, ExprId)>,
}

impl InductiveFamily {
    /// The family of the type `first`, with the declarations that `find` finds.
    ///
    /// # Errors
    /// The name of a type or constructor that is not found.
    pub fn collect(
        first: &ConstantInfo,
        inductive: &InductiveVal,
        mut find: impl FnMut(NameId) -> Option<Rc<ConstantInfo>>,
    ) -> Result<Self, NameId> {
        let mut types = Vec::new();
        for name in &inductive.all {
            let member = find(*name).ok_or(*name)?;
            let Kind::Inductive(own) = &member.kind else {
                return Err(*name);
            };
            let mut constructors = Vec::new();
            for name in &own.constructors {
                constructors.push((*name, find(*name).ok_or(*name)?.ty));
            }
            types.push(InductiveType {
                name: *name,
                ty: member.ty,
                constructors,
            });
        }
        Ok(Self {
            levels: first.params.clone(),
            params: inductive.params,
            types,
        })
    }
}

/// A family with its binders opened. Its recursors are derived from this.
struct OpenedFamily {
    levels: LevelsId,
    /// Free variables for the parameters.
    params: Vec<ExprId>,
    names: Vec<NameId>,
    /// The universe level of the sort of the types.
    sort: LevelId,
    /// Free variables for the indices of each type.
    indices: Vec<Vec<ExprId>>,
    /// A free variable for the major premise of each type.
    majors: Vec<ExprId>,
    motives: Vec<ExprId>,
    /// The constructors of each type.
    constructors: Vec<Vec<OpenedConstructor>>,
}

/// A constructor with its binders opened.
struct OpenedConstructor {
    name: NameId,
    fields: Vec<ExprId>,
    /// The fields with a type of the family.
    recursive_fields: Vec<RecursiveField>,
    /// The indices of its result.
    indices: Vec<ExprId>,
}

/// A field of type `∀ arguments, type indices`, where the type is the family's type number `of`.
struct RecursiveField {
    field: ExprId,
    arguments: Vec<ExprId>,
    of: usize,
    indices: Vec<ExprId>,
}

impl TypeChecker<'_> {
    /// Checks inductive types, and adds them with their constructors and recursors. The recursors are derived here, whatever the file declares.
    ///
    /// # Errors
    /// [`Error::Rejected`], [`Error::Budget`].
    pub fn declare_inductive(&mut self, family: &InductiveFamily) -> Result<(), Error> {
        let mut names = Vec::new();
        for member in &family.types {
            names.push(member.name);
            names.push(self.store.str_name(member.name, "rec"));
            names.extend(member.constructors.iter().map(|(name, _)| *name));
        }
        let mut seen = HashSet::new();
        for name in &names {
            if !seen.insert(name) || self.known.contains(*name) || self.find(*name)?.is_some() {
                let shown = self.store.show(*name);
                return Err(rejected(format!("`{shown}` is declared already")));
            }
        }
        let recursors = self.recursors(family)?;
        // If traversals exceeded the budget, their results mean nothing.
        self.step()?;
        for recursor in recursors {
            self.insert(recursor);
        }
        Ok(())
    }

    /// Checks a family, whether it is declared already or not, and returns its recursors.
    ///
    /// # Errors
    /// As [`TypeChecker::declare_inductive`].
    pub fn recursors(&mut self, family: &InductiveFamily) -> Result<Vec<ConstantInfo>, Error> {
        let before = self.open;
        let recursors = self.family(family);
        self.open = before;
        recursors
    }

    fn family(&mut self, family: &InductiveFamily) -> Result<Vec<ConstantInfo>, Error> {
        let mut opened = self.types(family)?;
        // Without constructors, the type does not count as a structure yet.
        self.insert_types(family, &opened, true);
        for (at, member) in family.types.iter().enumerate() {
            let mut constructors = Vec::new();
            for (name, ty) in &member.constructors {
                self.check_terms(&family.levels, &[*ty])?;
                self.infer_sort(*ty, InferMode::Checking)?;
                constructors.push(self.open_constructor(&opened, at, *name, *ty)?);
            }
            opened.constructors.push(constructors);
        }
        let mut constructors = opened.constructors.iter().flatten();
        let recursive = constructors.any(|constructor| !constructor.recursive_fields.is_empty());
        self.insert_types(family, &opened, recursive);
        for (member, constructors) in family.types.iter().zip(&opened.constructors) {
            for ((name, ty), constructor) in member.constructors.iter().zip(constructors) {
                let constant = ConstantInfo {
                    name: *name,
                    params: family.levels.clone(),
                    ty: *ty,
                    kind: Kind::Constructor(ConstructorVal {
                        of: member.name,
                        params: family.params,
                        fields: count(&constructor.fields),
                    }),
                };
                self.insert(constant);
            }
        }
        self.recursors_of(family, &mut opened)
    }

    fn insert_types(&mut self, family: &InductiveFamily, opened: &OpenedFamily, recursive: bool) {
        for (member, indices) in family.types.iter().zip(&opened.indices) {
            self.insert(ConstantInfo {
                name: member.name,
                params: family.levels.clone(),
                ty: member.ty,
                kind: Kind::Inductive(InductiveVal {
                    params: family.params,
                    indices: count(indices),
                    all: opened.names.clone(),
                    constructors: member.constructors.iter().map(|(name, _)| *name).collect(),
                    recursive,
                }),
            });
        }
    }

    /// Opens the binders of the types of a family.
    fn types(&mut self, family: &InductiveFamily) -> Result<OpenedFamily, Error> {
        let mut opened = OpenedFamily {
            levels: self.store.param_levels(&family.levels),
            params: Vec::new(),
            names: family.types.iter().map(|member| member.name).collect(),
            sort: ZERO,
            indices: Vec::new(),
            majors: Vec::new(),
            motives: Vec::new(),
            constructors: Vec::new(),
        };
        for (at, member) in family.types.iter().enumerate() {
            self.check_terms(&family.levels, &[member.ty])?;
            self.infer_sort(member.ty, InferMode::Checking)?;
            let mut rest = member.ty;
            if at == 0 {
                for _ in 0..family.params {
                    let (domain, body) = self.next_param(rest)?;
                    let param = self.fresh_fvar(domain);
                    opened.params.push(param);
                    rest = self.store.instantiate(body, &[param]);
                }
            } else {
                rest = self.instantiate_params(&opened, rest)?;
            }
            let mut indices = Vec::new();
            let sort = loop {
                rest = self.whnf(rest)?;
                match self.store.expr_of(rest) {
                    Expr::Pi(domain, body) => {
                        let index = self.fresh_fvar(domain);
                        indices.push(index);
                        rest = self.store.instantiate(body, &[index]);
                    }
                    Expr::Sort(level) => break level,
                    _ => return Err(rejected("an inductive type is not a type")),
                }
            };
            if at == 0 {
                opened.sort = sort;
            } else if !self.store.levels_equal(opened.sort, sort) {
                return Err(rejected(
                    "inductive types that are declared together live in different universes",
                ));
            }
            opened.indices.push(indices);
        }
        Ok(opened)
    }

    /// The domain and the body of a type that must be a `∀` for the next parameter.
    fn next_param(&mut self, ty: ExprId) -> Result<(ExprId, ExprId), Error> {
        self.whnf_pi(ty)?
            .ok_or_else(|| rejected("an inductive type has fewer parameters than it says"))
    }

    /// Instantiates a type's first parameters by the family's, and returns the rest of the type. The type must begin with these parameters.
    fn instantiate_params(
        &mut self,
        opened: &OpenedFamily,
        mut ty: ExprId,
    ) -> Result<ExprId, Error> {
        for param in &opened.params {
            let (domain, body) = self.next_param(ty)?;
            let own = self.type_of(*param)?;
            if !self.is_def_eq(domain, own)? {
                return Err(rejected("the parameters of an inductive type differ"));
            }
            ty = self.store.instantiate(body, &[*param]);
        }
        Ok(ty)
    }

    /// Opens the binders of a constructor, and checks that it is valid.
    fn open_constructor(
        &mut self,
        opened: &OpenedFamily,
        at: usize,
        name: NameId,
        ty: ExprId,
    ) -> Result<OpenedConstructor, Error> {
        let mut rest = self.instantiate_params(opened, ty)?;
        let (mut fields, mut recursive_fields) = (Vec::new(), Vec::new());
        while let Expr::Pi(domain, body) = self.store.expr_of(rest) {
            let level = self.infer_sort(domain, InferMode::Checking)?;
            if !self.store.is_zero(opened.sort) && !self.store.at_most(level, opened.sort) {
                return Err(rejected(format!(
                    "a field of `{}` lives in a larger universe than its type",
                    self.store.show(name)
                )));
            }
            let field = self.fresh_fvar(domain);
            if let Some((arguments, of, indices)) = self.recursive_argument(opened, domain)? {
                recursive_fields.push(RecursiveField {
                    field,
                    arguments,
                    of,
                    indices,
                });
            }
            fields.push(field);
            rest = self.store.instantiate(body, &[field]);
        }
        match self.is_valid_ind_app(opened, rest)? {
            Some((of, indices)) if of == at => Ok(OpenedConstructor {
                name,
                fields,
                recursive_fields,
                indices,
            }),
            _ => Err(rejected(format!(
                "the constructor `{}` does not return a value of its type",
                self.store.show(name)
            ))),
        }
    }

    /// Whether a type mentions a type of the family.
    fn mentions(&mut self, opened: &OpenedFamily, ty: ExprId) -> Result<bool, Error> {
        let named = self.store.constants_of(&[ty])?;
        self.store.charge(named.len() * opened.names.len() / LINKS);
        Ok(named.iter().any(|name| opened.names.contains(name)))
    }

    /// The number and the indices of the family's type that `ty` is; `None` if `ty` is not a type of the family with the family's own parameters.
    fn is_valid_ind_app(
        &mut self,
        opened: &OpenedFamily,
        ty: ExprId,
    ) -> Result<Option<(usize, Vec<ExprId>)>, Error> {
        let (head, arguments) = self.store.spine(ty);
        let Expr::Const(name, levels) = self.store.expr_of(head) else {
            return Ok(None);
        };
        let Some(of) = opened.names.iter().position(|known| *known == name) else {
            return Ok(None);
        };
        let params = opened.params.len();
        if levels != opened.levels || arguments.len() != params + opened.indices[of].len() {
            return Ok(None);
        }
        if !self.all_def_eq(&arguments[..params], &opened.params)? {
            return Ok(None);
        }
        let indices = arguments[params..].to_vec();
        for index in &indices {
            if self.mentions(opened, *index)? {
                return Ok(None);
            }
        }
        Ok(Some((of, indices)))
    }

    /// The occurrence of the family in a field's type: its arguments, the number of the type, and its indices; `None` if there is none. An error if it is not strictly
    /// positive.
    #[allow(clippy::type_complexity)]
    fn recursive_argument(
        &mut self,
        opened: &OpenedFamily,
        ty: ExprId,
    ) -> Result<Option<(Vec<ExprId>, usize, Vec<ExprId>)>, Error> {
        let mut arguments = Vec::new();
        let mut rest = self.whnf(ty)?;
        while self.mentions(opened, rest)? {
            if let Expr::Pi(domain, body) = self.store.expr_of(rest) {
                if self.mentions(opened, domain)? {
                    return Err(rejected(
                        "an inductive type occurs left of an arrow in a field of its own constructor",
                    ));
                }
                let argument = self.fresh_fvar(domain);
                arguments.push(argument);
                let body = self.store.instantiate(body, &[argument]);
                rest = self.whnf(body)?;
                continue;
            }
            return match self.is_valid_ind_app(opened, rest)? {
                Some((of, indices)) => Ok(Some((arguments, of, indices))),
                None => Err(rejected(
                    "a field holds an inductive type within another one, which this kernel does not support",
                )),
            };
        }
        Ok(None)
    }

    /// Whether the family may be eliminated only into propositions.
    fn eliminates_only_into_prop(&mut self, opened: &OpenedFamily) -> Result<bool, Error> {
        if self.store.is_never_zero(opened.sort) {
            return Ok(false);
        }
        let [constructors] = opened.constructors.as_slice() else {
            return Ok(true);
        };
        let constructor = match constructors.as_slice() {
            [] => return Ok(false),
            [constructor] => constructor,
            _ => return Ok(true),
        };
        for field in &constructor.fields {
            let ty = self.type_of(*field)?;
            self.store.charge(constructor.indices.len() / LINKS);
            if !self.is_prop(ty)? && !constructor.indices.contains(field) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn recursors_of(
        &mut self,
        family: &InductiveFamily,
        opened: &mut OpenedFamily,
    ) -> Result<Vec<ConstantInfo>, Error> {
        let mut params = family.levels.clone();
        let mut levels: Vec<LevelId> = self.store.levels_of(opened.levels).to_vec();
        let elim_level = if self.eliminates_only_into_prop(opened)? {
            ZERO
        } else {
            let name = self.fresh_level(&family.levels);
            let level = self.store.level(Level::Param(name));
            params.insert(0, name);
            levels.insert(0, level);
            level
        };
        let sort = self.store.expr(Expr::Sort(elim_level));
        for (at, name) in opened.names.clone().into_iter().enumerate() {
            self.step()?;
            let head = self.store.constant(name, opened.levels);
            let ty = self.store.apps(head, &opened.params);
            let ty = self.store.apps(ty, &opened.indices[at]);
            let major = self.fresh_fvar(ty);
            opened.majors.push(major);
            let body = self.store.bind_pi(&[major], sort);
            let motive = self.store.bind_pi(&opened.indices[at], body);
            let motive = self.fresh_fvar(motive);
            opened.motives.push(motive);
        }
        let mut minors: Vec<Vec<ExprId>> = Vec::new();
        for at in 0..opened.constructors.len() {
            let mut own = Vec::new();
            for constructor in 0..opened.constructors[at].len() {
                self.step()?;
                let ty = self.minor_premise(opened, at, constructor);
                own.push(self.fresh_fvar(ty));
            }
            minors.push(own);
        }
        let every = minors.concat();
        let own = [&opened.params[..], &opened.motives[..], &every[..]].concat();
        let levels = self.store.levels(&levels);
        let heads: Vec<ExprId> = opened
            .names
            .iter()
            .map(|name| {
                let name = self.store.str_name(*name, "rec");
                self.store.constant(name, levels)
            })
            .collect();
        let k = opened.constructors.len() == 1
            && self.store.is_zero(opened.sort)
            && matches!(opened.constructors[0].as_slice(), [constructor] if constructor.fields.is_empty());
        let mut constants = Vec::new();
        for (at, minors) in minors.iter().enumerate() {
            let mut rules = Vec::new();
            for (constructor, minor) in opened.constructors[at].iter().zip(minors) {
                self.step()?;
                let mut value = self.store.apps(*minor, &constructor.fields);
                for recursive in &constructor.recursive_fields {
                    let applied = self.store.apps(recursive.field, &recursive.arguments);
                    let call = self.store.apps(heads[recursive.of], &own);
                    let call = self.store.apps(call, &recursive.indices);
                    let call = self.store.app(call, applied);
                    let call = self.store.bind_lambda(&recursive.arguments, call);
                    value = self.store.app(value, call);
                }
                let value = self.store.bind_lambda(&constructor.fields, value);
                rules.push(RecursorRule {
                    constructor: constructor.name,
                    fields: count(&constructor.fields),
                    value: self.store.bind_lambda(&own, value),
                });
            }
            let result = self.store.apps(opened.motives[at], &opened.indices[at]);
            let result = self.store.app(result, opened.majors[at]);
            let ty = self.store.bind_pi(&[opened.majors[at]], result);
            let ty = self.store.bind_pi(&opened.indices[at], ty);
            let ty = self.store.bind_pi(&own, ty);
            constants.push(ConstantInfo {
                name: self.store.str_name(opened.names[at], "rec"),
                params: params.clone(),
                ty,
                kind: Kind::Recursor(RecursorVal {
                    params: family.params,
                    indices: count(&opened.indices[at]),
                    motives: count(&opened.motives),
                    minors: count(&every),
                    rules,
                    k,
                }),
            });
        }
        Ok(constants)
    }

    /// The type of the minor premise of a constructor. For all fields, and for induction hypotheses about the recursive fields, it is the motive of the result.
    fn minor_premise(&mut self, opened: &OpenedFamily, at: usize, constructor: usize) -> ExprId {
        let constructor = &opened.constructors[at][constructor];
        let value = self.store.constant(constructor.name, opened.levels);
        let value = self.store.apps(value, &opened.params);
        let value = self.store.apps(value, &constructor.fields);
        let body = self.store.apps(opened.motives[at], &constructor.indices);
        let body = self.store.app(body, value);
        let before = self.open;
        let mut hypotheses = Vec::new();
        for recursive in &constructor.recursive_fields {
            let applied = self.store.apps(recursive.field, &recursive.arguments);
            let motive = self
                .store
                .apps(opened.motives[recursive.of], &recursive.indices);
            let motive = self.store.app(motive, applied);
            let motive = self.store.bind_pi(&recursive.arguments, motive);
            hypotheses.push(self.fresh_fvar(motive));
        }
        let body = self.store.bind_pi(&hypotheses, body);
        self.open = before;
        self.store.bind_pi(&constructor.fields, body)
    }

    /// A name for a universe parameter that is not in `names`.
    fn fresh_level(&mut self, names: &[NameId]) -> NameId {
        let mut name = self.store.name("u");
        let mut at = 1;
        while names.contains(&name) {
            name = self.store.name(&format!("u_{at}"));
            at += 1;
        }
        name
    }
}

fn count<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}
