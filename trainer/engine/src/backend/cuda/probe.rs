//! Detects a machine's GPUs, and whether the backend can use one, without opening it.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::fmt;

use cudarc::{cublaslt, driver::sys};
use sys::{CUdevice_attribute, CUresult};

use super::compile::{self, Target};
use super::driver::Fault;
use super::handles::{check_call, words};
use super::libraries;

/// A version, major and minor.
pub type Version = (u32, u32);

/// The lowest supported compute capability.
const MIN_CAPABILITY: Version = (compile::MIN_ARCH / 10, compile::MIN_ARCH % 10);
/// The lowest supported version of CUDA, for driver and libraries.
const MIN_CUDA: u32 = 12;

/// A GPU that can be used, and the software that it is used with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// A name that no other GPU has, on any machine.
    pub id: [u8; 16],
    /// Bytes of its memory.
    pub memory: u64,
    /// Its compute capability.
    pub capability: Version,
    /// The newest CUDA version that the driver supports.
    pub driver: Version,
    /// The driver's own version, if the system reports it.
    pub release: Option<String>,
    /// NVRTC's version.
    pub nvrtc: Version,
    /// cuBLASLt's version.
    pub cublaslt: Version,
    /// The compilation target of the kernels.
    pub target: Target,
    /// The driver's handle.
    pub(super) device: sys::CUdevice,
}

impl fmt::Display for GpuInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = |(major, minor): Version| format!("{major}.{minor}");
        let release = self.release.as_deref().unwrap_or_default();
        let space = if release.is_empty() { "" } else { " " };
        write!(
            f,
            "cuda:{}, {}, {:.1} GiB, compute capability {}, driver{space}{release} for CUDA {}, NVRTC {}, cuBLASLt {}",
            self.ordinal,
            self.name,
            self.memory as f64 / f64::from(1 << 30),
            version(self.capability),
            version(self.driver),
            version(self.nvrtc),
            version(self.cublaslt)
        )
    }
}

/// Why there is no GPU to compute with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// The machine has no GPU, or no driver for one.
    #[error("{0}")]
    None(String),
    /// There may be a GPU, but it cannot be used at present. The message contains the remedy.
    #[error("{0}")]
    Unusable(String),
}

impl From<String> for Absent {
    fn from(reason: String) -> Self {
        Self::Unusable(reason)
    }
}

/// Information about a GPU, by its number.
///
/// # Errors
/// Why it cannot be used. The message contains the remedy.
pub fn find(ordinal: usize) -> Result<GpuInfo, Absent> {
    libraries::driver().map_err(Absent::None)?;
    // SAFETY: this must be called before all other functions, and may be called again.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => {}
        CUresult::CUDA_ERROR_NO_DEVICE => {
            return Err(Absent::None("the NVIDIA driver sees no GPU".into()));
        }
        other => {
            let reason = format!("the NVIDIA driver does not start: {}", words(other));
            return Err(Absent::Unusable(reason));
        }
    }
    let mut count = 0;
    // SAFETY: it points to an int.
    as_text(check_call("report the number of GPUs", unsafe {
        sys::cuDeviceGetCount(&raw mut count)
    }))?;
    let device = match i32::try_from(ordinal) {
        Ok(n) if n < count => get(n)?,
        _ => return Err(no_such_gpu(ordinal, count).into()),
    };
    let name = name(device)?;
    let attribute = |which| attribute(device, which).map(|value| value as u32);
    let capability = (
        attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    check_capability(&name, capability)?;
    let (nvrtc, cublaslt) = (compile::version()?, cublaslt_version()?);
    let known = compile::architectures()?;
    let target = Target::of(10 * capability.0 + capability.1, &known).ok_or_else(|| {
        format!(
            "NVRTC {}.{} has no compilation target that {name} can run; {}",
            nvrtc.0,
            nvrtc.1,
            libraries::remedy()
        )
    })?;
    let driver = libraries::driver_version()?;
    check_versions(driver, nvrtc, cublaslt, target)?;
    Ok(GpuInfo {
        ordinal,
        name,
        id: unique_id(device)?,
        memory: memory(device)?,
        capability,
        driver,
        release: std::fs::read_to_string("/sys/module/nvidia/version")
            .ok()
            .map(|text| text.trim().to_owned()),
        nvrtc,
        cublaslt,
        target,
        device,
    })
}

fn as_text<T>(result: Result<T, Fault>) -> Result<T, String> {
    result.map_err(|fault| fault.to_string())
}

fn no_such_gpu(ordinal: usize, count: i32) -> String {
    match count {
        1 => format!("there is no cuda:{ordinal}: this machine has one GPU, cuda:0"),
        _ => format!(
            "there is no cuda:{ordinal}: this machine has {count} GPUs, cuda:0 to cuda:{}",
            count - 1
        ),
    }
}

fn check_capability(name: &str, capability: Version) -> Result<(), String> {
    if capability >= MIN_CAPABILITY {
        return Ok(());
    }
    Err(format!(
        "{name} is of compute capability {}.{}; the kernels need {}.{} or more: Ampere (2020) or later",
        capability.0, capability.1, MIN_CAPABILITY.0, MIN_CAPABILITY.1
    ))
}

