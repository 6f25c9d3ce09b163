//! A first try at a program, with little fuel: most are over by then, and those that are not are judged where they keep nobody waiting.

use sandboxes::{End, Identity, Limits, Program, Run, Sandbox, SandboxError};

/// Fuel of a first try: a few tenths of a second.
const FUEL: u64 = 2_000_000_000;

/// A sandbox that gives a program up after [`FUEL`], with [`SandboxError::Transient`]. A run that ends before is the run that the sandbox behind it would have
/// made, since fuel is counted alike whatever there is of it.
pub(super) struct Brief<'a>(pub &'a dyn Sandbox);

impl Sandbox for Brief<'_> {
    fn identity(&self) -> &Identity {
        self.0.identity()
    }

    fn run(&self, program: &Program<'_>, limits: &Limits) -> Result<Run, SandboxError> {
        match cut(limits) {
            Some(limits) => decided(self.0.run_once(program, &limits)?),
            None => self.0.run(program, limits),
        }
    }

    fn outline(&self, calls: &[String], limits: &Limits) -> Result<Run, SandboxError> {
        match cut(limits) {
            Some(limits) => decided(self.0.outline(calls, &limits)?),
            None => self.0.outline(calls, limits),
        }
    }

    fn run_tests(
        &self,
        program: &Program<'_>,
        prelude: &str,
        tests: &[String],
        limits: &Limits,
    ) -> Result<Run, SandboxError> {
        match cut(limits) {
            Some(limits) => decided(self.0.run_tests_once(program, prelude, tests, &limits)?),
            None => self.0.run_tests(program, prelude, tests, limits),
        }
    }
}

/// A first try at a task's own solution; `None` where it is not over soon.
pub(super) fn solution(
    sandbox: &dyn Sandbox,
    program: &Program<'_>,
    limits: &Limits,
) -> Result<Option<Run>, SandboxError> {
    let limits = cut(limits).unwrap_or(*limits);
    let run = sandbox.run_once(program, &limits)?;
    Ok(match run.end {
        End::OutOfFuel | End::OutOfTime => None,
        _ => Some(run),
    })
}

/// Whether a task whose own solution used `fuel` is not worth a first try.
pub(super) fn is_hopeless(fuel: u64) -> bool {
    fuel >= FUEL
}

pub(super) fn given_up() -> SandboxError {
    SandboxError::Transient("the program is not over soon".to_owned())
}

/// The limits of a first try; `None` where these are no wider.
fn cut(limits: &Limits) -> Option<Limits> {
    (limits.fuel > FUEL).then_some(Limits {
        fuel: FUEL,
        ..*limits
    })
}

fn decided(run: Run) -> Result<Run, SandboxError> {
    match run.end {
        End::OutOfFuel | End::OutOfTime => Err(given_up()),
        _ => Ok(run),
    }
}
