//! Shared code of the tests of Lean's processes: stand-ins for its programs, and the jail that works here.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use sandboxes::lean::{Jail, Program};

/// The path of a script beside this file.
pub(crate) fn stand_in(name: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/lean")
        .join(name);
    script.to_string_lossy().into_owned()
}

/// The path of Python itself: `python3` may be a script that starts it from a home folder, and a jail does not show that.
pub(crate) static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let own = ["-c", "import sys; print(sys.executable)"];
    let output = Command::new("python3").args(own).output();
    let stdout = output.expect("python3 is installed").stdout;
    String::from_utf8_lossy(&stdout).trim().to_owned()
});

/// The program that starts a stand-in.
pub(crate) fn program(name: &str, jail: Jail) -> Program {
    Program {
        command: vec![PYTHON.clone(), stand_in(name)],
        env: Vec::new(),
        dir: None,
        jail,
        secrets: Vec::new(),
    }
}

/// The jail that works here; `None` after printing that it is skipped.
pub(crate) fn jail() -> Option<Jail> {
    let found = Jail::detect();
    if found == Jail::None {
        println!(
            "SKIPPED: bubblewrap: `bwrap` is not installed, or may not make namespaces here (apt-get install bubblewrap)"
        );
        return None;
    }
    Some(found)
}
