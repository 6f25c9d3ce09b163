//! Answers the tests' instance, with the help of the program's instance.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures::FutureExt;

use super::TURN;
use super::guest::Guest;
use super::termination::Termination;
use crate::protocol::test_conversation::{NO_QUESTION, call_answer};
use crate::protocol::{Broken, Reply, TestConversation};

/// A turn of the program's instance. It returns the instance at its end.
type Turn = Pin<Box<dyn Future<Output = (Guest, Result<i32, Termination>)> + Send>>;

/// A conversation with the tests' instance, and an instance that has loaded the program.
pub(super) struct InstancePair {
    pub(super) tests: TestConversation,
    /// `None` during a turn.
    pub(super) program: Option<Guest>,
    /// The turn that waits for the answer to `question`.
    turn: Option<Turn>,
    question: Question,
}

impl InstancePair {
    pub(super) fn new(tests: TestConversation, program: Guest, question: Question) -> Self {
        InstancePair {
            tests,
            program: Some(program),
            turn: None,
            question,
        }
    }

    /// # Errors
    /// The tests' instance must stop: the program stopped, or the task's own code does not work here.
    pub(super) async fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, Termination> {
        match self.tests.answer(request)? {
            Reply::Answer(answer) => Ok(answer),
            Reply::Call(arguments) => {
                let program = self.program.as_mut();
                let program = program.ok_or(Broken::Protocol("a call during a call"))?;
                program.conversation()?.expect(arguments)?;
                self.turn = self.program.take().map(|mut guest| -> Turn {
                    Box::pin(async move {
                        let outcome = guest.turn(TURN).await;
                        (guest, outcome)
                    })
                });
                self.resume()
            }
            Reply::Resume(answer) => {
                self.question.lock().answer = Some(answer);
                self.resume()
            }
        }
    }

    /// Continues the program's turn to its end, or to its next question.
    fn resume(&mut self) -> Result<Vec<u8>, Termination> {
        let turn = self.turn.as_mut();
        let turn = turn.ok_or(Broken::Protocol(NO_QUESTION))?;
        let ended = turn.now_or_never();
        let asked = self.question.lock().asked.take();
        if let Some((guest, outcome)) = ended {
            self.turn = None;
            self.program = Some(guest);
            outcome?;
        }
        match &mut self.program {
            Some(program) => Ok(call_answer(None, program.conversation()?)?),
            None => asked
                .map(|question| [b"A", question.as_bytes()].concat())
                .ok_or(Broken::Protocol("a turn without an answer").into()),
        }
    }
}

/// The question of the program's instance to the tests' instance, and the answer.
#[derive(Clone, Default)]
pub(super) struct Question(Arc<Mutex<Exchange>>);

#[derive(Default)]
struct Exchange {
    asked: Option<String>,
    answer: Option<Vec<u8>>,
}

impl Question {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pending until the answer is there.
    pub(super) async fn ask(&self, text: String) -> Vec<u8> {
        self.lock().asked = Some(text);
        std::future::poll_fn(|_| match self.lock().answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }
}
