//! The guarantees of the wasm sandbox, with the real interpreter.

#![allow(clippy::unwrap_used)]

#[path = "../cases/mod.rs"]
mod cases;
mod fuel;
mod isolation;
mod numbers;
mod recursion;
mod shapes;
mod support;

mod shared {
    crate::cases::cases!(crate::support::shared);
}
