//! The async client: each call is one request, and every failure has a type. The caller does the batching and retrying.

use std::fmt;
use std::sync::Once;
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::header::{ACCEPT, LOCATION, RETRY_AFTER};
use reqwest::{StatusCode, Url, redirect};
use serde::de::DeserializeOwned;

use crate::{
    ClientError, DatasetInfo, Datasets, Id, Item, Judgement, Problem, Readiness, ServiceInfo,
    Verdict, VerifyResponse,
};

/// The longest answer that is read, in bytes. A verifier's answer to its largest request is far shorter.
const MAX_ANSWER: usize = 256 << 20;
/// The longest answer with an error status that is read, in bytes.
const MAX_PROBLEM: usize = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const QUESTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Judging a batch can take many minutes, since some tasks need minutes each.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// A client of one verifier. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
    verify_timeout: Duration,
}

impl fmt::Debug for Client {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the verifier at `url` (`http://` or `https://`, a host, and with or without a path prefix). `token` is the bearer
    /// token, if the verifier needs one. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError::Address`], and [`ClientError::Setup`] if the TLS roots cannot be read.
    pub fn new(url: impl AsRef<str>, token: Option<String>) -> Result<Client, ClientError> {
        let base = base(url.as_ref())?;
        let http = http_client()
            .build()
            .map_err(|error| ClientError::Setup(chain(&error)))?;
        Ok(Client {
            http,
            base,
            token,
            verify_timeout: VERIFY_TIMEOUT,
        })
    }

    /// The same client, which waits at most `timeout` for the answer to one batch. The default is an hour.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Client {
        self.verify_timeout = timeout;
        self
    }

    /// The verifier's address, ending in a slash.
    #[must_use]
    pub fn url(&self) -> &str {
        self.base.as_str()
    }

    /// Has a batch judged. Returns one judgement per item, in the items' order.
    ///
    /// # Errors
    /// [`ClientError`]. [`ClientError::retryable`] is whether another attempt makes sense.
    pub async fn verify(&self, items: &[Item]) -> Result<Vec<Judgement>, ClientError> {
        let answer = self.ask("v1/verify", Some(Batch { items })).await?;
        let url = answer.url.clone();
        let answer: VerifyResponse = answer.parse()?;
        match mismatch(items, &answer.results) {
            Some(reason) => Err(ClientError::Answer { url, reason }),
            None => Ok(answer.results),
        }
    }

    /// The service's versions, graders, data sets and limits.
    ///
    /// # Errors
    /// As [`Client::verify`].
    pub async fn info(&self) -> Result<ServiceInfo, ClientError> {
        self.ask("v1/info", None).await?.parse()
    }

    /// The data sets with tasks that a request can name.
    ///
    /// # Errors
    /// As [`Client::verify`].
    pub async fn datasets(&self) -> Result<Vec<DatasetInfo>, ClientError> {
        let answer: Datasets = self.ask("v1/datasets", None).await?.parse()?;
        Ok(answer.datasets)
    }

    /// Whether the service is ready, and each grader's state. The answer that it is not ready is not an error.
    ///
    /// # Errors
    /// As [`Client::verify`].
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        let answer = self.ask("readyz", None).await?;
        match serde_json::from_slice(&answer.body) {
            Ok(readiness) if answer.status == StatusCode::SERVICE_UNAVAILABLE => Ok(readiness),
            _ => answer.parse(),
        }
    }

    /// The answer to a request: to judge a batch, or else to a question.
    async fn ask(&self, path: &str, batch: Option<Batch<'_>>) -> Result<Answer, ClientError> {
        let url = self.base.join(path).map_err(|error| ClientError::Address {
            url: format!("{}{path}", self.base),
            reason: error.to_string(),
        })?;
        let (mut request, timeout) = match batch {
            Some(batch) => (
                self.http.post(url.clone()).json(&batch),
                self.verify_timeout,
            ),
            None => (self.http.get(url.clone()), QUESTION_TIMEOUT),
        };
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let request = request.header(ACCEPT, "application/json").timeout(timeout);
        Answer::to(url, request, timeout).await
    }
}

/// Why these are not the judgements of `items`.
fn mismatch(items: &[Item], judgements: &[Judgement]) -> Option<String> {
    let (sent, received) = (items.len(), judgements.len());
    if sent != received {
        return Some(format!(
            "{sent} items were sent and {received} judgements received"
        ));
    }
    items.iter().zip(judgements).find_map(|(item, judgement)| {
        let Judgement { id, verdict, .. } = judgement;
        if !matches!(id, Id::Text(id) if *id == item.id) {
            let meant = &item.id;
            return Some(format!(
                "the judgement of `{id}` was received instead of that of `{meant}`"
            ));
        }
        let reward = judgement.reward?;
        let fits = match verdict {
            Verdict::Correct => reward == 1.0,
            Verdict::Incorrect => (0.0..1.0).contains(&reward),
            Verdict::Unavailable => false,
            Verdict::Timeout | Verdict::Memory | Verdict::Malformed => reward == 0.0,
        };
        (!fits).then(|| {
            let verdict = verdict.name();
            format!(
                "the reward of `{id}` is {reward:?} with the verdict `{verdict}`; it has to be 1 if the verdict is `correct`, at least 0 and below 1 if it is `incorrect`, null if it is `unavailable`, and 0 for any other"
            )
        })
    })
}

