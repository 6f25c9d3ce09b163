//! Any bytes as the body of slime's route. [`route`] says what has to hold.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 slime
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use route::Clock;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer(Clock::Real, "/compat/slime/rm", body);
});
