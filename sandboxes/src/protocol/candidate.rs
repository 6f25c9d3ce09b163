//! The host's side of the conversation with a candidate's instance.
//!
//! Requests begin with one letter: `J` job, `L` loaded, `U` unloadable, `N` next call, and, while a call is open, any number of `P` piece (of a
//! long value) and exactly one of `V` value (or its last piece), `E` exception, `T` too large. The candidate's code can make requests of its own; all it can reach is a lie about its own
//! results, since the host keeps the count and the order, and stops the guest at the first request that is out of turn.

use std::collections::VecDeque;

use serde::Serialize;
use serde::de::IgnoredAny;

use super::{Broken, SLACK};
use crate::{Call, Limits, Program};

/// Nesting of a value's JSON: what common parsers accept.
const DEPTH: usize = 120;
/// All values of one run together, in values of the largest size.
const VALUES: usize = 16;
/// Bytes kept of an exception's type and of its message.
const MESSAGE: usize = 1000;

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
    unloadable: Option<(String, String)>,
}

impl Candidate {
    /// A conversation about `program` and its calls.
    pub(crate) fn new(program: &Program<'_>, limits: &Limits) -> Candidate {
        let longest = limits.value;
        Candidate {
            job: job("call", program.source, program.entry_point, limits.value),
            state: State::Fresh,
            calls: program.calls.iter().cloned().collect(),
            results: Vec::new(),
            longest,
            room: longest.saturating_mul(VALUES),
            pieces: Pieces::default(),
            unloadable: None,
        }
    }

    /// A conversation in which calls come one at a time ([`Candidate::expect`]) and each result carries the arguments as the call left them.
    pub(crate) fn serving(program: &Program<'_>, limits: &Limits) -> Candidate {
        Candidate {
            job: job("serve", program.source, program.entry_point, limits.value),
            state: State::Fresh,
            calls: VecDeque::new(),
            results: Vec::new(),
            longest: limits.value.saturating_mul(2).saturating_add(SLACK),
            // Each result is handed on at once, so nothing adds up.
            room: usize::MAX,
            pieces: Pieces::default(),
            unloadable: None,
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
    /// [`Broken::Protocol`] at a request that is out of turn or malformed.
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
            (State::Ready, b'N') => match self.calls.pop_front() {
                Some(call) => {
                    self.state = State::InCall;
                    return Ok(call.into_bytes());
                }
                None => self.state = State::Ended,
            },
            (State::InCall, b'P') => self.pieces.add(payload, self.longest.min(self.room)),
            (State::InCall, b'V') => {
                self.pieces.add(payload, self.longest.min(self.room));
                let call = std::mem::take(&mut self.pieces).finish()?;
                self.close(call);
            }
            (State::InCall, b'E') => {
                let (kind, message) = exception(payload)?;
                self.close(Call::Raised { kind, message });
            }
            (State::InCall, b'T') => self.close(Call::TooLarge),
            _ => return Err(Broken::Protocol("a request out of turn")),
        }
        Ok(Vec::new())
    }

    fn close(&mut self, call: Call) {
        if let Call::Returned(text) = &call {
            self.room = self.room.saturating_sub(text.len());
        }
        self.results.push(call);
        self.pieces = Pieces::default();
        self.state = State::Ready;
    }
}

/// A value as it comes: kept as long as it is not too long, and hashed in any case.
#[derive(Default)]
struct Pieces {
    kept: Vec<u8>,
    length: u64,
    /// Made when the value turns out to be too long to be kept.
    hasher: Option<blake3::Hasher>,
}

