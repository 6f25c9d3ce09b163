//! Lean's own library. `RAPID_TEST_LEAN` names its folder (`bash scripts/lean.sh` prints it).

use std::path::PathBuf;

use kernel::Library;

/// The library with these modules. `None` if it is not here; prints that the test is skipped.
pub(crate) fn library(modules: &[&str]) -> Option<Library> {
    let Some(lean) = std::env::var_os("RAPID_TEST_LEAN") else {
        println!(
            "SKIPPED: Lean's library: RAPID_TEST_LEAN does not name it (scripts/lean.sh fetches it)"
        );
        return None;
    };
    let modules: Vec<String> = modules.iter().map(ToString::to_string).collect();
    Some(Library::open(&[PathBuf::from(lean).join("lib")], &modules).unwrap())
}

/// Runs on a stack as deep as a grader's.
pub(crate) fn deep<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(kernel::STACK_BYTES);
        thread.spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}
