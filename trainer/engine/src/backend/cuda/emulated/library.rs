//! The kernels' sources compiled by g++ for this machine's processor, with the part of CUDA that `kernels/emulator.h` implements.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::super::driver::{Arg, Fault, Launch};
use super::super::{kernel_cache, kernels};

type Emulate =
    unsafe extern "C" fn(*const c_char, *const [u32; 3], u32, u32, *const *const c_void) -> c_int;
type Error = unsafe extern "C" fn() -> *const c_char;
type Falling = unsafe extern "C" fn(c_int);

/// The compiled kernels, which run on one thread at a time.
pub(super) struct Library {
    emulate: Emulate,
    error: Error,
    falling: Falling,
    running: Mutex<()>,
}

/// The process's library. The first call loads it from the cache folder, or compiles it, which takes most of a minute.
pub(super) fn library() -> Result<&'static Library, Fault> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let path = compiled(&kernel_cache::home().join("kernels"))?;
        Library::load(&path)
            .map_err(|error| format!("{} cannot be loaded: {error}", path.display()))
    });
    library
        .as_ref()
        .map_err(|error| Fault::Other(error.clone()))
}

impl Library {
    fn load(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: the library was compiled from this crate's sources, and exports these functions.
        unsafe {
            let library = libloading::Library::new(path)?;
            let emulate = *library.get::<Emulate>(b"emulate")?;
            let error = *library.get::<Error>(b"emulator_error")?;
            let falling = *library.get::<Falling>(b"emulator_falling")?;
            // It stays loaded.
            std::mem::forget(library);
            Ok(Self {
                emulate,
                error,
                falling,
                running: Mutex::new(()),
            })
        }
    }

    /// Runs a kernel. The threads of a block run from the last to the first if `falling`.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and its memory is allocated.
    pub(super) unsafe fn run(
        &self,
        kernel: &str,
        launch: Launch,
        args: &[Arg],
        falling: bool,
    ) -> Result<(), Fault> {
        let values: Vec<u64> = args.iter().map(|arg| arg.bits()).collect();
        let pointers: Vec<*const c_void> = values
            .iter()
            .map(|value| (&raw const *value).cast())
            .collect();
        let failed = |what: &str| Fault::Other(format!("the kernel {kernel}: {what}"));
        let name = CString::new(kernel).map_err(|_| failed("no such name"))?;
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller promises that these are the kernel's arguments. They are 8 bytes each, on a little-endian machine.
        let code = unsafe {
            (self.falling)(c_int::from(falling));
            (self.emulate)(
                name.as_ptr(),
                &raw const launch.grid,
                launch.block,
                launch.shared,
                pointers.as_ptr(),
            )
        };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text lives as long as the library, and no other kernel runs meanwhile.
        let message = unsafe { CStr::from_ptr((self.error)()) };
        Err(failed(&message.to_string_lossy()))
    }
}

/// The library's path in the folder. It is compiled once for each version of the sources.
fn compiled(folder: &Path) -> Result<PathBuf, String> {
    let mut program = String::from("#include \"emulator.h\"\n");
    for (name, _) in kernels::SOURCES {
        let _ = writeln!(program, "#include \"{name}\"");
    }
    for name in kernels::NAMES {
        let _ = writeln!(program, "KERNEL({name})");
    }
    program.push_str("#include \"emulator.cpp\"\n");
    let sources = kernels::SOURCES.iter().chain(kernels::EMULATOR);
    let key = kernel_cache::key((&program, kernels::SOURCES, kernels::EMULATOR));
    let library = folder.join(format!("emulated-{}.so", &key[..16]));
    if library.exists() {
        return Ok(library);
    }
    let io = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(io)?;
    let work = tempfile::tempdir_in(folder).map_err(io)?;
    for (name, text) in sources {
        fs::write(work.path().join(name), text).map_err(io)?;
    }
    let (source, object) = (work.path().join("all.cpp"), work.path().join("all.so"));
    fs::write(&source, program).map_err(io)?;
    let output = Command::new("g++")
        .args(["-std=c++17", "-O2", "-shared", "-fPIC", "-o"])
        .args([&object, &source])
        .output()
        .map_err(|error| {
            format!("g++, which compiles the kernels for the processor, cannot be run: {error}; on Debian or Ubuntu, apt-get install g++ installs it")
        })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("g++ does not compile the kernels: {message}"));
    }
    fs::rename(object, &library).map_err(io)?;
    Ok(library)
}
