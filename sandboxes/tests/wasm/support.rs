//! The sandbox under test.

use std::path::PathBuf;
use std::sync::OnceLock;

use sandboxes::Sandbox;
use sandboxes::wasm::WasmSandbox;

/// The cache folder, as `rapid fetch` uses it.
fn home() -> PathBuf {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("RAPID_HOME")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("rapid")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/rapid")))
        .expect("a test needs $RAPID_HOME or a home folder")
}

/// The folder of the compiled interpreter of `rapid-verifier`. So it is compiled once for both.
pub(crate) fn cache() -> PathBuf {
    home().join("verifier/wasm")
}

pub(crate) fn artifact() -> PathBuf {
    let folder = home().join("sandboxes/python-wasi");
    assert!(
        folder.join("python-snapshot.wasm").exists(),
        "{} does not hold the Python sandbox; fetch it with `cargo run --release -p trainer -- fetch sandbox:python-wasi`",
        folder.display()
    );
    folder
}

/// One sandbox for all tests of a process.
pub(crate) fn sandbox() -> &'static WasmSandbox {
    static SANDBOX: OnceLock<WasmSandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        WasmSandbox::open(&artifact(), &cache(), &|line| eprintln!("{line}")).unwrap()
    })
}

/// The same sandbox, for the cases.
pub(crate) fn shared() -> Option<&'static dyn Sandbox> {
    Some(sandbox())
}
