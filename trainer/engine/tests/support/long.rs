//! Whether what takes minutes runs in full.

/// `RAPID_TEST_LONG=1`. Otherwise prints what is skipped.
pub(crate) fn long(what: &str) -> bool {
    let long = std::env::var("RAPID_TEST_LONG").is_ok_and(|value| value == "1");
    if !long {
        eprintln!("SKIPPED: {what}; RAPID_TEST_LONG=1 includes them");
    }
    long
}
