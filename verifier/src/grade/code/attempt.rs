//! One attempt at a sample. It is broken off when nobody waits for it any more. The first is a first pass, with little fuel, in which most programs finish. The others are judged
//! later, by separate threads, so that they delay nothing.

use std::sync::Arc;

use sandboxes::{
    Abandoned, Deferred, End, Identity, Patience, Request, Run, Sandbox, SandboxError,
};

/// Fuel of a first pass: a few tenths of a second in WebAssembly, and one second of processor time in Docker.
const FUEL: u64 = 2_000_000_000;

/// A sandbox for the runs of an attempt. In a first pass it defers a program ([`Deferred::Long`]) that has not finished after [`FUEL`]. A run that finishes earlier equals a run of
/// the wrapped sandbox, because fuel is counted the same way whatever the limit.
pub(super) struct Attempt {
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) first_pass: bool,
    pub(super) abandoned: Option<Abandoned>,
}

impl Sandbox for Attempt {
    fn identity(&self) -> &Identity {
        self.sandbox.identity()
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        let mut request = Request {
            abandoned: self.abandoned.as_ref(),
            ..*request
        };
        if !self.first_pass || request.limits.fuel <= FUEL {
            return self.sandbox.run(&request);
        }
        request.patience = Patience::Defer;
        request.limits.fuel = FUEL;
        let run = self.sandbox.run(&request)?;
        match run.end {
            End::OutOfFuel | End::OutOfTime => Err(Deferred::Long.into()),
            _ => Ok(run),
        }
    }
}

/// Whether a first pass is pointless for a task whose canonical solution used `fuel`.
pub(super) fn is_hopeless(fuel: u64) -> bool {
    fuel >= FUEL
}
