//! Whether a compiled module proves what was asked.

use std::collections::HashSet;
use std::rc::Rc;

use crate::checker::Checker;
use crate::declare::Module;
use crate::decode::{Constant, Kind};
use crate::inductive::{Family, Member};
use crate::library::Library;
use crate::store::{LINKS, Level, LevelId, Map, NameId, Store};
use crate::{Budget, Error};

/// Axioms that Lean's own library rests on.
pub const AXIOMS: [&str; 3] = ["propext", "Classical.choice", "Quot.sound"];
/// Axioms that nothing is proved by: what is left open, and what the compiler says.
const NO_PROOF: [&str; 5] = [
    "sorryAx",
    "Lean.ofReduceBool",
    "Lean.ofReduceNat",
    "Lean.trustCompiler",
    "Lean.reduceBool",
];

/// How far it is followed what a proof rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axioms {
    /// Through everything that is imported: nothing but [`AXIOMS`] may be found.
    Followed,
    /// Through the proof's own declarations: of what is imported, these may name no axiom that proves nothing. For libraries whose modules do not hold their proofs.
    Named,
}

/// What is asked of a compiled module.
pub struct Question<'a> {
    /// What the header imports.
    pub library: &'a Library,
    /// The module in which the statement stands, with `sorry` for its proof.
    pub asked: &'a [Vec<u8>],
    /// The theorem's name.
    pub theorem: &'a str,
    /// How far it is followed what the proof rests on.
    pub axioms: Axioms,
    /// What the check may cost.
    pub budget: Budget,
}

/// Why there is no answer, or a bad one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The statement's own module, or the library, is at fault.
    Task(String),
    /// The proof is.
    Proof(Error),
}

