//! The imports that work on descriptors and paths.

use std::io::Read as _;

use wasmtime::Linker;

use super::errno::{self, Errno};
use super::files::{FOLDER, MOUNT, Node};
use super::memory::View;
use super::{Answer, GuestCaller, MODULE, with};
use crate::wasm::fuel::charge;
use crate::wasm::store_data::StoreData;

/// Buffers that one read or write may name.
const BUFFERS: i32 = 1024;

pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "fd_close", fd_close)?;
    linker.func_wrap(MODULE, "fd_fdstat_get", fd_fdstat_get)?;
    linker.func_wrap(MODULE, "fd_filestat_get", fd_filestat_get)?;
    linker.func_wrap(MODULE, "fd_prestat_get", fd_prestat_get)?;
    linker.func_wrap(MODULE, "fd_prestat_dir_name", fd_prestat_dir_name)?;
    linker.func_wrap(MODULE, "fd_seek", fd_seek)?;
    linker.func_wrap(MODULE, "fd_tell", fd_tell)?;
    linker.func_wrap(MODULE, "fd_read", fd_read)?;
    linker.func_wrap(MODULE, "fd_pread", fd_pread)?;
    linker.func_wrap(MODULE, "fd_write", fd_write)?;
    linker.func_wrap(MODULE, "path_open", path_open)?;
    linker.func_wrap(MODULE, "path_filestat_get", path_filestat_get)?;
    Ok(())
}

fn fd_close(caller: GuestCaller<'_>, fd: i32) -> Answer {
    with(caller, |view| view.data.files.close(fd))
}

fn fd_fdstat_get(caller: GuestCaller<'_>, fd: i32, at: i32) -> Answer {
    with(caller, |view| {
        let mut stat = [0_u8; 24];
        stat[0] = kind(view.data.files.node(fd)?);
        stat[8..24].fill(0xff);
        view.write(at, &stat)
    })
}

fn fd_filestat_get(caller: GuestCaller<'_>, fd: i32, at: i32) -> Answer {
    with(caller, |view| {
        let node = view.data.files.node(fd)?;
        stat(view, node, at)
    })
}

fn fd_prestat_get(caller: GuestCaller<'_>, fd: i32, at: i32) -> Answer {
    with(caller, |view| match fd {
        FOLDER => view.write_u64(at, (MOUNT.len() as u64) << 32),
        _ => Err(errno::BADF),
    })
}

fn fd_prestat_dir_name(caller: GuestCaller<'_>, fd: i32, at: i32, length: i32) -> Answer {
    with(caller, |view| match fd {
        FOLDER if length as u32 as usize >= MOUNT.len() => view.write(at, MOUNT),
        FOLDER => Err(errno::INVAL),
        _ => Err(errno::BADF),
    })
}

fn fd_seek(caller: GuestCaller<'_>, fd: i32, offset: i64, whence: i32, at: i32) -> Answer {
    with(caller, |view| {
        let position = view.data.files.seek(fd, offset, whence)?;
        view.write_u64(at, position)
    })
}

fn fd_tell(caller: GuestCaller<'_>, fd: i32, at: i32) -> Answer {
    fd_seek(caller, fd, 0, 1, at)
}

fn fd_read(caller: GuestCaller<'_>, fd: i32, buffers: i32, count: i32, done: i32) -> Answer {
    read(caller, fd, buffers, count, None, done)
}

fn fd_pread(
    caller: GuestCaller<'_>,
    fd: i32,
    buffers: i32,
    count: i32,
    offset: i64,
    done: i32,
) -> Answer {
    read(caller, fd, buffers, count, Some(offset as u64), done)
}

fn fd_write(mut caller: GuestCaller<'_>, fd: i32, buffers: i32, count: i32, done: i32) -> Answer {
    let bytes = total(&mut caller, buffers, count)?;
    charge(&mut caller, bytes)?;
    with(caller, |view| {
        if !matches!(fd, 1 | 2) {
            return Err(view.data.files.node(fd).err().unwrap_or(errno::ROFS));
        }
        for index in 0..count.min(BUFFERS) {
            let (bytes, data) = view.buffer(buffers, index)?;
            let output = match fd {
                1 => &mut data.stdout,
                _ => &mut data.stderr,
            };
            output.write(bytes)?;
        }
        view.write_u32(done, bytes as u32)
    })
}

/// Total bytes of `count` buffers, up to the first entry outside the memory. The call itself reports such an entry.
fn total(caller: &mut GuestCaller<'_>, buffers: i32, count: i32) -> wasmtime::Result<u64> {
    let view = View::of(caller)?;
    let entries = (0..count.min(BUFFERS)).map_while(|index| view.iovec(buffers, index).ok());
    Ok(entries.map(|(_, length)| u64::from(length as u32)).sum())
}

/// Reads the zip at `offset`, or at the descriptor's position, which then advances. Standard input has no positions, and nothing is read from it at one.
fn read(
    mut caller: GuestCaller<'_>,
    fd: i32,
    buffers: i32,
    count: i32,
    offset: Option<u64>,
    done: i32,
) -> Answer {
    let bytes = total(&mut caller, buffers, count)?;
    let size = caller.data().files.size();
    charge(&mut caller, bytes.min(size))?;
    with(caller, |view| {
        let node = view.data.files.node(fd)?;
        let start = match (node, offset) {
            (Node::Library, None) => view.data.files.position(fd)?,
            (Node::Library, Some(offset)) => offset,
            (Node::Stream, _) if fd == 0 => 0,
            (Node::Stream, _) => return Err(errno::BADF),
            (Node::Folder, _) => return Err(errno::ISDIR),
        };
        let count = match (node, offset) {
            (Node::Stream, Some(_)) => 0,
            _ => count.min(BUFFERS),
        };
        let mut position = start;
        for index in 0..count {
            let (target, data) = view.buffer(buffers, index)?;
            let read = match node {
                Node::Stream => data.stdin.read(target).unwrap_or(0),
                Node::Library | Node::Folder => data.files.read_at(position, target),
            };
            position += read as u64;
            if read < target.len() {
                break;
            }
        }
        if node == Node::Library && offset.is_none() {
            view.data.files.seek(fd, (position - start) as i64, 1)?;
        }
        view.write_u32(done, (position - start) as u32)
    })
}

fn path_open(
    caller: GuestCaller<'_>,
    fd: i32,
    _look: i32,
    path: i32,
    length: i32,
    open: i32,
    rights: i64,
    _inherited: i64,
    _flags: i32,
    at: i32,
) -> Answer {
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
}

fn path_filestat_get(
    caller: GuestCaller<'_>,
    fd: i32,
    _look: i32,
    path: i32,
    length: i32,
    at: i32,
) -> Answer {
    with(caller, |view| {
        let name = view.slice(path, length)?.to_vec();
        let node = view.data.files.lookup(fd, &name)?;
        stat(view, node, at)
    })
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
