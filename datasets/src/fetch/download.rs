//! Downloads one file over HTTP, and resumes it after a broken connection.

use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use tokio::io::AsyncWriteExt as _;

use super::error::{Failure, explain, local};
use super::progress::Progress;

/// Maximum number of requests in a row that receive no bytes.
const MAX_REQUESTS: u32 = 5;

/// A file to download.
pub(super) struct Remote<'a> {
    pub(super) url: &'a str,
    /// For the progress display and for errors.
    pub(super) label: &'a str,
    pub(super) token: Option<&'a str>,
    /// In bytes, if it is known beforehand.
    pub(super) size: Option<u64>,
}

/// A request for `url`, with the token if there is one.
pub(super) fn request(client: &Client, url: &str, token: Option<&str>) -> RequestBuilder {
    let request = client.get(url);
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// An HTTP client that gives up on a host that doesn't answer.
pub(super) fn client() -> Result<Client, String> {
    // A second installation of the same provider fails, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(Duration::from_secs(5))
        .read_timeout(Duration::from_secs(30))
        .user_agent(concat!("rapid/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| {
            format!(
                "No HTTPS client could be created ({}); on Debian, install the package ca-certificates.",
                explain(e)
            )
        })
}

/// The outcome of one request: whether all bytes are there, or else why to try again, which is reported after the last request.
type Step = Result<(), String>;

/// Downloads into `part`, and continues after the bytes that it holds. After a broken connection it tries again. The count of
/// requests starts again whenever bytes arrived.
pub(super) async fn download(
    client: &Client,
    remote: &Remote<'_>,
    part: &Path,
    backoff: Duration,
    progress: &dyn Progress,
) -> Result<(), Failure> {
    let mut failed = 0;
    loop {
        let before = length(part);
        match request_rest(client, remote, part, progress).await? {
            Ok(()) => return Ok(()),
            Err(reason) => {
                failed = if length(part) > before { 1 } else { failed + 1 };
                if failed >= MAX_REQUESTS {
                    return Err(Failure::Source(format!(
                        "The download of {} broke off {MAX_REQUESTS} times ({reason}); check the connection and run the command again.",
                        remote.label
                    )));
                }
                tokio::time::sleep(backoff * 2u32.pow(failed - 1)).await;
            }
        }
    }
}

fn length(part: &Path) -> u64 {
    std::fs::metadata(part).map_or(0, |m| m.len())
}

/// Makes one request for the bytes that `part` lacks.
async fn request_rest(
    client: &Client,
    remote: &Remote<'_>,
    part: &Path,
    progress: &dyn Progress,
) -> Result<Step, Failure> {
    let mut have = length(part);
    if let Some(size) = remote.size {
        if have == size && size > 0 {
            return Ok(Ok(()));
        }
        if have > size {
            have = 0;
        }
    }
    let mut request = self::request(client, remote.url, remote.token);
    if have > 0 {
        request = request.header(RANGE, format!("bytes={have}-"));
    }
    let response = match request.send().await {
        Ok(response) => response,
        Err(e) if e.is_connect() => return Err(Failure::Source(unreachable_host(remote.url, &e))),
        Err(e) => return Ok(Err(explain(e))),
    };
    match response.status() {
        StatusCode::OK => have = 0,
        StatusCode::PARTIAL_CONTENT if continues_at(&response) == Some(have) => {}
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            // These are not the requested bytes, so the download starts from the beginning.
            std::fs::write(part, []).map_err(local(part))?;
            return Ok(Err(
                "the server did not send the requested range of bytes".to_owned()
            ));
        }
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            return Ok(Err(format!("the server answered {status}")));
        }
        status => return Err(Failure::Source(refusal(remote.label, status))),
    }
    let total = remote
        .size
        .or_else(|| response.content_length().map(|n| n + have));
    progress.begin(remote.label, total, have);
    let outcome = receive(response, part, have, remote.size, progress).await;
    progress.end();
    outcome
}

/// Writes the response's body after the first `have` bytes of `part`.
async fn receive(
    response: Response,
    part: &Path,
    mut have: u64,
    size: Option<u64>,
    progress: &dyn Progress,
) -> Result<Step, Failure> {
    let mut file = tokio::fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(have == 0)
        .append(have > 0)
        .open(part)
        .await
        .map_err(local(part))?;
    let mut body = response.bytes_stream();
    let mut step = Ok(());
    while let Some(chunk) = body.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(e) => {
                step = Err(explain(e));
                break;
            }
        };
        have += chunk.len() as u64;
        if size.is_some_and(|size| have > size) {
            return Err(Failure::Source(format!(
                "{} is longer than the {} bytes that it should have; the source may have changed.",
                part.display(),
                size.unwrap_or(0)
            )));
        }
        file.write_all(&chunk).await.map_err(local(part))?;
        progress.advance(chunk.len() as u64);
    }
    file.flush().await.map_err(local(part))?;
    file.sync_all().await.map_err(local(part))?;
    Ok(step.and_then(|()| match size {
        Some(size) if have < size => Err(format!("only {have} of {size} bytes arrived")),
        _ => Ok(()),
    }))
}

/// The offset of the first byte of a partial response: `bytes 100-199/200`.
fn continues_at(response: &Response) -> Option<u64> {
    let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let first = range.strip_prefix("bytes ")?.split('-').next()?;
    first.parse().ok()
}

pub(super) fn unreachable_host(url: &str, error: &reqwest::Error) -> String {
    let host = reqwest::Url::parse(url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned))
        .unwrap_or_else(|| url.to_owned());
    // The innermost cause names the actual problem.
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    format!("{host} cannot be reached ({cause}); check the network, or set HTTPS_PROXY.")
}

pub(super) fn refusal(label: &str, status: StatusCode) -> String {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => format!(
            "{label} answered {status}: accept the licence on the page of the model or data set, and give a valid token of that account, by `hf auth login` or in HF_TOKEN."
        ),
        StatusCode::NOT_FOUND => {
            format!("{label} does not exist ({status}); check the name and the revision.")
        }
        _ => format!("{label} answered {status}."),
    }
}
