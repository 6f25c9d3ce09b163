//! A sandbox whose runs are broken off when nobody waits for them any more.

use std::sync::Arc;

use sandboxes::{Abandoned, Identity, Request, Run, Sandbox, SandboxError};

pub(super) struct Abandonable {
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) abandoned: Abandoned,
}

impl Sandbox for Abandonable {
    fn identity(&self) -> &Identity {
        self.sandbox.identity()
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        self.sandbox.run(&Request {
            abandoned: Some(&self.abandoned),
            ..*request
        })
    }
}
