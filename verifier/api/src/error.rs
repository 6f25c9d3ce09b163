//! The reasons why a request to a verifier failed.

use std::time::Duration;

use reqwest::Url;

use crate::Problem;

/// Why a request to a verifier failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address cannot be that of a verifier.
    #[error(
        "`{url}` is not the address of a verifier: {reason}. Give the address that `rapid-verifier serve` printed, such as http://127.0.0.1:8700"
    )]
    Address {
        /// The given address, without what may be secret.
        url: String,
        /// Why it is wrong.
        reason: String,
    },
    /// The HTTP client itself could not be set up.
    #[error(
        "the HTTP client could not be set up: {0}. Check the machine's TLS certificates and the proxy variables (HTTPS_PROXY, NO_PROXY)"
    )]
    Setup(String),
    /// The connection failed, or broke before the answer was complete.
    #[error(
        "no answer from the verifier at {url}: {reason}. Check that `rapid-verifier serve` runs there and that this machine can reach it"
    )]
    Connection {
        /// The requested address.
        url: Url,
        /// The cause.
        reason: String,
    },
    /// The answer did not arrive in time.
    #[error("the verifier at {url} did not answer within {} s. It may be overloaded: send smaller batches, or start it with more workers", .after.as_secs())]
    Timeout {
        /// The requested address.
        url: Url,
        /// How long the client waited.
        after: Duration,
    },
    /// An answer with an error status.
    #[error("the verifier answered {} to {url}: {}{}", .problem.status, sentence(problem), advice(.problem.status))]
    Refused {
        /// The requested address.
        url: Url,
        /// The server's problem document.
        problem: Box<Problem>,
        /// The `Retry-After` header, if the answer had one.
        retry_after: Option<Duration>,
    },
    /// A redirect to another scheme, host or port, which is not followed.
    #[error(
        "{url} redirects to {to}, and prompts and completions are sent only to the scheme, host and port that were given. If that is the verifier, give its address instead"
    )]
    Redirect {
        /// The requested address.
        url: Url,
        /// The other one, without what may be secret.
        to: String,
    },
    /// A success status with a body that does not follow the contract.
    #[error(
        "{url} answered, but not as a verifier does: {reason}. Check that the address is a verifier's and that its version matches this program's"
    )]
    Answer {
        /// The requested address.
        url: Url,
        /// Why the answer is wrong.
        reason: String,
    },
}

impl ClientError {
    /// Whether the same request may succeed later: 408 and 429, 5xx, a broken connection, a timeout.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            ClientError::Connection { .. } | ClientError::Timeout { .. } => true,
            // Load balancers answer 408 to a request that arrives too slowly.
            ClientError::Refused { problem, .. } => {
                matches!(problem.status, 408 | 429) || problem.status >= 500
            }
            ClientError::Address { .. }
            | ClientError::Setup(_)
            | ClientError::Redirect { .. }
            | ClientError::Answer { .. } => false,
        }
    }

    /// How long to wait before the next attempt, if the server stated it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ClientError::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

fn sentence(problem: &Problem) -> &str {
    match (problem.detail.as_str(), problem.title.as_str()) {
        ("", "") => "no reason given",
        ("", title) => title,
        (detail, _) => detail,
    }
}

fn advice(status: u16) -> &'static str {
    match status {
        401 => ". Give the token that the verifier was started with",
        404 => ". Check that the address is a verifier's, without a path such as /v1",
        413 => ". Send smaller batches",
        _ => "",
    }
}
