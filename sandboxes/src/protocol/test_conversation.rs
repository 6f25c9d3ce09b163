//! The host's side of the conversation with the tests' instance. The instance runs `guest/judge.py`. The host sends tests, records how they end, and passes the tests'
//! calls of the entry point to the program's instance.

use std::collections::VecDeque;

use super::program_conversation::{State, check_watch, exception, job, value};
use super::{Broken, ProgramConversation, SLACK};
use crate::{Call, End, Limits, Program, SandboxError, Watch};

/// Requests are those of the program's instance, and also `C`, `A` and `X`. `C` calls the entry point. Its answer is `V`, `E` or `T`, as the program answered, or `A` with
/// the program's question. The request `A` answers that question, and the same may follow. `X` is a test that passes a value that cannot be sent: `TooLarge`, or
/// `Unsendable` with the value's type.
pub(crate) struct TestConversation {
    job: Vec<u8>,
    /// A test that runs is an open call.
    state: State,
    tests: VecDeque<String>,
    results: Vec<Call>,
    longest: usize,
    /// Whether the tests have called the program.
    called: bool,
    /// [`End::Unloadable`], if the prelude raised after it had called the program. It may be the program's fault as well as the task's.
    unloadable: Option<End>,
    watch: Option<Watch>,
}

/// The fault of an answer that the program's instance does not wait for.
pub(crate) const NO_QUESTION: &str = "an answer to no question";

/// How the host reacts to a request of the tests' instance.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Sends this answer.
    Answer(Vec<u8>),
    /// Calls the entry point once, with these arguments, in the program's instance. [`call_answer`] turns the result into the answer.
    Call(String),
    /// Answers the program's question with this, and the call goes on.
    Resume(Vec<u8>),
}

impl TestConversation {
    /// A conversation about `tests` of `program`.
    pub(crate) fn new(
        program: Program<'_>,
        prelude: &str,
        tests: &[String],
        watch: Option<&Watch>,
        limits: &Limits,
    ) -> TestConversation {
        TestConversation {
            job: job("test", prelude, program.entry_point, limits.value),
            state: State::Fresh,
            tests: tests.iter().cloned().collect(),
            results: Vec::new(),
            longest: limits.value.saturating_mul(2).saturating_add(SLACK),
            called: false,
            unloadable: None,
            watch: watch.cloned(),
        }
    }

    /// How the run ended. `stopped` is how its instance stopped, unless it had no further request.
    ///
    /// # Errors
    /// That of `stopped`.
    pub(crate) fn end(
        &self,
        stopped: Option<Result<End, SandboxError>>,
    ) -> Result<End, SandboxError> {
        if let Some(end) = &self.unloadable {
            return Ok(end.clone());
        }
        let completed = self.ended() && self.tests.is_empty();
        match stopped {
            _ if completed && self.called => Ok(End::Completed),
            _ if completed => Ok(End::Uncalled),
            Some(end) => end,
            None => Ok(End::Died("the tests were broken off".to_owned())),
        }
    }

    /// Whether the guest has no further request.
    pub(crate) fn ended(&self) -> bool {
        self.state == State::Ended
    }

    pub(crate) fn take_results(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.results)
    }

    /// Bytes that a request may have.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// # Errors
    /// The instance must stop: it broke the protocol, the task's own code does not work here, or the watch ended the run.
    pub(crate) fn answer(&mut self, request: &[u8]) -> Result<Reply, Broken> {
        let (&letter, payload) = request
            .split_first()
            .ok_or(Broken::Protocol("an empty request"))?;
        match (self.state, letter) {
            (State::Fresh, b'J') => {
                self.state = State::Loading;
                return Ok(Reply::Answer(std::mem::take(&mut self.job)));
            }
            (State::Loading, b'L') => self.state = State::Ready,
            (State::Loading, b'U') => {
                let (kind, message) = exception(payload)?;
                if !self.called {
                    return Err(Broken::Task(format!(
                        "the task's own test code does not load ({kind}: {message}); correct the task"
                    )));
                }
                self.unloadable = Some(End::Unloadable { kind, message });
                self.state = State::Ended;
            }
            (State::Ready, b'N') => match self.tests.pop_front() {
                Some(test) => {
                    self.state = State::InCall;
                    return Ok(Reply::Answer(test.into_bytes()));
                }
                None => self.state = State::Ended,
            },
            (State::InCall, b'V') => self.close(value(payload)?)?,
            (State::InCall, b'E') => {
                let (kind, message) = exception(payload)?;
                self.close(Call::Raised { kind, message })?;
            }
            (State::Loading | State::InCall, b'C') => {
                let Call::Returned(arguments) = value(payload)? else {
                    return Err(Broken::Protocol("a call without arguments"));
                };
                self.called = true;
                return Ok(Reply::Call(arguments));
            }
            (State::Loading | State::InCall, b'A') => return Ok(Reply::Resume(payload.to_vec())),
            (_, b'X') => {
                let (reason, kind) = exception(payload)?;
                return Err(Broken::Task(if reason == "TooLarge" {
                    "the task's test code passes arguments to the program that are too large or nested too deeply to be sent to another instance; give the task \
                     smaller arguments"
                        .to_owned()
                } else {
                    format!(
                        "the task's test code passes a value of type {kind} to the program, which cannot be sent to another instance; give the task arguments \
                         of built-in types"
                    )
                }));
            }
            _ => return Err(Broken::Protocol("a request out of turn")),
        }
        Ok(Reply::Answer(Vec::new()))
    }

    fn close(&mut self, call: Call) -> Result<(), Broken> {
        self.results.push(call);
        self.state = State::Ready;
        check_watch(self.watch.as_ref(), &self.results)
    }
}

