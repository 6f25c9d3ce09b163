//! Support for the system tests: the repository's files, the built programs, and the artifacts that tests need.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

pub mod artifacts;
pub mod attacks;
#[path = "../../datasets/tests/data/mod.rs"]
pub mod data;
pub mod disk;
pub mod imports;
pub mod memory;
pub mod programs;
pub mod repository;
pub mod samples;
pub mod shell;
pub mod training;
