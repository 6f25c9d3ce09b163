//! The imports that work on descriptors and paths.

use wasmtime::Linker;

use super::errno::{self, Errno};
use super::files::{FOLDER, MOUNT, Node};
use super::memory::View;
use super::{GuestCaller, MODULE, with};
use crate::wasm::fuel::charge;
use crate::wasm::store_data::StoreData;

/// Buffers that one read or write may name.
const BUFFERS: i32 = 1024;

pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    descriptors(linker)?;
    streams(linker)?;
    paths(linker)
}

fn descriptors(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "fd_close", |caller: GuestCaller<'_>, fd: i32| {
        with(caller, |view| view.data.files.close(fd))
    })?;
    linker.func_wrap(
        MODULE,
        "fd_fdstat_get",
        |caller: GuestCaller<'_>, fd: i32, at: i32| {
            with(caller, |view| {
                let mut stat = [0_u8; 24];
                stat[0] = kind(view.data.files.node(fd)?);
                stat[8..24].fill(0xff);
                view.write(at, &stat)
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_filestat_get",
        |caller: GuestCaller<'_>, fd: i32, at: i32| {
            with(caller, |view| {
                let node = view.data.files.node(fd)?;
                stat(view, node, at)
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_prestat_get",
        |caller: GuestCaller<'_>, fd: i32, at: i32| {
            with(caller, |view| match fd {
                FOLDER => view.write_u64(at, (MOUNT.len() as u64) << 32),
                _ => Err(errno::BADF),
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_prestat_dir_name",
        |caller: GuestCaller<'_>, fd: i32, at: i32, length: i32| {
            with(caller, |view| match fd {
                FOLDER if length as u32 as usize >= MOUNT.len() => view.write(at, MOUNT),
                FOLDER => Err(errno::INVAL),
                _ => Err(errno::BADF),
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_seek",
        |caller: GuestCaller<'_>, fd: i32, offset: i64, whence: i32, at: i32| {
            with(caller, |view| {
                let position = view.data.files.seek(fd, offset, whence)?;
                view.write_u64(at, position)
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_tell",
        |caller: GuestCaller<'_>, fd: i32, at: i32| {
            with(caller, |view| {
                let position = view.data.files.seek(fd, 0, 1)?;
                view.write_u64(at, position)
            })
        },
    )?;
    Ok(())
}

fn streams(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(
        MODULE,
        "fd_read",
        |caller: GuestCaller<'_>, fd: i32, buffers: i32, count: i32, done: i32| {
            read(caller, fd, buffers, count, None, done)
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_pread",
        |caller: GuestCaller<'_>, fd: i32, buffers: i32, count: i32, offset: i64, done: i32| {
            read(caller, fd, buffers, count, Some(offset as u64), done)
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_write",
        |mut caller: GuestCaller<'_>, fd: i32, buffers: i32, count: i32, done: i32| {
            let bytes = total(&mut caller, buffers, count)?;
            charge(&mut caller, bytes)?;
            with(caller, |view| {
                if !matches!(fd, 1 | 2) {
                    return Err(view.data.files.node(fd).err().unwrap_or(errno::ROFS));
                }
                for index in 0..count.min(BUFFERS) {
                    let (at, length) = view.iovec(buffers, index)?;
                    let (bytes, data) = view.target(at, length)?;
                    if fd == 1 {
                        &mut data.stdout
                    } else {
                        &mut data.stderr
                    }
                    .write(bytes)?;
                }
                view.write_u32(done, bytes as u32)
            })
        },
    )?;
    Ok(())
}

/// Total bytes of `count` buffers. Entries from the first that is outside the memory are not counted; the call itself then reports them.
fn total(caller: &mut GuestCaller<'_>, buffers: i32, count: i32) -> wasmtime::Result<u64> {
    let view = View::of(caller)?;
    Ok((0..count.min(BUFFERS))
        .map_while(|index| view.iovec(buffers, index).ok())
        .map(|(_, length)| u64::from(length as u32))
        .sum())
}

/// Reads the zip at `offset`, or at the descriptor's position, which then advances. Standard input has no positions, and nothing is read from it at one.
fn read(
    mut caller: GuestCaller<'_>,
    fd: i32,
    buffers: i32,
    count: i32,
    offset: Option<u64>,
    done: i32,
) -> wasmtime::Result<i32> {
    let bytes = total(&mut caller, buffers, count)?;
    let size = caller.data().files.size();
    charge(&mut caller, bytes.min(size))?;
    with(caller, |view| {
        match view.data.files.node(fd)? {
            Node::Stream if fd == 0 => {
                let count = if offset.is_none() { count } else { 0 };
                return read_stdin(view, buffers, count, done);
            }
            Node::Stream => return Err(errno::BADF),
            Node::Folder => return Err(errno::ISDIR),
            Node::Library => {}
        }
        let start = match offset {
            Some(offset) => offset,
            None => view.data.files.position(fd)?,
        };
        let mut position = start;
        for index in 0..count.min(BUFFERS) {
            let (at, length) = view.iovec(buffers, index)?;
            let (target, data) = view.target(at, length)?;
            let read = data.files.read_at(position, target);
            position += read as u64;
            if read < target.len() {
                break;
            }
        }
        if offset.is_none() {
            view.data.files.seek(fd, (position - start) as i64, 1)?;
        }
        view.write_u32(done, (position - start) as u32)
    })
}

fn read_stdin(view: &mut View<'_>, buffers: i32, count: i32, done: i32) -> Result<(), Errno> {
    let mut total = 0;
    for index in 0..count.min(BUFFERS) {
        let (at, length) = view.iovec(buffers, index)?;
        let (target, data) = view.target(at, length)?;
        let read = data.stdin.read(target);
        total += read;
        if read < target.len() {
            break;
        }
    }
    view.write_u32(done, total as u32)
}

fn paths(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(
        MODULE,
        "path_open",
        |caller: GuestCaller<'_>,
         fd: i32,
         _look: i32,
         path: i32,
         length: i32,
         open: i32,
         rights: i64,
         _inherited: i64,
         _flags: i32,
         at: i32| {
            with(caller, |view| {
                let name = view.slice(path, length)?.to_vec();
                // Creating and truncating are refused, and so is writing (the right `fd_write`) to the existing file, as on a read-only mount.
                let node = view.data.files.lookup(fd, &name);
                if open & 0b1001 != 0 || (rights & (1 << 6) != 0 && node == Ok(Node::Library)) {
                    return Err(errno::ROFS);
                }
                let opened = view.data.files.open(fd, &name)?;
                view.write_u32(at, opened as u32)
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_filestat_get",
        |caller: GuestCaller<'_>, fd: i32, _look: i32, path: i32, length: i32, at: i32| {
            with(caller, |view| {
                let name = view.slice(path, length)?.to_vec();
                let node = view.data.files.lookup(fd, &name)?;
                stat(view, node, at)
            })
        },
    )?;
    Ok(())
}

fn kind(node: Node) -> u8 {
    match node {
        Node::Stream => 2,
        Node::Folder => 3,
        Node::Library => 4,
    }
}

/// Writes a `filestat`: device 1, the kind, the size, no times.
fn stat(view: &mut View<'_>, node: Node, at: i32) -> Result<(), Errno> {
    let mut stat = [0_u8; 64];
    stat[0] = 1;
    stat[8] = kind(node);
    stat[16] = kind(node);
    stat[24] = 1;
    if node == Node::Library {
        stat[32..40].copy_from_slice(&view.data.files.size().to_le_bytes());
    }
    view.write(at, &stat)
}