/// The answer to a call of the entry point: the question of the program's instance, or its result there.
///
/// # Errors
/// [`Broken::Protocol`] if the program gave no answer.
pub(crate) fn call_answer(
    asked: Option<String>,
    conversation: &mut ProgramConversation,
) -> Result<Vec<u8>, Broken> {
    if let Some(question) = asked {
        return Ok([b"A", question.as_bytes()].concat());
    }
    match conversation.take_results().pop() {
        Some(Call::Returned(text)) => Ok([b"V", text.as_bytes()].concat()),
        Some(Call::Raised { kind, message }) => {
            let body =
                serde_json::to_vec(&[kind, message]).expect("strings always have a JSON form");
            Ok([b"E", &body[..]].concat())
        }
        Some(Call::TooDeepOrLarge) => Ok(b"T".to_vec()),
        None => Err(Broken::Protocol("a turn without an answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(tests: &[&str]) -> TestConversation {
        let tests: Vec<String> = tests.iter().map(|&test| test.to_owned()).collect();
        let program = Program {
            source: "",
            entry_point: "f",
        };
        TestConversation::new(program, "", &tests, None, &Limits::default())
    }

    #[test]
    fn tests_are_sent_in_order_and_their_calls_reach_the_program() {
        let mut instance = instance(&["one", "two"]);
        assert!(instance.answer(b"J").is_ok());
        for (request, answer) in [
            ("L", ""),
            ("N", "one"),
            ("C[[1],{}]", "[[1],{}]"),
            ("Vnull", ""),
            ("N", "two"),
            ("E[\"AssertionError\",\"\"]", ""),
            ("N", ""),
        ] {
            let reply = match request.starts_with('C') {
                true => Reply::Call(answer.to_owned()),
                false => Reply::Answer(answer.into()),
            };
            assert_eq!(instance.answer(request.as_bytes()), Ok(reply));
        }
        assert_eq!(instance.end(None), Ok(End::Completed));
        assert_eq!(instance.take_results().len(), 2);
    }

    #[test]
    fn a_failing_prelude_is_the_tasks_fault_until_it_calls_the_program() {
        let failed = b"U[\"ValueError\",\"x\"]";
        let mut uncalled = instance(&["one"]);
        uncalled.answer(b"J").unwrap();
        assert!(matches!(uncalled.answer(failed), Err(Broken::Task(_))));
        let mut called = instance(&["one"]);
        called.answer(b"J").unwrap();
        called.answer(b"C[[],{}]").unwrap();
        called.answer(failed).unwrap();
        assert!(matches!(called.end(None), Ok(End::Unloadable { .. })));
    }

    #[test]
    fn a_request_out_of_turn_stops_the_tests_instance() {
        for requests in [
            &["V1"][..],
            &["J", "N"],
            &["J", "L", "C[]"],
            &["A1"],
            &["J", "L", "N", "N"],
        ] {
            let mut instance = instance(&["one"]);
            let (last, before) = requests.split_last().unwrap();
            for request in before {
                instance.answer(request.as_bytes()).unwrap();
            }
            let refused = instance.answer(last.as_bytes());
            assert!(matches!(refused, Err(Broken::Protocol(_))), "{requests:?}");
        }
    }
}
