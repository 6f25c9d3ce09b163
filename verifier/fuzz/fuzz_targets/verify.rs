//! Any bytes as the body of `/v1/verify`. [`route`] says what has to hold.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer("/v1/verify", body);
});
