//! CPython in WebAssembly: metered, with a virtual clock, seeded randomness, no files but its library, and no network.
//!
//! The interpreter is warmed once (`warm`) and compiled once (`compiled`); each run is then a fresh copy-on-write instance (`guest`) in a
//! world of its own (`world`, `wasi`), which talks to the host through one door (`door`) in a conversation that the host leads
//! (`crate::protocol`, `judging`). The other end of that conversation is the harness, `guest/*.py`.

mod artifact;
mod compiled;
mod door;
mod engine;
mod guest;
mod judging;
mod run;
mod stop;
mod warm;
mod wasi;
mod world;

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use wasmtime::{Engine, InstancePre, Linker, Module};

use self::artifact::Artifact;
use self::compiled::Compiled;
use self::world::World;
use crate::protocol::{HARNESS, IMPORTS};
use crate::{Identity, SandboxError};

/// What a turn of a warmed guest runs.
const TURN: &str = "_rapid()";
/// What verdicts depend on besides the artifact and the harness: fuel's prices are wasmtime's, the world is `wasi`'s.
const HOST: &str = "wasmtime 48, world 1";

/// Runs programs in copies of one warmed interpreter. Runs are independent; make as many at a time as there are cores.
pub struct WasmSandbox {
    identity: Identity,
    program: InstancePre<World>,
    library: Arc<[u8]>,
}

impl WasmSandbox {
    /// Opens the sandbox over the folder that holds `python-snapshot.wasm` and `python-stdlib.zip`. The warmed module is loaded from
    /// `cache_dir/compiled`, or made there: once, in a minute or two, which `progress` is told in lines for people.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] where the artifact is missing or not what it should be, or the cache folder cannot be used.
    pub fn open(
        artifact_dir: &Path,
        cache_dir: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<WasmSandbox, SandboxError> {
        let artifact = Artifact::read(artifact_dir)?;
        let engine = engine::metered().map_err(|error| unusable(&error))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(artifact.digest().as_bytes());
        for part in [HARNESS, IMPORTS, warm::WARM, HOST] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let digest = hasher.finalize().to_hex().to_string();
        let module = module(&artifact, &engine, hasher, cache_dir, progress)?;
        let program = link(&engine, &module).map_err(|error| unusable(&error))?;
        Ok(WasmSandbox {
            identity: Identity {
                backend: "wasm".to_owned(),
                interpreter: "CPython 3.15.0 (wasm32-wasip1)".to_owned(),
                digest,
            },
            program,
            library: artifact.library,
        })
    }
}

/// Loads the compiled module, or warms the interpreter and compiles it.
fn module(
    artifact: &Artifact,
    engine: &Engine,
    contents: blake3::Hasher,
    cache: &Path,
    progress: &dyn Fn(&str),
) -> Result<Module, SandboxError> {
    let compiled = Compiled::open(cache)?;
    let mut hasher = Blake3(contents);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let name = hasher.0.finalize().to_hex()[..32].to_owned();
    if let Some(module) = compiled.load(&name, engine) {
        return Ok(module);
    }
    let lock = compiled.lock()?;
    // Another process may have made it while this one waited.
    if let Some(module) = compiled.load(&name, engine) {
        return Ok(module);
    }
    progress("preparing the Python sandbox: done once, in a minute or two");
    let warmed = warm::snapshot(&artifact.interpreter, &artifact.library, progress)
        .map_err(|error| unusable(&error))?;
    progress("preparing the Python sandbox: compiling the warmed interpreter (3 of 3)");
    let code = engine
        .precompile_module(&warmed)
        .map_err(|error| unusable(&error))?;
    drop(warmed);
    compiled.keep(&lock, &name, &code).map_err(|error| {
        SandboxError::Unusable(format!(
            "the compiled Python sandbox cannot be written to {} ({error}); make room for {} MiB there",
            cache.display(),
            (code.len() >> 20) + 1
        ))
    })?;
    compiled.load(&name, engine).ok_or_else(|| {
        SandboxError::Unusable(format!(
            "the compiled Python sandbox in {} cannot be read back; check the disk",
            cache.display()
        ))
    })
}

fn link(engine: &Engine, module: &Module) -> wasmtime::Result<InstancePre<World>> {
    let mut linker = Linker::new(engine);
    wasi::define(&mut linker)?;
    door::define(&mut linker)?;
    linker.instantiate_pre(module)
}

fn unusable(error: &wasmtime::Error) -> SandboxError {
    SandboxError::Unusable(format!(
        "the Python sandbox cannot be prepared ({error:#}); fetch it again with `rapid fetch sandbox:python-wasi`"
    ))
}

/// Lets what only implements `Hash` go into a BLAKE3.
struct Blake3(blake3::Hasher);

impl Hasher for Blake3 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_names_the_wasmtime_that_meters() {
        let lock = include_str!("../../../Cargo.lock");
        let at = lock
            .find("name = \"wasmtime\"\n")
            .expect("wasmtime is a dependency");
        let version = lock[at..].lines().nth(1).unwrap();
        let major = version.trim_start_matches("version = \"").split('.').next();
        assert!(
            HOST.starts_with(&format!("wasmtime {},", major.unwrap())),
            "{version}"
        );
    }
}
