//! One run: from a program to what happened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::DockerSandbox;
use super::clock::overrun;
use super::conversation::{converse, end, ended, prepare, read, report};
use super::guest::Guest;
use super::pool::Pool;
use super::stop::Stop;
use crate::protocol::judge::carried;
use crate::protocol::{Candidate, Judge, Reply, arguments, is_answered};
use crate::{End, Identity, Limits, Program, Run, Sandbox, SandboxError};

/// Bytes of memory below which the interpreter cannot work.
const LEAST_MEMORY: u64 = 64 << 20;

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
            let (readers, texts, limits) = (Arc::clone(&self.readers), texts.to_vec(), *limits);
            self.wait_for(async move { readers.read(&texts, limits).await })
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
    let meters = [guest.meter(Duration::ZERO)];
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
    let meters = [program.meter(Duration::ZERO), tests.meter(Duration::ZERO)];
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::Call;

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
