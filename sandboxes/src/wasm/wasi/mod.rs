//! The part of WASI preview 1 that the interpreter imports. Its clock, randomness and files are the same in every run. It uses no file, clock, entropy or network
//! of the host.

mod descriptors;
mod errno;
mod files;
mod memory;
mod time;
mod virtual_devices;

use wasmtime::{Caller, FuncType, Linker, Val, ValType};

use self::errno::{Errno, code};
use self::memory::View;
use super::fuel::charge;
use super::store_data::StoreData;

pub(super) use self::files::Files;
pub(super) use self::virtual_devices::{Clock, Output, random};

/// The guest that calls an import.
type GuestCaller<'a> = Caller<'a, StoreData>;

/// What an import returns: an error number, or 0, to the guest; or a trap.
type Answer = wasmtime::Result<i32>;

const MODULE: &str = "wasi_snapshot_preview1";
const ARGUMENTS: [&[u8]; 1] = [b"python\0"];
/// `PYTHONHASHSEED` is set for the interpreter's children and for people. The snapshot's own seed was fixed when it was taken.
const ENVIRONMENT: [&[u8]; 3] = [b"PYTHONHASHSEED=0\0", b"PYTHONTZPATH=\0", b"HOME=/\0"];

/// Fuel for a call of an import, about a tenth of a microsecond.
const CALL_PRICE: u64 = 1_000;

/// Runs `body` on the caller's memory and its store's data, for the price of a call. An [`Errno`] goes to the guest, and a trap to the host.
fn with(
    mut caller: GuestCaller<'_>,
    body: impl FnOnce(&mut View<'_>) -> Result<(), Errno>,
) -> Answer {
    charge(&mut caller, CALL_PRICE)?;
    Ok(code(body(&mut View::of(&mut caller)?)))
}

/// Defines all imports of WASI.
pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    arguments(linker)?;
    time::define(linker)?;
    descriptors::define(linker)?;
    refused(linker)
}

fn arguments(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    for (get, sizes, list) in [
        ("args_get", "args_sizes_get", &ARGUMENTS[..]),
        ("environ_get", "environ_sizes_get", &ENVIRONMENT[..]),
    ] {
        let get_all = move |caller: GuestCaller<'_>, mut pointers: i32, mut text: i32| {
            with(caller, |view| {
                for item in list {
                    view.write_u32(pointers, text as u32)?;
                    view.write(text, item)?;
                    pointers = pointers.wrapping_add(4);
                    text = text.wrapping_add(item.len() as i32);
                }
                Ok(())
            })
        };
        let get_sizes = move |caller: GuestCaller<'_>, count: i32, bytes: i32| {
            with(caller, |view| {
                view.write_u32(count, list.len() as u32)?;
                view.write_u32(bytes, list.iter().map(|item| item.len() as u32).sum())
            })
        };
        linker.func_wrap(MODULE, get, get_all)?;
        linker.func_wrap(MODULE, sizes, get_sizes)?;
    }
    Ok(())
}

/// Defines the other imports. They do nothing. Most refuse: everything is read-only, and there is no listing, no links and no sockets. Each has its name, its
/// parameters (`i` is an `i32`, `I` an `i64`), and its result.
fn refused(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    for (name, parameters, code) in [
        ("fd_advise", "iIIi", 0),
        ("fd_datasync", "i", 0),
        ("fd_fdstat_set_flags", "ii", 0),
        ("fd_filestat_set_size", "iI", errno::ROFS),
        ("fd_filestat_set_times", "iIIi", errno::ROFS),
        ("fd_pwrite", "iiiIi", errno::ROFS),
        ("fd_readdir", "iiiIi", errno::NOTSUP),
        ("fd_sync", "i", 0),
        ("path_create_directory", "iii", errno::ROFS),
        ("path_filestat_set_times", "iiiiIIi", errno::ROFS),
        ("path_link", "iiiiiii", errno::ROFS),
        ("path_readlink", "iiiiii", errno::INVAL),
        ("path_remove_directory", "iii", errno::ROFS),
        ("path_rename", "iiiiii", errno::ROFS),
        ("path_symlink", "iiiii", errno::ROFS),
        ("path_unlink_file", "iii", errno::ROFS),
        ("sched_yield", "", 0),
        ("sock_accept", "iii", errno::NOTSUP),
        ("sock_recv", "iiiiii", errno::NOTSUP),
        ("sock_send", "iiiii", errno::NOTSUP),
        ("sock_shutdown", "ii", errno::NOTSUP),
    ] {
        let parameters = parameters.chars().map(|kind| match kind {
            'I' => ValType::I64,
            _ => ValType::I32,
        });
        let signature = FuncType::new(linker.engine(), parameters, [ValType::I32]);
        linker.func_new(MODULE, name, signature, move |_, _, results| {
            results[0] = Val::I32(code.into());
            Ok(())
        })?;
    }
    Ok(())
}
