//! Any bytes as the body of NeMo Gym's `/aggregate_metrics`. [`route`] says what has to hold.
//!
//! ```sh
//! cargo install cargo-fuzz
//! cd verifier && cargo fuzz run nemo_gym_metrics -- -max_len=4096 -timeout=10 -rss_limit_mb=2048
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer("/compat/nemo-gym/aggregate_metrics", body);
});
