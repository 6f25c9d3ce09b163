//! The configuration of wasmtime. Everything that could make two equal runs differ is switched off.

use wasmtime::{Config, Engine, OptLevel, RegallocAlgorithm};

/// Bytes of native stack for wasm frames. The guest's interpreter raises `RecursionError` at limits of its own (`recursion`), and any recursion reaches those first. A
/// guest that reaches this limit anyway ends with a trap. Only the pages that a guest uses take memory.
const WASM_STACK: usize = 384 << 20;
/// Bytes of native stack of a guest: the wasm frames and, below them, the host functions.
const STACK: usize = WASM_STACK + (2 << 20);
/// The memory image of a warmed interpreter is about 100 MiB, part of it zeros. Up to this size, an image is always mapped and never copied.
const DENSE_IMAGE: u64 = 1 << 30;

/// The engine that runs programs. Their module meters itself, and hints at which of its branches are rare.
pub(super) fn running() -> wasmtime::Result<Engine> {
    Engine::new(config().wasm_branch_hinting(true))
}

/// The engine that warms the interpreter once. It compiles quickly.
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
