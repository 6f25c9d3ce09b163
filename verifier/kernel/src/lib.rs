//! An independent kernel for Lean 4: it reads what Lean compiled, and checks the declarations in it again.
//!
//! ```text
//! store, walk  names, levels and expressions, each kept once
//! olean        the objects of a compiled module        (hostile bytes)
//! decode       … as names, expressions, declarations
//! library      the modules that a header imports       (trusted: the operator's)
//! checker      what is declared so far; infer, reduce, equal: the judgements of Lean's type theory
//! declare      a declaration is checked and added; inductive types in `inductive`
//! proof        whether a compiled module proves what was asked
//! ```
//!
//! Nothing here runs a proof, and nothing but the bytes of a file reaches it from the process that did. The rules are those of Lean's own kernel (M. Carneiro, "The Type
//! Theory of Lean", 2019; and the Lean reference's chapter on its kernel): dependent functions, universes, inductive types with their recursors, quotients, proof
//! irrelevance, eta for functions and structures, and literals of numbers and strings.

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
pub use proof::{AXIOMS, Axioms, Fault, Question};
pub use store::{Expr, ExprId, Level, LevelId, LevelsId, Name, NameId, Store};

/// Why a declaration is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is wrong.
    #[error("{0}")]
    Rejected(String),
    /// What it would take is more than is allowed. Counted in steps, so it is always the same.
    #[error("it takes more steps or terms than are allowed")]
    Budget,
    /// A file is not what a compiled module is.
    #[error("{0}")]
    Unreadable(String),
}

/// What a check may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Calls of a judgement.
    pub steps: u64,
    /// Expressions that are kept.
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

/// Bytes of stack that a check may need: judgements call each other as deep as terms are.
pub const STACK_BYTES: usize = 1 << 30;
