//! Judges completions: the library, and the rapid-verifier service.
//!
//! ```text
//! request ──▶ service ──▶ judging ──▶ cache ──miss──▶ pool ──▶ graders ──▶ grade::{math, code, lean} ──▶ sandbox
//! ```
//!
//! - [`service`] is the HTTP side, with the routes ([`service::app`]);
//! - [`judging`] takes the items of a request, or of a file, through the cache and the queue;
//! - [`registry`] has the tasks that a request can name;
//! - [`cache`] stores verdicts by the digest of everything that they depend on;
//! - [`pool`] has the worker threads and their fair queue;
//! - [`memory_pool`] limits the memory of all programs together;
//! - [`graders`] knows which graders can judge now, and why the others cannot;
//! - [`grade`] has the graders: one module for each kind of task;
//! - [`score`] judges a file of samples without a server;
//! - [`run_canonical_solutions`] runs the canonical solutions of data sets ahead of time;
//! - [`config`] is the configuration file, and [`setup`] creates a service from it.

#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod cache;
pub mod config;
#[cfg(test)]
mod fake_lean;
#[cfg(test)]
mod fake_sandbox;
pub mod grade;
pub mod graders;
pub mod grading;
pub mod item;
pub mod judging;
pub mod memory_pool;
pub mod metrics;
mod mutex;
pub mod pool;
pub mod registry;
pub mod run_canonical_solutions;
pub mod score;
pub mod service;
pub mod setup;

pub use service::{Service, ServiceSettings, app};
