//! The first pass over a program, with little fuel. Most programs are over by then; the others are judged later, where they delay nobody.

use sandboxes::{Deferred, End, Identity, Limits, Patience, Request, Run, Sandbox, SandboxError};

/// Fuel of a first pass: a few tenths of a second.
const FUEL: u64 = 2_000_000_000;

/// A sandbox that defers a program ([`Deferred::Long`]) that is not over after [`FUEL`]. A run that ends before is the run that the sandbox behind it would have made, since
/// fuel is counted alike whatever there is of it.
pub(super) struct FirstPass<'a>(pub &'a dyn Sandbox);

impl Sandbox for FirstPass<'_> {
    fn identity(&self) -> &Identity {
        self.0.identity()
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        if request.limits.fuel <= FUEL {
            return self.0.run(request);
        }
        let run = self.0.run(&Request {
            patience: Patience::Defer,
            limits: Limits {
                fuel: FUEL,
                ..request.limits
            },
            ..*request
        })?;
        match run.end {
            End::OutOfFuel | End::OutOfTime => Err(Deferred::Long.into()),
            _ => Ok(run),
        }
    }
}

/// Whether a task whose own solution used `fuel` is not worth a first pass.
pub(super) fn is_hopeless(fuel: u64) -> bool {
    fuel >= FUEL
}
