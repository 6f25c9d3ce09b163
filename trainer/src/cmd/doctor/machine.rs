//! Checks of the processor, the GPU, the memory, the cache folder and the libraries of runs with several ranks.

use std::fs;

use datasets::fetch;
use engine::Device;
use engine::backend::cuda::nccl;
use engine::backend::cuda::probe::Absent;
use trainer::launcher_env;

use super::Check;
use crate::cmd::args::DeviceArgs;
use crate::cmd::paragraph;

pub(super) fn checks(args: &DeviceArgs) -> Vec<Check> {
    let mut checks = vec![
        processor(),
        resources(),
        gpu(),
        device(args),
        Check::ok("products", args.settings().arithmetic()),
        cache_folder(),
        mpi(),
    ];
    checks.extend(nccl());
    checks
}

fn processor() -> Check {
    let name = field("/proc/cpuinfo", "model name");
    let name = name.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    #[cfg(target_arch = "x86_64")]
    if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") {
        return Check::warn(
            "processor",
            format!("{name}, without AVX2 and FMA"),
            "training works here, several times slower than on a processor made since 2014",
        );
    }
    Check::ok("processor", name)
}

/// Threads, memory and the instruction sets that affect the engine's speed, for a reader of the output.
fn resources() -> Check {
    const SETS: &str = "avx2 fma avx512f avx512_bf16 amx_bf16 asimd asimdhp";
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let gib = |name| {
        let kib = field("/proc/meminfo", name).unwrap_or_default();
        let kib: f64 = kib.trim_end_matches(" kB").parse().unwrap_or_default();
        kib / 1024.0 / 1024.0
    };
    let (free, all) = (gib("MemAvailable"), gib("MemTotal"));
    let features =
        ["flags", "Features"].map(|name| field("/proc/cpuinfo", name).unwrap_or_default());
    let features = features.concat();
    let has = |set: &&str| features.split(' ').any(|it| it == *set);
    let sets = SETS.split(' ').filter(has).collect::<Vec<_>>().join(" ");
    let found = format!("{threads} threads, {free:.1} GiB free of {all:.1}, {sets}");
    Check::ok("resources", found)
}

fn gpu() -> Check {
    match Device::gpu() {
        Ok(gpu) => Check::ok("gpu", gpu.to_string()),
        Err(Absent::None(reason)) => Check::ok("gpu", format!("none found: {reason}")),
        Err(Absent::Unusable(reason)) => Check::warn(
            "gpu",
            format!("none is usable: {reason}"),
            "until this is fixed, everything computes on the CPU",
        ),
    }
}

pub(super) fn device(args: &DeviceArgs) -> Check {
    match args.options().device.available() {
        Ok(name) => Check::ok("device", name),
        Err(error) => Check::fail("device", paragraph(&error.into()), remedy(&Device::gpu())),
    }
}

/// The remedy where the requested GPU is not available; `first` is the machine's first GPU.
fn remedy<T>(first: &Result<T, Absent>) -> &'static str {
    match first {
        Err(Absent::None(_)) => {
            "install NVIDIA's driver, 580 or later (525 or later with the libraries for CUDA 12); without a GPU, use --device cpu"
        }
        Err(Absent::Unusable(_)) => "until this is fixed, use --device cpu",
        Ok(_) => "use a GPU that exists, or --device cpu",
    }
}

fn cache_folder() -> Check {
    let home = fetch::home();
    let found = home.display().to_string();
    let tried = fs::create_dir_all(&home).and_then(|()| tempfile::tempfile_in(&home));
    match tried {
        Ok(_) => Check::ok("cache folder", found),
        Err(error) => Check::fail(
            "cache folder",
            format!("{found} cannot be written: {error}"),
            "set RAPID_HOME to a folder that you may write to",
        ),
    }
}

/// The library of runs with several ranks, which most machines do not need.
fn mpi() -> Check {
    match launcher_env::mpi_library() {
        Ok(Some(library)) => Check::ok("mpi", library),
        Ok(None) => Check::ok("mpi", "none found; only runs of several ranks need it"),
        Err(error) => Check::warn(
            "mpi",
            paragraph(&error.into()),
            "until this is fixed, start rapid without mpirun or srun",
        ),
    }
}

/// The library by which the GPUs of several ranks exchange. Few machines need it.
fn nccl() -> Option<Check> {
    match nccl::find() {
        Ok(library) => Some(Check::ok("nccl", library)),
        Err(why) if nccl::is_named() => Some(Check::warn(
            "nccl",
            why,
            "until this is fixed, GPUs exchange through the host's memory",
        )),
        Err(why) => Device::Cuda(0).available().is_ok().then(|| {
            let found = format!("{why}; only ranks with several GPUs need it");
            Check::ok("nccl", found)
        }),
    }
}

/// The value of the first `name: value` line of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}
