//! Locates NVIDIA's libraries at run time: the driver's, NVRTC, cuBLASLt, and NVTX for profilers.
//!
//! The loader first searches its usual places (`LD_LIBRARY_PATH`, the system's folders). If it finds nothing, the folders of toolkits and Python packages are
//! tried. A library that was opened by its path is later found by its name.

#![allow(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::{cublaslt, driver, nvrtc};
use libloading::Library;

use super::kernel_cache::{self, variable};

/// Supported major versions of CUDA, the preferred one first. The loader is given these names.
const VERSIONS: [u32; 2] = [13, 12];

/// The lowest supported major version of CUDA, for driver and libraries. cudarc panics if it calls a function that a library lacks. All functions called here
/// are in every library of this version. Older libraries are only asked for their version.
pub(super) const MIN_CUDA: u32 = VERSIONS[1];

/// Checks for the driver's library, which no package contains.
pub(super) fn driver() -> Result<(), String> {
    static FOUND: OnceLock<bool> = OnceLock::new();
    // SAFETY: loading one of NVIDIA's libraries runs its initialisers, which have no requirements. This holds wherever one is loaded here.
    match FOUND.get_or_init(|| unsafe { driver::sys::is_culib_present() }) {
        true => Ok(()),
        false => Err("no NVIDIA driver is installed: libcuda.so.1 is not found".to_owned()),
    }
}

/// The newest CUDA version that the driver supports, major and minor.
pub(super) fn driver_version() -> Result<(u32, u32), String> {
    driver()?;
    let mut version = 0;
    // SAFETY: it points to an int; the call is allowed before the driver is started.
    let status = unsafe { driver::sys::cuDriverGetVersion(&raw mut version) };
    match (status.result(), u32::try_from(version)) {
        (Ok(()), Ok(version)) => Ok((version / 1000, version % 1000 / 10)),
        _ => Err(format!(
            "the NVIDIA driver does not report its version: {status:?}"
        )),
    }
}

/// Versions with output that the driver can load, if there is a driver.
fn versions() -> impl Iterator<Item = u32> {
    let newest = driver_version().map_or(VERSIONS[0], |(major, _)| major);
    let usable = move |version: &u32| *version <= newest;
    VERSIONS.into_iter().filter(usable)
}

/// The version to install, which suits the driver.
fn version() -> u32 {
    versions().next().unwrap_or(VERSIONS[1])
}

/// How to install NVRTC and cuBLASLt.
pub(super) fn remedy() -> String {
    let version = version();
    let suffix = match version {
        12 => "-cu12",
        _ => "",
    };
    format!(
        "`pip install nvidia-cuda-nvrtc{suffix} nvidia-cublas{suffix}` installs NVRTC and cuBLASLt; if they are installed elsewhere, add to LD_LIBRARY_PATH the folders of \
         libnvrtc.so.{version} (with libnvrtc-builtins.so beside it) and libcublasLt.so.{version}"
    )
}

/// Loads NVRTC, with its builtins.
pub(super) fn nvrtc() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    let present = nvrtc::sys::is_culib_present;
    let builtins = Some("libnvrtc-builtins.so");
    let load = || load("NVRTC", "libnvrtc.so", builtins, present);
    FOUND.get_or_init(load).clone()
}

pub(super) fn cublaslt() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    let present = cublaslt::sys::is_culib_present;
    let load = || load("cuBLASLt", "libcublasLt.so", None, present);
    FOUND.get_or_init(load).clone()
}

/// cuBLASLt's version, major and minor.
pub(super) fn cublaslt_version() -> Result<(u32, u32), String> {
    cublaslt()?;
    // SAFETY: it only returns a number.
    let version = unsafe { cublaslt::sys::cublasLtGetVersion() } as u32;
    Ok((version / 10_000, version % 10_000 / 100))
}

/// Loads a library, unless the loader finds it by itself.
fn load(
    what: &str,
    name: &str,
    beside: Option<&str>,
    present: unsafe fn() -> bool,
) -> Result<(), String> {
    // SAFETY: as in `driver`.
    let present = || unsafe { present() };
    if !present() {
        open_by_path(name, beside);
    }
    match present() {
        true => Ok(()),
        false => Err(format!(
            "{what} ({name}.{}) is not found, neither by the loader nor in $CUDA_HOME, /usr/local/cuda and the packages of python3; {}",
            version(),
            remedy()
        )),
    }
}

/// Loads NVTX's library for programs that are not written in C, by its names in CUDA 13 and 12. It stays loaded until the process exits.
pub(super) fn nvtx() -> Result<&'static Library, String> {
    static FOUND: OnceLock<Option<Library>> = OnceLock::new();
    const NAMES: [&str; 2] = ["libnvtx3interop.so.1", "libnvToolsExt.so.1"];
    let library = FOUND.get_or_init(|| {
        let mut paths = NAMES.iter().flat_map(|name| candidates(name));
        paths.find_map(|path| open(&path))
    });
    library.as_ref().ok_or_else(|| {
        format!(
            "NVTX ({}) is not found, so the profiler receives no ranges; `pip install nvidia-nvtx` installs it",
            NAMES[0]
        )
    })
}

/// Where a library with this name may be: where the loader looks, and the folders of toolkits and Python packages.
pub(super) fn candidates(name: &str) -> Vec<PathBuf> {
    let inside = folders().into_iter().map(|folder| folder.join(name));
    std::iter::once(PathBuf::from(name)).chain(inside).collect()
}

/// The command that installs NCCL.
pub(super) fn nccl_package() -> String {
    format!("`pip install nvidia-nccl-cu{}`", version())
}

