//! The part of WASI preview 1 that the interpreter imports, over a world in which everything is the same in every run.
//! Nothing here touches the machine: no file, clock, entropy or network of the host.

mod errno;
mod files;
mod memory;
mod sources;

use wasmtime::{Caller, Linker};

use self::errno::{Errno, code};
use self::files::{FOLDER, MOUNT, Node};
use self::memory::View;
use super::stop::Stop;
use super::world::World;

pub(super) use self::files::Files;
pub(super) use self::memory::charge;
pub(super) use self::sources::{Clock, Output, Random};

const MODULE: &str = "wasi_snapshot_preview1";
/// `PYTHONHASHSEED` is said for the interpreter's children and for people; the snapshot's own seed was fixed when it was made.
const ARGUMENTS: [&[u8]; 1] = [b"python\0"];
const ENVIRONMENT: [&[u8]; 3] = [b"PYTHONHASHSEED=0\0", b"PYTHONTZPATH=\0", b"HOME=/\0"];
/// Events that one `poll_oneoff` may wait for.
const SUBSCRIPTIONS: i32 = 64;
/// Buffers that one read or write may name.
const BUFFERS: i32 = 1024;

/// Runs `body` on the caller's memory and world; an [`Errno`] goes to the guest, a trap to the host.
fn with(mut caller: Caller<'_, World>, body: impl FnOnce(&mut View<'_>) -> Result<(), Errno>) -> wasmtime::Result<i32> {
    Ok(code(body(&mut View::of(&mut caller)?)))
}

/// Defines every import but `host.call`.
pub(super) fn define(linker: &mut Linker<World>) -> wasmtime::Result<()> {
    arguments(linker)?;
    time(linker)?;
    descriptors(linker)?;
    streams(linker)?;
    paths(linker)?;
    refused(linker)
}

fn arguments(linker: &mut Linker<World>) -> wasmtime::Result<()> {
    for (get, sizes, list) in [
        ("args_get", "args_sizes_get", &ARGUMENTS[..]),
        ("environ_get", "environ_sizes_get", &ENVIRONMENT[..]),
    ] {
        linker.func_wrap(MODULE, get, move |caller: Caller<'_, World>, pointers: i32, text: i32| {
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
        })?;
        linker.func_wrap(MODULE, sizes, move |caller: Caller<'_, World>, count: i32, bytes: i32| {
            with(caller, |view| {
                view.write_u32(count, list.len() as u32)?;
                view.write_u32(bytes, list.iter().map(|item| item.len() as u32).sum())
            })
        })?;
    }
    Ok(())
}

/// Fuel used so far, which the clock shows; 0 where the engine is not metered.
fn work(caller: &Caller<'_, World>) -> u64 {
    let given = caller.data().fuel;
    caller.get_fuel().map_or(0, |left| given.saturating_sub(left))
}

fn time(linker: &mut Linker<World>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "clock_res_get", |caller: Caller<'_, World>, _clock: i32, at: i32| {
        with(caller, |view| view.write_u64(at, 1_000))
    })?;
    linker.func_wrap(MODULE, "clock_time_get", |caller: Caller<'_, World>, clock: i32, _precision: i64, at: i32| {
        let work = work(&caller);
        with(caller, |view| {
            let elapsed = view.world.clock.elapsed(work);
            let now = match clock {
                0 => Clock::calendar(elapsed),
                1..=3 => elapsed,
                _ => return Err(errno::INVAL),
            };
            view.write_u64(at, now)
        })
    })?;
    linker.func_wrap(MODULE, "poll_oneoff", |caller: Caller<'_, World>, subscriptions: i32, events: i32, count: i32, ready: i32| {
        let work = work(&caller);
        with(caller, |view| poll(view, work, subscriptions, events, count, ready))
    })?;
    linker.func_wrap(MODULE, "sched_yield", |_: Caller<'_, World>| 0)?;
    linker.func_wrap(MODULE, "random_get", |mut caller: Caller<'_, World>, at: i32, length: i32| {
        charge(&mut caller, u64::from(length as u32))?;
        with(caller, |view| {
            let (bytes, world) = view.target(at, length)?;
            world.random.fill(bytes);
            Ok(())
        })
    })?;
    linker.func_wrap(MODULE, "proc_exit", |_: Caller<'_, World>, status: i32| -> wasmtime::Result<()> {
        Err(Stop::Exit(status).into())
    })?;
    Ok(())
}

