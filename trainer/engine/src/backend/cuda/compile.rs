//! Compiles the kernels' sources with NVRTC, for the architecture of the device.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;

use cudarc::nvrtc::sys;

use super::kernel_cache::{self, Image};
use super::kernels::Source;
use super::libraries;

/// The lowest architecture for which the kernels are written, compute capability 8.0.
pub const MIN_ARCH: u32 = 80;
/// Maximum number of bytes of a compiler's log in an error.
const LOG: usize = 1500;

/// The compilation target. Architectures are compute capabilities without the point: 90 is 9.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Machine code for this architecture. Any driver of the compiler's major version loads it, even with an older minor version.
    Cubin(u32),
    /// Code for a virtual architecture, which the driver compiles for its device. The driver must be at least as new as the compiler.
    Ptx(u32),
}

impl Target {
    /// The best target for a device, given the architectures that a compiler knows: machine code if it knows the device's, else the newest PTX that the device
    /// can run.
    pub fn of(device: u32, known: &[u32]) -> Option<Self> {
        if known.contains(&device) {
            return Some(Self::Cubin(device));
        }
        let older = known
            .iter()
            .filter(|arch| (MIN_ARCH..device).contains(*arch));
        older.max().copied().map(Self::Ptx)
    }

    fn option(self) -> String {
        match self {
            Self::Cubin(arch) => format!("--gpu-architecture=sm_{arch}"),
            Self::Ptx(arch) => format!("--gpu-architecture=compute_{arch}"),
        }
    }
}

/// NVRTC's version, major and minor.
///
/// # Errors
/// If NVRTC is not found. The message contains the remedy.
pub fn version() -> Result<(u32, u32), String> {
    libraries::nvrtc()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both point to an int.
    check("report its version", unsafe {
        sys::nvrtcVersion(&raw mut major, &raw mut minor)
    })?;
    Ok((major as u32, minor as u32))
}

/// The architectures that NVRTC compiles for.
///
/// # Errors
/// If NVRTC is not found. The message contains the remedy.
pub fn architectures() -> Result<Vec<u32>, String> {
    libraries::nvrtc()?;
    let what = "report its architectures";
    let mut count = 0;
    // SAFETY: it points to an int.
    check(what, unsafe {
        sys::nvrtcGetNumSupportedArchs(&raw mut count)
    })?;
    let mut architectures = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for the number of architectures that NVRTC reported.
    check(what, unsafe {
        sys::nvrtcGetSupportedArchs(architectures.as_mut_ptr())
    })?;
    Ok(architectures.into_iter().map(|arch| arch as u32).collect())
}

/// Compiles sources as one program with the kernels of the given names (such as `scale<float>`), or loads the result of an earlier compilation from the folder.
///
/// # Errors
/// If NVRTC is not found or rejects the sources.
pub fn compiled(
    folder: &Path,
    sources: &[Source],
    names: &[&str],
    target: Target,
) -> Result<Image, String> {
    let (major, minor) = version()?;
    let compiler = format!("NVRTC {major}.{minor}");
    let options = options(target);
    let count = [sources.len(), names.len()].map(|n| n.to_string());
    let fields = [compiler.as_str()].into_iter();
    let fields = fields.chain(count.iter().map(String::as_str));
    let fields = fields.chain(sources.iter().flat_map(|(name, text)| [*name, *text]));
    let fields = fields.chain(names.iter().copied());
    let fields = fields.chain(options.iter().map(String::as_str));
    kernel_cache::cached(folder, &kernel_cache::key(fields), || {
        let began = std::time::Instant::now();
        let image = compile(sources, names, target)?;
        tracing::info!(
            "compiled {} kernels in {:.1} s",
            names.len(),
            began.elapsed().as_secs_f64()
        );
        Ok(image)
    })
}

/// Like [`compiled`], without a folder.
///
/// # Errors
/// As for [`compiled`].
pub fn compile(sources: &[Source], names: &[&str], target: Target) -> Result<Image, String> {
    Ok(build(sources, names, target, &options(target))?.0)
}

/// Compiles sources to machine code, and returns the compiler's report of what each kernel takes: the lines that `ptxas --verbose` prints.
///
/// # Errors
/// As for [`compiled`].
pub fn compile_with_report(
    sources: &[Source],
    names: &[&str],
    architecture: u32,
) -> Result<(Image, String), String> {
    let target = Target::Cubin(architecture);
    let mut options = options(target).to_vec();
    options.push("--ptxas-options=-v".into());
    build(sources, names, target, &options)
}

