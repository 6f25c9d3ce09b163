//! The host's side of the conversation with a candidate's instance.
//!
//! Requests begin with one letter: `J` job, `L` loaded, `U` unloadable, `N` next call, and, while a call is open, any number of `P` piece (of a
//! long value) and exactly one of `V` value (or its last piece), `E` exception, `T` too large. Before that the value may come in the interpreter's own binary form
//! ([`marshal`]): any number of `B` (some elements of a long list) and one `M` (the value, or the list's last elements). Where that will not do, the answer to the next
//! `N` is `?`, and the call is open again. Pieces may take the place of a binary form that was begun, but not the other way round. The candidate's code can make requests of
//! its own; all it can reach is a lie about its own results, since the host keeps the count and the order, and stops the guest at the first request that is out of turn.

use std::collections::VecDeque;

use serde::Serialize;
use serde::de::IgnoredAny;

use super::marshal::{self, Refused};
use super::{Broken, SLACK};
use crate::{Call, Limits, Program, Watch};

/// Nesting of a value's JSON: what common parsers accept.
const MAX_DEPTH: usize = 120;
/// All values of one run together, in values of the largest size.
const MAX_VALUES: usize = 16;
/// Bytes of an exception's type and of its message; the rest is cut off.
const MAX_MESSAGE: usize = 1000;
/// Fuel for a byte of text that is made of a binary form. It takes the host some nanoseconds, in each of which a guest burns about ten units.
const TEXT_PRICE: u64 = 4;

/// What the guest is asked to do.
#[derive(Serialize)]
struct Job<'a> {
    mode: &'static str,
    source: &'a str,
    entry_point: &'a str,
    /// Bytes of one encoded value.
    value: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Loading,
    Ready,
    InCall,
    Ended,
}

/// One conversation.
pub(crate) struct Candidate {
    job: Vec<u8>,
    state: State,
    /// Calls not yet handed out.
    calls: VecDeque<String>,
    results: Vec<Call>,
    /// Bytes that one result may have.
    longest: usize,
    /// Bytes that all further results may have together.
    room: usize,
    /// The pieces of a value that is still coming.
    pieces: Pieces,
    /// Whether the value came in its binary form so far, and whether that did.
    binary: Option<Result<(), Refused>>,
    /// Bytes of text made of binary forms, and how many of them have been charged.
    made: u64,
    charged: u64,
    /// Fuel of the whole run.
    fuel: u64,
    unloadable: Option<(String, String)>,
    watch: Option<Watch>,
}

impl Candidate {
    /// A conversation about `calls` of `program`.
    pub(crate) fn calling(
        program: Program<'_>,
        calls: &[String],
        watch: Option<&Watch>,
        limits: &Limits,
    ) -> Candidate {
        Candidate {
            calls: calls.iter().cloned().collect(),
            watch: watch.cloned(),
            ..Candidate::new("call", program, limits)
        }
    }

    /// A conversation with the harness itself, whose `outline` answers what it is asked ([`Candidate::ask`]); no program is loaded.
    pub(crate) fn outlining(limits: &Limits) -> Candidate {
        let none = Program {
            source: "",
            entry_point: "",
        };
        Candidate::new("outline", none, limits)
    }

    /// Makes `calls` the next, at first or after all before have been answered.
    pub(crate) fn ask(&mut self, calls: &[String]) {
        self.calls = calls.iter().cloned().collect();
        self.room = self.longest.saturating_mul(MAX_VALUES);
        (self.made, self.charged) = (0, 0);
        if self.state == State::Ended {
            self.state = State::Ready;
        }
    }

    /// A conversation in which calls come one at a time ([`Candidate::expect`]) and each result carries the arguments as the call left them.
    pub(crate) fn serving(program: Program<'_>, limits: &Limits) -> Candidate {
        Candidate {
            longest: limits.value.saturating_mul(2).saturating_add(SLACK),
            // Each result is handed on at once, so nothing adds up.
            room: usize::MAX,
            ..Candidate::new("serve", program, limits)
        }
    }

    fn new(mode: &'static str, program: Program<'_>, limits: &Limits) -> Candidate {
        Candidate {
            job: job(mode, program.source, program.entry_point, limits.value),
            state: State::Fresh,
            calls: VecDeque::new(),
            results: Vec::new(),
            longest: limits.value,
            room: limits.value.saturating_mul(MAX_VALUES),
            pieces: Pieces::default(),
            binary: None,
            made: 0,
            charged: 0,
            fuel: limits.fuel,
            unloadable: None,
            watch: None,
        }
    }

    /// Whether every call that was given has been answered.
    pub(crate) fn completed(&self) -> bool {
        self.state == State::Ended && self.calls.is_empty()
    }

    /// Whether the guest has nothing more to ask.
    pub(crate) fn ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Why the program could not be loaded: the exception's type and message.
    pub(crate) fn unloadable(&self) -> Option<(String, String)> {
        self.unloadable.clone()
    }