/// Sleeping takes no time: the virtual clock jumps to the earliest event and every subscription is reported as ready.
fn poll(view: &mut View<'_>, work: u64, subscriptions: i32, events: i32, count: i32, ready: i32) -> Result<(), Errno> {
    if !(1..=SUBSCRIPTIONS).contains(&count) {
        return Err(errno::INVAL);
    }
    let mut wait = u64::MAX;
    for index in 0..count {
        let entry: [u8; 48] = view
            .slice(subscriptions.wrapping_add(index * 48), 48)?
            .try_into()
            .map_err(|_| errno::FAULT)?;
        let number = |at: usize| entry[at..at + 8].iter().rev().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
        let kind = entry[8];
        if kind == 0 {
            let absolute = entry[40] & 1 == 1;
            let now = view.world.clock.elapsed(work);
            let now = if entry[16] == 0 { Clock::calendar(now) } else { now };
            let timeout = number(24);
            wait = wait.min(if absolute { timeout.saturating_sub(now) } else { timeout });
        } else {
            wait = 0;
        }
        let mut event = [0_u8; 32];
        event[..8].copy_from_slice(&entry[..8]);
        event[10] = kind;
        view.write(events.wrapping_add(index * 32), &event)?;
    }
    view.world.clock.skip(wait);
    view.write_u32(ready, count as u32)
}

fn descriptors(linker: &mut Linker<World>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "fd_close", |caller: Caller<'_, World>, fd: i32| {
        with(caller, |view| view.world.files.close(fd))
    })?;
    linker.func_wrap(MODULE, "fd_fdstat_get", |caller: Caller<'_, World>, fd: i32, at: i32| {
        with(caller, |view| {
            let mut stat = [0_u8; 24];
            stat[0] = kind(view.world.files.node(fd)?);
            stat[8..24].fill(0xff);
            view.write(at, &stat)
        })
    })?;
    linker.func_wrap(MODULE, "fd_filestat_get", |caller: Caller<'_, World>, fd: i32, at: i32| {
        with(caller, |view| {
            let node = view.world.files.node(fd)?;
            stat(view, node, at)
        })
    })?;
    linker.func_wrap(MODULE, "fd_prestat_get", |caller: Caller<'_, World>, fd: i32, at: i32| {
        with(caller, |view| match fd {
            FOLDER => view.write_u64(at, (MOUNT.len() as u64) << 32),
            _ => Err(errno::BADF),
        })
    })?;
    linker.func_wrap(MODULE, "fd_prestat_dir_name", |caller: Caller<'_, World>, fd: i32, at: i32, length: i32| {
        with(caller, |view| match fd {
            FOLDER if length as u32 as usize >= MOUNT.len() => view.write(at, MOUNT),
            FOLDER => Err(errno::INVAL),
            _ => Err(errno::BADF),
        })
    })?;
    linker.func_wrap(MODULE, "fd_seek", |caller: Caller<'_, World>, fd: i32, offset: i64, whence: i32, at: i32| {
        with(caller, |view| {
            let position = view.world.files.seek(fd, offset, whence)?;
            view.write_u64(at, position)
        })
    })?;
    linker.func_wrap(MODULE, "fd_tell", |caller: Caller<'_, World>, fd: i32, at: i32| {
        with(caller, |view| {
            let position = view.world.files.seek(fd, 0, 1)?;
            view.write_u64(at, position)
        })
    })?;
    linker.func_wrap(MODULE, "fd_advise", |_: Caller<'_, World>, _: i32, _: i64, _: i64, _: i32| 0)?;
    linker.func_wrap(MODULE, "fd_fdstat_set_flags", |_: Caller<'_, World>, _: i32, _: i32| 0)?;
    Ok(())
}

fn streams(linker: &mut Linker<World>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "fd_read", |caller: Caller<'_, World>, fd: i32, buffers: i32, count: i32, done: i32| {
        read(caller, fd, buffers, count, None, done)
    })?;
    linker.func_wrap(MODULE, "fd_pread", |caller: Caller<'_, World>, fd: i32, buffers: i32, count: i32, offset: i64, done: i32| {
        read(caller, fd, buffers, count, Some(offset as u64), done)
    })?;
    linker.func_wrap(MODULE, "fd_write", |mut caller: Caller<'_, World>, fd: i32, buffers: i32, count: i32, done: i32| {
        let bytes = total(&mut caller, buffers, count)?;
        charge(&mut caller, bytes)?;
        with(caller, |view| {
            if !matches!(fd, 1 | 2) {
                return Err(view.world.files.node(fd).err().unwrap_or(errno::ROFS));
            }
            for index in 0..count.min(BUFFERS) {
                let (at, length) = view.iovec(buffers, index)?;
                let (bytes, world) = view.target(at, length)?;
                if fd == 1 { &mut world.stdout } else { &mut world.stderr }.write(bytes);
            }
            view.write_u32(done, bytes as u32)
        })
    })?;
    Ok(())
}

/// Bytes that `count` buffers hold together; 0 where the array is not in memory, which the call itself then reports.
fn total(caller: &mut Caller<'_, World>, buffers: i32, count: i32) -> wasmtime::Result<u64> {
    let view = View::of(caller)?;
    Ok((0..count.min(BUFFERS))
        .map_while(|index| view.iovec(buffers, index).ok())
        .map(|(_, length)| u64::from(length as u32))
        .sum())
}

