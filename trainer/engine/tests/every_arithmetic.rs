//! Tests with every kernel for bf16. They have a process of their own, in which AMX is emulated where the processor lacks it.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod exact;
mod gradients;
mod support;
