//! Builds the warmed interpreter. The artifact runs until it has imported the modules that programs commonly import. Its state becomes a new module that starts there.

use std::sync::Arc;

use wasmtime::{Linker, Module, Store};
use wasmtime_wizer::{WasmtimeWizer, Wizer};

use super::guest::{Guest, run_now};
use super::host_call::{self, HostCall};
use super::store_data::StoreData;
use super::{engine, recursion, wasi};
use crate::Limits;
use crate::protocol::{HARNESS, IMPORTS};

/// The source that runs once, before the snapshot.
pub(super) const WARM: &str = include_str!("../../wasm/warm.py");
const _: () = assert!(WARM.is_ascii());

/// Runs `artifact` until it is warm, and returns the WebAssembly module that starts in that state.
pub(super) fn snapshot(
    artifact: &[u8],
    library: &Arc<[u8]>,
    progress: &dyn Fn(&str),
) -> wasmtime::Result<Vec<u8>> {
    let engine = engine::warming()?;
    let wizer = Wizer::new();
    let (exporting, top) = recursion::export_functions(artifact)?;
    let (context, instrumented) = wizer.instrument(&exporting)?;
    progress("preparing the Python sandbox: compiling the interpreter to warm it up (1 of 3)");
    let module = Module::new(&engine, &instrumented)?;
    drop(instrumented);
    progress("preparing the Python sandbox: importing its library (2 of 3)");
    let mut linker = Linker::new(&engine);
    wasi::define(&mut linker)?;
    host_call::define(&mut linker)?;
    let limits = Limits {
        memory: 1 << 30,
        ..Limits::default()
    };
    let work = async {
        let mut store = Store::new(
            &engine,
            StoreData::new(library.clone(), &limits, HostCall::Unanswered),
        );
        store.limiter(|data| &mut data.memory_limiter);
        let instance = linker.instantiate_async(&mut store, &module).await?;
        recursion::widen(&mut store, &instance, top).await?;
        let mut guest = Guest::new(store, &instance)?;
        let status = guest.turn(&source()).await?;
        if status != 0 {
            let stderr = guest.data().stderr.text();
            return Err(wasmtime::Error::msg(format!(
                "the interpreter could not import its library: {stderr}"
            )));
        }
        let mut store = guest.into_store();
        wizer
            .snapshot(
                &context,
                &mut WasmtimeWizer {
                    store: &mut store,
                    instance,
                },
            )
            .await
    };
    run_now(work)
}

/// The imports and [`WARM`], with the harness's source in it.
fn source() -> String {
    // A JSON string of ASCII is a Python literal too.
    let harness = serde_json::to_string(HARNESS).expect("strings always have a JSON form");
    format!("HARNESS = {harness}\n{IMPORTS}\n{WARM}")
}
