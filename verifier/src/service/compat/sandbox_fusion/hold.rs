//! Holds a request that cannot be answered now.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::service::ProblemResponse;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Why an attempt to answer a request has failed.
pub(super) enum Obstacle {
    /// Another attempt may succeed. The text says what is missing.
    Wait(String),
    /// The request itself is wrong.
    Refused(ProblemResponse),
}

impl From<ProblemResponse> for Obstacle {
    fn from(problem: ProblemResponse) -> Obstacle {
        Obstacle::Refused(problem)
    }
}

/// Attempts to answer until that succeeds, or the client is about to give up.
///
/// # Errors
/// The problem document of a wrong request, or a 504.
pub(super) async fn hold<T, F>(
    deadline: Instant,
    attempt: impl Fn() -> F,
) -> Result<T, ProblemResponse>
where
    F: Future<Output = Result<T, Obstacle>>,
{
    let mut missing = "the service is busy".to_owned();
    let attempts = async {
        loop {
            match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(Obstacle::Refused(problem)) => return Err(problem),
                Err(Obstacle::Wait(reason)) => missing = reason,
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match timeout_at(deadline, attempts).await {
        Ok(answer) => answer,
        Err(_) => Err(ProblemResponse::no_answer(&missing)),
    }
}
