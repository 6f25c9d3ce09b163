//! Graders: from a task and a completion to a verdict.

pub mod code;
pub mod lean;
pub mod math;
pub mod own;

pub use crate::grading::Grading;
