//! Inductive types: what may be declared as one, and the recursors that follow.
//!
//! Types declared together (`mutual`) are read; nested ones, whose constructors take a list or another type of themselves, are not.

use std::collections::HashSet;

use crate::Error;
use crate::checker::Checker;
use crate::decode::{Constant, Constructor, Inductive, Kind, Recursor, Rule};
use crate::infer::How;
use crate::store::{Expr, ExprId, LINKS, Level, LevelId, LevelsId, NameId, ZERO};

/// Inductive types that are declared together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// The names of their universe levels.
    pub levels: Vec<NameId>,
    /// How many of their arguments are the same in all constructors.
    pub params: u32,
    /// Each with its type and its constructors.
    pub types: Vec<Member>,
}

/// One of several inductive types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: NameId,
    /// Its type.
    pub ty: ExprId,
    /// The names and types of its constructors.
    pub constructors: Vec<(NameId, ExprId)>,
}

/// What is known of a family while its recursors are made.
struct Plan {
    levels: LevelsId,
    /// Variables for the parameters.
    params: Vec<ExprId>,
    names: Vec<NameId>,
    /// The level of the sort that the types live in.
    sort: LevelId,
    /// Variables for the indices of each type.
    indices: Vec<Vec<ExprId>>,
    /// A variable for a value of each type.
    majors: Vec<ExprId>,
    motives: Vec<ExprId>,
    /// Of each type, of each constructor.
    made: Vec<Vec<Made>>,
}

/// A constructor, opened.
struct Made {
    name: NameId,
    fields: Vec<ExprId>,
    /// Those of the fields that are values of the family: which field, behind which arguments, of which type, at which indices.
    inner: Vec<Inner>,
    /// The indices of what it makes.
    indices: Vec<ExprId>,
}

struct Inner {
    field: ExprId,
    arguments: Vec<ExprId>,
    of: usize,
    indices: Vec<ExprId>,
}

