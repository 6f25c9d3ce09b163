//! NVIDIA's libraries, which are found at run time: the driver's, NVRTC, cuBLASLt, and NVTX for profilers.
//!
//! The loader looks where it always does (`LD_LIBRARY_PATH`, the system's folders). Where it finds nothing, the places are tried in which toolkits and Python packages
//! put them: a library that was opened by its path is found by its name afterwards, by whoever asks.

#![allow(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::{cublaslt, driver, nvrtc};
use libloading::Library;

/// Major versions of CUDA whose libraries are used, the preferred first; the loader is asked for these names.
const VERSIONS: [u32; 2] = [13, 12];

/// What the backend calls of each library. One that lacks any of it is too old.
const DRIVER: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD32Async",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
];
const NVRTC: &[&str] = &[
    "nvrtcAddNameExpression",
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetLoweredName",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetPTX",
    "nvrtcGetPTXSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];
const CUBLASLT: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtGetVersion",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
];

/// Makes sure of the driver's library, which no package brings.
pub(super) fn driver() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            // SAFETY: loading NVIDIA's libraries runs their initialisers, which ask nothing of us; that is so wherever one is loaded here.
            if !unsafe { driver::sys::is_culib_present() } {
                return Err("no NVIDIA driver is installed: libcuda.so.1 is not found".to_owned());
            }
            // SAFETY: as above; it is there, so this does not panic.
            let library = unsafe { driver::sys::culib() };
            complete(library, DRIVER)
                .map_err(|lacks| format!("the NVIDIA driver is too old: it lacks {lacks}"))
        })
        .clone()
}

/// The newest CUDA that the driver is for, major and minor.
pub(super) fn driver_version() -> Result<(u32, u32), String> {
    driver()?;
    let mut version = 0;
    // SAFETY: points at an int; this may be asked before the driver is started.
    let told = unsafe { driver::sys::cuDriverGetVersion(&raw mut version) };
    match (told, u32::try_from(version)) {
        (driver::sys::CUresult::CUDA_SUCCESS, Ok(version)) => {
            Ok((version / 1000, version % 1000 / 10))
        }
        (other, _) => Err(format!(
            "the NVIDIA driver does not tell its version: {other:?}"
        )),
    }
}

/// Versions that the driver can load what is made by, where there is one.
fn versions() -> impl Iterator<Item = u32> {
    let newest = driver_version().map_or(VERSIONS[0], |(major, _)| major);
    let usable = move |version: &u32| *version <= newest;
    VERSIONS.into_iter().filter(usable)
}

/// What brings NVRTC and cuBLASLt, of a version that suits the driver.
pub(super) fn remedy() -> String {
    remedy_of(versions().next().unwrap_or(VERSIONS[1]))
}

fn remedy_of(version: u32) -> String {
    let suffix = match version {
        12 => "-cu12",
        _ => "",
    };
    format!(
        "`pip install nvidia-cuda-nvrtc{suffix} nvidia-cublas{suffix}` brings NVRTC and cuBLASLt; where they lie elsewhere, let LD_LIBRARY_PATH name the folders of \
         libnvrtc.so.{version} (with libnvrtc-builtins.so beside it) and libcublasLt.so.{version}"
    )
}

/// Makes sure of NVRTC, with its builtins.
pub(super) fn nvrtc() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            // SAFETY: as in `driver`.
            let present = || unsafe { nvrtc::sys::is_culib_present() };
            if !present() {
                open_by_path("libnvrtc.so", Some("libnvrtc-builtins.so"));
            }
            if !present() {
                return Err(missing("NVRTC", "libnvrtc.so"));
            }
            // SAFETY: as in `driver`.
            complete(unsafe { nvrtc::sys::culib() }, NVRTC).map_err(|lacks| {
                format!("the NVRTC found is too old: it lacks {lacks}; {}", remedy())
            })
        })
        .clone()
}

/// Makes sure of cuBLASLt.
pub(super) fn cublaslt() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            // SAFETY: as in `driver`.
            let present = || unsafe { cublaslt::sys::is_culib_present() };
            if !present() {
                open_by_path("libcublasLt.so", None);
            }
            if !present() {
                return Err(missing("cuBLASLt", "libcublasLt.so"));
            }
            // SAFETY: as in `driver`.
            complete(unsafe { cublaslt::sys::culib() }, CUBLASLT).map_err(|lacks| {
                format!(
                    "the cuBLASLt found is too old: it lacks {lacks}; {}",
                    remedy()
                )
            })
        })
        .clone()
}

/// NVTX's library for programs that are not written in C, by the names that CUDA 13 and 12 have for it; as long as the process lives.
pub(super) fn nvtx() -> Result<&'static Library, String> {
    static FOUND: OnceLock<Option<Library>> = OnceLock::new();
    const NAMES: [&str; 2] = ["libnvtx3interop.so.1", "libnvToolsExt.so.1"];
    let found = FOUND.get_or_init(|| {
        let folders = folders();
        let paths = NAMES.iter().flat_map(|name| {
            let inside = folders.iter().map(move |folder| folder.join(name));
            std::iter::once(PathBuf::from(name)).chain(inside)
        });
        paths.into_iter().find_map(|path| open(&path))
    });
    found.as_ref().ok_or_else(|| {
        format!(
            "NVTX ({}) is not found, so the profiler is told of no ranges; `pip install nvidia-nvtx` brings it",
            NAMES[0]
        )
    })
}

