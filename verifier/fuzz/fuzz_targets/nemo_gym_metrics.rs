//! Any bytes as the body of NeMo Gym's `/aggregate_metrics`. [`route`] says what has to hold.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 nemo_gym_metrics
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use route::Clock;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer(Clock::Real, "/compat/nemo-gym/aggregate_metrics", body);
});
