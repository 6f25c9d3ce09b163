//! How wasmtime is configured: everything that could make two equal runs differ is switched off.

use wasmtime::{Config, Engine, OptLevel, RegallocAlgorithm};

/// Native stack that wasm frames may use. The guest's interpreter raises `RecursionError` from limits of its own far
/// below this; what gets here all the same ends with a trap.
const WASM_STACK: usize = 128 << 20;
/// Native stack of a guest: the wasm frames and, below them, the host functions.
const STACK: usize = WASM_STACK + (2 << 20);
/// A warmed interpreter is about 100 MiB of memory image, part of it zeros: always map it, never copy it.
const DENSE_IMAGE: u64 = 1 << 30;

/// The engine that runs programs, in a module that meters itself and hints at which of its branches are rare.
pub(super) fn running() -> wasmtime::Result<Engine> {
    Engine::new(config().wasm_branch_hinting(true))
}

/// The engine that warms the interpreter once: quick to compile for.
pub(super) fn warming() -> wasmtime::Result<Engine> {
    Engine::new(
        config()
            .cranelift_opt_level(OptLevel::None)
            .cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass),
    )
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_exceptions(true)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(DENSE_IMAGE)
        .generate_address_map(false)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(STACK);
    config
}
