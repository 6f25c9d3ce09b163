//! One run: from the request to its outcome.

use std::sync::Arc;
use std::time::Instant;

use super::DockerSandbox;
use super::conversation::{converse, prepare, read, report, talk};
use super::guest::Guest;
use super::pool::Pool;
use super::termination::Termination;
use super::watchdog::overrun;
use crate::protocol::test_conversation::{NO_QUESTION, call_answer};
use crate::protocol::{
    Broken, ProgramConversation, Reply, TestConversation, arguments, broken_off, is_answered,
    whole_program,
};
use crate::{Call, End, Identity, Limits, Request, Run, Sandbox, SandboxError, Work};

/// Bytes of memory below which the interpreter cannot work.
const MIN_MEMORY: u64 = 64 << 20;

/// Maximum number of times that containers are taken from the pool for a run, until they stay alive until its program runs in them.
const MAX_TAKES: usize = 5;

impl Sandbox for DockerSandbox {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A run waits only for a container, and one is soon free.
    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        let mut limits = request.limits;
        if let Work::Calls { calls, .. } = request.work {
            arguments::check_calls(calls)?;
        }
        if limits.memory < MIN_MEMORY {
            return Err(limits.too_little_memory());
        }
        limits.memory = self.fixed_memory.unwrap_or(limits.memory);
        let pool = Arc::clone(&self.pool);
        match request.work {
            Work::Calls { program, calls } => {
                let conversation =
                    ProgramConversation::calling(program, calls, request.watch, &limits);
                let run = run_program(pool, conversation, limits, |conversation, outcome| {
                    let end = conversation.end(outcome.err().map(Termination::end))?;
                    Ok((conversation.take_results(), end))
                });
                self.wait_for(request.abandoned, run)
            }
            Work::Tests {
                program,
                prelude,
                tests,
            } => {
                let conversation = ProgramConversation::serving(program, &limits);
                let tests = TestConversation::new(program, prelude, tests, request.watch, &limits);
                let run = run_tests(pool, conversation, tests, limits);
                self.wait_for(request.abandoned, run)
            }
            Work::WholeProgram { source, stdin } => {
                whole_program::check(stdin)?;
                let conversation = whole_program::conversation(source, Some(stdin), &limits);
                let output = whole_program::max_output(&limits);
                let run = run_program(pool, conversation, limits, move |conversation, outcome| {
                    let exited = whole_program::end(&conversation.take_results(), output);
                    let end = match (exited, outcome) {
                        (Some(exited), Ok(())) => exited,
                        (None, Ok(())) => broken_off(),
                        (_, Err(stop)) => stop.end()?,
                    };
                    Ok((Vec::new(), end))
                });
                self.wait_for(request.abandoned, run)
            }
            Work::Outline { texts } => {
                let (parsing_containers, texts) =
                    (Arc::clone(&self.parsing_containers), texts.to_vec());
                self.wait_for(request.abandoned, async move {
                    parsing_containers.read(&texts, limits).await
                })
            }
        }
    }
}

/// Guests with their limits set. A guest that is lost before then is replaced, since it has run no program.
async fn prepared_guests<const N: usize>(
    pool: &Pool,
    limits: &Limits,
) -> Result<[Guest; N], SandboxError> {
    let mut left = MAX_TAKES;
    loop {
        let mut guests = pool.take().await?;
        let prepared = async {
            for guest in &mut guests {
                prepare(guest, limits).await?;
            }
            Ok::<(), SandboxError>(())
        };
        left -= 1;
        match prepared.await {
            Ok(()) => return Ok(guests),
            Err(SandboxError::Deferred(_)) if left > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Runs a program in one container. `results` turns the conversation and its end into the results and the end of the run.
async fn run_program(
    pool: Arc<Pool>,
    mut conversation: ProgramConversation,
    limits: Limits,
    results: impl FnOnce(
        &mut ProgramConversation,
        Result<(), Termination>,
    ) -> Result<Results, SandboxError>,
) -> Result<Run, SandboxError> {
    let [mut guest] = prepared_guests(&pool, &limits).await?;
    let started = Instant::now();
    let meters = [guest.meter()];
    let outcome = talk(&mut guest, &mut conversation, b"J", &meters, limits).await;
    let (calls, end) = results(&mut conversation, outcome)?;
    Ok(report(&meters, calls, end, started, guest.printed()).await)
}

type Results = (Vec<Call>, End);

/// Runs the tests of a task in one container, and the program in another.
async fn run_tests(
    pool: Arc<Pool>,
    mut conversation: ProgramConversation,
    mut tests: TestConversation,
    limits: Limits,
) -> Result<Run, SandboxError> {
    let [mut program, mut test_guest] = prepared_guests(&pool, &limits).await?;
    let started = Instant::now();
    let meters = [program.meter(), test_guest.meter()];
    let mut loaded = None;
    let talk = async {
        let outcome = converse(&mut program, &mut conversation, b"J").await;
        let end = conversation.end(outcome.err().map(Termination::end))?;
        if end != End::Completed {
            loaded = Some(end);
            return Ok(());
        }
        converse_with_tests(&mut test_guest, &mut tests, &mut program, &mut conversation).await
    };
    let outcome = tokio::select! {
        outcome = talk => outcome,
        stop = overrun(&meters, limits) => Err(stop),
    };
    let end = match loaded {
        Some(end) => end,
        None => tests.end(outcome.err().map(Termination::end))?,
    };
    let calls = tests.take_results();
    Ok(report(&meters, calls, end, started, program.printed()).await)
}

/// Answers the tests' guest until it has no more tests, and passes its calls to the program's guest.
async fn converse_with_tests(
    test_guest: &mut Guest,
    tests: &mut TestConversation,
    program: &mut Guest,
    conversation: &mut ProgramConversation,
) -> Result<(), Termination> {
    let mut request = bytes::Bytes::from_static(b"J");
    let mut asking = false;
    loop {
        let answer = match read(&request, |request| tests.answer(request))? {
            Reply::Answer(answer) => answer,
            Reply::Call(arguments) => {
                conversation.expect(arguments)?;
                let asked = converse(program, conversation, b"N").await?;
                asking = asked.is_some();
                call_answer(asked, conversation)?
            }
            Reply::Resume(answer) if asking => {
                program.send(&answer).await?;
                let request = program.receive(conversation.longest()).await?;
                let asked = converse(program, conversation, &request).await?;
                asking = asked.is_some();
                call_answer(asked, conversation)?
            }
            Reply::Resume(_) => return Err(Broken::Protocol(NO_QUESTION).into()),
        };
        if tests.ended() {
            return Ok(());
        }
        if is_answered(&request) {
            test_guest.send(&answer).await?;
        }
        request = test_guest.receive(tests.longest()).await?;
    }
}
