//! The host's side of the conversation with the program's instance.
//!
//! Requests begin with one letter:
//!
//! | letter | meaning |
//! | --- | --- |
//! | `J` | asks for the job |
//! | `L`, `U` | the program is loaded, or cannot be loaded |
//! | `N` | asks for the next call |
//! | `P` | a piece of a long value, any number of times while a call is open |
//! | `V`, `E`, `T` | the end of an open call: the value or its last piece, an exception, or a value that is nested too deeply or too large |
//! | `B` | some elements of a long list in the interpreter's own binary form ([`marshal`]), any number of times while a call is open |
//! | `M` | the end of an open call: the value in that form, or the last elements of the list |
//! | `A` | while a call of a serving conversation is open: asks for what test code has put in place of a function or a stream ([`ProgramConversation::question`]) |
//!
//! The host may refuse the binary form. It then answers the next `N` with `?`, which opens the call again, and the guest sends the same value as JSON. Pieces may replace a
//! binary form that was begun, but not the other way round. A serving conversation ([`ProgramConversation::serving`]) has no binary form.
//!
//! The program can make requests of its own. It can only lie about its own results by them: the host counts and orders the results, and stops the guest at the
//! first request that is out of turn.

use std::collections::VecDeque;

use serde::Serialize;
use serde::de::IgnoredAny;

use super::marshal::{self, Refused};
use super::{Broken, SLACK, broken_off};
use crate::{Call, End, Limits, Program, SandboxError, Watch, value_digest};

/// Nesting of a value's JSON. Common parsers accept it.
const MAX_DEPTH: usize = 120;
/// Size of all values of one run together, in multiples of the largest value.
const MAX_VALUES: usize = 16;
/// Bytes of an exception's type, and of its message; the rest is cut off.
const MAX_MESSAGE: usize = 1000;
/// Fuel for each byte of text that the host writes for a binary form. The host needs some nanoseconds for a byte, and a guest burns about ten units in each nanosecond.
const TEXT_PRICE: u64 = 4;

/// Where the harness itself answers the calls.
const NO_PROGRAM: Program<'static> = Program {
    source: "",
    entry_point: "",
};

/// The job that the guest gets.
#[derive(Serialize)]
struct Job<'a> {
    mode: &'static str,
    source: &'a str,
    entry_point: &'a str,
    /// Bytes of one encoded value.
    value: usize,
}

/// Where a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Fresh,
    Loading,
    Ready,
    InCall,
    Ended,
}

/// One conversation.
pub(crate) struct ProgramConversation {
    job: Vec<u8>,
    /// Whether results are passed on to an interpreter. It takes JSON alone.
    serving: bool,
    state: State,
    /// Calls that were not sent yet.
    calls: VecDeque<String>,
    results: Vec<Call>,
    /// Bytes that one result may have.
    longest: usize,
    /// Bytes that all further results may have together.
    room: usize,
    /// The pieces of a value that has not arrived in full.
    pieces: Pieces,
    /// `None` if no part of the open call's value came in binary form; otherwise whether that form was accepted so far.
    binary: Option<Result<(), Refused>>,
    /// Bytes of text that the host wrote for binary forms.
    converted: u64,
    /// How many of them have been charged.
    charged: u64,
    /// Fuel of the whole run.
    fuel: u64,
    /// [`End::Unloadable`], if the program could not be loaded.
    unloadable: Option<End>,
    watch: Option<Watch>,
}

impl ProgramConversation {
    /// A conversation about `calls` of `program`.
    pub(crate) fn calling(
        program: Program<'_>,
        calls: &[String],
        watch: Option<&Watch>,
        limits: &Limits,
    ) -> ProgramConversation {
        ProgramConversation {
            calls: calls.iter().cloned().collect(),
            watch: watch.cloned(),
            ..ProgramConversation::new("call", program, limits)
        }
    }

    /// A conversation with the harness itself: its `outline` answers the calls of [`ProgramConversation::set_calls`]. No program is loaded.
    pub(crate) fn outlining(limits: &Limits) -> ProgramConversation {
        ProgramConversation::new("outline", NO_PROGRAM, limits)
    }

