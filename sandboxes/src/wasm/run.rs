//! One run: from the request to its outcome.

use super::guest::{Guest, run_now};
use super::host_call::HostCall;
use super::instance_pair::{InstancePair, Question};
use super::store_data::StoreData;
use super::termination::Termination;
use super::wasi::{Input, Output};
use super::{TURN, WasmSandbox};
use crate::protocol::{Candidate, TestInstance, arguments, whole_program};
use crate::{Call, Deferred, End, Identity, Limits, Request, Run, Sandbox, SandboxError, Work};

impl Sandbox for WasmSandbox {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Ignores the request's patience, since a run never waits here.
    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        let limits = &request.limits;
        match request.work {
            Work::Calls { program, calls } => {
                arguments::check_calls(calls)?;
                self.answer(
                    Candidate::calling(program, calls, request.watch, limits),
                    request,
                )
            }
            Work::Tests {
                program,
                prelude,
                tests,
            } => self.run_tests(
                Candidate::serving(program, limits),
                TestInstance::new(program, prelude, tests, request.watch, limits),
                request,
            ),
            Work::WholeProgram { source, stdin } => {
                whole_program::check(stdin)?;
                self.run_whole_program(source, stdin, request)
            }
            Work::Outline { texts } => {
                let mut candidate = Candidate::outlining(limits);
                candidate.set_calls(texts);
                self.answer(candidate, request)
            }
        }
    }
}

impl WasmSandbox {
    /// Runs the calls of a conversation, in one instance.
    fn answer(&self, candidate: Candidate, request: &Request<'_>) -> Result<Run, SandboxError> {
        run_now(async {
            let mut guest = self.start(HostCall::candidate(candidate), request).await?;
            let outcome = guest.turn(TURN).await;
            let candidate = guest.conversation().map_err(|stop| broken(&stop))?;
            let end = end(candidate, outcome)?;
            let calls = candidate.take_results();
            Ok(report(&mut guest, calls, end))
        })
    }

    /// Runs the tests of a conversation in one instance, and the program in another.
    fn run_tests(
        &self,
        candidate: Candidate,
        test_instance: TestInstance,
        request: &Request<'_>,
    ) -> Result<Run, SandboxError> {
        run_now(async {
            let question = Question::default();
            let host_call = HostCall::Candidate(Box::new(candidate), question.clone());
            let mut candidate = self.start(host_call, request).await?;
            let outcome = candidate.turn(TURN).await;
            let loaded = end(
                candidate.conversation().map_err(|stop| broken(&stop))?,
                outcome,
            )?;
            if loaded != End::Completed {
                return Ok(report(&mut candidate, Vec::new(), loaded));
            }
            let instance_pair = InstancePair::new(test_instance, candidate, question);
            let mut guest = self
                .start(HostCall::Tests(Box::new(instance_pair)), request)
                .await?;
            let outcome = guest.turn(TURN).await;
            let (fuel, peak) = (guest.used(), guest.data().memory_limiter.peak());
            let HostCall::Tests(instance_pair) = &mut guest.data().host_call else {
                return Err(broken(&Termination::Protocol("no instance for the tests")));
            };
            let test_instance = &mut instance_pair.test_instance;
            let end = match (test_instance.unloadable(), outcome) {
                (Some((kind, message)), _) => End::Unloadable { kind, message },
                (None, _) if test_instance.completed() => test_instance.end(),
                (None, Ok(_)) => End::Died("the tests were broken off".to_owned()),
                (None, Err(stop)) => stop.end()?,
            };
            let calls = test_instance.take_results();
            let Some(candidate) = &mut instance_pair.candidate else {
                // The tests stopped while it waited for an answer.
                return Ok(Run {
                    calls,
                    end,
                    fuel,
                    peak_memory: peak,
                    stdout: String::new(),
                });
            };
            let mut run = report(candidate, calls, end);
            run.fuel = run.fuel.saturating_add(fuel);
            run.peak_memory = run.peak_memory.max(peak);
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
        let candidate = whole_program::candidate(source, None, limits);
        let data = StoreData {
            stdin: Input::new(stdin.as_bytes()),
            stdout: Output::refusing(whole_program::max_output(limits)),
            ..self.data(HostCall::candidate(candidate), request)
        };
        run_now(async {
            let mut guest = self.start_with(data, limits).await?;
            let outcome = guest.turn(TURN).await;
            let candidate = guest.conversation().map_err(|stop| broken(&stop))?;
            let exited = whole_program::end(&candidate.take_results(), usize::MAX);
            let end = match (exited, outcome) {
                _ if guest.data().stdout.exceeded() => End::TooMuchOutput,
                (Some(end), Ok(_) | Err(Termination::Exit(_))) => end,
                (_, Err(stop)) => stop.end()?,
                (None, Ok(_)) => End::Died("the program broke the conversation off".to_owned()),
            };
            Ok(report(&mut guest, Vec::new(), end))
        })
    }

    fn data(&self, host_call: HostCall, request: &Request<'_>) -> StoreData {
        StoreData {
            abandoned: request.abandoned.cloned(),
            ..StoreData::new(self.library.clone(), &request.limits, host_call)
        }
    }

    /// Starts an instance whose requests `host_call` answers.
    async fn start(
        &self,
        host_call: HostCall,
        request: &Request<'_>,
    ) -> Result<Guest, SandboxError> {
        let data = self.data(host_call, request);
        self.start_with(data, &request.limits).await
    }

    async fn start_with(&self, data: StoreData, limits: &Limits) -> Result<Guest, SandboxError> {
        Guest::start(&self.program, data, limits)
            .await
            .map_err(|stop| match stop {
                Termination::Memory => SandboxError::Unusable(format!(
                    "a memory limit of {} MiB is less than the interpreter itself takes; raise it",
                    limits.memory >> 20
                )),
                other => broken(&other),
            })
    }
}

fn broken(stop: &Termination) -> SandboxError {
    let what = format!("an instance of the Python sandbox could not be started or used ({stop})");
    Deferred::Failed(what).into()
}

/// How a candidate's part ended. Whatever happens after the last call was answered is ignored.
fn end(candidate: &Candidate, outcome: Result<i32, Termination>) -> Result<End, SandboxError> {
    Ok(match (candidate.unloadable(), outcome) {
        (Some((kind, message)), _) => End::Unloadable { kind, message },
        (None, _) if candidate.completed() => End::Completed,
        (None, Err(stop)) => stop.end()?,
        (None, Ok(_)) => End::Died("the program broke the conversation off".to_owned()),
    })
}

fn report(guest: &mut Guest, calls: Vec<Call>, end: End) -> Run {
    Run {
        calls,
        end,
        fuel: guest.used(),
        peak_memory: guest.data().memory_limiter.peak(),
        stdout: guest.data().stdout.text(),
    }
}