/// Checks that a driver can load the libraries' output.
fn check_versions(
    driver: Version,
    nvrtc: Version,
    cublaslt: Version,
    target: Target,
) -> Result<(), String> {
    for (library, version) in [("NVRTC", nvrtc), ("cuBLASLt", cublaslt)] {
        if version.0 < MIN_CUDA {
            return Err(format!(
                "{library} {}.{} is too old: {MIN_CUDA}.0 or later is needed; {}. If the loader finds this one first, by its name without a version, \
                 remove it, or put a link of that name to the newer one into the first folder of LD_LIBRARY_PATH",
                version.0,
                version.1,
                libraries::remedy()
            ));
        }
    }
    let newest = nvrtc.0.max(cublaslt.0);
    let jit = matches!(target, Target::Ptx(_)) && driver < nvrtc;
    if driver.0 >= newest && !jit {
        return Ok(());
    }
    let needed = if jit { nvrtc } else { (newest, 0) };
    let release = match needed {
        (13, 0) => " (580 or later)",
        _ => "",
    };
    let mut error = format!(
        "the NVIDIA driver is too old: it is for CUDA {}.{}, and NVRTC is {}.{} and cuBLASLt {}.{}; install a driver for CUDA {}.{} or later{release}",
        driver.0, driver.1, nvrtc.0, nvrtc.1, cublaslt.0, cublaslt.1, needed.0, needed.1
    );
    if driver.0 == MIN_CUDA && !jit {
        error += ", or the libraries for this one: `pip install nvidia-cuda-nvrtc-cu12 nvidia-cublas-cu12`";
    }
    Err(error)
}

fn get(ordinal: i32) -> Result<sys::CUdevice, String> {
    let mut device = 0;
    // SAFETY: the device is writable.
    as_text(check_call("open", unsafe {
        sys::cuDeviceGet(&raw mut device, ordinal)
    }))?;
    Ok(device)
}

fn name(device: sys::CUdevice) -> Result<String, String> {
    let mut bytes: [c_char; 256] = [0; 256];
    // SAFETY: there is room for as many bytes as stated, and the last one stays 0.
    as_text(check_call("report its name", unsafe {
        sys::cuDeviceGetName(bytes.as_mut_ptr(), bytes.len() as i32 - 1, device)
    }))?;
    // SAFETY: the last byte at the latest is zero.
    let name = unsafe { CStr::from_ptr(bytes.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

fn memory(device: sys::CUdevice) -> Result<u64, String> {
    let mut bytes = 0;
    // SAFETY: the size is writable.
    as_text(check_call("report its memory", unsafe {
        sys::cuDeviceTotalMem_v2(&raw mut bytes, device)
    }))?;
    Ok(bytes as u64)
}

/// An attribute of a device.
pub(super) fn attribute(device: sys::CUdevice, which: CUdevice_attribute) -> Result<i32, String> {
    let mut value = 0;
    // SAFETY: it points to an int.
    as_text(check_call("report an attribute", unsafe {
        sys::cuDeviceGetAttribute(&raw mut value, which, device)
    }))?;
    Ok(value)
}

fn unique_id(device: sys::CUdevice) -> Result<[u8; 16], String> {
    let mut id = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the name is writable.
    as_text(check_call("report its name", unsafe {
        sys::cuDeviceGetUuid_v2(&raw mut id, device)
    }))?;
    Ok(id.bytes.map(|byte| byte as u8))
}

fn cublaslt_version() -> Result<Version, String> {
    libraries::cublaslt()?;
    // SAFETY: it only returns a number.
    let version = unsafe { cublaslt::sys::cublasLtGetVersion() } as u32;
    Ok((version / 10_000, version % 10_000 / 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUBIN: Target = Target::Cubin(90);

    #[test]
    fn a_driver_accepts_libraries_of_its_major_version() {
        for (driver, nvrtc, cublaslt) in [
            ((13, 0), (13, 0), (13, 0)),
            ((13, 0), (13, 5), (13, 1)),
            ((12, 4), (12, 9), (12, 9)),
            ((13, 0), (12, 8), (12, 9)),
        ] {
            assert_eq!(check_versions(driver, nvrtc, cublaslt, CUBIN), Ok(()));
        }
    }

    #[test]
    fn a_driver_that_is_too_old_is_an_error_with_two_remedies() {
        let error = check_versions((12, 4), (13, 0), (13, 0), CUBIN).unwrap_err();
        assert!(error.contains("it is for CUDA 12.4"), "{error}");
        assert!(error.contains("nvidia-cuda-nvrtc-cu12"), "{error}");
        let error = check_versions((12, 4), (12, 9), (13, 0), CUBIN).unwrap_err();
        assert!(error.contains("a driver for CUDA 13.0 or later"), "{error}");
    }

    #[test]
    fn ptx_requires_a_driver_as_new_as_the_compiler() {
        let ptx = Target::Ptx(120);
        assert_eq!(check_versions((13, 2), (13, 0), (13, 0), ptx), Ok(()));
        let error = check_versions((13, 0), (13, 2), (13, 0), ptx).unwrap_err();
        assert!(error.contains("a driver for CUDA 13.2 or later"), "{error}");
    }

    #[test]
    fn libraries_of_cuda_11_are_too_old() {
        let error = check_versions((13, 0), (11, 8), (13, 0), CUBIN).unwrap_err();
        assert!(error.contains("NVRTC 11.8 is too old"), "{error}");
    }

    #[test]
    fn an_old_gpu_is_rejected_with_its_name_and_capability() {
        assert_eq!(check_capability("NVIDIA A100", (8, 0)), Ok(()));
        let error = check_capability("Tesla V100", (7, 0)).unwrap_err();
        assert!(
            error.contains("Tesla V100 is of compute capability 7.0"),
            "{error}"
        );
    }

    #[test]
    fn a_gpu_number_beyond_the_last_is_an_error() {
        assert!(no_such_gpu(1, 1).contains("one GPU, cuda:0"));
        assert!(no_such_gpu(8, 8).contains("8 GPUs, cuda:0 to cuda:7"));
    }
}
