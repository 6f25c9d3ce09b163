//! The guarantees of the Docker sandbox, with a real engine. If no engine answers, each test prints that it is skipped; with `RAPID_TEST_DOCKER=required` it fails.

mod engine;
mod escape;
mod exhaustion;
mod misuse;
mod support;

mod shared {
    crate::cases::cases!(crate::docker::support::shared);
}
