//! Tests of the kernel by its public interface.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod costs;
mod hostile;
mod library;
mod modules;
mod numbers;
mod rules;
