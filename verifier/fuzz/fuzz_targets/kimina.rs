//! Any bytes as the body of Kimina's two routes. [`route`] says what has to hold.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer("/compat/kimina/api/check", body);
    route::answer("/compat/kimina/verify", body);
});
