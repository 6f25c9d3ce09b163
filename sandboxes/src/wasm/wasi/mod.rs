//! The part of WASI preview 1 that the interpreter imports. Its clock, randomness and files are the same in every run. It uses no file, clock, entropy or network
//! of the host.

mod descriptors;
mod errno;
mod files;
mod memory;
mod time;
mod virtual_devices;

use wasmtime::{Caller, Linker};

use self::errno::{Errno, code};
use self::memory::View;
use super::fuel::charge;
use super::store_data::StoreData;

pub(super) use self::files::Files;
pub(super) use self::virtual_devices::{Clock, Input, Output, Random};

const MODULE: &str = "wasi_snapshot_preview1";
const ARGUMENTS: [&[u8]; 1] = [b"python\0"];
/// `PYTHONHASHSEED` is set for the interpreter's children and for people. The snapshot's own seed was fixed when it was taken.
const ENVIRONMENT: [&[u8]; 3] = [b"PYTHONHASHSEED=0\0", b"PYTHONTZPATH=\0", b"HOME=/\0"];

/// Fuel for a call of an import, about a tenth of a microsecond.
const CALL_PRICE: u64 = 1_000;

/// Runs `body` on the caller's memory and its store's data, for the price of a call. An [`Errno`] goes to the guest, and a trap to the host.
fn with(
    mut caller: Caller<'_, StoreData>,
    body: impl FnOnce(&mut View<'_>) -> Result<(), Errno>,
) -> wasmtime::Result<i32> {
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
        linker.func_wrap(
            MODULE,
            get,
            move |caller: Caller<'_, StoreData>, pointers: i32, text: i32| {
                with(caller, |view| {
                    let (mut pointers, mut text) = (pointers, text);
                    for item in list {
                        view.write_u32(pointers, text as u32)?;
                        view.write(text, item)?;
                        pointers = pointers.wrapping_add(4);
                        text = text.wrapping_add(item.len() as i32);
                    }
                    Ok(())
                })
            },
        )?;
        linker.func_wrap(
            MODULE,
            sizes,
            move |caller: Caller<'_, StoreData>, count: i32, bytes: i32| {
                with(caller, |view| {
                    view.write_u32(count, list.len() as u32)?;
                    view.write_u32(bytes, list.iter().map(|item| item.len() as u32).sum())
                })
            },
        )?;
    }
    Ok(())
}

/// Defines the other imports, which refuse: everything is read-only, and there is no listing, no links and no sockets.
fn refused(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    let read_only = i32::from(errno::ROFS);
    let none = i32::from(errno::NOTSUP);
    linker.func_wrap(MODULE, "fd_datasync", move |_: i32| 0)?;
    linker.func_wrap(MODULE, "fd_sync", move |_: i32| 0)?;
    linker.func_wrap(MODULE, "fd_filestat_set_size", move |_: i32, _: i64| {
        read_only
    })?;
    linker.func_wrap(
        MODULE,
        "fd_filestat_set_times",
        move |_: i32, _: i64, _: i64, _: i32| read_only,
    )?;
    linker.func_wrap(
        MODULE,
        "fd_pwrite",
        move |_: i32, _: i32, _: i32, _: i64, _: i32| read_only,
    )?;
    linker.func_wrap(
        MODULE,
        "fd_readdir",
        move |_: i32, _: i32, _: i32, _: i64, _: i32| none,
    )?;
    linker.func_wrap(
        MODULE,
        "path_create_directory",
        move |_: i32, _: i32, _: i32| read_only,
    )?;
    linker.func_wrap(
        MODULE,
        "path_filestat_set_times",
        move |_: i32, _: i32, _: i32, _: i32, _: i64, _: i64, _: i32| read_only,
    )?;
    linker.func_wrap(
        MODULE,
        "path_link",
        move |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32| read_only,
    )?;
    linker.func_wrap(
        MODULE,
        "path_readlink",
        move |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32| i32::from(errno::INVAL),
    )?;
    linker.func_wrap(
        MODULE,
        "path_remove_directory",
        move |_: i32, _: i32, _: i32| read_only,
    )?;
    linker.func_wrap(
        MODULE,
        "path_rename",
        move |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32| read_only,
    )?;
    linker.func_wrap(
        MODULE,
        "path_symlink",
        move |_: i32, _: i32, _: i32, _: i32, _: i32| read_only,
    )?;
    linker.func_wrap(MODULE, "path_unlink_file", move |_: i32, _: i32, _: i32| {
        read_only
    })?;
    linker.func_wrap(MODULE, "sock_accept", move |_: i32, _: i32, _: i32| none)?;
    linker.func_wrap(
        MODULE,
        "sock_recv",
        move |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32| none,
    )?;
    linker.func_wrap(
        MODULE,
        "sock_send",
        move |_: i32, _: i32, _: i32, _: i32, _: i32| none,
    )?;
    linker.func_wrap(MODULE, "sock_shutdown", move |_: i32, _: i32| none)?;
    Ok(())
}
