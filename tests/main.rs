//! Tests of the whole: the programs, the documents, the scripts and the repository.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod architecture;
mod attacks;
mod bad_input;
mod command_line;
mod determinism;
mod documents;
mod end_to_end;
mod gpu;
mod memory;
mod mpi;
mod parity;
mod planned_memory;
mod prepare;
mod profiler;
mod report_page;
mod soak;
mod study;
mod sweep;
mod unavailable;