/// Compiles sources; returns the image and the compiler's log.
fn build(
    sources: &[Source],
    names: &[&str],
    target: Target,
    options: &[String],
) -> Result<(Image, String), String> {
    libraries::nvrtc()?;
    let text: String = sources
        .iter()
        .map(|(name, text)| format!("#line 1 \"{name}\"\n{text}\n"))
        .collect();
    let program = Program::new(&c_string(&text)?)?;
    let expressions = names.iter().map(|name| c_string(name));
    let expressions = expressions.collect::<Result<Vec<_>, _>>()?;
    for expression in &expressions {
        // SAFETY: the program has not been compiled yet, and NVRTC copies the string.
        check("accept a kernel's name", unsafe {
            sys::nvrtcAddNameExpression(program.0, expression.as_ptr())
        })?;
    }
    program.compile(options)?;
    let image = Image {
        bytes: program.code(target)?,
        names: expressions
            .iter()
            .map(|expression| program.lowered(expression))
            .collect::<Result<_, _>>()?,
    };
    Ok((image, program.log()))
}

fn options(target: Target) -> [String; 4] {
    [
        target.option(),
        "--std=c++17".into(),
        "--device-as-default-execution-space".into(),
        // So that a log begins with the error.
        "--disable-warnings".into(),
    ]
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a kernel's source or name contains a zero byte".to_owned())
}

/// Turns an error of NVRTC into a message. `what` completes "NVRTC did not".
fn check(what: &str, result: sys::nvrtcResult) -> Result<(), String> {
    match result {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        sys::nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE => Err(format!(
            "NVRTC does not find its libnvrtc-builtins.so, which must be beside libnvrtc.so: {}",
            libraries::remedy()
        )),
        other => Err(format!("NVRTC did not {what}: {other:?}")),
    }
}

/// A program that is destroyed when it is dropped.
struct Program(sys::nvrtcProgram);

impl Program {
    fn new(text: &CStr) -> Result<Self, String> {
        let mut program = std::ptr::null_mut();
        // SAFETY: the program is writable, NVRTC copies both strings, and there are no headers.
        check("accept the kernels' sources", unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                text.as_ptr(),
                c"kernels.cu".as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            )
        })?;
        Ok(Self(program))
    }

    fn compile(&self, options: &[String]) -> Result<(), String> {
        let options = options.iter().map(|option| c_string(option));
        let options = options.collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is alive, and there are as many strings as stated.
        let result =
            unsafe { sys::nvrtcCompileProgram(self.0, pointers.len() as i32, pointers.as_ptr()) };
        if result == sys::nvrtcResult::NVRTC_ERROR_COMPILATION {
            let log = self.log();
            let end = log.floor_char_boundary(LOG);
            return Err(format!("the kernels do not compile: {}", log[..end].trim()));
        }
        check("compile the kernels", result)
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program is alive, and the size is writable.
        let sized = unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut size) };
        let mut bytes = vec![0_u8; size];
        if check("report the size of its log", sized).is_err() || size == 0 {
            return String::new();
        }
        // SAFETY: there are as many bytes as NVRTC reported.
        let read = unsafe { sys::nvrtcGetProgramLog(self.0, bytes.as_mut_ptr().cast()) };
        match check("return its log", read) {
            Ok(()) => String::from_utf8_lossy(&bytes)
                .trim_end_matches('\0')
                .to_owned(),
            Err(error) => error,
        }
    }

    /// Machine code, or PTX with its terminating zero.
    fn code(&self, target: Target) -> Result<Vec<u8>, String> {
        let what = "return what it compiled";
        let mut size = 0;
        // SAFETY: the program has been compiled, and the size is writable.
        check(what, unsafe {
            match target {
                Target::Cubin(_) => sys::nvrtcGetCUBINSize(self.0, &raw mut size),
                Target::Ptx(_) => sys::nvrtcGetPTXSize(self.0, &raw mut size),
            }
        })?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: there are as many bytes as NVRTC reported.
        check(what, unsafe {
            match target {
                Target::Cubin(_) => sys::nvrtcGetCUBIN(self.0, bytes.as_mut_ptr().cast()),
                Target::Ptx(_) => sys::nvrtcGetPTX(self.0, bytes.as_mut_ptr().cast()),
            }
        })?;
        Ok(bytes)
    }

    fn lowered(&self, expression: &CStr) -> Result<String, String> {
        let mut name = std::ptr::null();
        // SAFETY: the program has been compiled with this expression, and the string pointer is writable.
        check("return a kernel's name", unsafe {
            sys::nvrtcGetLoweredName(self.0, expression.as_ptr(), &raw mut name)
        })?;
        // SAFETY: the string lives as long as the program.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(name.to_string_lossy().into_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_device_gets_machine_code_and_a_newer_one_ptx() {
        let known = [75, 80, 86, 89, 90, 100, 120];
        assert_eq!(Target::of(90, &known), Some(Target::Cubin(90)));
        assert_eq!(Target::of(80, &known), Some(Target::Cubin(80)));
        assert_eq!(Target::of(130, &known), Some(Target::Ptx(120)));
        assert_eq!(Target::of(87, &known), Some(Target::Ptx(86)));
        // There is no PTX for architectures below 8.0.
        assert_eq!(Target::of(80, &[75]), None);
    }
}