    /// A conversation with the harness itself: its `whole_program` answers one call.
    pub(crate) fn whole_program(call: String, limits: &Limits) -> ProgramConversation {
        ProgramConversation {
            calls: VecDeque::from([call]),
            ..ProgramConversation::new("whole", NO_PROGRAM, limits)
        }
    }

    /// Sets the next calls, at the start or after all earlier calls have been answered.
    pub(crate) fn set_calls(&mut self, calls: &[String]) {
        self.calls = calls.iter().cloned().collect();
        self.room = self.longest.saturating_mul(MAX_VALUES);
        (self.converted, self.charged) = (0, 0);
        if self.state == State::Ended {
            self.state = State::Ready;
        }
    }

    /// A conversation with calls that come one at a time ([`ProgramConversation::expect`]). Each result carries the arguments as the call left them.
    pub(crate) fn serving(program: Program<'_>, limits: &Limits) -> ProgramConversation {
        ProgramConversation {
            serving: true,
            longest: limits.value.saturating_mul(2).saturating_add(SLACK),
            // Each result is passed on at once, so the results do not add up.
            room: usize::MAX,
            ..ProgramConversation::new("serve", program, limits)
        }
    }

    fn new(mode: &'static str, program: Program<'_>, limits: &Limits) -> ProgramConversation {
        ProgramConversation {
            job: job(mode, program.source, program.entry_point, limits.value),
            serving: false,
            state: State::Fresh,
            calls: VecDeque::new(),
            results: Vec::new(),
            longest: limits.value,
            room: limits.value.saturating_mul(MAX_VALUES),
            pieces: Pieces::default(),
            binary: None,
            converted: 0,
            charged: 0,
            fuel: limits.fuel,
            unloadable: None,
            watch: None,
        }
    }

    /// Whether every call has been answered.
    pub(crate) fn completed(&self) -> bool {
        self.state == State::Ended && self.calls.is_empty()
    }

    /// Whether the guest has no further request.
    pub(crate) fn ended(&self) -> bool {
        self.state == State::Ended
    }

    /// How the program's part ended. `stopped` is how its instance stopped, unless it had no further request. Whatever happens after the last call was answered is ignored.
    ///
    /// # Errors
    /// That of `stopped`.
    pub(crate) fn end(
        &self,
        stopped: Option<Result<End, SandboxError>>,
    ) -> Result<End, SandboxError> {
        match &self.unloadable {
            Some(end) => Ok(end.clone()),
            None if self.completed() => Ok(End::Completed),
            None => stopped.unwrap_or_else(|| Ok(broken_off())),
        }
    }

