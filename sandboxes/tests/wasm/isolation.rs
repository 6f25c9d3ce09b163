//! A program sees nothing of the machine, and only modules that were compiled here are loaded.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sandboxes::Sandbox;
use sandboxes::wasm::WasmSandbox;

use super::support::{artifact, cache, sandbox};
use crate::cases::{assert_unusable, result};

#[test]
fn there_are_no_files_processes_or_network() {
    for body in [
        "open('/etc/passwd')",
        "open('/tmp/x', 'w')",
        "open('/usr/local/lib/x', 'w')",
        "open('/usr/local/lib/python315.zip', 'r+b')",
        "open('/usr/local/lib/../../../etc/passwd')",
        "os.listdir('/')",
        "os.listdir('/usr/local/lib')",
        "os.remove('/usr/local/lib/python315.zip')",
        "os.mkdir('/x')",
        "os.rename('/usr/local/lib/python315.zip', '/usr/local/lib/x')",
        "os.symlink('/etc', '/usr/local/lib/x')",
        "os.system('true')",
        "os.fork()",
        "__import__('subprocess').run(['true'])",
        "__import__('socket').create_connection(('127.0.0.1', 80))",
        "__import__('urllib.request').request.urlopen('http://127.0.0.1')",
        "__import__('threading').Thread(target=print).start()",
        "input()",
    ] {
        let source = format!(
            "import os\ndef f():\n    try: {body}\n    except Exception as error: return 'refused'"
        );
        assert_eq!(result(sandbox(), &source), "\"refused\"", "{body}");
    }
}

#[test]
fn the_library_beyond_the_warmed_part_can_be_imported() {
    let source = "def f():\n    import sympy, colorsys\n    return [str(sympy.expand('(x+1)**2')), colorsys.rgb_to_hsv(1, 0, 0)[0]]";
    assert_eq!(result(sandbox(), source), "[\"x**2 + 2*x + 1\",0.0]");
}

#[test]
fn the_error_names_a_missing_or_damaged_artifact_and_the_remedy() {
    let empty = tempfile::tempdir().unwrap();
    for prepare in [None, Some("text")] {
        if let Some(text) = prepare {
            std::fs::write(empty.path().join("python-snapshot.wasm"), text).unwrap();
        }
        let opened = WasmSandbox::open(empty.path(), empty.path(), &|_| {});
        let says = ["python-snapshot.wasm", "rapid fetch sandbox:python-wasi"];
        assert_unusable(opened, &says);
    }
}

#[test]
fn a_compiled_module_that_was_changed_is_not_loaded() {
    // A cache of the test's own with a copy of the real module, so that nothing is compiled twice.
    let _ = sandbox();
    let own = tempfile::tempdir_in(cache()).unwrap();
    let compiled = own.path().join("compiled");
    copy(&cache().join("compiled"), &compiled);
    let progressed = std::cell::Cell::new(false);
    let open = || WasmSandbox::open(&artifact(), own.path(), &|_| progressed.set(true));
    assert_eq!(open().unwrap().identity(), sandbox().identity());
    assert!(!progressed.get(), "a copy with its key is loaded");

    // Recompiling takes a minute, so the test only checks that it begins.
    let load = || WasmSandbox::load(&artifact(), own.path());
    let recompiles = || {
        assert!(matches!(load(), Ok(None)));
        let began = std::panic::catch_unwind(|| {
            WasmSandbox::open(&artifact(), own.path(), &|line| panic!("{line}"))
        });
        began.is_err()
    };
    let modules: Vec<_> = std::fs::read_dir(&compiled)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "cwasm"))
        .collect();
    assert!(!modules.is_empty());
    let change = |path: &Path| {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let (mut byte, middle) = ([0], file.metadata().unwrap().len() / 2);
        file.read_exact_at(&mut byte, middle).unwrap();
        file.write_all_at(&[!byte[0]], middle).unwrap();
    };
    modules.iter().for_each(|path| change(path));
    assert!(recompiles(), "a module with a changed byte");
    modules.iter().for_each(|path| change(path));
    assert!(load().unwrap().is_some());

    // With a different key, as if the file had come from another machine.
    std::fs::write(compiled.join("key"), [7; 32]).unwrap();
    assert!(recompiles(), "a module with a wrong tag");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_open_the_folder_of_compiled_modules() {
    use std::os::unix::fs::PermissionsExt;
    let _ = sandbox();
    for (name, mode) in [("", 0o700), ("key", 0o600)] {
        let found = std::fs::metadata(cache().join("compiled").join(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode, "{name}");
    }
}
