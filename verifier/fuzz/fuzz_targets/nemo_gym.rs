//! Any bytes as the body of NeMo Gym's `/seed_session` and `/verify`. [`route`] says what has to hold.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod route;

fuzz_target!(|body: &[u8]| {
    route::answer("/compat/nemo-gym/seed_session", body);
    route::answer("/compat/nemo-gym/verify", body);
});
