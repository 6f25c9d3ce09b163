//! Any bytes as the body of `/v1/verify`. [`route`] says what has to hold.
#![no_main]

mod route;

libfuzzer_sys::fuzz_target!(|body: &[u8]| route::answer("/v1/verify", body));