impl Question<'_> {
    /// Whether the statement's module can be read, declares the theorem, and defines as it should what that is about: all that a judgement looks at before the proof.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_asked(&self) -> Result<(), String> {
        let mut checker = Checker::new(self.library, self.budget);
        self.meant(&mut checker).map(drop)
    }

    /// The theorem and what it is about, which is checked and added.
    fn meant(&self, checker: &mut Checker<'_>) -> Result<Meant, String> {
        let (asked, wanted) = self.read_asked(checker)?;
        let asked = own(asked);
        let mut meant = Adding::new(&asked);
        let task = |error: Error| error.to_string();
        for name in checker.store.constants_of(&[wanted.ty]).map_err(task)? {
            meant.add(checker, name).map_err(task)?;
        }
        let about = meant.added;
        Ok(Meant {
            wanted,
            asked,
            about,
        })
    }

    fn read_asked(&self, checker: &mut Checker<'_>) -> Result<(Module, Constant), String> {
        let unreadable = |error: Error| format!("what Lean compiled of the statement: {error}");
        let asked = Module::read(checker, self.asked.to_vec()).map_err(unreadable)?;
        let found = asked
            .constants
            .iter()
            .find(|constant| {
                matches!(constant.kind, Kind::Theorem(_))
                    && checker.store.show(constant.name) == self.theorem
            })
            .cloned();
        let found =
            found.ok_or_else(|| format!("the statement declares no theorem `{}`", self.theorem))?;
        Ok((asked, found))
    }

    /// The axioms that the proof in the module `files` rests on; [`None`] for [`Axioms::Named`].
    ///
    /// # Errors
    /// [`Fault`].
    pub fn proved_by(&self, files: Vec<Vec<u8>>) -> Result<Option<Vec<String>>, Fault> {
        let mut checker = Checker::new(self.library, self.budget);
        // What the statement's own words define is the statement's, whatever the proof says of it. It is checked before a byte of the proof is read.
        let Meant {
            wanted,
            asked,
            about,
        } = self.meant(&mut checker).map_err(Fault::Task)?;
        let proof = own(Module::read(&mut checker, files).map_err(Fault::Proof)?);
        for name in about {
            if let (Some(one), Some(other)) = (asked.get(&name), proof.get(&name))
                && one != other
            {
                let shown = checker.store.show(name);
                let why = format!("it defines `{shown}` otherwise than the statement does");
                return Err(Fault::Proof(Error::Rejected(why)));
            }
        }

        let mut proving = Adding::new(&proof);
        proving
            .add(&mut checker, wanted.name)
            .map_err(Fault::Proof)?;
        if checker.find(wanted.name).ok().flatten().is_none() {
            let why = format!("it declares no theorem `{}`", self.theorem);
            return Err(Fault::Proof(Error::Rejected(why)));
        }
        self.compare(&mut checker, &wanted).map_err(Fault::Proof)?;
        let axioms = self.rests_on(&mut checker, &proving.added);
        // Where it took more than it may, nothing that was found means anything.
        checker.step().map_err(Fault::Proof)?;
        axioms.map_err(Fault::Proof)
    }

    /// Declares a theorem of the type that was asked for, proved by the theorem that was declared.
    fn compare(&self, checker: &mut Checker<'_>, wanted: &Constant) -> Result<(), Error> {
        let levels: Vec<LevelId> = wanted
            .params
            .iter()
            .map(|param| checker.store.level(Level::Param(*param)))
            .collect();
        let levels = checker.store.levels(&levels);
        let value = checker.store.constant(wanted.name, levels);
        let compared = Constant {
            name: checker.store.name("what is asked"),
            params: wanted.params.clone(),
            ty: wanted.ty,
            kind: Kind::Theorem(value),
        };
        let unlike = |error| match error {
            Error::Rejected(_) => {
                Error::Rejected("what is proved is not what was asked for".to_owned())
            }
            other => other,
        };
        checker.declare(compared).map_err(unlike)
    }

    /// What the added declarations rest on beyond themselves.
    fn rests_on(
        &self,
        checker: &mut Checker<'_>,
        added: &[NameId],
    ) -> Result<Option<Vec<String>>, Error> {
        let mut named: Map<NameId, ()> = Map::default();
        for name in added {
            let constant = checker.declared(*name)?;
            let terms = constant.terms();
            for name in checker.store.constants_of(&terms)? {
                named.insert(name, ());
            }
        }
        let refused = |shown: &str| {
            Error::Rejected(match shown {
                "sorryAx" => "it leaves something unproved (`sorryAx`)".to_owned(),
                other => format!("it rests on the axiom `{other}`"),
            })
        };
        let mut imported: Vec<NameId> = named
            .into_keys()
            .filter(|name| !checker.is_added(*name))
            .collect();
        imported.sort_unstable();
        for name in &imported {
            let shown = checker.store.whole(*name);
            if NO_PROOF.contains(&shown.as_str()) {
                return Err(refused(&shown));
            }
        }
        if self.axioms == Axioms::Named {
            return Ok(None);
        }
        let found = self.library.axioms(&checker.store, &imported)?;
        match found.iter().find(|axiom| !AXIOMS.contains(&axiom.as_str())) {
            Some(other) => Err(refused(other)),
            None => Ok(Some(found)),
        }
    }
}

/// A statement's theorem, the declarations of its module, and which of them the theorem is about.
struct Meant {
    wanted: Constant,
    asked: Map<NameId, Rc<Constant>>,
    about: Vec<NameId>,
}

/// A module's declarations, by name.
fn own(module: Module) -> Map<NameId, Rc<Constant>> {
    let constants = module.constants.into_iter();
    constants
        .map(|constant| (constant.name, Rc::new(constant)))
        .collect()
}

/// Adds declarations of a module, each after those that it names.
struct Adding<'a> {
    module: &'a Map<NameId, Rc<Constant>>,
    /// In the order in which they were added.
    added: Vec<NameId>,
    done: HashSet<NameId>,
}

impl<'a> Adding<'a> {
    fn new(module: &'a Map<NameId, Rc<Constant>>) -> Self {
        Self {
            module,
            added: Vec::new(),
            done: HashSet::new(),
        }
    }

