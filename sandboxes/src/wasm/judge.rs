//! The host's side of the conversation with a judge's instance: it hands out tests, notes how they end, and carries the tests' calls of
//! the entry point over to the candidate's instance.

use std::collections::VecDeque;

use super::TURN;
use super::candidate::{exception, job, value};
use super::guest::Guest;
use super::stop::Stop;
use crate::{Call, Limits};

/// Room for what a request says besides values.
const SLACK: usize = 64 << 10;

/// Requests are those of a candidate, and `C` (call the entry point; answered `V`, `E` or `T` as the candidate answered) and `X` (a test
/// passes something that cannot be sent).
pub(super) struct Judge {
    job: Vec<u8>,
    state: State,
    tests: VecDeque<String>,
    results: Vec<Call>,
    longest: usize,
    candidate: Guest,
    /// Whether the tests have called the program.
    called: bool,
    unloadable: Option<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Loading,
    Ready,
    Testing,
    Ended,
}

impl Judge {
    /// A conversation about `tests`, over a candidate's instance that has loaded its program.
    pub(super) fn new(
        candidate: Guest,
        entry_point: &str,
        prelude: &str,
        tests: &[String],
        limits: &Limits,
    ) -> Judge {
        Judge {
            job: job("test", prelude, entry_point, limits.value),
            state: State::Fresh,
            tests: tests.iter().cloned().collect(),
            results: Vec::new(),
            longest: limits.value.saturating_mul(2).saturating_add(SLACK),
            candidate,
            called: false,
            unloadable: None,
        }
    }

    pub(super) fn completed(&self) -> bool {
        self.state == State::Ended && self.tests.is_empty()
    }

    /// What the prelude raised after it had called the program: the program's fault as likely as the task's.
    pub(super) fn unloadable(&self) -> Option<(String, String)> {
        self.unloadable.clone()
    }

    pub(super) fn take_results(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.results)
    }

    pub(super) fn candidate(&mut self) -> &mut Guest {
        &mut self.candidate
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// # Errors
    /// Why the judge must stop: the candidate stopped, or the task's own code does not work here.
    pub(super) async fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, Stop> {
        let (&letter, payload) = request
            .split_first()
            .ok_or(Stop::Protocol("an empty request"))?;
        match (self.state, letter) {
            (State::Fresh, b'J') => {
                self.state = State::Loading;
                return Ok(std::mem::take(&mut self.job));
            }
            (State::Loading, b'L') => self.state = State::Ready,
            (State::Loading, b'U') => {
                let (kind, message) = exception(payload)?;
                if self.called {
                    self.unloadable = Some((kind, message));
                    self.state = State::Ended;
                    return Ok(Vec::new());
                }
                return Err(Stop::Task(format!(
                    "the task's own test code does not load ({kind}: {message}); correct the task"
                )));
            }
            (State::Ready, b'N') => match self.tests.pop_front() {
                Some(test) => {
                    self.state = State::Testing;
                    return Ok(test.into_bytes());
                }
                None => self.state = State::Ended,
            },
            (State::Testing, b'V') => self.close(value(payload)?),
            (State::Testing, b'E') => {
                let (kind, message) = exception(payload)?;
                self.close(Call::Raised { kind, message });
            }
            (State::Loading | State::Testing, b'C') => return self.call(payload).await,
            (_, b'X') => {
                let (kind, _) = exception(payload)?;
                return Err(Stop::Task(format!(
                    "the task's test code passes a value of type {kind} to the program, which cannot be sent to another instance; give the task arguments \
                     of built-in types"
                )));
            }
            _ => return Err(Stop::Protocol("a request out of turn")),
        }
        Ok(Vec::new())
    }

    fn close(&mut self, call: Call) {
        self.results.push(call);
        self.state = State::Ready;
    }

    /// One call of the entry point: a turn of the candidate's instance.
    async fn call(&mut self, arguments: &[u8]) -> Result<Vec<u8>, Stop> {
        let Call::Returned(arguments) = value(arguments)? else {
            return Err(Stop::Protocol("a call without arguments"));
        };
        self.called = true;
        self.candidate.conversation()?.expect(arguments)?;
        self.candidate.turn(TURN).await?;
        match self.candidate.conversation()?.take_results().pop() {
            Some(Call::Returned(text)) => Ok([b"V", text.as_bytes()].concat()),
            Some(Call::Raised { kind, message }) => {
                let body =
                    serde_json::to_vec(&[kind, message]).expect("strings always have a JSON form");
                Ok([b"E", &body[..]].concat())
            }
            Some(Call::TooLarge) => Ok(b"T".to_vec()),
            None => Err(Stop::Protocol("a turn without an answer")),
        }
    }
}
