//! Judges completions: library and the rapid-verifier service.
//!
//! ```text
//! request ──▶ service ──▶ cache ──miss──▶ pool ──▶ graders ──▶ grade::{math, code, lean} ──▶ sandbox
//! ```
//!
//! - [`service`] holds the routes ([`service::app`]) and the way of a batch through cache and queue;
//! - [`registry`] holds the tasks that a request can name;
//! - [`cache`] keeps verdicts by the digest of everything that they depend on;
//! - [`pool`] has the worker threads and their fair, bounded queue;
//! - [`memory_pool`] bounds what programs have together;
//! - [`graders`] says which grader can judge now, and why the others cannot;
//! - [`grade`] decides: one module a kind of task;
//! - [`score`] judges a file of samples without a server;
//! - [`precompute`] makes what a data set's own solutions return before anyone asks for a verdict;
//! - [`config`] is the configuration file, [`setup`] makes a service of it.

#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod cache;
pub mod config;
#[cfg(test)]
mod fake_sandbox;
pub mod grade;
pub mod graders;
pub mod grading;
pub mod memory_pool;
pub mod metrics;
pub mod pool;
pub mod precompute;
pub mod registry;
pub mod score;
pub mod service;
pub mod setup;

pub use service::{Service, Settings, app};