    /// The results so far.
    pub(crate) fn take_results(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.results)
    }

    /// Adds one more call to a serving conversation.
    ///
    /// # Errors
    /// [`Broken::Protocol`] if the last turn was broken off.
    pub(crate) fn expect(&mut self, call: String) -> Result<(), Broken> {
        if !self.completed() || self.unloadable.is_some() {
            return Err(Broken::Protocol("a turn that was broken off"));
        }
        self.calls.push_back(call);
        self.results.clear();
        self.state = State::Ready;
        Ok(())
    }

    /// The guest's question to the tests' instance while its call is open; `None` for any other request.
    ///
    /// # Errors
    /// [`Broken::Protocol`] if the question is not JSON.
    pub(crate) fn question(&self, request: &[u8]) -> Result<Option<String>, Broken> {
        match request.split_first() {
            Some((b'A', payload)) if self.serving && self.state == State::InCall => {
                match value(payload)? {
                    Call::Returned(text) => Ok(Some(text)),
                    Call::Raised { .. } | Call::TooDeepOrLarge => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn longest(&self) -> usize {
        self.longest.saturating_add(SLACK)
    }

    /// # Errors
    /// [`Broken::Protocol`] if the request is out of turn or malformed. [`Broken::Fuel`] if the host has written more text for the results than all fuel pays for.
    /// [`Broken::Watched`] if the watch ends the run.
    pub(crate) fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, Broken> {
        let (&letter, payload) = request
            .split_first()
            .ok_or(Broken::Protocol("an empty request"))?;
        match (self.state, letter) {
            (State::Fresh, b'J') => {
                self.state = State::Loading;
                return Ok(std::mem::take(&mut self.job));
            }
            (State::Loading, b'L') => self.state = State::Ready,
            (State::Loading, b'U') => {
                let (kind, message) = exception(payload)?;
                self.unloadable = Some(End::Unloadable { kind, message });
                self.state = State::Ended;
            }
            (State::Ready, b'N') if self.binary == Some(Err(Refused)) => {
                self.open();
                return Ok(b"?".to_vec());
            }
            (State::Ready, b'N') => match self.calls.pop_front() {
                Some(call) => {
                    self.open();
                    return Ok(call.into_bytes());
                }
                None => self.state = State::Ended,
            },
            (State::InCall, b'B' | b'M') if self.serving => {
                return Err(Broken::Protocol("a request out of turn"));
            }
            (State::InCall, b'B' | b'M') if self.binary.is_none() && self.pieces.length > 0 => {
                return Err(Broken::Protocol("a value in two forms"));
            }
            (State::InCall, b'B') => {
                self.add_elements(payload);
                self.check_paid()?;
            }
            (State::InCall, b'M') => self.binary(payload)?,
            (State::InCall, b'P') => self.add_guest_json(payload),
            (State::InCall, b'V') => {
                self.add_guest_json(payload);
                let call = std::mem::take(&mut self.pieces).finish()?;
                self.close(call)?;
            }
            (State::InCall, b'E') => {
                let (kind, message) = exception(payload)?;
                self.close(Call::Raised { kind, message })?;
            }
            (State::InCall, b'T') => self.close(Call::TooDeepOrLarge)?,
            _ => return Err(Broken::Protocol("a request out of turn")),
        }
        Ok(Vec::new())
    }

    /// The fuel for the text that the host has written for binary forms since the last call of this function.
    pub(crate) fn take_price(&mut self) -> u64 {
        let converted = self.converted - self.charged;
        self.charged = self.converted;
        converted.saturating_mul(TEXT_PRICE)
    }

    /// Checks that the text written for binary forms is within the run's fuel, for sandboxes that count no other fuel.
    fn check_paid(&self) -> Result<(), Broken> {
        if self.converted.saturating_mul(TEXT_PRICE) > self.fuel {
            return Err(Broken::Fuel);
        }
        Ok(())
    }

    /// Opens a call, or opens it again.
    fn open(&mut self) {
        self.pieces = Pieces::default();
        self.binary = None;
        self.state = State::InCall;
    }

    /// Adds a piece of JSON from the guest. It replaces a binary form that the guest has begun.
    fn add_guest_json(&mut self, json: &[u8]) {
        if self.binary.is_some() {
            self.open();
        }
        self.pieces.add(json, self.longest.min(self.room));
    }

    /// Adds some elements of a long list, in binary form.
    fn add_elements(&mut self, marshalled: &[u8]) {
        let before = self.binary;
        if before == Some(Err(Refused)) {
            return;
        }
        let text = marshal::elements(marshalled, &mut self.converted);
        self.binary = Some(text.map(|text| {
            self.add_host_json(if before.is_none() { b"[" } else { b"," });
            self.add_host_json(&text);
        }));
    }

    /// Adds the value, or a long list's last elements, in binary form.
    fn binary(&mut self, marshalled: &[u8]) -> Result<(), Broken> {
        if self.binary.is_some() {
            self.add_elements(marshalled);
            self.add_host_json(b"]");
        } else {
            let text = marshal::value(marshalled, &mut self.converted);
            self.binary = Some(text.map(|text| self.add_host_json(&text)));
        }
        self.check_paid()?;
        self.state = State::Ready;
        if self.binary == Some(Ok(())) {
            let call = std::mem::take(&mut self.pieces).finish_host_json()?;
            self.close(call)?;
        }
        Ok(())
    }

    /// Adds JSON that the host wrote for a binary form.
    fn add_host_json(&mut self, text: &[u8]) {
        self.pieces.add(text, self.longest.min(self.room));
    }

    fn close(&mut self, call: Call) -> Result<(), Broken> {
        if let Call::Returned(text) = &call {
            self.room = self.room.saturating_sub(text.len());
        }
        self.results.push(call);
        self.binary = None;
        self.pieces = Pieces::default();
        self.state = State::Ready;
        check_watch(self.watch.as_ref(), &self.results)
    }
}

/// Shows the `watch` the last of `results`.
///
/// # Errors
/// [`Broken::Watched`] if the watch ends the run.
pub(super) fn check_watch(watch: Option<&Watch>, results: &[Call]) -> Result<(), Broken> {
    match (watch, results.split_last()) {
        (Some(watch), Some((last, before))) if !watch.should_continue(before.len(), last) => {
            Err(Broken::Watched)
        }
        _ => Ok(()),
    }
}

/// A value as it arrives: its bytes until they are too many, and from then on their digest.
#[derive(Default)]
struct Pieces {
    bytes: Vec<u8>,
    length: u64,
    /// Created when the value is too long.
    hasher: Option<blake3::Hasher>,
}

impl Pieces {
    fn add(&mut self, piece: &[u8], longest: usize) {
        self.length += piece.len() as u64;
        if self.hasher.is_none() && self.length > longest as u64 {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&std::mem::take(&mut self.bytes));
            self.hasher = Some(hasher);
        }
        match &mut self.hasher {
            Some(hasher) => _ = hasher.update(piece),
            None => self.bytes.extend_from_slice(piece),
        }
    }

    /// Finishes a value in JSON from the guest.
    fn finish(self) -> Result<Call, Broken> {
        match self.hasher {
            Some(_) => self.finish_host_json(),
            None => value(&self.bytes),
        }
    }

    /// Finishes a value in JSON from the host. Its form needs no check.
    fn finish_host_json(self) -> Result<Call, Broken> {
        let text = match self.hasher {
            Some(hasher) => value_digest::digest(self.length, &hasher.finalize()),
            None => String::from_utf8(self.bytes)
                .map_err(|_| Broken::Protocol("a value that is not text"))?,
        };
        Ok(Call::Returned(text))
    }
}

/// The JSON of a job.
pub(crate) fn job(mode: &'static str, source: &str, entry_point: &str, value: usize) -> Vec<u8> {
    serde_json::to_vec(&Job {
        mode,
        source,
        entry_point,
        value,
    })
    .expect("strings and numbers always have a JSON form")
}

/// Checks that a value is JSON of bounded depth. The code that reads the value checks its content.
pub(crate) fn value(payload: &[u8]) -> Result<Call, Broken> {
    let text =
        std::str::from_utf8(payload).map_err(|_| Broken::Protocol("a value that is not text"))?;
    // The guest's parser, unlike the host's, takes no spaces before a value.
    if depth(payload) > MAX_DEPTH
        || payload.first().is_some_and(u8::is_ascii_whitespace)
        || names_a_surrogate(payload)
        || serde_json::from_str::<IgnoredAny>(text).is_err()
    {
        return Err(Broken::Protocol("a value that is not JSON"));
    }
    Ok(Call::Returned(text.to_owned()))
}

/// `[type, message]`, each cut to a bounded length.
pub(crate) fn exception(payload: &[u8]) -> Result<(String, String), Broken> {
    let (mut kind, mut message): (String, String) = serde_json::from_slice(payload)
        .map_err(|_| Broken::Protocol("an exception without type and message"))?;
    for text in [&mut kind, &mut message] {
        text.truncate(text.floor_char_boundary(MAX_MESSAGE));
    }
    Ok((kind, message))
}

/// Whether a `\u` escape names a surrogate. The harness writes a character beyond 16 bits without an escape, and has no encoding for half a surrogate pair. Tests that
/// got such a half could not pass it on.
fn names_a_surrogate(json: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        if byte == b'\\' {
            if let Some([b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']) =
                json.get(at + 1..at + 4)
            {
                return true;
            }
            at += 1;
        }
        at += 1;
    }
    false
}

/// Deepest nesting of brackets outside strings.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests;
