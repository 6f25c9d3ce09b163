//! Tests of the built service, on real data, and of the graders as a whole.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod binary;
#[path = "../../datasets/tests/data/mod.rs"]
mod data;
mod extraction;
mod lean;
mod lean_kernel;
mod math_data;
mod minif2f;
mod real_data;
mod running;
mod score;
mod stdio;