    /// The results so far.
    pub(crate) fn take_results(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.results)
    }

    /// Gives one more call to a serving conversation.
    ///
    /// # Errors
    /// [`Broken::Protocol`] where the last turn was broken off.
    pub(crate) fn expect(&mut self, call: String) -> Result<(), Broken> {
        if !self.completed() || self.unloadable.is_some() {
            return Err(Broken::Protocol("a turn that was broken off"));
        }
        self.calls.push_back(call);
        self.results.clear();
        self.state = State::Ready;
        Ok(())
    }

    pub(crate) fn longest(&self) -> usize {
        self.longest.saturating_add(SLACK)
    }

    /// # Errors
    /// [`Broken::Protocol`] at a request that is out of turn or malformed; [`Broken::Fuel`] where the host has made more text of the results than all fuel pays for; [`Broken::Watched`].
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
                self.unloadable = Some(exception(payload)?);
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
            (State::InCall, b'B' | b'M') if self.binary.is_none() && self.pieces.length > 0 => {
                return Err(Broken::Protocol("a value in two forms"));
            }
            (State::InCall, b'B') => {
                self.add_elements(payload);
                self.paid()?;
            }
            (State::InCall, b'M') => self.binary(payload)?,
            (State::InCall, b'P') => self.add_written(payload),
            (State::InCall, b'V') => {
                self.add_written(payload);
                let call = std::mem::take(&mut self.pieces).finish()?;
                self.close(call)?;
            }
            (State::InCall, b'E') => {
                let (kind, message) = exception(payload)?;
                self.close(Call::Raised { kind, message })?;
            }
            (State::InCall, b'T') => self.close(Call::TooLarge)?,
            _ => return Err(Broken::Protocol("a request out of turn")),
        }
        Ok(Vec::new())
    }

    /// The fuel for the text that the host has made of binary forms since the last such question.
    pub(crate) fn take_price(&mut self) -> u64 {
        let made = self.made - self.charged;
        self.charged = self.made;
        made.saturating_mul(TEXT_PRICE)
    }

    /// Whether all that was made of binary forms is within the run's fuel, for sandboxes that count no other.
    fn paid(&self) -> Result<(), Broken> {
        if self.made.saturating_mul(TEXT_PRICE) > self.fuel {
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

    /// A piece of JSON from the guest, which takes the place of a binary form that it has begun.
    fn add_written(&mut self, json: &[u8]) {
        if self.binary.is_some() {
            self.open();
        }
        self.pieces.add(json, self.longest.min(self.room));
    }

    /// Some elements of a long list.
    fn add_elements(&mut self, marshalled: &[u8]) {
        let begun = self.binary;
        if begun == Some(Err(Refused)) {
            return;
        }
        let text = marshal::elements(marshalled, &mut self.made);
        self.binary = Some(text.map(|text| {
            self.add_made(if begun.is_none() { b"[" } else { b"," });
            self.add_made(&text);
        }));
    }

    /// The value, or a long list's last elements.
    fn binary(&mut self, marshalled: &[u8]) -> Result<(), Broken> {
        if self.binary.is_some() {
            self.add_elements(marshalled);
            self.add_made(b"]");
        } else {
            let text = marshal::value(marshalled, &mut self.made);
            self.binary = Some(text.map(|text| self.add_made(&text)));
        }
        self.paid()?;
        self.state = State::Ready;
        if self.binary == Some(Ok(())) {
            let call = std::mem::take(&mut self.pieces).finish_made()?;
            self.close(call)?;
        }
        Ok(())
    }

    fn add_made(&mut self, text: &[u8]) {
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
        watched(self.watch.as_ref(), &self.results)
    }
}

/// Asks the `watch` about the last of `results`.
///
/// # Errors
/// [`Broken::Watched`] where it has seen enough.
pub(super) fn watched(watch: Option<&Watch>, results: &[Call]) -> Result<(), Broken> {
    match (watch, results.split_last()) {
        (Some(watch), Some((last, before))) if !watch.goes_on(before.len(), last) => {
            Err(Broken::Watched)
        }
        _ => Ok(()),
    }
}

/// A value as it arrives: its bytes until it turns out to be too long, and from then on their digest.
#[derive(Default)]
struct Pieces {
    bytes: Vec<u8>,
    length: u64,
    /// Made when the value turns out to be too long.
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

    /// The value that a guest wrote.
    fn finish(self) -> Result<Call, Broken> {
        match self.hasher {
            Some(_) => self.finish_made(),
            None => value(&self.bytes),
        }
    }

    /// The value that was made here, of whose form there is no doubt.
    fn finish_made(self) -> Result<Call, Broken> {
        let text = match self.hasher {
            Some(hasher) => format!(
                "{{\"$digest\":\"{} bytes, BLAKE3 {}\"}}",
                self.length,
                hasher.finalize()
            ),
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

/// A value's JSON, checked for being JSON of bounded depth. What it says is checked by who reads it.
pub(crate) fn value(payload: &[u8]) -> Result<Call, Broken> {
    let text =
        std::str::from_utf8(payload).map_err(|_| Broken::Protocol("a value that is not text"))?;
    if depth(payload) > MAX_DEPTH
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

/// Whether a `\u` escape names a surrogate. The harness writes a character beyond 16 bits as it is, and has no encoding for half of one; tests that
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
