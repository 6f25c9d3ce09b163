//! Any bytes as the body of Kimina's two routes. [`route`] says what has to hold.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 kimina
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use route::Clock;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer(Clock::Skipping, "/compat/kimina/api/check", body);
    route::answer(Clock::Skipping, "/compat/kimina/verify", body);
});
