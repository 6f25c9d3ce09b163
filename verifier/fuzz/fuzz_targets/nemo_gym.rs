//! Any bytes as the body of NeMo Gym's `/seed_session` and `/verify`. [`route`] says what has to hold.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 nemo_gym
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use route::Clock;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer(Clock::Real, "/compat/nemo-gym/seed_session", body);
    route::answer(Clock::Real, "/compat/nemo-gym/verify", body);
});
