//! Answers a test instance, with the help of the candidate's instance.

use super::TURN;
use super::guest::Guest;
use super::termination::Termination;
use crate::protocol::test_instance::call_answer;
use crate::protocol::{Reply, TestInstance};

/// A conversation with the tests' instance, and a candidate's instance that has loaded its program.
pub(super) struct InstancePair {
    pub(super) test_instance: TestInstance,
    pub(super) candidate: Guest,
}

impl InstancePair {
    /// # Errors
    /// The test instance must stop: the candidate stopped, or the task's own code does not work here.
    pub(super) async fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, Termination> {
        match self.test_instance.answer(request)? {
            Reply::Answer(answer) => Ok(answer),
            Reply::Call(arguments) => self.call(arguments).await,
        }
    }

    /// Calls the entry point once, in a turn of the candidate's instance.
    async fn call(&mut self, arguments: String) -> Result<Vec<u8>, Termination> {
        self.candidate.conversation()?.expect(arguments)?;
        self.candidate.turn(TURN).await?;
        let result = self.candidate.conversation()?.take_results().pop();
        Ok(call_answer(result)?)
    }
}
