//! Any bytes as the body of OpenRLHF's route. [`route`] says what has to hold.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 openrlhf
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use route::Clock;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer(Clock::Real, "/compat/openrlhf/get_reward", body);
});
