//! Tests of the engine by its public interface.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod checkpoint;
mod cuda;
mod cuda_compile;
#[path = "support/fetched.rs"]
mod fetched;
mod ledger;
mod logits;
#[path = "support/long.rs"]
mod long;
mod lora;
mod ranks;
mod sketch;
mod smollm2;
mod support;
mod text;
