//! The routes of SandboxFusion that the PyPI package `sandbox-fusion` and verl use: `/run_code` runs a program, `/submit` judges a completion.
//!
//! Both clients take some answers for verdicts: verl every status other than 200 and 504, the package (in `submit_safe`) every failure. So a request that cannot be answered now is
//! held nearly as long as verl waits, which is `compile_timeout + run_timeout + 10` seconds, and is then refused with 504, which both send again.

mod held;
mod run;
mod submit;
pub(in crate::service) mod wire;

pub(super) use held::ping;
pub(super) use run::run_code;
pub(super) use submit::submit;