/// Whether a library has all of the names; the first that it lacks. cudarc panics where one is called that is not there.
fn complete(library: &Library, names: &'static [&'static str]) -> Result<(), &'static str> {
    let lacks = names.iter().find(|name| {
        // SAFETY: the symbol is only looked up.
        unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err()
    });
    lacks.map_or(Ok(()), |name| Err(name))
}

fn missing(what: &str, library: &str) -> String {
    let version = versions().next().unwrap_or(VERSIONS[1]);
    format!(
        "{what} ({library}.{version}) is not found, neither by the loader nor in $CUDA_HOME, /usr/local/cuda and the packages of python3; {}",
        remedy_of(version)
    )
}

/// Opens the library of the preferred version that the driver can do with and one of the folders has, and what lies beside it, for as long as the process lives.
fn open_by_path(name: &str, beside: Option<&str>) {
    let folders = folders();
    for version in versions() {
        let file = format!("{name}.{version}");
        for folder in folders.iter().filter(|folder| folder.join(&file).is_file()) {
            if let Some(beside) = beside {
                // NVRTC opens its builtins when it compiles, by a name with a version that only the file tells.
                let prefix = format!("{beside}.{version}");
                for other in names_in(folder).filter(|other| other.starts_with(&prefix)) {
                    keep(&folder.join(other));
                }
            }
            if keep(&folder.join(&file)) {
                return;
            }
        }
    }
}

/// Opens a library and never closes it. Whether it could be opened.
fn keep(path: &Path) -> bool {
    open(path).map(std::mem::forget).is_some()
}

fn open(path: &Path) -> Option<Library> {
    // SAFETY: as in `driver`.
    let opened = unsafe { Library::new(path) };
    match &opened {
        Ok(_) => tracing::debug!("loaded {}", path.display()),
        Err(error) => tracing::debug!("{} cannot be loaded: {error}", path.display()),
    }
    opened.ok()
}

/// Where toolkits and Python packages put libraries, in the order in which they are tried.
fn folders() -> Vec<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let mut found = wheels(&super::images::home().join("cuda"));
    for toolkit in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable) {
        found.push(toolkit.join("lib64"));
    }
    found.push("/usr/local/cuda/lib64".into());
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(variable)
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let python = std::env::split_paths(&path).find(|folder| folder.join("python3").exists());
    prefixes.extend(python.and_then(|bin| bin.parent().map(Path::to_owned)));
    prefixes.extend(std::env::home_dir().map(|home| home.join(".local")));
    prefixes.extend(["/usr/local".into(), "/usr".into()]);
    for prefix in prefixes {
        found.extend(packages(&prefix).iter().flat_map(|folder| wheels(folder)));
        found.push(prefix.join("lib"));
    }
    found.retain(|folder| folder.is_dir());
    found
}

/// Folders of Python's packages under a prefix.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    names_in(&lib)
        .filter(|name| name.starts_with("python3"))
        .flat_map(|name| ["site-packages", "dist-packages"].map(|kind| lib.join(&name).join(kind)))
        .collect()
}

/// Folders of libraries that NVIDIA's packages have put into a folder of packages: `nvidia/cu13/lib`, `nvidia/cublas/lib` and so on.
fn wheels(packages: &Path) -> Vec<PathBuf> {
    let nvidia = packages.join("nvidia");
    names_in(&nvidia)
        .map(|name| nvidia.join(name).join("lib"))
        .filter(|folder| folder.is_dir())
        .collect()
}

/// Names in a folder, in order; none where it is not there.
fn names_in(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of one library that sources call as `sys::NAME(`.
    fn called<'a>(sources: &[&'a str], prefix: &str) -> Vec<&'a str> {
        let mut names: Vec<&str> = sources
            .iter()
            .flat_map(|source| source.split("sys::").skip(1))
            .filter_map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
                let name = &rest[..end];
                let own = name.strip_prefix(prefix)?;
                let is_function = own.starts_with(|c: char| c.is_ascii_uppercase());
                (is_function && rest[end..].starts_with('(')).then_some(name)
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    #[test]
    fn what_is_called_is_what_is_asked_for() {
        let sources = [
            include_str!("compile.rs"),
            include_str!("device.rs"),
            include_str!("handles.rs"),
            include_str!("libraries.rs"),
            include_str!("probe.rs"),
            include_str!("products.rs"),
            include_str!("staging.rs"),
        ];
        assert_eq!(called(&sources, "cu"), DRIVER);
        assert_eq!(called(&sources, "nvrtc"), NVRTC);
        assert_eq!(called(&sources, "cublasLt"), CUBLASLT);
    }

    #[test]
    fn packages_of_python_are_looked_through() {
        let prefix = tempfile::tempdir().unwrap();
        let lib = "lib/python3.12/site-packages/nvidia/cu13/lib";
        fs::create_dir_all(prefix.path().join(lib)).unwrap();
        fs::create_dir_all(prefix.path().join("lib/other")).unwrap();
        let packages = packages(prefix.path());
        assert_eq!(packages.len(), 2, "{packages:?}");
        let found: Vec<_> = packages.iter().flat_map(|folder| wheels(folder)).collect();
        assert_eq!(found, [prefix.path().join(lib)]);
    }

    #[test]
    fn what_is_missing_is_said_with_the_remedy() {
        let words = missing("NVRTC", "libnvrtc.so");
        assert!(words.contains("libnvrtc.so.1") && words.contains("pip install"));
        assert!(remedy_of(13).contains("nvidia-cuda-nvrtc nvidia-cublas`"));
        let older = remedy_of(12);
        assert!(older.contains("nvidia-cuda-nvrtc-cu12 nvidia-cublas-cu12`"));
        assert!(older.contains("libcublasLt.so.12"), "{older}");
    }
}
