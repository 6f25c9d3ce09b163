//! Every kernel compiles for the architectures that it is written for, on a machine without a GPU.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use engine::backend::cuda::compile::{self, Target, compile};
use engine::backend::cuda::kernels::{NAMES, SOURCES};

/// Whether NVRTC is available: in `LD_LIBRARY_PATH`, where a toolkit or pip installs it, or in the cache folder. Prints that a test is skipped if it is not.
fn nvrtc() -> bool {
    let version = compile::version();
    if let Err(reason) = &version {
        eprintln!(
            "SKIPPED: compiling the CUDA kernels; scripts/cuda.sh fetches the compiler: {reason}"
        );
    }
    version.is_ok()
}

#[test]
fn every_kernel_compiles_for_every_architecture() {
    if !nvrtc() {
        return;
    }
    for architecture in [80, 90, 120] {
        let ptx = compile(SOURCES, NAMES, Target::Ptx(architecture)).unwrap();
        let text = String::from_utf8_lossy(&ptx.bytes);
        assert!(text.contains(&format!(".target sm_{architecture}")));
        // The driver loads PTX as a string with a terminating zero.
        assert_eq!(ptx.bytes.last(), Some(&0));
        assert_eq!(ptx.names.len(), NAMES.len());
        for (name, lowered) in NAMES.iter().zip(&ptx.names) {
            let entry = format!(".entry {lowered}(");
            assert!(text.contains(&entry), "{name} is not in the PTX");
        }
    }
}

/// Unlike PTX, machine code has limits: registers, and the shared memory that a kernel declares.
#[test]
fn every_kernel_compiles_to_machine_code() {
    if !nvrtc() {
        return;
    }
    let cubin = compile(SOURCES, NAMES, Target::Cubin(90)).unwrap();
    assert!(cubin.bytes.starts_with(b"\x7fELF"));
    assert_eq!(cubin.names.len(), NAMES.len());
}

#[test]
fn the_compiler_reports_its_architectures() {
    if nvrtc() {
        let known = compile::architectures().unwrap();
        assert!(known.contains(&80) && known.contains(&90), "{known:?}");
    }
}

#[test]
fn a_compilation_error_names_the_file_and_the_line() {
    if !nvrtc() {
        return;
    }
    let sources = [
        ("good.cu", "__global__ void good() {}\n"),
        ("bad.cu", "\n__global__ void bad() { nothing; }\n"),
    ];
    let error = compile(&sources, &["bad"], Target::Ptx(80)).unwrap_err();
    assert!(error.contains("bad.cu(2)"), "{error}");
}

#[test]
fn each_content_is_compiled_once() {
    if !nvrtc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let compiled = |text| {
        let sources = [("one.cu", text)];
        compile::compiled(folder.path(), &sources, &["one<int>"], Target::Ptx(80)).unwrap()
    };
    let text = "template <class T> __global__ void one(T *x) { *x = 1; }\n";
    let first = compiled(text);
    assert_eq!((compiled(text), files()), (first.clone(), 1));
    let other = compiled("template <class T> __global__ void one(T *x) { *x = 2; }\n");
    assert_eq!((other == first, files()), (false, 2));
}