/// [`crate::VerifyRequest`] by reference, so that the items are not copied.
#[derive(serde::Serialize)]
struct Batch<'a> {
    items: &'a [Item],
}

/// A client of HTTP that follows a redirect only to the same server, with a short timeout for connecting.
pub fn http_client() -> reqwest::ClientBuilder {
    install_crypto();
    reqwest::Client::builder()
        .user_agent(concat!("rapid-verifier-api/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::custom(within_origin))
}

/// Refuses an address that [`Client::new`] refuses.
///
/// # Errors
/// [`ClientError::Address`].
pub fn check_address(url: &str) -> Result<(), ClientError> {
    base(url).map(drop)
}

fn base(text: &str) -> Result<Url, ClientError> {
    let text = text.trim();
    let bad = |reason: &str| ClientError::Address {
        url: without_secrets(text),
        reason: reason.to_owned(),
    };
    // The text is searched, since a password with a slash in it parses as a path.
    if text.contains('@') {
        return Err(bad(
            "it was given with a user name or a password, and an address (--verifier, `verifier.url`, RAPID_VERIFIER) is stored and printed; put the token into the environment variable RAPID_VERIFIER_TOKEN instead, or into the one that `verifier.token_env` names",
        ));
    }
    if text.contains(['?', '#']) {
        return Err(bad(
            "it was given with a query or a fragment (`?…`, `#…`), which no request would carry; leave it out",
        ));
    }
    if !text.contains("://") {
        return Err(bad("http:// is missing at its beginning"));
    }
    let mut url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it does not begin with http:// or https://"));
    }
    if url.host_str().is_none() {
        return Err(bad("it has no host"));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// The address without the parts that may be secret: the part before the host, the query and the fragment.
#[must_use]
pub fn without_secrets(text: &str) -> String {
    let shown = match text.rsplit_once('@') {
        None => text.to_owned(),
        Some((before, host)) => match before.split_once("://") {
            Some((scheme, _)) => format!("{scheme}://{host}"),
            None => host.to_owned(),
        },
    };
    match shown.split_once(['?', '#']) {
        Some((address, _)) => address.to_owned(),
        None => shown,
    }
}

/// Chooses the cryptography of rustls, once per process.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that the program has chosen one already. That works too.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Follows a redirect to the same scheme, host and port. Another address could be anyone's.
fn within_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    match attempt.previous().first() {
        Some(first) if first.origin() == attempt.url().origin() => {
            redirect::Policy::default().redirect(attempt)
        }
        _ => attempt.stop(),
    }
}

/// An answer that was read.
struct Answer {
    url: Url,
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Answer {
    /// The answer to a request. If its status is an error, only its beginning is read, and none of it if it breaks off: the status alone is enough.
    async fn to(
        url: Url,
        request: reqwest::RequestBuilder,
        timeout: Duration,
    ) -> Result<Answer, ClientError> {
        let sent = request.send().await;
        let answer = sent.map_err(|error| broken(&url, &error, timeout))?;
        let (status, headers) = (answer.status(), answer.headers());
        if let Some(to) = headers.get(LOCATION).filter(|_| status.is_redirection()) {
            let to = without_secrets(&String::from_utf8_lossy(to.as_bytes()));
            return Err(ClientError::Redirect { url, to });
        }
        let retry_after = headers
            .get(RETRY_AFTER)
            .and_then(|seconds| seconds.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        let body = if status.is_success() {
            read(answer, &url, MAX_ANSWER, timeout).await?
        } else {
            let read = read(answer, &url, MAX_PROBLEM, timeout).await;
            read.unwrap_or_default()
        };
        Ok(Answer {
            url,
            status,
            retry_after,
            body,
        })
    }

    /// The value in the body, or the error in the status.
    fn parse<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        let status = self.status;
        let Answer { url, body, .. } = self;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| ClientError::Answer {
                url,
                reason: error.to_string(),
            });
        }
        let mut problem = serde_json::from_slice(&body).unwrap_or_else(|_| Problem {
            kind: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: 0,
            detail: String::from_utf8_lossy(&body).chars().take(500).collect(),
            item: None,
            field: None,
        });
        problem.status = status.as_u16();
        Err(ClientError::Refused {
            url,
            problem: Box::new(problem),
            retry_after: self.retry_after,
        })
    }
}

async fn read(
    answer: reqwest::Response,
    url: &Url,
    limit: usize,
    timeout: Duration,
) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    let mut stream = answer.bytes_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| broken(url, &error, timeout))?;
        if body.len() + piece.len() > limit {
            return Err(ClientError::Answer {
                url: url.clone(),
                reason: format!("its answer is longer than {} MiB", limit >> 20),
            });
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

fn broken(url: &Url, error: &reqwest::Error, after: Duration) -> ClientError {
    let url = url.clone();
    if error.is_timeout() && !error.is_connect() {
        return ClientError::Timeout { url, after };
    }
    let reason = chain(error);
    ClientError::Connection { url, reason }
}

/// An error with its causes, since reqwest's own text is only "error sending request".
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