impl Pieces {
    fn add(&mut self, piece: &[u8], longest: usize) {
        self.length += piece.len() as u64;
        if self.hasher.is_none() && self.length > longest as u64 {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&std::mem::take(&mut self.kept));
            self.hasher = Some(hasher);
        }
        match &mut self.hasher {
            Some(hasher) => _ = hasher.update(piece),
            None => self.kept.extend_from_slice(piece),
        }
    }

    fn finish(self) -> Result<Call, Broken> {
        match self.hasher {
            Some(hasher) => Ok(Call::Returned(format!(
                "{{\"$digest\":\"{} bytes, BLAKE3 {}\"}}",
                self.length,
                hasher.finalize()
            ))),
            None => value(&self.kept),
        }
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
    if depth(payload) > DEPTH
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
        text.truncate(text.floor_char_boundary(MESSAGE));
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
mod tests {
    use super::*;

    fn conversation(calls: &[&str]) -> Candidate {
        let calls: Vec<String> = calls.iter().map(|&call| call.to_owned()).collect();
        let program = Program {
            source: "",
            entry_point: "f",
            calls: &calls,
        };
        Candidate::new(
            &program,
            &Limits {
                value: 10,
                ..Limits::default()
            },
        )
    }

    #[test]
    fn calls_are_answered_once_each_and_in_order() {
        let mut talk = conversation(&["[1]", "[2]"]);
        for (request, answer) in [("L", "[1]"), ("V10", "[2]"), ("V20", "")] {
            if request == "L" {
                talk.answer(b"J").unwrap();
            }
            talk.answer(request.as_bytes()).unwrap();
            assert_eq!(talk.answer(b"N").unwrap(), answer.as_bytes());
        }
        assert!(talk.completed());
        assert_eq!(
            talk.take_results(),
            [
                Call::Returned("10".to_owned()),
                Call::Returned("20".to_owned())
            ]
        );
    }

    #[test]
    fn a_request_out_of_turn_stops_the_guest() {
        for requests in [
            &["V1"][..],
            &["J", "J"],
            &["J", "N"],
            &["J", "L", "V1"],
            &["J", "L", "N", "V1", "V1"],
            &["J", "L", "N", "N"],
            &["J", "L", "N", "V1", "N", "N"],
            &[""],
        ] {
            let mut talk = conversation(&["[]"]);
            let (last, before) = requests.split_last().unwrap();
            for request in before {
                talk.answer(request.as_bytes()).unwrap();
            }
            assert!(
                matches!(talk.answer(last.as_bytes()), Err(Broken::Protocol(_))),
                "{requests:?}"
            );
        }
    }

    #[test]
    fn a_value_is_json_of_bounded_depth() {
        assert!(value(b"[1,{\"a\":\"[[[\\\"\"}]").is_ok());
        for bad in ["", "[1", "nul", "1 2", &"[".repeat(200)] {
            assert!(value(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(
            value(format!("{}{}", "[".repeat(DEPTH + 1), "]".repeat(DEPTH + 1)).as_bytes())
                .is_err()
        );
        assert!(value(b"\"\xff\"").is_err());
        for half in [r#""\ud800""#, r#"["\\\uDfff"]"#, r#"{"\ud83d\ude00":1}"#] {
            assert!(value(half.as_bytes()).is_err(), "{half}");
        }
        for whole in [r#""\\ud800""#, r#""\u0000\u00d8\ud7ff""#, "\"😀\""] {
            assert!(value(whole.as_bytes()).is_ok(), "{whole}");
        }
    }

    #[test]
    fn a_long_value_becomes_its_digest_however_it_is_cut() {
        let long = format!("\"{}\"", "x".repeat(40));
        let digest = |pieces: &[&str]| {
            let mut talk = conversation(&["[]"]);
            for request in ["J", "L", "N"].iter().chain(pieces) {
                talk.answer(request.as_bytes()).unwrap();
            }
            talk.take_results()
        };
        let whole = digest(&[&format!("V{long}")]);
        assert_eq!(
            whole,
            digest(&[
                &format!("P{}", &long[..5]),
                &format!("P{}", &long[5..30]),
                &format!("V{}", &long[30..])
            ])
        );
        let expected = format!(
            "{{\"$digest\":\"42 bytes, BLAKE3 {}\"}}",
            blake3::hash(long.as_bytes())
        );
        assert_eq!(whole, [Call::Returned(expected)]);
        assert_eq!(
            digest(&["P[1,", "V2]"]),
            [Call::Returned("[1,2]".to_owned())]
        );
    }

    #[test]
    fn what_is_kept_of_all_values_of_a_run_is_bounded() {
        let mut talk = conversation(&["[]"; 200]);
        talk.answer(b"J").unwrap();
        talk.answer(b"L").unwrap();
        for _ in 0..200 {
            talk.answer(b"N").unwrap();
            talk.answer(b"V\"xxxxxx\"").unwrap();
        }
        let results = talk.take_results();
        let kept = results
            .iter()
            .take_while(|call| **call == Call::Returned("\"xxxxxx\"".to_owned()))
            .count();
        assert_eq!(kept, 20);
        assert!(
            results[20..].iter().all(
                |call| matches!(call, Call::Returned(text) if text.starts_with("{\"$digest\""))
            )
        );
    }
}
