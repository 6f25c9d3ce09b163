//! Kernels made of their sources by NVRTC, for the architecture of the device at hand.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;

use cudarc::nvrtc::sys;

use super::images::{self, Image};
use super::kernels::Source;
use super::libraries;

/// The least compute capability that the kernels are written for: 8.0.
pub const LEAST: u32 = 80;
/// Most of a compiler's log that an error repeats.
const LOG: usize = 1500;

/// What kernels are compiled to. Architectures are compute capabilities without the point: 90 is 9.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Machine code of this architecture. A driver of the compiler's major version loads it, be its minor version older.
    Cubin(u32),
    /// Code of a virtual architecture, which the driver compiles for its device; the driver must be as new as the compiler.
    Ptx(u32),
}

impl Target {
    /// What suits a device, of what a compiler knows: machine code where it knows the device; else, where the device is the newer of the two, the newest PTX that it can run.
    pub fn of(device: u32, known: &[u32]) -> Option<Self> {
        if known.contains(&device) {
            return Some(Self::Cubin(device));
        }
        let older = known.iter().filter(|arch| (LEAST..device).contains(*arch));
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
/// Where it is not there, with the remedy.
pub fn version() -> Result<(u32, u32), String> {
    libraries::nvrtc()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both point at an int.
    told("tell its version", unsafe {
        sys::nvrtcVersion(&raw mut major, &raw mut minor)
    })?;
    Ok((major as u32, minor as u32))
}

/// Architectures that NVRTC compiles for.
///
/// # Errors
/// Where it is not there, with the remedy.
pub fn architectures() -> Result<Vec<u32>, String> {
    libraries::nvrtc()?;
    let what = "tell its architectures";
    let mut count = 0;
    // SAFETY: points at an int.
    told(what, unsafe {
        sys::nvrtcGetNumSupportedArchs(&raw mut count)
    })?;
    let mut found = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for as many as it said.
    told(what, unsafe {
        sys::nvrtcGetSupportedArchs(found.as_mut_ptr())
    })?;
    Ok(found.into_iter().map(|arch| arch as u32).collect())
}

/// Compiles sources as one program, of which the kernels of the given names are wanted (`scale<float>`), or takes what the folder has of an earlier time.
///
/// # Errors
/// Where NVRTC is missing, or finds fault with the sources.
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
    images::kept(folder, &images::key(fields), || {
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

/// As [`compiled`], without a folder.
///
/// # Errors
/// As there.
pub fn compile(sources: &[Source], names: &[&str], target: Target) -> Result<Image, String> {
    libraries::nvrtc()?;
    let text: String = sources
        .iter()
        .map(|(name, text)| format!("#line 1 \"{name}\"\n{text}\n"))
        .collect();
    let program = Program::new(&c_string(&text)?)?;
    let expressions = names.iter().map(|name| c_string(name));
    let expressions = expressions.collect::<Result<Vec<_>, _>>()?;
    for expression in &expressions {
        // SAFETY: a program that was not compiled yet, and a string; NVRTC copies it.
        told("take a kernel's name", unsafe {
            sys::nvrtcAddNameExpression(program.0, expression.as_ptr())
        })?;
    }
    program.compile(target)?;
    Ok(Image {
        bytes: program.code(target)?,
        names: expressions
            .iter()
            .map(|expression| program.lowered(expression))
            .collect::<Result<_, _>>()?,
    })
}

fn options(target: Target) -> [String; 4] {
    [
        target.option(),
        "--std=c++17".into(),
        "--device-as-default-execution-space".into(),
        // So that a log begins with what is wrong.
        "--disable-warnings".into(),
    ]
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a kernel's source or name holds a zero byte".to_owned())
}

/// An error of NVRTC in words.
fn told(what: &str, result: sys::nvrtcResult) -> Result<(), String> {
    match result {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        sys::nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE => Err(format!(
            "NVRTC does not find its libnvrtc-builtins.so, which lies beside libnvrtc.so: {}",
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
        // SAFETY: a place for the program, two strings, which NVRTC copies, and no headers.
        told("take the kernels' sources", unsafe {
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

    fn compile(&self, target: Target) -> Result<(), String> {
        let options = options(target).map(|option| c_string(&option));
        let options = options.into_iter().collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: a program that lives, and as many strings as said.
        let result =
            unsafe { sys::nvrtcCompileProgram(self.0, pointers.len() as i32, pointers.as_ptr()) };
        if result == sys::nvrtcResult::NVRTC_ERROR_COMPILATION {
            let log = self.log();
            let end = log.floor_char_boundary(LOG);
            return Err(format!("the kernels do not compile: {}", log[..end].trim()));
        }
        told("compile the kernels", result)
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: a program that lives, and a place for a size.
        let sized = unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut size) };
        let mut bytes = vec![0_u8; size];
        if told("tell the size of its log", sized).is_err() || size == 0 {
            return String::new();
        }
        // SAFETY: there are as many bytes as it said.
        let read = unsafe { sys::nvrtcGetProgramLog(self.0, bytes.as_mut_ptr().cast()) };
        match told("tell its log", read) {
            Ok(()) => String::from_utf8_lossy(&bytes)
                .trim_end_matches('\0')
                .to_owned(),
            Err(error) => error,
        }
    }

    /// Machine code, or PTX with the zero at its end.
    fn code(&self, target: Target) -> Result<Vec<u8>, String> {
        let what = "give what it compiled";
        let mut size = 0;
        // SAFETY: a program that was compiled, and a place for a size.
        told(what, unsafe {
            match target {
                Target::Cubin(_) => sys::nvrtcGetCUBINSize(self.0, &raw mut size),
                Target::Ptx(_) => sys::nvrtcGetPTXSize(self.0, &raw mut size),
            }
        })?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: there are as many bytes as it said.
        told(what, unsafe {
            match target {
                Target::Cubin(_) => sys::nvrtcGetCUBIN(self.0, bytes.as_mut_ptr().cast()),
                Target::Ptx(_) => sys::nvrtcGetPTX(self.0, bytes.as_mut_ptr().cast()),
            }
        })?;
        Ok(bytes)
    }

    fn lowered(&self, expression: &CStr) -> Result<String, String> {
        let mut name = std::ptr::null();
        // SAFETY: a program that was compiled with this expression, and a place for a string.
        told("tell a kernel's name", unsafe {
            sys::nvrtcGetLoweredName(self.0, expression.as_ptr(), &raw mut name)
        })?;
        // SAFETY: a string that lives as long as the program.
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
        // No PTX of before 8.0.
        assert_eq!(Target::of(80, &[75]), None);
    }
}
