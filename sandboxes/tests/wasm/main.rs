//! What the wasm sandbox promises, with the real interpreter.

mod isolation;
mod judging;
mod limits;
mod misuse;
mod support;
mod values;
