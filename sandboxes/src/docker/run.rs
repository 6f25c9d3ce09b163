//! One run: from a program to what happened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::DockerSandbox;
use super::clock::{self, allowed, overrun};
use super::guest::{Guest, Meter};
use super::pool::Pool;
use super::stop::Stop;
use crate::protocol::judge::carried;
use crate::protocol::{Candidate, Judge, Reply, arguments, is_answered};
use crate::{Call, End, Identity, Limits, Program, Run, Sandbox, SandboxError};

/// Bytes of memory below which the interpreter cannot work.
const LEAST_MEMORY: u64 = 64 << 20;
/// Address space that a program may add, in memory limits: the kernel stops it when it uses its memory, and an allocation that is beyond reason fails
/// in the same way on every machine.
const SPACE: u64 = 8;
/// Bytes of a request that takes milliseconds to read.
const LONG: usize = 256 << 10;
/// A run that was over sooner took so little that the time that passed is as good as its processor time.
const SHORT: Duration = Duration::from_millis(500);

impl Sandbox for DockerSandbox {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn run(&self, program: &Program<'_>, limits: &Limits) -> Result<Run, SandboxError> {
        settled(|| self.run_once(program, limits))
    }

    fn run_tests(
        &self,
        program: &Program<'_>,
        prelude: &str,
        tests: &[String],
        limits: &Limits,
    ) -> Result<Run, SandboxError> {
        settled(|| self.run_tests_once(program, prelude, tests, limits))
    }

    fn outline(&self, texts: &[String], limits: &Limits) -> Result<Run, SandboxError> {
        check(limits)?;
        settled(|| {
            let candidate = Candidate::outlining(texts, limits);
            self.wait_for(calls(Arc::clone(&self.pool), candidate, *limits))
        })
    }

    fn run_once(&self, program: &Program<'_>, limits: &Limits) -> Result<Run, SandboxError> {
        arguments::check_calls(program.calls)?;
        check(limits)?;
        let candidate = Candidate::new(program, limits);
        self.wait_for(calls(Arc::clone(&self.pool), candidate, *limits))
    }

    fn run_tests_once(
        &self,
        program: &Program<'_>,
        prelude: &str,
        tests: &[String],
        limits: &Limits,
    ) -> Result<Run, SandboxError> {
        check(limits)?;
        let candidate = Candidate::serving(program, limits);
        let judge = Judge::new(program, prelude, tests, limits);
        self.wait_for(judged(Arc::clone(&self.pool), candidate, judge, *limits))
    }
}

fn check(limits: &Limits) -> Result<(), SandboxError> {
    if limits.memory < LEAST_MEMORY {
        return Err(SandboxError::Unusable(format!(
            "a memory limit of {} MiB is less than the interpreter itself takes; raise it",
            limits.memory >> 20
        )));
    }
    Ok(())
}

/// Runs once, or twice where the clock ended the first: what it ended twice is out of time. The calls that both answered stand.
fn settled(run: impl Fn() -> Result<Run, SandboxError>) -> Result<Run, SandboxError> {
    let first = run()?;
    if first.end != End::OutOfTime {
        return Ok(first);
    }
    let second = run()?;
    if second.end != End::OutOfTime {
        return Err(SandboxError::Transient(
            "a program was out of time in one run and not in the next; judge it again, on a machine that is less busy".to_owned(),
        ));
    }
    let alike = first
        .calls
        .iter()
        .zip(&second.calls)
        .take_while(|(a, b)| a == b)
        .count();
    let mut run = second;
    run.calls.truncate(alike);
    Ok(run)
}

/// The calls of a program, in one container.
async fn calls(
    pool: Arc<Pool>,
    mut candidate: Candidate,
    limits: Limits,
) -> Result<Run, SandboxError> {
    let [mut guest] = pool.take().await?;
    prepare(&mut guest, &limits).await?;
    let started = Instant::now();
    let meters = [guest.meter()];
    let outcome = tokio::select! {
        outcome = converse(&mut guest, &mut candidate, b"J") => outcome,
        stop = overrun(&meters, limits) => Err(stop),
    };
    let end = end(&candidate, outcome)?;
    let calls = candidate.take_results();
    Ok(report(&meters, calls, end, started, guest.printed()).await)
}

/// The tests of a task in one container, the program in another.
async fn judged(
    pool: Arc<Pool>,
    mut candidate: Candidate,
    mut judge: Judge,
    limits: Limits,
) -> Result<Run, SandboxError> {
    let [mut program, mut tests] = pool.take().await?;
    prepare(&mut program, &limits).await?;
    prepare(&mut tests, &limits).await?;
    let started = Instant::now();
    let meters = [program.meter(), tests.meter()];
    let mut loaded = None;
    let talk = async {
        let outcome = converse(&mut program, &mut candidate, b"J").await;
        let end = end(&candidate, outcome).map_err(Stop::Failed)?;
        if end != End::Completed {
            loaded = Some(end);
            return Ok(());
        }
        hold_tests(&mut tests, &mut judge, &mut program, &mut candidate).await
    };
    let outcome = tokio::select! {
        outcome = talk => outcome,
        stop = overrun(&meters, limits) => Err(stop),
    };
    let end = match (loaded, judge.unloadable(), outcome) {
        (Some(end), _, _) => end,
        (None, Some((kind, message)), _) => End::Unloadable { kind, message },
        (None, None, _) if judge.completed() => judge.end(),
        (None, None, Err(stop)) => ended(stop)?,
        (None, None, Ok(())) => End::Died("the tests were broken off".to_owned()),
    };
    let calls = judge.take_results();
    Ok(report(&meters, calls, end, started, program.printed()).await)
}

