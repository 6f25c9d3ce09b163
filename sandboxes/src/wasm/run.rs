//! One run: from a program to what happened.

use super::door::Door;
use super::guest::{Guest, now};
use super::judging::Judging;
use super::stop::Stop;
use super::world::World;
use super::{TURN, WasmSandbox};
use crate::protocol::{Candidate, Judge, arguments};
use crate::{Call, End, Identity, Limits, Program, Run, Sandbox, SandboxError};

impl Sandbox for WasmSandbox {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn run(&self, program: &Program<'_>, limits: &Limits) -> Result<Run, SandboxError> {
        arguments::check_calls(program.calls)?;
        self.calls(Candidate::new(program, limits), limits)
    }

    fn outline(&self, calls: &[String], limits: &Limits) -> Result<Run, SandboxError> {
        let mut candidate = Candidate::outlining(limits);
        candidate.ask(calls);
        self.calls(candidate, limits)
    }

    fn run_tests(
        &self,
        program: &Program<'_>,
        prelude: &str,
        tests: &[String],
        limits: &Limits,
    ) -> Result<Run, SandboxError> {
        now(async {
            let mut candidate = self
                .start(
                    Door::Candidate(Box::new(Candidate::serving(program, limits))),
                    limits,
                )
                .await?;
            let outcome = candidate.turn(TURN).await;
            let loaded = end(
                candidate.conversation().map_err(|stop| broken(&stop))?,
                outcome,
            )?;
            if loaded != End::Completed {
                return Ok(report(&mut candidate, Vec::new(), loaded));
            }
            let judging = Judging {
                judge: Judge::new(program, prelude, tests, limits),
                candidate,
            };
            let mut guest = self.start(Door::Judge(Box::new(judging)), limits).await?;
            let outcome = guest.turn(TURN).await;
            let (fuel, peak) = (guest.used(), guest.world().room.peak());
            let Door::Judge(judging) = &mut guest.world().door else {
                return Err(broken(&Stop::Protocol("no judge's instance")));
            };
            let judge = &mut judging.judge;
            let end = match (judge.unloadable(), outcome) {
                (Some((kind, message)), _) => End::Unloadable { kind, message },
                (None, _) if judge.completed() => judge.end(),
                (None, Ok(_)) => End::Died("the tests were broken off".to_owned()),
                (None, Err(stop)) => stop.end()?,
            };
            let calls = judge.take_results();
            let mut run = report(&mut judging.candidate, calls, end);
            run.fuel = run.fuel.saturating_add(fuel);
            run.peak_memory = run.peak_memory.max(peak);
            Ok(run)
        })
    }
}

impl WasmSandbox {
    /// The calls of a conversation, in one instance.
    fn calls(&self, candidate: Candidate, limits: &Limits) -> Result<Run, SandboxError> {
        now(async {
            let mut guest = self
                .start(Door::Candidate(Box::new(candidate)), limits)
                .await?;
            let outcome = guest.turn(TURN).await;
            let candidate = guest.conversation().map_err(|stop| broken(&stop))?;
            let end = end(candidate, outcome)?;
            let calls = candidate.take_results();
            Ok(report(&mut guest, calls, end))
        })
    }

    /// Starts an instance that `door` answers.
    async fn start(&self, door: Door, limits: &Limits) -> Result<Guest, SandboxError> {
        let world = World::new(self.library.clone(), limits, door);
        Guest::start(&self.program, world, limits)
            .await
            .map_err(|stop| match stop {
                Stop::Memory => SandboxError::Unusable(format!(
                    "a memory limit of {} MiB is less than the interpreter itself takes; raise it",
                    limits.memory >> 20
                )),
                other => broken(&other),
            })
    }
}

fn broken(stop: &Stop) -> SandboxError {
    SandboxError::Transient(format!(
        "an instance of the Python sandbox could not be started or used ({stop})"
    ))
}

/// How a candidate's part ended. What happens after the last call has been answered is of no interest.
fn end(candidate: &Candidate, outcome: Result<i32, Stop>) -> Result<End, SandboxError> {
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
        peak_memory: guest.world().room.peak(),
        stdout: guest.world().stdout.text(),
    }
}
