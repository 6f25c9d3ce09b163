//! An independent kernel for Lean 4: it reads the modules that Lean compiled, and checks their declarations again.
//!
//! ```text
//! term_store       names, universe levels and expressions, each stored once; instantiate: substitution; level: the order of universe levels
//! declaration      axioms, definitions, theorems, inductive types, constructors, recursors
//! olean            the objects of a compiled module        (hostile bytes)
//! decode           … as names, expressions, declarations
//! library          the modules that a header imports       (trusted: the operator's)
//! type_checker     the environment of declarations and the caches; infer, whnf, def_eq: the judgements of Lean's type theory
//! add_declaration  checks a declaration and adds it; inductive types in `inductive`
//! theorem_check    whether a compiled module proves the requested statement
//! ```
//!
//! Functions have the names of Lean's own kernel (`type_checker.cpp`): `infer`, `whnf`, `whnf_core`, `is_def_eq`, `lazy_delta_reduction`.
//!
//! This crate runs no proof, and only the bytes of a file reach it from the process that did. The rules are those of Lean's own kernel: dependent functions, universes,
//! inductive types with their recursors, quotients, proof irrelevance, eta for functions and structures, and literals of numbers and strings. They are described in M.
//! Carneiro, "The Type Theory of Lean", 2019, and in the Lean reference's chapter on its kernel.

mod add_declaration;
mod declaration;
mod decode;
mod def_eq;
mod inductive;
mod infer;
mod instantiate;
mod level;
mod library;
mod olean;
mod term_store;
mod theorem_check;
mod type_checker;
mod whnf;

pub use add_declaration::CompiledModule;
pub use declaration::{
    ConstantInfo, ConstructorVal, InductiveVal, Kind, RecursorRule, RecursorVal, ReducibilityHint,
};
pub use inductive::{InductiveFamily, InductiveType};
pub use library::{Library, imports, parts};
pub use term_store::{Expr, ExprId, Level, LevelId, LevelsId, Name, NameId, TermStore};
pub use theorem_check::{AXIOMS, Axioms, Fault, TheoremCheck};
pub use type_checker::TypeChecker;

/// Why a declaration is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is wrong.
    #[error("{0}")]
    Rejected(String),
    /// The check would take more than is allowed. The cost is counted in steps, so the outcome is always the same.
    #[error("it takes more steps or terms than are allowed")]
    Budget,
    /// A file is not a valid compiled module.
    #[error("{0}")]
    Unreadable(String),
}

/// The error of a wrong declaration.
fn rejected(why: impl Into<String>) -> Error {
    Error::Rejected(why.into())
}

/// The error of a file that is not a valid compiled module.
fn unreadable(why: impl Into<String>) -> Error {
    Error::Unreadable(why.into())
}

/// The limits of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Calls of a judgement.
    pub steps: u64,
    /// Expressions that are stored.
    pub terms: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: 20_000_000,
            terms: 8_000_000,
        }
    }
}

/// Bytes of stack that a check may need. Judgements call each other as deeply as terms are nested.
pub const STACK_BYTES: usize = 1 << 30;