/// Sets a guest's limits.
async fn prepare(guest: &mut Guest, limits: &Limits) -> Result<(), SandboxError> {
    guest.fit(limits.memory).await?;
    // Beyond what the host allows: for when the host is gone.
    let seconds = allowed(limits.fuel)
        .as_secs()
        .saturating_mul(2)
        .saturating_add(60)
        .min(1 << 30);
    let space = limits.memory.saturating_mul(SPACE).min(1 << 46);
    match guest.confine(space, seconds, limits.output).await {
        Ok(()) => Ok(()),
        Err(Stop::Failed(error)) => Err(error),
        Err(stop) => Err(SandboxError::Transient(format!(
            "a container was lost before a program ran in it ({stop:?}); judge it again"
        ))),
    }
}

/// What comes of reading a request. A long one keeps a processor for so long that it is not read on the few threads that speak to the engine.
fn read<T>(request: &[u8], answer: impl FnOnce(&[u8]) -> T) -> T {
    if request.len() < LONG {
        answer(request)
    } else {
        tokio::task::block_in_place(|| answer(request))
    }
}

/// Answers a candidate's guest, whose last request was `request`, until it has nothing more to ask. Its last question stays open: a guest that is to be given
/// another call waits for it.
async fn converse(
    guest: &mut Guest,
    candidate: &mut Candidate,
    request: &[u8],
) -> Result<(), Stop> {
    let mut request = bytes::Bytes::copy_from_slice(request);
    loop {
        let answer = read(&request, |request| candidate.answer(request))?;
        if candidate.ended() {
            return Ok(());
        }
        if is_answered(&request) {
            guest.send(&answer).await?;
        }
        request = guest.receive(candidate.longest()).await?;
    }
}

/// Answers the tests' guest until it has no more tests, and carries its calls over to the program's.
async fn hold_tests(
    tests: &mut Guest,
    judge: &mut Judge,
    program: &mut Guest,
    candidate: &mut Candidate,
) -> Result<(), Stop> {
    let mut request = bytes::Bytes::from_static(b"J");
    loop {
        let answer = match read(&request, |request| judge.answer(request))? {
            Reply::Answer(answer) => answer,
            Reply::Call(arguments) => {
                candidate.expect(arguments)?;
                converse(program, candidate, b"N").await?;
                carried(candidate.take_results().pop())?
            }
        };
        if judge.ended() {
            return Ok(());
        }
        if is_answered(&request) {
            tests.send(&answer).await?;
        }
        request = tests.receive(judge.longest()).await?;
    }
}

/// How a candidate's part ended. What happens after the last call has been answered is of no interest.
fn end(candidate: &Candidate, outcome: Result<(), Stop>) -> Result<End, SandboxError> {
    match (candidate.unloadable(), outcome) {
        (Some((kind, message)), _) => Ok(End::Unloadable { kind, message }),
        (None, _) if candidate.completed() => Ok(End::Completed),
        (None, Err(stop)) => ended(stop),
        (None, Ok(())) => Ok(End::Died(
            "the program broke the conversation off".to_owned(),
        )),
    }
}

fn ended(stop: Stop) -> Result<End, SandboxError> {
    match stop {
        Stop::Ended(end) => Ok(end),
        Stop::Clock => Ok(End::OutOfTime),
        Stop::Failed(error) => Err(error),
    }
}

async fn report(
    meters: &[Meter],
    calls: Vec<Call>,
    end: End,
    started: Instant,
    stdout: String,
) -> Run {
    let mut time = started.elapsed();
    if time > SHORT {
        let mut used = Duration::ZERO;
        for meter in meters {
            // A container that has ended tells nothing any more; the time that has passed is then the best guess.
            used += meter.read().await.unwrap_or_default();
        }
        if used > Duration::ZERO {
            time = used;
        }
    }
    Run {
        calls,
        end,
        fuel: clock::fuel(time),
        peak_memory: 0,
        stdout,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn run(calls: &[&str], end: End) -> Run {
        Run {
            calls: calls
                .iter()
                .map(|&call| Call::Returned(call.to_owned()))
                .collect(),
            end,
            fuel: 1,
            peak_memory: 0,
            stdout: String::new(),
        }
    }

    fn settle(runs: Vec<Run>) -> (Result<Run, SandboxError>, usize) {
        let left = RefCell::new(runs.into_iter());
        let outcome = settled(|| Ok(left.borrow_mut().next().expect("no third run")));
        let left = left.into_inner().count();
        (outcome, left)
    }

    #[test]
    fn a_run_that_the_clock_did_not_end_is_not_repeated() {
        for end in [End::Completed, End::OutOfMemory, End::Died("x".to_owned())] {
            let (outcome, left) =
                settle(vec![run(&["1"], end.clone()), run(&["2"], End::OutOfTime)]);
            assert_eq!((outcome.unwrap(), left), (run(&["1"], end), 1));
        }
    }

    #[test]
    fn what_the_clock_ended_twice_is_out_of_time_with_what_both_answered() {
        let (outcome, _) = settle(vec![
            run(&["1", "2", "3"], End::OutOfTime),
            run(&["1", "2"], End::OutOfTime),
        ]);
        assert_eq!(outcome.unwrap(), run(&["1", "2"], End::OutOfTime));
    }

    #[test]
    fn what_the_clock_ended_once_has_no_verdict_yet() {
        let (outcome, _) = settle(vec![
            run(&["1"], End::OutOfTime),
            run(&["1", "2"], End::Completed),
        ]);
        assert!(matches!(outcome, Err(SandboxError::Transient(_))));
    }
}
