//! Compiles the kernels' sources with NVRTC, for the architecture of the device.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;

use super::handles::Owned;
use super::kernel_cache::{self, Image};
use super::kernels::Source;
use super::libraries;

/// The lowest architecture for which the kernels are written, compute capability 8.0.
pub const MIN_ARCH: u32 = 80;
/// Options besides the target's. Without warnings, a log begins with the error.
const OPTIONS: [&str; 3] = [
    "--std=c++17",
    "--device-as-default-execution-space",
    "--disable-warnings",
];
/// Maximum number of bytes of a compiler's log in an error.
const LOG: usize = 1500;

/// The compilation target. Architectures are compute capabilities without the point: 90 is 9.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileTarget {
    /// Machine code for this architecture. Any driver of the compiler's major version loads it, even with an older minor version.
    Cubin(u32),
    /// Code for a virtual architecture, which the driver compiles for its device. The driver must be at least as new as the compiler.
    Ptx(u32),
}

impl CompileTarget {
    /// The best target for a device and a compiler that knows these architectures: machine code if the device's is among them, else the newest PTX for the
    /// device.
    pub fn of(device: u32, known: &[u32]) -> Option<Self> {
        if known.contains(&device) {
            return Some(Self::Cubin(device));
        }
        let older = known
            .iter()
            .filter(|arch| (MIN_ARCH..device).contains(*arch));
        older.max().copied().map(Self::Ptx)
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
        sys::nvrtcVersion(&raw mut major, &raw mut minor).result()
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
        sys::nvrtcGetNumSupportedArchs(&raw mut count).result()
    })?;
    let mut architectures = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for the number of architectures that NVRTC reported.
    check(what, unsafe {
        sys::nvrtcGetSupportedArchs(architectures.as_mut_ptr()).result()
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
    target: CompileTarget,
) -> Result<Image, String> {
    let (major, minor) = version()?;
    let key = kernel_cache::key((major, minor, sources, names, target, OPTIONS));
    kernel_cache::cached(folder, &key, || {
        let began = std::time::Instant::now();
        let (image, _) = compile(sources, names, target, &[])?;
        tracing::info!(
            "compiled {} kernels in {:.1} s",
            names.len(),
            began.elapsed().as_secs_f64()
        );
        Ok(image)
    })
}

/// Like [`compiled`], without a folder, and with more options. Returns the compiler's log too.
///
/// # Errors
/// As for [`compiled`].
pub fn compile(
    sources: &[Source],
    names: &[&str],
    target: CompileTarget,
    more: &[&str],
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
            sys::nvrtcAddNameExpression(program.raw, expression.as_ptr()).result()
        })?;
    }
    let mut options = vec![match target {
        CompileTarget::Cubin(arch) => format!("--gpu-architecture=sm_{arch}"),
        CompileTarget::Ptx(arch) => format!("--gpu-architecture=compute_{arch}"),
    }];
    options.extend(OPTIONS.iter().chain(more).map(|of| (*of).to_owned()));
    program.compile(&options)?;
    let image = Image {
        bytes: program.code(target)?,
        names: expressions
            .iter()
            .map(|expression| program.lowered(expression))
            .collect::<Result<_, _>>()?,
    };
    Ok((image, program.log()))
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a kernel's source or name contains a zero byte".to_owned())
}

/// Turns an error of NVRTC into a message. `what` completes "NVRTC did not".
fn check<T>(what: &str, result: Result<T, NvrtcError>) -> Result<T, String> {
    result.map_err(|NvrtcError(code)| match code {
        sys::nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE => format!(
            "NVRTC does not find its libnvrtc-builtins.so, which must be beside libnvrtc.so: {}",
            libraries::remedy()
        ),
        other => format!("NVRTC did not {what}: {other:?}"),
    })
}

/// NVRTC's functions that return the size of the result, and the result itself.
type SizeOf = unsafe fn(sys::nvrtcProgram, *mut usize) -> sys::nvrtcResult;
type CodeOf = unsafe fn(sys::nvrtcProgram, *mut c_char) -> sys::nvrtcResult;

/// The sources of a program, and what they were compiled to.
type Program = Owned<sys::nvrtcProgram, NvrtcError>;

impl Program {
    fn new(text: &CStr) -> Result<Self, String> {
        let program = result::create_program(text, Some(c"kernels.cu"));
        let program = check("accept the kernels' sources", program)?;
        Ok(Self::of(program, result::destroy_program))
    }

    fn compile(&self, options: &[String]) -> Result<(), String> {
        // SAFETY: the program is alive.
        let result = unsafe { result::compile_program(self.raw, options) };
        if result == Err(NvrtcError(sys::nvrtcResult::NVRTC_ERROR_COMPILATION)) {
            let log = self.log();
            let end = log.floor_char_boundary(LOG);
            return Err(format!("the kernels do not compile: {}", log[..end].trim()));
        }
        check("compile the kernels", result)
    }

    fn log(&self) -> String {
        // SAFETY: the program is alive.
        let log = unsafe { result::get_program_log(self.raw) };
        match check("return its log", log) {
            Ok(log) => {
                let bytes: Vec<u8> = log.into_iter().map(|c| c as u8).collect();
                let text = String::from_utf8_lossy(&bytes);
                text.trim_end_matches('\0').to_owned()
            }
            Err(error) => error,
        }
    }

    /// Machine code, or PTX with its terminating zero.
    fn code(&self, target: CompileTarget) -> Result<Vec<u8>, String> {
        let (size_of, code_of): (SizeOf, CodeOf) = match target {
            CompileTarget::Cubin(_) => (sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN),
            CompileTarget::Ptx(_) => (sys::nvrtcGetPTXSize, sys::nvrtcGetPTX),
        };
        let what = "return what it compiled";
        let mut size = 0;
        // SAFETY: the program has been compiled, and the size is writable.
        check(what, unsafe { size_of(self.raw, &raw mut size) }.result())?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: there are as many bytes as NVRTC reported.
        let code = unsafe { code_of(self.raw, bytes.as_mut_ptr().cast()) };
        check(what, code.result())?;
        Ok(bytes)
    }

    fn lowered(&self, expression: &CStr) -> Result<String, String> {
        let mut name = std::ptr::null();
        // SAFETY: the program has been compiled with this expression, and the string pointer is writable.
        check("return a kernel's name", unsafe {
            sys::nvrtcGetLoweredName(self.raw, expression.as_ptr(), &raw mut name).result()
        })?;
        // SAFETY: the string lives as long as the program.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(name.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_device_gets_machine_code_and_a_newer_one_ptx() {
        let known = [75, 80, 86, 89, 90, 100, 120];
        for (device, target) in [
            (90, CompileTarget::Cubin(90)),
            (80, CompileTarget::Cubin(80)),
            (130, CompileTarget::Ptx(120)),
            (87, CompileTarget::Ptx(86)),
        ] {
            assert_eq!(CompileTarget::of(device, &known), Some(target), "{device}");
        }
        // There is no PTX for architectures below 8.0.
        assert_eq!(CompileTarget::of(80, &[75]), None);
    }
}
