//! A guest's part of a run: its limits, the answers to its requests, and the report of its end.

use std::time::{Duration, Instant};

use super::guest::{Guest, Meter};
use super::termination::Termination;
use super::watchdog::{self, allowed, overrun};
use crate::protocol::{ProgramConversation, is_answered};
use crate::{Call, Deferred, End, Limits, Run, SandboxError};

/// Address space that a program may add, in multiples of its memory limit. The kernel stops a program that uses more memory than its limit. This limit makes an
/// absurdly large allocation fail in the same way on every machine.
const ADDRESS_SPACE: u64 = 8;
/// Bytes of a request that takes milliseconds to read.
const LONG_REQUEST: usize = 256 << 10;
/// In a run up to this long, the elapsed time stands for its processor time, since the difference is small.
const SHORT_RUN: Duration = Duration::from_millis(500);

/// Sets a guest's limits.
pub(super) async fn prepare(guest: &mut Guest, limits: &Limits) -> Result<(), SandboxError> {
    guest.set_memory(limits.memory).await?;
    // More than the host allows, since this limit is for the case that the host is gone.
    let seconds = allowed(limits.fuel).as_secs().saturating_mul(2);
    let seconds = seconds.saturating_add(60).min(1 << 30);
    let space = limits.memory.saturating_mul(ADDRESS_SPACE).min(1 << 46);
    match guest.confine(space, seconds, limits.output).await {
        Ok(()) => Ok(()),
        Err(Termination::Failed(error)) => Err(error),
        Err(stop) => {
            let what = format!(
                "a container was lost before a program ran in it ({stop:?}); judge it again"
            );
            Err(Deferred::Failed(what).into())
        }
    }
}

/// Reads a request with `answer`. A long request occupies a processor for long, so it is not read on the few threads that speak to the engine.
pub(super) fn read<T>(request: &[u8], answer: impl FnOnce(&[u8]) -> T) -> T {
    if request.len() < LONG_REQUEST {
        answer(request)
    } else {
        tokio::task::block_in_place(|| answer(request))
    }
}

/// Answers the program's guest from its last `request` on, until it has no further request or asks the tests' guest. Returns its question. The last request stays
/// unanswered: a guest waits for the answer until it gets another call.
pub(super) async fn converse(
    guest: &mut Guest,
    conversation: &mut ProgramConversation,
    request: &[u8],
) -> Result<Option<String>, Termination> {
    let mut request = bytes::Bytes::copy_from_slice(request);
    loop {
        if let Some(question) = read(&request, |request| conversation.question(request))? {
            return Ok(Some(question));
        }
        let answer = read(&request, |request| conversation.answer(request))?;
        if conversation.ended() {
            return Ok(None);
        }
        if is_answered(&request) {
            guest.send(&answer).await?;
        }
        request = guest.receive(conversation.longest()).await?;
    }
}

/// Answers the program's guest as [`converse`] does, until its time is up.
pub(super) async fn talk(
    guest: &mut Guest,
    conversation: &mut ProgramConversation,
    request: &[u8],
    meters: &[Meter],
    limits: Limits,
) -> Result<(), Termination> {
    tokio::select! {
        outcome = converse(guest, conversation, request) => outcome.map(|_| ()),
        stop = overrun(meters, limits) => Err(stop),
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
    if time > SHORT_RUN {
        let mut used = Duration::ZERO;
        for meter in meters {
            // A container that has ended no longer reports its processor time. The elapsed time is then the best estimate.
            used += meter.read().await.unwrap_or_default();
        }
        if used > Duration::ZERO {
            time = used;
        }
    }
    Run {
        calls,
        end,
        fuel: watchdog::fuel(time),
        stdout,
    }
}
