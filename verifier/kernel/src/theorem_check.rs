//! Whether a compiled module proves the requested statement.

use std::collections::HashSet;
use std::rc::Rc;

use crate::add_declaration::CompiledModule;
use crate::declaration::{ConstantInfo, Kind};
use crate::inductive::InductiveFamily;
use crate::library::Library;
use crate::term_store::{LINKS, Map, Name, NameId, TermStore};
use crate::type_checker::TypeChecker;
use crate::{Budget, Error, rejected};

/// Axioms that Lean's own library depends on.
pub const AXIOMS: [&str; 3] = ["propext", "Classical.choice", "Quot.sound"];
/// Axioms that prove nothing: `sorryAx` leaves a goal unproved, and the others trust the compiler.
const NO_PROOF: [&str; 5] = [
    "sorryAx",
    "Lean.ofReduceBool",
    "Lean.ofReduceNat",
    "Lean.trustCompiler",
    "Lean.reduceBool",
];

/// How far the axioms that a proof depends on are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axioms {
    /// Through all imports: the proof may depend only on [`AXIOMS`].
    Followed,
    /// Through the proof's own declarations: these may name no imported axiom that proves nothing. For libraries with modules that do not contain their proofs.
    Named,
}

/// The question whether a compiled module proves a statement.
pub struct TheoremCheck<'a> {
    /// The modules that the header imports.
    pub library: &'a Library,
    /// The files of the compiled statement, with `sorry` as its proof.
    pub statement: &'a [Vec<u8>],
    /// The theorem's name.
    pub theorem: &'a str,
    /// How far the axioms that the proof depends on are followed.
    pub axioms: Axioms,
    /// The limits of the check.
    pub budget: Budget,
}

/// Why a statement is not proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The statement's own module, or the library, is at fault.
    Task(String),
    /// The proof is at fault.
    Proof(Error),
}

