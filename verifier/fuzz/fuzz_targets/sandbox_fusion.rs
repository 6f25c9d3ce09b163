//! Any bytes as the body of SandboxFusion's two routes. [`route`] says what has to hold.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer("/compat/sandbox-fusion/run_code", body);
    route::answer("/compat/sandbox-fusion/submit", body);
});
