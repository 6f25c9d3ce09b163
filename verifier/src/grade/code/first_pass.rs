//! The first pass over a program, with little fuel. Most programs finish in it. The others are judged later, by separate threads, so that they delay nothing.

use std::sync::Arc;

use sandboxes::{Deferred, End, Identity, Limits, Patience, Request, Run, Sandbox, SandboxError};

/// Fuel of a first pass: a few tenths of a second in WebAssembly, and one second of processor time in Docker.
const FUEL: u64 = 2_000_000_000;

/// A sandbox that defers a program ([`Deferred::Long`]) that has not finished after [`FUEL`]. A run that finishes earlier equals a run of the wrapped sandbox, because
/// fuel is counted the same way whatever the limit.
pub(super) struct FirstPass(pub Arc<dyn Sandbox>);

impl Sandbox for FirstPass {
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

/// Whether a first pass is pointless for a task whose canonical solution used `fuel`.
pub(super) fn is_hopeless(fuel: u64) -> bool {
    fuel >= FUEL
}
