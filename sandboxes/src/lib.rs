//! Runs untrusted programs. It knows neither tasks nor rewards: programs and encoded values go in, encoded values come out.

pub mod defined_names;
pub mod docker;
mod idle_parsers;
pub mod lean;
pub mod protocol;
mod sandbox;
mod value_digest;
pub mod wasm;

pub use sandbox::{
    Abandoned, Call, Deferred, End, Identity, Limits, MAX_STREAM_BYTES, Program, Request, Run,
    Sandbox, SandboxError, Watch, Work,
};
pub use value_digest::is_same_encoding;
