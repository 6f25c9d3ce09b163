//! The imports for time and randomness, and the one that exits.

use wasmtime::Linker;

use super::errno::{self, Errno};
use super::memory::View;
use super::virtual_devices::Clock;
use super::{Answer, GuestCaller, MODULE, with};
use crate::wasm::fuel::{charge, used};
use crate::wasm::store_data::StoreData;
use crate::wasm::termination::Termination;

/// Fuel for a random byte, which takes nearly two nanoseconds.
const RANDOM_BYTE_PRICE: u64 = 16;

/// Events that one `poll_oneoff` may wait for.
const SUBSCRIPTIONS: i32 = 64;

pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "clock_res_get", clock_res_get)?;
    linker.func_wrap(MODULE, "clock_time_get", clock_time_get)?;
    linker.func_wrap(MODULE, "poll_oneoff", poll_oneoff)?;
    linker.func_wrap(MODULE, "random_get", random_get)?;
    linker.func_wrap(MODULE, "proc_exit", proc_exit)?;
    Ok(())
}

fn clock_res_get(caller: GuestCaller<'_>, _clock: i32, at: i32) -> Answer {
    with(caller, |view| view.write_u64(at, 1_000))
}

fn clock_time_get(mut caller: GuestCaller<'_>, clock: i32, _precision: i64, at: i32) -> Answer {
    let work = used(&mut caller);
    with(caller, |view| {
        let elapsed = view.data.clock.elapsed(work);
        let now = match clock {
            0 => Clock::calendar(elapsed),
            1..=3 => elapsed,
            _ => return Err(errno::INVAL),
        };
        view.write_u64(at, now)
    })
}

fn random_get(mut caller: GuestCaller<'_>, at: i32, length: i32) -> Answer {
    let bytes = u64::from(length as u32);
    charge(&mut caller, RANDOM_BYTE_PRICE.saturating_mul(bytes))?;
    with(caller, |view| {
        let (bytes, data) = view.target(at, length)?;
        data.random.fill(bytes);
        Ok(())
    })
}

fn proc_exit(_: GuestCaller<'_>, status: i32) -> wasmtime::Result<()> {
    Err(Termination::Exit(status).into())
}

/// Sleeping takes no real time: the virtual clock jumps to the earliest event, and every subscription is reported as ready.
fn poll_oneoff(
    mut caller: GuestCaller<'_>,
    subscriptions: i32,
    events: i32,
    count: i32,
    ready: i32,
) -> Answer {
    let work = used(&mut caller);
    with(caller, |view| {
        let wait = wait(view, work, subscriptions, events, count)?;
        view.data.clock.skip(wait);
        view.write_u32(ready, count as u32)
    })
}

/// Writes an event for each subscription, and returns the nanoseconds until the earliest.
fn wait(
    view: &mut View<'_>,
    work: u64,
    subscriptions: i32,
    events: i32,
    count: i32,
) -> Result<u64, Errno> {
    if !(1..=SUBSCRIPTIONS).contains(&count) {
        return Err(errno::INVAL);
    }
    let mut wait = u64::MAX;
    for index in 0..count {
        let entry = view.slice(subscriptions.wrapping_add(index * 48), 48)?;
        let entry: [u8; 48] = entry.try_into().map_err(|_| errno::FAULT)?;
        let (numbers, _) = entry.as_chunks::<8>();
        let number = |index: usize| u64::from_le_bytes(numbers[index]);
        let kind = entry[8];
        if kind == 0 {
            let absolute = entry[40] & 1 == 1;
            let now = view.data.clock.elapsed(work);
            let now = match entry[16] {
                0 => Clock::calendar(now),
                _ => now,
            };
            let passed = if absolute { now } else { 0 };
            wait = wait.min(number(3).saturating_sub(passed));
        } else {
            wait = 0;
        }
        let mut event = [0_u8; 32];
        event[..8].copy_from_slice(&entry[..8]);
        event[10] = kind;
        view.write(events.wrapping_add(index * 32), &event)?;
    }
    Ok(wait)
}
