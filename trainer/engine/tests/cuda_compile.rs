//! Every kernel compiles on a machine without a GPU, for all architectures that it is written for. It takes the registers and the memory listed in
//! `kernels/resources.txt`.

use crate::long;

use std::fmt::Write as _;
use std::path::Path;

use engine::backend::cuda::compile::{self, CompileTarget, compile};
use engine::backend::cuda::kernels::{NAMES, SOURCES};

/// The architectures: A100, H100 and H200, and the Blackwell of workstations.
const ARCHITECTURES: [u32; 3] = [80, 90, 120];
/// Position of the architecture with registers that are compared in every test run; the others take another minute.
const ALWAYS: usize = 1;
/// The compiler of `scripts/cuda.sh`. Another version allocates registers differently.
const COMPILER: (u32, u32) = (13, 0);

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
    // The other test compiles for sm_90 with the compiler that it knows.
    let others = (compile::version().unwrap() != COMPILER).then_some(90);
    let always: Vec<u32> = others.into_iter().chain([ARCHITECTURES[0]]).collect();
    for architecture in ARCHITECTURES {
        if !always.contains(&architecture)
            && !long::long(&format!("the CUDA kernels on sm_{architecture}"))
        {
            continue;
        }
        let (ptx, _) = compile(SOURCES, NAMES, CompileTarget::Ptx(architecture), &[]).unwrap();
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

/// What the compiler reports for a kernel: the columns of the table, and the words after each number in the report.
const RESOURCES: [(&str, &str); 5] = [
    ("registers", " registers"),
    ("stack", " bytes stack frame"),
    ("stores", " bytes spill stores"),
    ("loads", " bytes spill loads"),
    ("shared", " bytes smem"),
];

/// The resources of every kernel in machine code of an architecture, in the order of [`NAMES`].
fn resources(architecture: u32) -> Vec<[String; 5]> {
    let target = CompileTarget::Cubin(architecture);
    let (cubin, report) = compile(SOURCES, NAMES, target, &["--ptxas-options=-v"]).unwrap();
    assert!(cubin.bytes.starts_with(b"\x7fELF"));
    assert_eq!(cubin.names.len(), NAMES.len());
    let of = |lowered: &String| {
        let mut entries = report.split("entry function '");
        let entry = entries.find(|entry| entry.starts_with(&format!("{lowered}'")));
        let entry = entry.unwrap_or_else(|| panic!("{lowered}: {report}"));
        // Kernels without static shared memory have no number for it.
        RESOURCES.map(|(_, words)| {
            let before = entry.split_once(words).map_or("0", |(before, _)| before);
            let number = before.rsplit(|c: char| !c.is_ascii_digit()).next();
            number.unwrap_or_default().to_owned()
        })
    };
    cubin.names.iter().map(of).collect()
}

/// The table: a line for each kernel, with the five numbers for each architecture.
fn table() -> String {
    let all = ARCHITECTURES.map(resources);
    let mut text = format!(
        "# What the compiler (NVRTC {}.{}) reports for each kernel: registers of a thread, bytes of its stack, of its spill stores and of its spill loads, and\n\
         # bytes of static shared memory of a block. Written by tests/cuda_compile.rs: RAPID_TEST_WRITE=1.\n#\n",
        COMPILER.0, COMPILER.1
    );
    let mut line = |first: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
        let _ = writeln!(text, "{}", format!("{first:<38}{cells}").trim_end());
    };
    let titles = ARCHITECTURES.map(|number| {
        let mut titles = [const { String::new() }; 5];
        titles[0] = format!("sm_{number}");
        titles
    });
    line("#", titles.concat());
    let names = RESOURCES.map(|(name, _)| name.to_owned());
    line("# kernel", ARCHITECTURES.map(|_| names.clone()).concat());
    for (number, name) in NAMES.iter().enumerate() {
        let cells = all.iter().flat_map(|of| of[number].clone());
        line(name, cells.collect());
    }
    text
}

/// Registers limit how many blocks a multiprocessor runs at once, and a spill is a kernel's own traffic to memory.
#[test]
fn every_kernel_takes_the_registers_and_the_memory_of_the_table() {
    if !nvrtc() {
        return;
    }
    let version = compile::version().unwrap();
    if version != COMPILER {
        eprintln!(
            "SKIPPED: the registers of the CUDA kernels: the table is of NVRTC {}.{}, and this is {}.{}",
            COMPILER.0, COMPILER.1, version.0, version.1
        );
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/resources.txt");
    if std::env::var_os("RAPID_TEST_WRITE").is_some() {
        std::fs::write(&file, table()).unwrap();
        return;
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), NAMES.len());
    for (column, architecture) in ARCHITECTURES.into_iter().enumerate() {
        let what = format!("the registers of the CUDA kernels on sm_{architecture}");
        if column != ALWAYS && !long::long(&what) {
            continue;
        }
        for ((line, name), now) in lines.iter().zip(NAMES).zip(resources(architecture)) {
            let cells = line.strip_prefix(name).unwrap_or_default();
            let cells = cells.split_whitespace().skip(5 * column).take(5);
            assert_eq!(
                cells.collect::<Vec<_>>(),
                now,
                "{name} on sm_{architecture}: if this change is meant, write the table with RAPID_TEST_WRITE=1"
            );
        }
    }
}

#[test]
fn the_compiler_reports_its_architectures_and_where_an_error_is() {
    if !nvrtc() {
        return;
    }
    let known = compile::architectures().unwrap();
    assert!(known.contains(&80) && known.contains(&90), "{known:?}");
    let sources = [
        ("good.cu", "__global__ void good() {}\n"),
        ("bad.cu", "\n__global__ void bad() { nothing; }\n"),
    ];
    let error = compile(&sources, &["bad"], CompileTarget::Ptx(80), &[]).unwrap_err();
    assert!(error.contains("bad.cu(2)"), "{error}");
}
