//! The guarantees of the wasm sandbox, with the real interpreter.

mod fuel;
mod isolation;
mod numbers;
mod recursion;
mod support;

mod shared {
    crate::cases::cases!(crate::wasm::support::shared);
}
