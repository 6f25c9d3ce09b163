//! Runs untrusted programs. Knows neither tasks nor rewards: programs and encoded values in, encoded values out.

pub mod docker;
pub mod lean;
pub mod outline;
mod protocol;
pub mod sandbox;
pub mod wasm;

pub use sandbox::{Call, End, Identity, Limits, Program, Run, Sandbox, SandboxError, Watch};