    /// Adds the declaration of a name with all that it needs; nothing where the module does not have it.
    fn add(&mut self, checker: &mut Checker<'_>, name: NameId) -> Result<(), Error> {
        // A name, and whether what it needs was added before.
        let mut open = vec![(name, false)];
        while let Some((name, ready)) = open.pop() {
            let Some(constant) = self.module.get(&name).cloned() else {
                continue;
            };
            checker.step()?;
            if ready {
                self.declare(checker, &constant)?;
                continue;
            }
            if !self.done.insert(name) || checker.find(name)?.is_some() {
                continue;
            }
            open.push((name, true));
            for needed in self.needs(&mut checker.store, &constant)? {
                if !self.done.contains(&needed) {
                    open.push((needed, false));
                }
            }
        }
        Ok(())
    }

    /// The names that must be declared before a constant.
    fn needs(&self, store: &mut Store, constant: &Constant) -> Result<Vec<NameId>, Error> {
        Ok(match &constant.kind {
            Kind::Constructor(constructor) => vec![constructor.of],
            Kind::Recursor(_) => match store.name_of(constant.name) {
                crate::store::Name::Str(prefix, _) => vec![*prefix],
                _ => Vec::new(),
            },
            Kind::Inductive(inductive) => {
                let members = inductive
                    .all
                    .iter()
                    .filter_map(|name| self.module.get(name));
                let mut terms = Vec::new();
                for member in members {
                    terms.push(member.ty);
                    if let Kind::Inductive(own) = &member.kind {
                        if !store.works(4 * own.constructors.len()) {
                            return Err(Error::Budget);
                        }
                        let made = own.constructors.iter();
                        terms.extend(made.filter_map(|name| Some(self.module.get(name)?.ty)));
                    }
                }
                let mut names = store.constants_of(&terms)?;
                store.works(names.len() * inductive.all.len() / LINKS);
                names.retain(|name| !inductive.all.contains(name));
                names
            }
            _ => store.constants_of(&constant.terms())?,
        })
    }

    fn declare(&mut self, checker: &mut Checker<'_>, constant: &Rc<Constant>) -> Result<(), Error> {
        // Types that are declared together come with the first of them, and bring their constructors and recursors.
        if checker.find(constant.name)?.is_some() {
            return Ok(());
        }
        match &constant.kind {
            Kind::Inductive(inductive) => {
                let missing = |store: &Store, name: NameId| {
                    let shown = store.show(name);
                    Error::Rejected(format!("`{shown}` is no part of what it is declared with"))
                };
                let mut types = Vec::new();
                for name in &inductive.all {
                    let member = self.module.get(name);
                    let Some((member, Kind::Inductive(own))) =
                        member.map(|member| (member, &member.kind))
                    else {
                        return Err(missing(&checker.store, *name));
                    };
                    let mut constructors = Vec::new();
                    for name in &own.constructors {
                        let Some(constructor) = self.module.get(name) else {
                            return Err(missing(&checker.store, *name));
                        };
                        constructors.push((*name, constructor.ty));
                    }
                    types.push(Member {
                        name: *name,
                        ty: member.ty,
                        constructors,
                    });
                }
                if !inductive.all.contains(&constant.name) {
                    return Err(missing(&checker.store, constant.name));
                }
                let family = Family {
                    levels: constant.params.clone(),
                    params: inductive.params,
                    types,
                };
                checker.declare_inductive(&family)?;
                for member in &family.types {
                    self.added.push(member.name);
                    self.added
                        .extend(member.constructors.iter().map(|(name, _)| *name));
                }
            }
            Kind::Definition(..) | Kind::Theorem(_) | Kind::Opaque(_) | Kind::Axiom => {
                checker.declare((**constant).clone())?;
                self.added.push(constant.name);
            }
            // Made with the type, or not for proofs: what names it finds nothing.
            Kind::Constructor(_) | Kind::Recursor(_) | Kind::Quotient | Kind::Unsafe => {}
        }
        Ok(())
    }
}
