//! Any bytes as the body of NeMo Gym's `/aggregate_metrics`. [`route`] says what has to hold.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer("/compat/nemo-gym/aggregate_metrics", body);
});
