//! Graders: from a task and a completion to a verdict.

pub mod code;
pub mod custom;
pub mod lean;
pub mod math;

pub use crate::grading::Grading;
