//! Exchange of bytes between the ranks of a run: the processes that train one model together.
//!
//! A [`ProcessGroup`] moves bytes and computes nothing. The engine computes all sums, in a fixed order (`train::exchange`). So results do not depend on the
//! library that carries the bytes, and all numbers of ranks give the same bits.

mod leader;
mod local;
pub mod mpi;
mod sharing;

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, Instant};

pub use self::leader::Leader;
pub(crate) use self::leader::{LeaderState, next_command};
#[cfg(test)]
pub(crate) use self::local::on_each;
pub use self::local::{alone, local};
pub(crate) use self::sharing::{Route, gradients, pieces, places, shards};
pub use self::sharing::{Sharing, bucket_elements, check_slices, sampling_share};
use crate::error::EngineError;

/// The ranks of a run, numbered from 0. Every rank makes the same calls in the same order; a call returns once every rank has made it.
pub trait ProcessGroup: Send + Sync {
    /// This process's number.
    fn rank(&self) -> usize;

    /// Number of ranks: a power of two.
    fn size(&self) -> usize;

    /// How long a call waits for other ranks.
    fn deadline(&self) -> Duration;

    /// Sends `parts[r]` to rank `r`, and returns what each rank sent to this one, in the order of ranks. Parts may be empty and differ in length.
    ///
    /// # Errors
    /// [`EngineError::Ranks`] if a rank is gone or does not make its call in time. No further call succeeds.
    fn all_to_all(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, EngineError>;

    /// Sends `part` to all ranks, and returns what each rank sent, in the order of ranks.
    ///
    /// # Errors
    /// Like [`ProcessGroup::all_to_all`].
    fn all_gather(&self, part: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        self.all_to_all(&vec![part; self.size()])
    }

    /// Sends numbers to each rank and receives numbers from each; all ranks know how many. `pieces[r]` of `send` goes to rank `r`, and `places[r]` of
    /// `received` gets what rank `r` sends. Returns both lists, to be used again. After an error they are lost, since a library may still use them.
    ///
    /// # Errors
    /// Like [`ProcessGroup::all_to_all`], and if a rank sends another number of them.
    fn exchange(
        &self,
        send: Vec<f32>,
        pieces: &[Range<usize>],
        mut received: Vec<f32>,
        places: &[Range<usize>],
    ) -> Result<[Vec<f32>; 2], EngineError> {
        let part = |piece: &Range<usize>| bytemuck::cast_slice(&send[piece.clone()]);
        let parts = self.all_to_all(&pieces.iter().map(part).collect::<Vec<_>>())?;
        for (bytes, place) in parts.iter().zip(places) {
            let numbers = floats(bytes);
            let place = &mut received[place.clone()];
            if numbers.len() != place.len() {
                return Err(disagree());
            }
            place.copy_from_slice(&numbers);
        }
        Ok([send, received])
    }

    /// Leaves the group, after the last exchange. All ranks call it.
    fn finish(&self) {}

    /// Ends the processes of all ranks, after an error of this one, if the group can.
    fn abort(&self, _code: i32) {}
}

/// The time between two looks of a waiting rank, after a first moment in which it only yields.
const POLL: Duration = Duration::from_micros(50);

/// Waits a moment for other ranks. The wait began at `began`; after the deadline, this is an error.
pub(crate) fn pause(began: Instant, deadline: Duration) -> Result<(), String> {
    let waited = began.elapsed();
    if waited > deadline {
        let seconds = deadline.as_secs();
        return Err(format!("it waited {seconds} s for other ranks"));
    }
    if waited < Duration::from_millis(1) {
        std::thread::yield_now();
    } else {
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// How a rank's work ended, as the first byte of its message.
const DONE: u8 = 0;
const NUMERIC: u8 = 1;
const FAILED: u8 = 2;

/// Ends a piece of work that each rank did by itself, and gathers what each rank returned. If it failed on some ranks, all ranks get the error of the first of
/// these, and go on together. Only [`EngineError::Ranks`] says that they have lost each other.
pub(crate) fn agree(
    ranks: &dyn ProcessGroup,
    done: Result<Vec<u8>, EngineError>,
) -> Result<Vec<Vec<u8>>, EngineError> {
    if ranks.size() == 1 {
        return done.map(|bytes| vec![bytes]);
    }
    let message = match &done {
        Ok(bytes) => [&[DONE], bytes.as_slice()].concat(),
        Err(EngineError::Numeric(text)) => [&[NUMERIC], text.as_bytes()].concat(),
        Err(error) => [&[FAILED], error.to_string().as_bytes()].concat(),
    };
    let received = ranks.all_gather(&message)?;
    let own = done.err();
    let mut parts = Vec::with_capacity(received.len());
    for (rank, message) in received.into_iter().enumerate() {
        let (kind, content) = message.split_first().unwrap_or((&FAILED, &[]));
        let text = || format!("rank {rank}: {}", String::from_utf8_lossy(content));
        match *kind {
            DONE => parts.push(content.to_vec()),
            _ if rank == ranks.rank() => return Err(own.unwrap_or(EngineError::Stopped)),
            NUMERIC => return Err(EngineError::Numeric(text())),
            _ => return Err(EngineError::Device(text())),
        }
    }
    Ok(parts)
}

/// Reports to the other ranks that this one's work failed: [`agree`] returns the error there. Returns the error to report here.
pub(crate) fn fail(ranks: &dyn ProcessGroup, error: EngineError) -> EngineError {
    match agree(ranks, Err(error)) {
        Err(error) => error,
        Ok(_) => EngineError::Stopped,
    }
}

pub(crate) fn disagree() -> EngineError {
    EngineError::Ranks(
        "the ranks disagree about an update: they must run the same version with the same settings, model and data".into(),
    )
}

/// A rank's bytes as numbers. They are copied only if they are not aligned.
pub(crate) fn floats(bytes: &[u8]) -> Cow<'_, [f32]> {
    bytemuck::try_cast_slice(bytes).map_or_else(
        |_| {
            let numbers = bytes.as_chunks().0.iter();
            numbers.map(|bytes| f32::from_ne_bytes(*bytes)).collect()
        },
        Cow::Borrowed,
    )
}
