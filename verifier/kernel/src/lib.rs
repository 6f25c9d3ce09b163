//! An independent kernel for Lean 4: it reads the modules that Lean compiled, and checks their declarations again.
//!
//! ```text
//! store        names, universe levels and expressions, each stored once; walk: substitution; level: the order of universe levels
//! olean        the objects of a compiled module        (hostile bytes)
//! decode       … as names, expressions, declarations
//! library      the modules that a header imports       (trusted: the operator's)
//! checker      the environment of declarations; infer, reduce, equal: the judgements of Lean's type theory
//! declare      checks a declaration and adds it; inductive types in `inductive`
//! proof        whether a compiled module proves the requested statement
//! ```
//!
//! This crate runs no proof, and only the bytes of a file reach it from the process that did. The rules are those of Lean's own kernel: dependent functions, universes,
//! inductive types with their recursors, quotients, proof irrelevance, eta for functions and structures, and literals of numbers and strings. They are described in M.
//! Carneiro, "The Type Theory of Lean", 2019, and in the Lean reference's chapter on its kernel.

mod checker;
mod declare;
mod decode;
mod equal;
mod inductive;
mod infer;
mod level;
mod library;
mod olean;
mod proof;
mod reduce;
mod store;
mod walk;

pub use checker::Checker;
pub use declare::Module;
pub use decode::{Constant, Constructor, Hint, Inductive, Kind, Recursor, Rule};
pub use inductive::{Family, Member};
pub use library::{Library, imports, parts};
pub use proof::{AXIOMS, Axioms, Fault, TheoremCheck};
pub use store::{Expr, ExprId, Level, LevelId, LevelsId, Name, NameId, Store};

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
