//! Tests of the wire format and of its client.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod client;
mod wire;
