//! A guest's part of a run: its limits, the answers to what it asks, and the report of its end.

use std::time::{Duration, Instant};

use super::clock::{self, allowed};
use super::guest::{Guest, Meter};
use super::stop::Stop;
use crate::protocol::{Candidate, is_answered};
use crate::{Call, Deferred, End, Limits, Run, SandboxError};

/// Address space that a program may add, in memory limits: the kernel stops it when it uses its memory, and an allocation that is beyond reason fails
/// in the same way on every machine.
const SPACE: u64 = 8;
/// Bytes of a request that takes milliseconds to read.
const LONG: usize = 256 << 10;
/// A run that was over sooner took so little that the time that passed is as good as its processor time.
const SHORT: Duration = Duration::from_millis(500);

/// Sets a guest's limits.
pub(super) async fn prepare(guest: &mut Guest, limits: &Limits) -> Result<(), SandboxError> {
    guest.fit(limits.memory).await?;
    // Beyond what the host allows: for when the host is gone.
    let seconds = allowed(limits.fuel)
        .as_secs()
        .saturating_mul(2)
        .saturating_add(60)
        .min(1 << 30);
    let space = limits.memory.saturating_mul(SPACE).min(1 << 46);
    match guest.confine(space, seconds, limits.output).await {
        Ok(()) => Ok(()),
        Err(Stop::Failed(error)) => Err(error),
        Err(stop) => {
            let what = format!(
                "a container was lost before a program ran in it ({stop:?}); judge it again"
            );
            Err(Deferred::Failed(what).into())
        }
    }
}

/// What comes of reading a request. A long one keeps a processor for so long that it is not read on the few threads that speak to the engine.
pub(super) fn read<T>(request: &[u8], answer: impl FnOnce(&[u8]) -> T) -> T {
    if request.len() < LONG {
        answer(request)
    } else {
        tokio::task::block_in_place(|| answer(request))
    }
}

/// Answers a candidate's guest, whose last request was `request`, until it has nothing more to ask. Its last question stays open: a guest that is to be given
/// another call waits for it.
pub(super) async fn converse(
    guest: &mut Guest,
    candidate: &mut Candidate,
    request: &[u8],
) -> Result<(), Stop> {
    let mut request = bytes::Bytes::copy_from_slice(request);
    loop {
        let answer = read(&request, |request| candidate.answer(request))?;
        if candidate.ended() {
            return Ok(());
        }
        if is_answered(&request) {
            guest.send(&answer).await?;
        }
        request = guest.receive(candidate.longest()).await?;
    }
}

/// How a candidate's part ended. What happens after the last call has been answered is of no interest.
pub(super) fn end(candidate: &Candidate, outcome: Result<(), Stop>) -> Result<End, SandboxError> {
    match (candidate.unloadable(), outcome) {
        (Some((kind, message)), _) => Ok(End::Unloadable { kind, message }),
        (None, _) if candidate.completed() => Ok(End::Completed),
        (None, Err(stop)) => ended(stop),
        (None, Ok(())) => Ok(End::Died(
            "the program broke the conversation off".to_owned(),
        )),
    }
}

pub(super) fn ended(stop: Stop) -> Result<End, SandboxError> {
    match stop {
        Stop::Ended(end) => Ok(end),
        Stop::Clock => Ok(End::OutOfTime),
        Stop::Failed(error) => Err(error),
    }
}

pub(super) async fn report(
    meters: &[Meter],
    calls: Vec<Call>,
    end: End,
    started: Instant,
    stdout: String,
) -> Run {
    let mut time = started.elapsed();
    if time > SHORT {
        let mut used = Duration::ZERO;
        for meter in meters {
            // A container that has ended tells nothing any more; the time that has passed is then the best guess.
            used += meter.read().await.unwrap_or_default();
        }
        if used > Duration::ZERO {
            time = used;
        }
    }
    Run {
        calls,
        end,
        fuel: clock::fuel(time),
        peak_memory: 0,
        stdout,
    }
}