/// Opens a library from one of the folders, in the preferred version that the driver supports, and the library `beside` it. Both stay loaded until the process
/// exits.
fn open_by_path(name: &str, beside: Option<&str>) {
    let folders = folders();
    for version in versions() {
        let file = format!("{name}.{version}");
        for folder in folders.iter().filter(|folder| folder.join(&file).is_file()) {
            if let Some(beside) = beside {
                // When NVRTC compiles, it opens its builtins by a name with a version. Only the file's name contains that version.
                let prefix = format!("{beside}.{version}");
                for other in names_in(folder).filter(|other| other.starts_with(&prefix)) {
                    open_forever(&folder.join(other));
                }
            }
            if open_forever(&folder.join(&file)) {
                return;
            }
        }
    }
}

/// Opens a library and never closes it. Returns whether it could be opened.
fn open_forever(path: &Path) -> bool {
    open(path).map(std::mem::forget).is_some()
}

pub(super) fn open(path: &Path) -> Option<Library> {
    // SAFETY: as in `driver`.
    let opened = unsafe { Library::new(path) };
    match &opened {
        Ok(_) => tracing::debug!("loaded {}", path.display()),
        Err(error) => tracing::debug!("{} cannot be loaded: {error}", path.display()),
    }
    opened.ok()
}

/// Folders of libraries of toolkits and Python packages, in the order in which they are tried.
fn folders() -> Vec<PathBuf> {
    let mut folders = wheels(&kernel_cache::home().join("cuda"));
    for toolkit in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable) {
        folders.push(toolkit.join("lib64"));
    }
    folders.push("/usr/local/cuda/lib64".into());
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(variable)
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut pythons = std::env::split_paths(&path).map(|folder| folder.join("python3"));
    let python = pythons.find(|python| python.exists());
    prefixes.extend(python.iter().flat_map(|python| python_prefixes(python)));
    prefixes.extend(std::env::home_dir().map(|home| home.join(".local")));
    prefixes.extend(["/usr/local".into(), "/usr".into()]);
    for prefix in prefixes {
        folders.extend(packages(&prefix).iter().flat_map(|folder| wheels(folder)));
        folders.push(prefix.join("lib"));
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Maximum number of links to follow from a python3.
const MAX_LINKS: usize = 40;

/// The prefixes of a python3 and of what it is a link to, link by link. For example, it may be a link to an environment's python3, and that to the system's:
/// three prefixes.
fn python_prefixes(python: &Path) -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = Vec::new();
    let mut python = python.to_owned();
    for _ in 0..MAX_LINKS {
        let bin = python.parent().map(Path::to_owned).unwrap_or_default();
        // `bin` may be a link, too: `..` is then not its parent.
        let folders = [Some(bin.clone()), bin.canonicalize().ok()];
        for parent in folders.iter().flatten().filter_map(|bin| bin.parent()) {
            let prefix = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
            if !prefixes.contains(&prefix) {
                prefixes.push(prefix);
            }
        }
        match fs::read_link(&python) {
            Ok(target) => python = bin.join(target),
            Err(_) => break,
        }
    }
    prefixes
}

/// Folders of Python packages under a prefix.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    names_in(&lib)
        .filter(|name| name.starts_with("python3"))
        .flat_map(|name| ["site-packages", "dist-packages"].map(|kind| lib.join(&name).join(kind)))
        .collect()
}

/// Folders of libraries that NVIDIA's packages have installed in a folder of packages: `nvidia/cu13/lib`, `nvidia/cublas/lib` and so on.
fn wheels(packages: &Path) -> Vec<PathBuf> {
    let nvidia = packages.join("nvidia");
    names_in(&nvidia)
        .map(|name| nvidia.join(name).join("lib"))
        .filter(|folder| folder.is_dir())
        .collect()
}

/// Names of the entries of a folder, sorted; none if the folder does not exist.
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

    #[test]
    fn python_packages_are_searched() {
        let prefix = tempfile::tempdir().unwrap();
        let lib = "lib/python3.12/site-packages/nvidia/cu13/lib";
        fs::create_dir_all(prefix.path().join(lib)).unwrap();
        fs::create_dir_all(prefix.path().join("lib/other")).unwrap();
        let packages = packages(prefix.path());
        assert_eq!(packages.len(), 2, "{packages:?}");
        let folders: Vec<_> = packages.iter().flat_map(|folder| wheels(folder)).collect();
        assert_eq!(folders, [prefix.path().join(lib)]);
    }

    #[cfg(unix)]
    #[test]
    fn an_environment_is_found_through_a_link_to_its_python() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in ["system/bin", "venv/bin", "home/bin"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("system/bin/python3.12"), "").unwrap();
        symlink("python3.12", at("system/bin/python3")).unwrap();
        symlink(at("system/bin/python3"), at("venv/bin/python3")).unwrap();
        symlink("../../venv/bin/python3", at("home/bin/python3")).unwrap();
        let lib = "venv/lib/python3.12/site-packages/nvidia/cu13/lib";
        fs::create_dir_all(at(lib)).unwrap();
        let prefixes = python_prefixes(&at("home/bin/python3"));
        let folders = prefixes.iter().flat_map(|prefix| packages(prefix));
        let libraries: Vec<PathBuf> = folders.flat_map(|folder| wheels(&folder)).collect();
        let libraries: Vec<_> = libraries
            .iter()
            .map(|lib| lib.canonicalize().unwrap())
            .collect();
        assert_eq!(libraries, [at(lib).canonicalize().unwrap()]);
        assert!(prefixes.iter().any(|prefix| prefix.ends_with("system")));
    }
}
