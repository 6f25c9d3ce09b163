//! CPython in WebAssembly: metered, with a virtual clock, seeded randomness, no files except its library, and no network.
//!
//! The interpreter is warmed once (`warm`) and compiled once (`compiled`). Each run is then a fresh copy-on-write instance (`guest`) with a store of its own
//! (`store_data`, `wasi`). Only an instance that parses texts, and runs no part of them, stays for further texts (`parsing_instance`). An instance talks to the host through one import
//! (`host_call`) in a conversation that the host controls (`crate::protocol`, `instance_pair`). The other end of that conversation is the harness, `guest/*.py`.
//!
//! The files `store_data`, `host_call`, `instance_pair`, `guest`, `fuel` and `wasi` import each other in a cycle, unlike all other files of this crate. The reason is
//! wasmtime: it gives every imported function access to the store's data, `StoreData`. The value that answers a guest is part of this data. It may contain another
//! guest, with a store of its own.

mod artifact;
mod compiled;
mod engine;
mod fuel;
mod guest;
mod host_call;
mod instance_pair;
mod meter;
mod parsing_instance;
mod recursion;
mod run;
mod store_data;
mod termination;
mod warm;
mod wasi;

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wasmtime::{Engine, InstancePre, Linker, Module};

use self::artifact::Artifact;
use self::compiled::Compiled;
use self::parsing_instance::ParsingInstance;
use self::store_data::StoreData;
use crate::idle_parsers::IdleParsers;
use crate::protocol::{HARNESS, IMPORTS};
use crate::{Identity, SandboxError};

/// The source that a turn of a warmed guest runs.
const TURN: &str = "_rapid()";
/// The versions of everything that verdicts depend on, except the artifact and the harness. They are the world that a guest sees (`wasi`), the prices of fuel (`meter`
/// and the conversation), and the maximum recursion (`recursion`). Increase them when one of these changes, or when the conversation accepts other answers.
const HOST: &str = "world 1, prices 6, stack 4 MiB";

/// Runs programs in copies of one warmed interpreter. Runs are independent; start as many at a time as there are cores.
pub struct WasmSandbox {
    identity: Identity,
    program: InstancePre<StoreData>,
    library: Arc<[u8]>,
    idle_parsers: IdleParsers<ParsingInstance>,
}

impl WasmSandbox {
    /// Opens the sandbox from the folder with `python-snapshot.wasm` and `python-stdlib.zip`. The warmed module is loaded from `cache_dir/compiled`, or built there
    /// once, in a minute or two. `progress` gets lines about this for people to read.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] if the artifact is missing or damaged, or the cache folder cannot be used.
    pub fn open(
        artifact_dir: &Path,
        cache_dir: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<WasmSandbox, SandboxError> {
        let parts = Parts::read(artifact_dir, cache_dir)?;
        let module = match parts.load() {
            Some(module) => module,
            None => parts.make(progress)?,
        };
        parts.sandbox(&module)
    }

    /// As [`WasmSandbox::open`] if the warmed module exists; `None` if it is not built yet.
    ///
    /// # Errors
    /// As [`WasmSandbox::open`].
    pub fn load(
        artifact_dir: &Path,
        cache_dir: &Path,
    ) -> Result<Option<WasmSandbox>, SandboxError> {
        let parts = Parts::read(artifact_dir, cache_dir)?;
        let module = parts.load();
        module.map(|module| parts.sandbox(&module)).transpose()
    }
}

/// The parts of a sandbox.
struct Parts {
    /// The artifact's folder.
    folder: PathBuf,
    artifact: Artifact,
    engine: Engine,
    digest: String,
    compiled: Compiled,
    /// The compiled module's name.
    name: String,
}

impl Parts {
    fn read(artifact_dir: &Path, cache_dir: &Path) -> Result<Parts, SandboxError> {
        let artifact = Artifact::read(artifact_dir)?;
        let engine = engine::running().map_err(|error| unusable(artifact_dir, &error))?;
        let mut contents = blake3::Hasher::new();
        contents.update(artifact.digest().as_bytes());
        for part in [HARNESS, IMPORTS, warm::WARM, HOST] {
            contents.update(&(part.len() as u64).to_le_bytes());
            contents.update(part.as_bytes());
        }
        let digest = contents.finalize().to_hex().to_string();
        let mut name = Blake3(contents);
        engine.precompile_compatibility_hash().hash(&mut name);
        Ok(Parts {
            folder: artifact_dir.to_owned(),
            artifact,
            engine,
            digest,
            compiled: Compiled::open(cache_dir)?,
            name: name.0.finalize().to_hex()[..32].to_owned(),
        })
    }

    fn load(&self) -> Option<Module> {
        self.compiled.load(&self.name, &self.engine)
    }

    /// Warms the interpreter and compiles it.
    fn make(&self, progress: &dyn Fn(&str)) -> Result<Module, SandboxError> {
        let lock = self.compiled.lock()?;
        // Another process may have built it while this one waited.
        if let Some(module) = self.load() {
            return Ok(module);
        }
        progress("preparing the Python sandbox: done once, in a minute or two");
        let reserved = self.compiled.reserve(&lock)?;
        let metered = warm::snapshot(&self.artifact.interpreter, &self.artifact.library, progress)
            .and_then(|warmed| meter::metered(&warmed))
            .map_err(|error| unusable(&self.folder, &error))?;
        progress("preparing the Python sandbox: compiling the warmed interpreter (3 of 3)");
        let code = self.engine.precompile_module(&metered);
        let code = code.map_err(|error| unusable(&self.folder, &error))?;
        drop(metered);
        self.compiled.store(&lock, reserved, &self.name, &code)?;
        self.load().ok_or_else(|| {
            SandboxError::Unusable(format!(
                "the compiled Python sandbox in {} cannot be read back; check the disk",
                self.compiled.folder().display()
            ))
        })
    }

    fn sandbox(self, module: &Module) -> Result<WasmSandbox, SandboxError> {
        let program = link(&self.engine, module).map_err(|error| unusable(&self.folder, &error))?;
        Ok(WasmSandbox {
            identity: Identity {
                backend: "wasm".to_owned(),
                interpreter: "CPython 3.15.0 (wasm32-wasip1)".to_owned(),
                digest: self.digest,
            },
            program,
            library: self.artifact.library,
            idle_parsers: IdleParsers::new(parsing_instance::MAX_IDLE),
        })
    }
}

fn link(engine: &Engine, module: &Module) -> wasmtime::Result<InstancePre<StoreData>> {
    let mut linker = Linker::new(engine);
    wasi::define(&mut linker)?;
    host_call::define(&mut linker)?;
    fuel::define(&mut linker)?;
    linker.instantiate_pre(module)
}

fn unusable(folder: &Path, error: &wasmtime::Error) -> SandboxError {
    SandboxError::Unusable(format!(
        "the Python sandbox in {} cannot be prepared ({error:#}); fetch it again with `rapid fetch sandbox:python-wasi` or `rapid-verifier fetch`",
        folder.display()
    ))
}

/// Feeds a value that only implements `Hash` into a BLAKE3 hasher.
struct Blake3(blake3::Hasher);

impl Hasher for Blake3 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
