//! What the Docker sandbox promises, with a real engine. Where none answers, each test says so and ends; with `RAPID_TEST_DOCKER=required` it fails.

#![allow(clippy::unwrap_used)]

#[path = "../cases/mod.rs"]
mod cases;
mod engine;
mod escape;
mod exhaustion;
mod misuse;
mod support;

mod shared {
    crate::cases::cases!(crate::support::shared);
}
