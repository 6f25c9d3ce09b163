//! What the wasm sandbox promises, with the real interpreter.

#![allow(clippy::unwrap_used)]

mod isolation;
mod judging;
mod limits;
mod misuse;
mod support;
mod values;
