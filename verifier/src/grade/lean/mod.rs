//! The grader of Lean proofs.
//!
//! A proof is a program that runs during elaboration. So the output of the process that ran it is not trusted. A proof with words that no proof needs is refused
//! ([`scan`]). Lean compiles the statement alone, once ([`statement`]), and the statement with the proof ([`proof`]), each in a jail. Then an independent kernel, also
//! in a jail ([`kernel_runner`]), reads both compiled modules. It checks every declaration that the theorem depends on, the theorem's type, and its axioms. Lean's
//! messages only explain a verdict.

mod extract;
mod grader;
mod gradings;
mod kernel_runner;
mod proof;
mod scan;
mod settings;
mod snippet;
mod statement;

pub use self::grader::{LeanGrader, VERSION};
pub use self::kernel_runner::{Kernels, serve as serve_kernel};
pub use self::settings::{AxiomsChoice, Backend, JailChoice, LeanSettings, NO_LEAN};
pub use self::snippet::NO_JAIL;
