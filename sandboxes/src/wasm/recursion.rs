//! How deep the interpreter's own C code may recurse.
//!
//! A `map` in a `map`, a sorting key that sorts, an `__init__` that creates another object: each level of these takes a part of the C stack. CPython raises
//! `RecursionError` when the stack pointer comes near to the stack's end. It asks the system where the end is. WASI does not say, so CPython assumes a stack of 128
//! KiB, which is about 200 such levels. The linker gave the stack 16 MiB: all addresses from 0 up to the first of the data. So before the snapshot the host announces
//! [`STACK`] bytes of them to the interpreter. CPython has a function for this, for programs that supply their own stacks. The two functions that this takes are not
//! exported, but the module's name section lists them.
//!
//! Below these bytes, the rest of the 16 MiB is for C code that does not check the limit. Below that are addresses below 0, which trap.

use wasm_encoder::reencode::{Reencode as _, RoundtripReencoder};
use wasm_encoder::{ExportKind, ExportSection, Module, RawSection};
use wasmparser::{KnownCustom, Name, NameMap, Operator, Parser, Payload};
use wasmtime::{Instance, Store, TypedFunc};

use super::store_data::StoreData;

/// Bytes of the stack in linear memory that the interpreter uses before it raises `RecursionError`. A level of `sorted` with a key takes 2.2 KiB of them, most other
/// levels 0.5 KiB: 5,000 of those fit. Programs that recurse through C code use up to 60 times as many bytes of the native stack. It exists beside this one, has no
/// such limit, and is large enough that this one ends first (`engine`).
pub(super) const STACK: u32 = 4 << 20;
/// Bytes that must be left below the announced stack.
const SPARE: u32 = 8 << 20;

/// The interpreter's functions that are exported for this, by their names in the module.
const THREAD: &str = "PyThreadState_GetUnchecked";
const SET_STACK: &str = "PyUnstable_ThreadState_SetStackProtection";
/// The global with the current stack pointer. While nothing runs, it is the start of the stack.
const POINTER: &str = "__stack_pointer";

/// Returns the module with [`THREAD`] and [`SET_STACK`] exported, and the address at which its stack begins. The stack grows down from there.
pub(super) fn export_functions(module: &[u8]) -> wasmtime::Result<(Vec<u8>, u32)> {
    let names = Names::of(module)?;
    let mut exporting = Module::new();
    let mut top = None;
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        match payload {
            Payload::ExportSection(section) => {
                let mut exports = ExportSection::new();
                RoundtripReencoder.parse_export_section(&mut exports, section)?;
                exports.export(THREAD, ExportKind::Func, names.thread);
                exports.export(SET_STACK, ExportKind::Func, names.set_stack);
                exporting.section(&exports);
                continue;
            }
            Payload::GlobalSection(ref section) => {
                let global = section.clone().into_iter().nth(names.pointer as usize);
                let value = global
                    .transpose()?
                    .map(|global| global.init_expr.get_operators_reader().read());
                if let Some(Operator::I32Const { value }) = value.transpose()? {
                    top = u32::try_from(value).ok();
                }
            }
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            let data = &module[range];
            exporting.section(&RawSection { id, data });
        }
    }
    let top = top
        .filter(|&top| top >= STACK + SPARE)
        .ok_or_else(|| wasmtime::Error::msg("its stack is too small, or its start is unknown"))?;
    Ok((exporting.finish(), top))
}

/// Has the interpreter in an instance of such a module use [`STACK`] bytes below `top`.
pub(super) async fn widen(
    store: &mut Store<StoreData>,
    instance: &Instance,
    top: u32,
) -> wasmtime::Result<()> {
    let thread: TypedFunc<(), u32> = instance.get_typed_func(&mut *store, THREAD)?;
    let set_stack: TypedFunc<(u32, u32, u32), i32> =
        instance.get_typed_func(&mut *store, SET_STACK)?;
    let thread = thread.call_async(&mut *store, ()).await?;
    if thread == 0 {
        return Err(wasmtime::Error::msg("it has no running thread"));
    }
    match set_stack
        .call_async(store, (thread, top - STACK, STACK))
        .await?
    {
        0 => Ok(()),
        _ => Err(wasmtime::Error::msg("it refuses the size of its stack")),
    }
}

/// The indices in the module of the functions and the global above.
struct Names {
    thread: u32,
    set_stack: u32,
    pointer: u32,
}

impl Names {
    fn of(module: &[u8]) -> wasmtime::Result<Names> {
        let (mut thread, mut set_stack, mut pointer) = (None, None, None);
        for payload in Parser::new(0).parse_all(module) {
            let Payload::CustomSection(section) = payload? else {
                continue;
            };
            let KnownCustom::Name(names) = section.as_known() else {
                continue;
            };
            for part in names {
                match part? {
                    Name::Function(names) => {
                        thread = find(names.clone(), THREAD)?;
                        set_stack = find(names, SET_STACK)?;
                    }
                    Name::Global(names) => pointer = find(names, POINTER)?,
                    _ => {}
                }
            }
        }
        let missing = |name: &str| wasmtime::Error::msg(format!("it does not name its `{name}`"));
        Ok(Names {
            thread: thread.ok_or_else(|| missing(THREAD))?,
            set_stack: set_stack.ok_or_else(|| missing(SET_STACK))?,
            pointer: pointer.ok_or_else(|| missing(POINTER))?,
        })
    }
}

fn find(names: NameMap<'_>, wanted: &str) -> wasmtime::Result<Option<u32>> {
    for name in names {
        let name = name?;
        if name.name == wanted {
            return Ok(Some(name.index));
        }
    }
    Ok(None)
}
