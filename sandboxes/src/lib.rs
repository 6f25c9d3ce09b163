//! Runs untrusted programs. Knows neither tasks nor rewards: programs and encoded values in, encoded values out.

pub mod docker;
pub mod lean;
pub mod outline;
pub mod protocol;
pub mod sandbox;
pub mod wasm;

pub use sandbox::{
    Call, Deferred, End, Identity, Limits, Patience, Program, Request, Run, Sandbox, SandboxError,
    Watch, Work,
};