/// Reads the zip at `offset`, or at the descriptor's position, which then advances. Standard input is at its end.
fn read(mut caller: Caller<'_, World>, fd: i32, buffers: i32, count: i32, offset: Option<u64>, done: i32) -> wasmtime::Result<i32> {
    let bytes = total(&mut caller, buffers, count)?;
    let size = caller.data().files.size();
    charge(&mut caller, bytes.min(size))?;
    with(caller, |view| {
        match view.world.files.node(fd)? {
            Node::Stream if fd == 0 => return view.write_u32(done, 0),
            Node::Stream => return Err(errno::BADF),
            Node::Folder => return Err(errno::ISDIR),
            Node::Library => {}
        }
        let start = match offset {
            Some(offset) => offset,
            None => view.world.files.position(fd)?,
        };
        let mut position = start;
        for index in 0..count.min(BUFFERS) {
            let (at, length) = view.iovec(buffers, index)?;
            let (target, world) = view.target(at, length)?;
            let read = world.files.read_at(position, target);
            position += read as u64;
            if read < target.len() {
                break;
            }
        }
        if offset.is_none() {
            view.world.files.seek(fd, (position - start) as i64, 1)?;
        }
        view.write_u32(done, (position - start) as u32)
    })
}

fn paths(linker: &mut Linker<World>) -> wasmtime::Result<()> {
    linker.func_wrap(
        MODULE,
        "path_open",
        |caller: Caller<'_, World>, fd: i32, _look: i32, path: i32, length: i32, open: i32, rights: i64, _inherited: i64, _flags: i32, at: i32| {
            with(caller, |view| {
                let name = view.slice(path, length)?.to_vec();
                // Creating, truncating and writing (the right `fd_write`) are refused where the file exists, as on a read-only mount.
                let node = view.world.files.lookup(fd, &name);
                if open & 0b1001 != 0 || (rights & (1 << 6) != 0 && node == Ok(Node::Library)) {
                    return Err(errno::ROFS);
                }
                let opened = view.world.files.open(fd, &name)?;
                view.write_u32(at, opened as u32)
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_filestat_get",
        |caller: Caller<'_, World>, fd: i32, _look: i32, path: i32, length: i32, at: i32| {
            with(caller, |view| {
                let name = view.slice(path, length)?.to_vec();
                let node = view.world.files.lookup(fd, &name)?;
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
        stat[32..40].copy_from_slice(&view.world.files.size().to_le_bytes());
    }
    view.write(at, &stat)
}

/// What a sealed, read-only world answers to everything else: no writing, no listing, no links, no sockets.
fn refused(linker: &mut Linker<World>) -> wasmtime::Result<()> {
    let read_only = i32::from(errno::ROFS);
    let none = i32::from(errno::NOTSUP);
    linker.func_wrap(MODULE, "fd_datasync", move |_: i32| 0)?;
    linker.func_wrap(MODULE, "fd_sync", move |_: i32| 0)?;
    linker.func_wrap(MODULE, "fd_filestat_set_size", move |_: i32, _: i64| read_only)?;
    linker.func_wrap(MODULE, "fd_filestat_set_times", move |_: i32, _: i64, _: i64, _: i32| read_only)?;
    linker.func_wrap(MODULE, "fd_pwrite", move |_: i32, _: i32, _: i32, _: i64, _: i32| read_only)?;
    linker.func_wrap(MODULE, "fd_readdir", move |_: i32, _: i32, _: i32, _: i64, _: i32| none)?;
    linker.func_wrap(MODULE, "path_create_directory", move |_: i32, _: i32, _: i32| read_only)?;
    linker.func_wrap(MODULE, "path_filestat_set_times", move |_: i32, _: i32, _: i32, _: i32, _: i64, _: i64, _: i32| read_only)?;
    linker.func_wrap(MODULE, "path_link", move |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32| read_only)?;
    linker.func_wrap(MODULE, "path_readlink", move |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32| i32::from(errno::INVAL))?;
    linker.func_wrap(MODULE, "path_remove_directory", move |_: i32, _: i32, _: i32| read_only)?;
    linker.func_wrap(MODULE, "path_rename", move |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32| read_only)?;
    linker.func_wrap(MODULE, "path_symlink", move |_: i32, _: i32, _: i32, _: i32, _: i32| read_only)?;
    linker.func_wrap(MODULE, "path_unlink_file", move |_: i32, _: i32, _: i32| read_only)?;
    linker.func_wrap(MODULE, "sock_accept", move |_: i32, _: i32, _: i32| none)?;
    linker.func_wrap(MODULE, "sock_recv", move |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32| none)?;
    linker.func_wrap(MODULE, "sock_send", move |_: i32, _: i32, _: i32, _: i32, _: i32| none)?;
    linker.func_wrap(MODULE, "sock_shutdown", move |_: i32, _: i32| none)?;
    Ok(())
}
