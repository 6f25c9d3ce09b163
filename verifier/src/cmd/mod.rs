//! One file for each command, and for what several of them share.

pub(crate) mod bench;
mod config_args;
pub(crate) mod doctor;
pub(crate) mod exit;
pub(crate) mod fetch;
pub(crate) mod kernel;
pub(crate) mod prepare;
mod prepared;
mod print;
mod progress;
pub(crate) mod score;
pub(crate) mod serve;

pub(crate) use config_args::ConfigArgs;
pub(crate) use exit::Usage;
pub(crate) use prepared::{prepare_in_subprocess, prepared_judge, runtime};
pub(crate) use print::{print, print_result, say};
