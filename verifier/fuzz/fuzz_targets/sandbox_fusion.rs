//! Any bytes as the body of SandboxFusion's two routes. [`route`] says what has to hold.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 sandbox_fusion
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use route::Clock;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer(Clock::Skipping, "/compat/sandbox-fusion/run_code", body);
    route::answer(Clock::Skipping, "/compat/sandbox-fusion/submit", body);
});
