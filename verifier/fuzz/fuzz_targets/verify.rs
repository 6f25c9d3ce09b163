//! Any bytes as the body of `/v1/verify`. [`route`] says what has to hold.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 verify
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use route::Clock;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer(Clock::Real, "/v1/verify", body);
});