impl Checker<'_> {
    /// Checks inductive types, and adds them with their constructors and recursors. The recursors are made here, whatever the file says of them.
    ///
    /// # Errors
    /// [`Error::Rejected`], [`Error::Budget`].
    pub fn declare_inductive(&mut self, family: &Family) -> Result<(), Error> {
        let mut names = Vec::new();
        for member in &family.types {
            names.push(member.name);
            names.push(self.store.str_name(member.name, "rec"));
            names.extend(member.constructors.iter().map(|(name, _)| *name));
        }
        let mut seen = HashSet::new();
        for name in &names {
            if !seen.insert(name) || self.known.has(*name) || self.find(*name)?.is_some() {
                let shown = self.store.show(*name);
                return Err(self.reject(format_args!("`{shown}` is declared already")));
            }
        }
        let recursors = self.recursors(family)?;
        // Where walks took more than they may, nothing that they made means anything.
        self.step()?;
        for recursor in recursors {
            self.insert(recursor);
        }
        Ok(())
    }

    /// The recursors of a family, which is checked on the way, whether it is declared already or not.
    ///
    /// # Errors
    /// As [`Checker::declare_inductive`].
    pub fn recursors(&mut self, family: &Family) -> Result<Vec<Constant>, Error> {
        let before = self.open;
        let made = self.family(family);
        self.open = before;
        made
    }

    fn family(&mut self, family: &Family) -> Result<Vec<Constant>, Error> {
        let mut plan = self.types(family)?;
        // Until its constructors are known, it is taken for no structure.
        self.insert_types(family, &plan, true);
        for (at, member) in family.types.iter().enumerate() {
            let mut made = Vec::new();
            for (name, ty) in &member.constructors {
                self.check_terms(&family.levels, &[*ty])?;
                self.sort_of(*ty, How::Checking)?;
                made.push(self.opened(&plan, at, *name, *ty)?);
            }
            plan.made.push(made);
        }
        let mut made = plan.made.iter().flatten();
        let recursive = made.any(|made| !made.inner.is_empty());
        self.insert_types(family, &plan, recursive);
        for (member, made) in family.types.iter().zip(&plan.made) {
            for ((name, ty), made) in member.constructors.iter().zip(made) {
                let constant = Constant {
                    name: *name,
                    params: family.levels.clone(),
                    ty: *ty,
                    kind: Kind::Constructor(Constructor {
                        of: member.name,
                        params: family.params,
                        fields: count(&made.fields),
                    }),
                };
                self.insert(constant);
            }
        }
        self.recursors_of(family, &mut plan)
    }

    fn insert_types(&mut self, family: &Family, plan: &Plan, recursive: bool) {
        for (member, indices) in family.types.iter().zip(&plan.indices) {
            self.insert(Constant {
                name: member.name,
                params: family.levels.clone(),
                ty: member.ty,
                kind: Kind::Inductive(Inductive {
                    params: family.params,
                    indices: count(indices),
                    all: plan.names.clone(),
                    constructors: member.constructors.iter().map(|(name, _)| *name).collect(),
                    recursive,
                }),
            });
        }
    }

    /// Opens the types' own telescopes.
    fn types(&mut self, family: &Family) -> Result<Plan, Error> {
        let levels: Vec<LevelId> = family
            .levels
            .iter()
            .map(|name| self.store.level(Level::Param(*name)))
            .collect();
        let mut plan = Plan {
            levels: self.store.levels(&levels),
            params: Vec::new(),
            names: family.types.iter().map(|member| member.name).collect(),
            sort: ZERO,
            indices: Vec::new(),
            majors: Vec::new(),
            motives: Vec::new(),
            made: Vec::new(),
        };
        for (at, member) in family.types.iter().enumerate() {
            self.check_terms(&family.levels, &[member.ty])?;
            self.sort_of(member.ty, How::Checking)?;
            let mut rest = member.ty;
            if at == 0 {
                for _ in 0..family.params {
                    let (domain, body) = self.function(rest)?;
                    let param = self.local(domain);
                    plan.params.push(param);
                    rest = self.store.instantiate(body, &[param]);
                }
            } else {
                rest = self.past_params(&plan, rest)?;
            }
            let mut indices = Vec::new();
            let sort = loop {
                rest = self.whnf(rest)?;
                match self.store.of(rest) {
                    Expr::Pi(domain, body) => {
                        let index = self.local(domain);
                        indices.push(index);
                        rest = self.store.instantiate(body, &[index]);
                    }
                    Expr::Sort(level) => break level,
                    _ => return Err(self.reject(format_args!("an inductive type is no type"))),
                }
            };
            if at == 0 {
                plan.sort = sort;
            } else if !self.store.levels_equal(plan.sort, sort) {
                return Err(self.reject(format_args!(
                    "inductive types that are declared together live in different universes"
                )));
            }
            plan.indices.push(indices);
        }
        Ok(plan)
    }

    fn function(&mut self, ty: ExprId) -> Result<(ExprId, ExprId), Error> {
        let ty = self.whnf(ty)?;
        match self.store.of(ty) {
            Expr::Pi(domain, body) => Ok((domain, body)),
            _ => Err(self.reject(format_args!(
                "an inductive type has fewer parameters than it says"
            ))),
        }
    }

    /// A type behind the family's parameters, which it must begin with.
    fn past_params(&mut self, plan: &Plan, mut ty: ExprId) -> Result<ExprId, Error> {
        for param in &plan.params {
            let (domain, body) = self.function(ty)?;
            let own = self.type_of(*param)?;
            if !self.equal(domain, own)? {
                return Err(self.reject(format_args!("the parameters of an inductive type differ")));
            }
            ty = self.store.instantiate(body, &[*param]);
        }
        Ok(ty)
    }

    /// Opens a constructor, and checks that it may be one.
    fn opened(&mut self, plan: &Plan, at: usize, name: NameId, ty: ExprId) -> Result<Made, Error> {
        let mut rest = self.past_params(plan, ty)?;
        let (mut fields, mut inner) = (Vec::new(), Vec::new());
        while let Expr::Pi(domain, body) = self.store.of(rest) {
            let level = self.sort_of(domain, How::Checking)?;
            if !self.store.is_zero(plan.sort) && !self.store.at_most(level, plan.sort) {
                return Err(self.reject(format_args!(
                    "a field of `{}` lives in a larger universe than its type",
                    self.store.show(name)
                )));
            }
            let field = self.local(domain);
            if let Some((arguments, of, indices)) = self.positive(plan, domain)? {
                inner.push(Inner {
                    field,
                    arguments,
                    of,
                    indices,
                });
            }
            fields.push(field);
            rest = self.store.instantiate(body, &[field]);
        }
        match self.member(plan, rest)? {
            Some((of, indices)) if of == at => Ok(Made {
                name,
                fields,
                inner,
                indices,
            }),
            _ => Err(self.reject(format_args!(
                "`{}` makes no value of its type",
                self.store.show(name)
            ))),
        }
    }

    /// Whether a type names one of the family.
    fn mentions(&mut self, plan: &Plan, ty: ExprId) -> Result<bool, Error> {
        let named = self.store.constants_of(&[ty])?;
        self.store.works(named.len() * plan.names.len() / LINKS);
        Ok(named.iter().any(|name| plan.names.contains(name)))
    }

    /// Whether a type is one of the family at its own parameters: which one, at which indices.
    fn member(&mut self, plan: &Plan, ty: ExprId) -> Result<Option<(usize, Vec<ExprId>)>, Error> {
        let (head, arguments) = self.store.spine(ty);
        let Expr::Const(name, levels) = self.store.of(head) else {
            return Ok(None);
        };
        let Some(of) = plan.names.iter().position(|known| *known == name) else {
            return Ok(None);
        };
        let params = plan.params.len();
        if levels != plan.levels || arguments.len() != params + plan.indices[of].len() {
            return Ok(None);
        }
        for (argument, param) in arguments.iter().zip(&plan.params) {
            if !self.equal(*argument, *param)? {
                return Ok(None);
            }
        }
        let indices = arguments[params..].to_vec();
        for index in &indices {
            if self.mentions(plan, *index)? {
                return Ok(None);
            }
        }
        Ok(Some((of, indices)))
    }

    /// Whether the family stands in a field's type, and only where it may.
    #[allow(clippy::type_complexity)]
    fn positive(
        &mut self,
        plan: &Plan,
        ty: ExprId,
    ) -> Result<Option<(Vec<ExprId>, usize, Vec<ExprId>)>, Error> {
        let mut arguments = Vec::new();
        let mut rest = self.whnf(ty)?;
        while self.mentions(plan, rest)? {
            if let Expr::Pi(domain, body) = self.store.of(rest) {
                if self.mentions(plan, domain)? {
                    return Err(self.reject(format_args!(
                        "an inductive type stands left of an arrow in a field of its own"
                    )));
                }
                let argument = self.local(domain);
                arguments.push(argument);
                let body = self.store.instantiate(body, &[argument]);
                rest = self.whnf(body)?;
                continue;
            }
            return match self.member(plan, rest)? {
                Some((of, indices)) => Ok(Some((arguments, of, indices))),
                None => Err(self.reject(format_args!(
                    "a field holds an inductive type within another one, which this kernel does not read"
                ))),
            };
        }
        Ok(None)
    }

    /// Whether values of the family may be taken apart to make propositions only.
    fn only_propositions(&mut self, plan: &Plan) -> Result<bool, Error> {
        if self.store.is_never_zero(plan.sort) {
            return Ok(false);
        }
        let [made] = plan.made.as_slice() else {
            return Ok(true);
        };
        let made = match made.as_slice() {
            [] => return Ok(false),
            [made] => made,
            _ => return Ok(true),
        };
        for field in &made.fields {
            let ty = self.type_of(*field)?;
            self.store.works(made.indices.len() / LINKS);
            if !self.is_proposition(ty)? && !made.indices.contains(field) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `∀ locals, body`.
    fn all(&mut self, locals: &[ExprId], body: ExprId) -> ExprId {
        self.bound(locals, body, Expr::Pi)
    }

    /// `fun locals => body`.
    fn fun(&mut self, locals: &[ExprId], body: ExprId) -> ExprId {
        self.bound(locals, body, Expr::Lam)
    }

    fn bound(
        &mut self,
        locals: &[ExprId],
        mut body: ExprId,
        make: fn(ExprId, ExprId) -> Expr,
    ) -> ExprId {
        for local in locals.iter().rev() {
            if let Expr::Free(_, ty) = self.store.of(*local) {
                body = self.store.close(body, &[*local]);
                body = self.store.expr(make(ty, body));
            }
        }
        body
    }

    fn recursors_of(&mut self, family: &Family, plan: &mut Plan) -> Result<Vec<Constant>, Error> {
        let mut params = family.levels.clone();
        let mut levels: Vec<LevelId> = self.store.levels_of(plan.levels).to_vec();
        let into = if self.only_propositions(plan)? {
            ZERO
        } else {
            let name = self.fresh_level(&family.levels);
            let level = self.store.level(Level::Param(name));
            params.insert(0, name);
            levels.insert(0, level);
            level
        };
        let sort = self.store.expr(Expr::Sort(into));
        for (at, name) in plan.names.clone().into_iter().enumerate() {
            self.step()?;
            let head = self.store.constant(name, plan.levels);
            let ty = self.store.apps(head, &plan.params);
            let ty = self.store.apps(ty, &plan.indices[at]);
            let major = self.local(ty);
            plan.majors.push(major);
            let body = self.all(&[major], sort);
            let motive = self.all(&plan.indices[at], body);
            let motive = self.local(motive);
            plan.motives.push(motive);
        }
        let mut minors: Vec<Vec<ExprId>> = Vec::new();
        for at in 0..plan.made.len() {
            let mut own = Vec::new();
            for made in 0..plan.made[at].len() {
                self.step()?;
                let ty = self.minor(plan, at, made);
                own.push(self.local(ty));
            }
            minors.push(own);
        }
        let every: Vec<ExprId> = minors.iter().flatten().copied().collect();
        let own: Vec<ExprId> = [&plan.params, &plan.motives, &every]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        let levels = self.store.levels(&levels);
        let heads: Vec<ExprId> = plan
            .names
            .iter()
            .map(|name| {
                let name = self.store.str_name(*name, "rec");
                self.store.constant(name, levels)
            })
            .collect();
        let k = plan.made.len() == 1
            && self.store.is_zero(plan.sort)
            && matches!(plan.made[0].as_slice(), [made] if made.fields.is_empty());
        let mut constants = Vec::new();
        for (at, minors) in minors.iter().enumerate() {
            let mut rules = Vec::new();
            for (made, minor) in plan.made[at].iter().zip(minors) {
                self.step()?;
                let mut value = self.store.apps(*minor, &made.fields);
                for inner in &made.inner {
                    let inside = self.store.apps(inner.field, &inner.arguments);
                    let call = self.store.apps(heads[inner.of], &own);
                    let call = self.store.apps(call, &inner.indices);
                    let call = self.store.app(call, inside);
                    let call = self.fun(&inner.arguments, call);
                    value = self.store.app(value, call);
                }
                let value = self.fun(&made.fields, value);
                rules.push(Rule {
                    constructor: made.name,
                    fields: count(&made.fields),
                    value: self.fun(&own, value),
                });
            }
            let result = self.store.apps(plan.motives[at], &plan.indices[at]);
            let result = self.store.app(result, plan.majors[at]);
            let ty = self.all(&[plan.majors[at]], result);
            let ty = self.all(&plan.indices[at], ty);
            let ty = self.all(&own, ty);
            constants.push(Constant {
                name: self.store.str_name(plan.names[at], "rec"),
                params: params.clone(),
                ty,
                kind: Kind::Recursor(Recursor {
                    params: family.params,
                    indices: count(&plan.indices[at]),
                    motives: count(&plan.motives),
                    minors: count(&every),
                    rules,
                    k,
                }),
            });
        }
        Ok(constants)
    }

    /// What is to be shown of a constructor: for all fields, and what is known of those that are values of the family, the motive of what it makes.
    fn minor(&mut self, plan: &Plan, at: usize, made: usize) -> ExprId {
        let made = &plan.made[at][made];
        let value = self.store.constant(made.name, plan.levels);
        let value = self.store.apps(value, &plan.params);
        let value = self.store.apps(value, &made.fields);
        let body = self.store.apps(plan.motives[at], &made.indices);
        let body = self.store.app(body, value);
        let before = self.open;
        let mut known = Vec::new();
        for inner in &made.inner {
            let inside = self.store.apps(inner.field, &inner.arguments);
            let motive = self.store.apps(plan.motives[inner.of], &inner.indices);
            let motive = self.store.app(motive, inside);
            let motive = self.all(&inner.arguments, motive);
            known.push(self.local(motive));
        }
        let body = self.all(&known, body);
        self.open = before;
        self.all(&made.fields, body)
    }

    /// A name for a universe level that is none of `names`.
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
