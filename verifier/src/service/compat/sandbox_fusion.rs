//! The routes of SandboxFusion that the PyPI package `sandbox-fusion` and verl use: `/run_code` runs a program, `/submit` judges a completion.
//!
//! Both clients take some errors for verdicts: verl every status other than 200 and 504, the package (in `submit_safe`) every failure. But both send a request again
//! after 504. So a request without an answer is held, and then refused with 504 shortly before verl's timeout. verl waits `compile_timeout + run_timeout + 10` seconds.

mod deadline;
mod run;
mod submit;
pub(in crate::service) mod wire;

pub(super) use deadline::ping;
pub(super) use run::run_code;
pub(super) use submit::submit;
