//! Every kernel compiles for the architectures that it is written for, on a machine without a GPU, and takes the registers and the memory that
//! `kernels/resources.txt` lists.

use crate::long;

use std::fmt::Write as _;
use std::path::Path;

use engine::backend::cuda::compile::{self, Target, compile, compile_with_report};
use engine::backend::cuda::kernels::{NAMES, SOURCES};

/// The architectures: A100, H100 and H200, and the Blackwell of workstations.
const ARCHITECTURES: [u32; 3] = [80, 90, 120];
/// Position of the architecture whose machine code is compiled in every test run; that of the others takes another minute.
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
    // For the one that is left out, the other test compiles machine code.
    let other_test = compile::version().unwrap() == COMPILER;
    for architecture in ARCHITECTURES {
        if other_test && architecture == ARCHITECTURES[ALWAYS] {
            continue;
        }
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

/// What the compiler reports for a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Resources {
    registers: u32,
    stack: u32,
    spill_stores: u32,
    spill_loads: u32,
    shared: u32,
}

/// The resources of every kernel in machine code of an architecture, in the order of [`NAMES`].
fn resources(architecture: u32) -> Vec<Resources> {
    let (cubin, report) = compile_with_report(SOURCES, NAMES, architecture).unwrap();
    assert!(cubin.bytes.starts_with(b"\x7fELF"));
    assert_eq!(cubin.names.len(), NAMES.len());
    let of = |name: &String| Resources::of(&report, name);
    cubin.names.iter().map(of).collect()
}

impl Resources {
    fn numbers(&self) -> [String; 5] {
        [
            self.registers,
            self.stack,
            self.spill_stores,
            self.spill_loads,
            self.shared,
        ]
        .map(|n| n.to_string())
    }

    /// The resources of the kernel with this name in machine code.
    fn of(report: &str, lowered: &str) -> Self {
        let own = format!("entry function '{lowered}'");
        let lines: Vec<&str> = report
            .lines()
            .skip_while(|line| !line.contains(&own))
            .take_while(|line| !line.contains("entry function") || line.contains(&own))
            .collect();
        let number = |after: &str| {
            lines.iter().find_map(|line| {
                let mut words = line.split(&[' ', ','][..]).filter(|word| !word.is_empty());
                let words: Vec<&str> = words.by_ref().collect();
                let phrase: Vec<&str> = after.split(' ').collect();
                let at = words.windows(phrase.len()).position(|w| w == phrase)?;
                words[at.checked_sub(1)?].parse().ok()
            })
        };
        Self {
            registers: number("registers").unwrap_or_else(|| panic!("{lowered}: {report}")),
            stack: number("bytes stack frame").unwrap(),
            spill_stores: number("bytes spill stores").unwrap(),
            spill_loads: number("bytes spill loads").unwrap(),
            // Kernels without static shared memory have no such entry.
            shared: number("bytes smem").unwrap_or(0),
        }
    }
}

/// The table: a line for each kernel, with the five numbers for each architecture.
fn table() -> String {
    let all = ARCHITECTURES.map(resources);
    let mut text = format!(
        "# What the compiler (NVRTC {}.{}) reports for each kernel: registers of a thread, bytes of its stack, of its spill stores and of its spill loads, and\n\
         # bytes of static shared memory of a block. Written by tests/cuda_compile.rs: RAPID_TEST_WRITE=1.\n#\n",
        COMPILER.0, COMPILER.1
    );
    let names = ["registers", "stack", "stores", "loads", "shared"];
    let _ = write!(text, "{:<38}", "#");
    for architecture in ARCHITECTURES {
        let _ = write!(text, "{:>10}{:40}", format!("sm_{architecture}"), "");
    }
    let mut line = |first: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
        let _ = write!(text, "\n{first:<38}{cells}");
    };
    let titles = ARCHITECTURES.iter().flat_map(|_| names.map(str::to_owned));
    line("# kernel", &titles.collect::<Vec<_>>());
    for (number, name) in NAMES.iter().enumerate() {
        let cells = all.iter().flat_map(|of| of[number].numbers());
        line(name, &cells.collect::<Vec<_>>());
    }
    text.push('\n');
    text.lines()
        .fold(String::new(), |all, line| all + line.trim_end() + "\n")
}

/// Compares the table with the resources on the architecture of [`ALWAYS`].
fn compare_one(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let changed = format!(
        "{} is not what the compiler reports; if this is meant, write it with RAPID_TEST_WRITE=1",
        file.display()
    );
    assert_eq!(lines.len(), NAMES.len(), "{changed}");
    for ((line, name), now) in lines
        .iter()
        .zip(NAMES)
        .zip(resources(ARCHITECTURES[ALWAYS]))
    {
        let cells = line.strip_prefix(name).expect(&changed).split_whitespace();
        let committed: Vec<&str> = cells.skip(5 * ALWAYS).take(5).collect();
        assert_eq!(committed, now.numbers(), "{name}: {changed}");
    }
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
    let write = std::env::var_os("RAPID_TEST_WRITE").is_some();
    if !write && !long::long("the registers of the CUDA kernels on sm_80 and sm_120") {
        compare_one(&file);
        return;
    }
    let table = table();
    if write {
        std::fs::write(&file, &table).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap();
    let changed: Vec<_> = committed
        .lines()
        .zip(table.lines())
        .filter(|(committed, now)| committed != now)
        .collect();
    assert!(
        committed == table,
        "{} is not what the compiler reports; if this is meant, write it with RAPID_TEST_WRITE=1: {changed:#?}",
        file.display()
    );
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
