//! One run: from the request to its outcome.

use std::io::Cursor;

use super::guest::{Guest, run_now};
use super::host_call::HostCall;
use super::instance_pair::{InstancePair, Question};
use super::parsing_instance::ParsingInstance;
use super::store_data::StoreData;
use super::termination::Termination;
use super::wasi::Output;
use super::{TURN, WasmSandbox};
use crate::protocol::{
    Broken, ProgramConversation, TestConversation, arguments, broken_off, whole_program,
};
use crate::{Call, Deferred, End, Identity, Request, Run, Sandbox, SandboxError, Work};

impl Sandbox for WasmSandbox {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        let limits = &request.limits;
        match request.work {
            Work::Calls { program, calls } => {
                arguments::check_calls(calls)?;
                let conversation =
                    ProgramConversation::calling(program, calls, request.watch, limits);
                run_now(async {
                    let data = self.data(HostCall::program(conversation), request);
                    answer(&mut self.start(data, request).await?).await
                })
            }
            Work::Tests {
                program,
                prelude,
                tests,
            } => self.run_tests(
                ProgramConversation::serving(program, limits),
                TestConversation::new(program, prelude, tests, request.watch, limits),
                request,
            ),
            Work::WholeProgram { source, stdin } => {
                whole_program::check(stdin)?;
                self.run_whole_program(source, stdin, request)
            }
            Work::Outline { texts } => self.read(texts, request),
        }
    }
}

impl WasmSandbox {
    /// Has the harness's `outline` read `texts`, in an instance that has read others if there is one.
    fn read(&self, texts: &[String], request: &Request<'_>) -> Result<Run, SandboxError> {
        run_now(async {
            let limits = &request.limits;
            if let Some(mut parser) = self.idle_parsers.take(limits)
                && let Ok(conversation) = parser.guest.conversation()
            {
                conversation.set_calls(texts);
                let refilled = parser.guest.refill(request.abandoned);
                if refilled.is_ok()
                    && let Ok(run) = answer(&mut parser.guest).await
                    && parser.put_back(&self.idle_parsers, limits, &run)
                {
                    return Ok(run);
                }
            }
            let mut conversation = ProgramConversation::outlining(limits);
            conversation.set_calls(texts);
            let data = self.data(HostCall::program(conversation), request);
            let mut guest = self.start(data, request).await?;
            let run = answer(&mut guest).await?;
            let parser = ParsingInstance { guest, used: 0 };
            parser.put_back(&self.idle_parsers, limits, &run);
            Ok(run)
        })
    }

    /// Runs the tests of a conversation in one instance, and the program in another.
    fn run_tests(
        &self,
        conversation: ProgramConversation,
        tests: TestConversation,
        request: &Request<'_>,
    ) -> Result<Run, SandboxError> {
        run_now(async {
            let question = Question::default();
            let host_call = HostCall::Program(Box::new(conversation), question.clone());
            let data = self.data(host_call, request);
            let mut program = self.start(data, request).await?;
            let outcome = program.turn(TURN).await;
            let conversation = program.conversation().map_err(|stop| broken(&stop))?;
            let loaded = conversation.end(outcome.err().map(Termination::end))?;
            if loaded != End::Completed {
                return Ok(report(&mut program, Vec::new(), loaded));
            }
            let instance_pair = InstancePair::new(tests, program, question);
            let data = self.data(HostCall::Tests(Box::new(instance_pair)), request);
            let mut guest = self.start(data, request).await?;
            let outcome = guest.turn(TURN).await;
            let fuel = guest.used();
            let HostCall::Tests(instance_pair) = &mut guest.data().host_call else {
                let stop = Broken::Protocol("no instance for the tests").into();
                return Err(broken(&stop));
            };
            let tests = &mut instance_pair.tests;
            let end = tests.end(outcome.err().map(Termination::end))?;
            let calls = tests.take_results();
            let Some(program) = &mut instance_pair.program else {
                // The tests stopped while the program waited for an answer.
                return Ok(Run {
                    calls,
                    end,
                    fuel,
                    stdout: String::new(),
                });
            };
            let mut run = report(program, calls, end);
            run.fuel = run.fuel.saturating_add(fuel);
            Ok(run)
        })
    }

    /// Runs a whole program. Its standard streams are the instance's own.
    fn run_whole_program(
        &self,
        source: &str,
        stdin: &str,
        request: &Request<'_>,
    ) -> Result<Run, SandboxError> {
        let limits = &request.limits;
        let conversation = whole_program::conversation(source, None, limits);
        let data = StoreData {
            stdin: Cursor::new(stdin.as_bytes().to_owned()),
            stdout: Output::refusing(whole_program::max_output(limits)),
            ..self.data(HostCall::program(conversation), request)
        };
        run_now(async {
            let mut guest = self.start(data, request).await?;
            let outcome = guest.turn(TURN).await;
            let conversation = guest.conversation().map_err(|stop| broken(&stop))?;
            let exited = whole_program::end(&conversation.take_results(), usize::MAX);
            let end = match (exited, outcome) {
                _ if guest.data().stdout.exceeded() => End::TooMuchOutput,
                (Some(end), Ok(_) | Err(Termination::Exit(_))) => end,
                (_, Err(stop)) => stop.end()?,
                (None, Ok(_)) => broken_off(),
            };
            Ok(report(&mut guest, Vec::new(), end))
        })
    }

    /// The data of an instance. `host_call` answers its requests.
    fn data(&self, host_call: HostCall, request: &Request<'_>) -> StoreData {
        StoreData {
            abandoned: request.abandoned.cloned(),
            ..StoreData::new(self.library.clone(), &request.limits, host_call)
        }
    }

    async fn start(&self, data: StoreData, request: &Request<'_>) -> Result<Guest, SandboxError> {
        let limits = &request.limits;
        Guest::start(&self.program, data, limits)
            .await
            .map_err(|stop| match stop {
                Termination::Memory => limits.too_little_memory(),
                other => broken(&other),
            })
    }
}

/// Runs the calls of a conversation.
async fn answer(guest: &mut Guest) -> Result<Run, SandboxError> {
    let outcome = guest.turn(TURN).await;
    let conversation = guest.conversation().map_err(|stop| broken(&stop))?;
    let end = conversation.end(outcome.err().map(Termination::end))?;
    let calls = conversation.take_results();
    Ok(report(guest, calls, end))
}

fn broken(stop: &Termination) -> SandboxError {
    let what = format!("an instance of the Python sandbox could not be started or used ({stop})");
    Deferred::Failed(what).into()
}

fn report(guest: &mut Guest, calls: Vec<Call>, end: End) -> Run {
    Run {
        calls,
        end,
        fuel: guest.used(),
        stdout: guest.data().stdout.text(),
    }
}
