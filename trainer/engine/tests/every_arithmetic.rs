//! Tests with every kernel for bf16. They have a process of their own: AMX is emulated in it where the processor lacks it.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod exact;
mod gradients;
mod support;