impl TheoremCheck<'_> {
    /// Checks that the statement's module can be read, declares the theorem, and defines the constants of its type correctly. A judgement checks all of this before it
    /// reads the proof.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_statement(&self) -> Result<(), String> {
        let mut checker = TypeChecker::new(self.library, self.budget);
        self.add_statement(&mut checker).map(drop)
    }

    /// Reads the statement, and checks and adds the declarations that the theorem's type needs.
    fn add_statement(&self, checker: &mut TypeChecker<'_>) -> Result<Statement, String> {
        let (module, theorem) = self.read_statement(checker)?;
        let constants = by_name(module);
        let mut adding = Adding::new(&constants);
        let task = |error: Error| error.to_string();
        for name in checker.store.constants_of(&[theorem.ty]).map_err(task)? {
            adding.add(checker, name).map_err(task)?;
        }
        let needed = adding.added;
        Ok(Statement {
            theorem,
            constants,
            needed,
        })
    }

    fn read_statement(
        &self,
        checker: &mut TypeChecker<'_>,
    ) -> Result<(CompiledModule, ConstantInfo), String> {
        let unreadable = |error: Error| format!("what Lean compiled of the statement: {error}");
        let module = CompiledModule::read(checker, self.statement.to_vec()).map_err(unreadable)?;
        let found = module
            .constants
            .iter()
            .find(|constant| {
                matches!(constant.kind, Kind::Theorem(_))
                    && checker.store.show(constant.name) == self.theorem
            })
            .cloned();
        let found =
            found.ok_or_else(|| format!("the statement declares no theorem `{}`", self.theorem))?;
        Ok((module, found))
    }

    /// The axioms that the proof in the module `files` depends on; [`None`] for [`Axioms::Named`].
    ///
    /// # Errors
    /// [`Fault`].
    pub fn proved_by(&self, files: Vec<Vec<u8>>) -> Result<Option<Vec<String>>, Fault> {
        let mut checker = TypeChecker::new(self.library, self.budget);
        // The statement's own definitions hold, whatever the proof declares under their names. They are checked before a byte of the proof is read.
        let Statement {
            theorem,
            constants,
            needed,
        } = self.add_statement(&mut checker).map_err(Fault::Task)?;
        let proof = by_name(CompiledModule::read(&mut checker, files).map_err(Fault::Proof)?);
        for name in needed {
            if let (Some(one), Some(other)) = (constants.get(&name), proof.get(&name))
                && one != other
            {
                let shown = checker.store.show(name);
                let why = format!("it defines `{shown}` differently than the statement does");
                return Err(Fault::Proof(rejected(why)));
            }
        }

        let mut proving = Adding::new(&proof);
        proving
            .add(&mut checker, theorem.name)
            .map_err(Fault::Proof)?;
        if checker.find(theorem.name).ok().flatten().is_none() {
            let why = format!("it declares no theorem `{}`", self.theorem);
            return Err(Fault::Proof(rejected(why)));
        }
        self.compare(&mut checker, &theorem).map_err(Fault::Proof)?;
        let axioms = self.dependencies(&mut checker, &proving.added);
        // If the check exceeded the budget, its results mean nothing.
        checker.step().map_err(Fault::Proof)?;
        axioms.map_err(Fault::Proof)
    }

    /// Checks that the proved theorem has the requested type: declares a theorem of that type with the proved one as its proof.
    fn compare(&self, checker: &mut TypeChecker<'_>, wanted: &ConstantInfo) -> Result<(), Error> {
        let levels = checker.store.param_levels(&wanted.params);
        let value = checker.store.constant(wanted.name, levels);
        let compared = ConstantInfo {
            name: checker.store.name("what is asked"),
            params: wanted.params.clone(),
            ty: wanted.ty,
            kind: Kind::Theorem(value),
        };
        let mismatch = |error| match error {
            Error::Rejected(_) => rejected("what is proved is not what was asked for"),
            other => other,
        };
        checker.declare(compared).map_err(mismatch)
    }

    /// The axioms that the added declarations depend on; `None` for [`Axioms::Named`].
    fn dependencies(
        &self,
        checker: &mut TypeChecker<'_>,
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
            rejected(match shown {
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

/// A statement: its theorem, the declarations of its module, and those of them that the theorem's type needs.
struct Statement {
    theorem: ConstantInfo,
    constants: Map<NameId, Rc<ConstantInfo>>,
    needed: Vec<NameId>,
}

/// A module's declarations, by name.
fn by_name(module: CompiledModule) -> Map<NameId, Rc<ConstantInfo>> {
    let constants = module.constants.into_iter();
    constants
        .map(|constant| (constant.name, Rc::new(constant)))
        .collect()
}

/// Adds declarations of a module, each after those that it names.
struct Adding<'a> {
    module: &'a Map<NameId, Rc<ConstantInfo>>,
    /// The names that were added, in order.
    added: Vec<NameId>,
    done: HashSet<NameId>,
}

impl<'a> Adding<'a> {
    fn new(module: &'a Map<NameId, Rc<ConstantInfo>>) -> Self {
        Self {
            module,
            added: Vec::new(),
            done: HashSet::new(),
        }
    }

    /// Adds the declaration of a name with all declarations that it needs. Does nothing if the module does not declare the name.
    fn add(&mut self, checker: &mut TypeChecker<'_>, name: NameId) -> Result<(), Error> {
        // A name, and whether the declarations that it needs were added before.
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
    fn needs(&self, store: &mut TermStore, constant: &ConstantInfo) -> Result<Vec<NameId>, Error> {
        Ok(match &constant.kind {
            Kind::Constructor(constructor) => vec![constructor.of],
            Kind::Recursor(_) => match store.name_of(constant.name) {
                Name::Str(prefix, _) => vec![*prefix],
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
                        store.spend(4 * own.constructors.len())?;
                        let constructors = own.constructors.iter();
                        terms.extend(
                            constructors.filter_map(|name| Some(self.module.get(name)?.ty)),
                        );
                    }
                }
                let mut names = store.constants_of(&terms)?;
                store.charge(names.len() * inductive.all.len() / LINKS);
                names.retain(|name| !inductive.all.contains(name));
                names
            }
            _ => store.constants_of(&constant.terms())?,
        })
    }

    fn declare(
        &mut self,
        checker: &mut TypeChecker<'_>,
        constant: &Rc<ConstantInfo>,
    ) -> Result<(), Error> {
        // Types that are declared together are added with the first of them, with their constructors and recursors.
        if checker.find(constant.name)?.is_some() {
            return Ok(());
        }
        match &constant.kind {
            Kind::Inductive(inductive) => {
                let find = |name: NameId| self.module.get(&name).cloned();
                let missing = |name: NameId| {
                    let shown = checker.store.show(name);
                    rejected(format!("`{shown}` is not part of its inductive family"))
                };
                let family =
                    InductiveFamily::collect(constant, inductive, find).map_err(missing)?;
                if !inductive.all.contains(&constant.name) {
                    return Err(missing(constant.name));
                }
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
            // Constructors and recursors are added with their type. The others are not for proofs: a declaration that names one finds nothing.
            Kind::Constructor(_) | Kind::Recursor(_) | Kind::Quotient | Kind::Unsafe => {}
        }
        Ok(())
    }
}
