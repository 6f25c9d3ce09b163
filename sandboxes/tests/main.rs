//! The guarantees of the sandboxes, on real ones.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod cases;
mod docker;
mod lean;
mod lean_compile;
mod wasm;
