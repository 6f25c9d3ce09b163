//! Error responses: RFC 9457 problem documents.
//!
//! A client's error is described in the response, with what to change. An error inside the service is logged, and the client gets only a 500.

use std::any::Any;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use datasets::excerpt::excerpt;
use datasets::loose_json;
use verifier_api::Problem;

use crate::pool::Full;

/// A kind of problem: the status, the name in its URI reference, and the title.
struct Kind(u16, &'static str, &'static str);

const NOT_JSON: Kind = Kind(400, "not-json", "The body is not JSON");
const UNREAD: Kind = Kind(400, "unread", "The body broke off");
const LATE: Kind = Kind(408, "late", "The body did not arrive");
const NOT_GZIP: Kind = Kind(400, "not-gzip", "The body is not gzip");
const UNKNOWN_ENCODING: Kind = Kind(415, "unknown-encoding", "Unknown content encoding");
const TOO_LARGE: Kind = Kind(413, "too-large", "The body is too large");
const TOO_MANY_VALUES: Kind = Kind(413, "too-many-values", "The body has too many values");
const BAD_ITEM: Kind = Kind(422, "bad-item", "An item cannot be judged");
/// 400 if it is not JSON at all.
const BAD_BODY: Kind = Kind(422, "bad-body", "The body cannot be read");
const BAD_FIELD: Kind = Kind(422, "bad-field", "The request cannot be answered");
const NO_ANSWER: Kind = Kind(504, "no-answer", "No answer in time");
const QUEUE_FULL: Kind = Kind(429, "queue-full", "The queue is full");
const UNAVAILABLE: Kind = Kind(503, "unavailable", "There is no reward now");
const NO_JAIL: Kind = Kind(501, "no-jail", "Snippets are not run without a jail");
const UNAUTHORISED: Kind = Kind(401, "unauthorised", "A token is needed");
const UNKNOWN_HOST: Kind = Kind(421, "unknown-host", "The request is for another host");
const UNKNOWN_ORIGIN: Kind = Kind(403, "unknown-origin", "The request is of another origin");
const NOT_JSON_TYPE: Kind = Kind(415, "not-json-type", "The body is not declared as JSON");
const UNKNOWN_KEY: Kind = Kind(404, "unknown-key", "No such verdict");
const UNKNOWN_TASK: Kind = Kind(404, "unknown-task", "No such task");
const UNKNOWN_ROUTE: Kind = Kind(404, "unknown-route", "No such route");
const WRONG_METHOD: Kind = Kind(405, "wrong-method", "Wrong method");
const INTERNAL: Kind = Kind(500, "internal", "Internal error");

/// A problem document with its headers.
#[derive(Debug, Clone, PartialEq)]
pub struct ProblemResponse {
    problem: Box<Problem>,
    retry_after: Option<Duration>,
}

impl Kind {
    fn with(self, detail: impl Into<String>) -> ProblemResponse {
        let Kind(status, name, title) = self;
        let problem = Problem {
            kind: format!("/problems/{name}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            item: None,
            field: None,
        };
        ProblemResponse {
            problem: Box::new(problem),
            retry_after: None,
        }
    }
}

impl ProblemResponse {
    pub(super) fn problem(&self) -> &Problem {
        &self.problem
    }

    pub(super) fn not_json(reason: impl std::fmt::Display) -> ProblemResponse {
        NOT_JSON.with(format!(
            "the body is not JSON ({reason}); /openapi.json describes the body of each route"
        ))
    }

    pub(super) fn unread() -> ProblemResponse {
        UNREAD.with("the request's body broke off before its end; send it again")
    }

    pub(super) fn late(timeout: Duration) -> ProblemResponse {
        LATE.with(format!(
            "the request's body did not arrive within {} s, or came at less than 16 KiB/s; send fewer items per request",
            timeout.as_secs()
        ))
    }

    pub(super) fn not_gzip(reason: &std::io::Error) -> ProblemResponse {
        NOT_GZIP.with(format!(
            "Content-Encoding is gzip, but the body cannot be unpacked ({reason}); compress it again, or send it without Content-Encoding"
        ))
    }

    pub(super) fn unknown_coding(given: &str) -> ProblemResponse {
        let given = excerpt(given);
        UNKNOWN_ENCODING.with(format!(
            "Content-Encoding `{given}` is not supported, only gzip; compress the body with gzip, or send it uncompressed"
        ))
    }

    pub(super) fn too_large(limit: usize) -> ProblemResponse {
        TOO_LARGE.with(format!(
            "the body, unpacked if it is compressed, is longer than {limit} bytes; send fewer items per request (/v1/info has the limits), or start the server with a higher limits.body_bytes"
        ))
    }

    pub(super) fn too_many_values(limit: usize) -> ProblemResponse {
        TOO_MANY_VALUES.with(format!(
            "the body has more than {limit} numbers, texts, lists, objects and keys, which take too much memory; send fewer items per request, or tasks with smaller values"
        ))
    }

    /// An error in the item `item`, or in the body if that is `None`. `field` may have any length. Text of the client in `reason` is already shortened.
    pub(super) fn bad(item: Option<usize>, field: &str, reason: &str) -> ProblemResponse {
        let field = excerpt(field);
        let path = item.map_or_else(
            || format!("`{field}`"),
            |item| format!("items[{item}], `{field}`"),
        );
        let mut answer = BAD_ITEM.with(format!("{path}: {reason}"));
        answer.problem.item = item;
        answer.problem.field = Some(field);
        answer
    }

    /// An error in a body for another service's route: it is not JSON, or lacks fields.
    pub(super) fn bad_body(body: &[u8], error: &serde_json::Error) -> ProblemResponse {
        let reason = excerpt(&loose_json::reason(body, error));
        let detail =
            format!("the body cannot be read ({reason}); send it as /openapi.json describes it");
        let mut answer = BAD_BODY.with(detail);
        if !error.is_data() {
            answer.problem.status = 400;
        }
        answer
    }

    /// An error in a field of another service's route.
    pub(super) fn bad_field(field: &str, reason: &str) -> ProblemResponse {
        let field = excerpt(field);
        let mut answer = BAD_FIELD.with(format!("`{field}`: {reason}"));
        answer.problem.field = Some(field);
        answer
    }

    /// A request that was held for as long as its client waits.
    pub(super) fn no_answer(missing: &str) -> ProblemResponse {
        NO_ANSWER.with(format!(
            "there is no answer in the time that the request allows ({missing}), and none is made up; send the same request again"
        ))
    }

    /// Whether there is no room now.
    pub(super) fn is_full(&self) -> bool {
        self.problem.status == QUEUE_FULL.0
    }

    /// No reward, for a client that knows no verdict `unavailable`.
    pub(super) fn unavailable(reason: &str) -> ProblemResponse {
        let mut answer = UNAVAILABLE.with(format!(
            "{reason}. This is no verdict on a completion, so there is no reward"
        ));
        answer.retry_after = Some(Duration::from_secs(1));
        answer
    }

    pub(super) fn no_jail(reason: &str) -> ProblemResponse {
        NO_JAIL.with(reason)
    }

    pub(super) fn unauthorised(wrong: bool) -> ProblemResponse {
        let detail = if wrong {
            "the token is not this server's"
        } else {
            "this server requires a token: send the header `Authorization: Bearer TOKEN`, or put it into the URL as the password, as in http://user:TOKEN@HOST/"
        };
        UNAUTHORISED.with(detail)
    }

    pub(super) fn unknown_host(host: &str) -> ProblemResponse {
        let host = excerpt(host);
        UNKNOWN_HOST.with(format!(
            "this server has no token, so it answers only to names of its own machine, and `{host}` may be anybody's: use localhost or 127.0.0.1, add the name to allowed_hosts in the server's configuration, or give the server a token"
        ))
    }

    pub(super) fn unknown_origin(origin: &str) -> ProblemResponse {
        let origin = excerpt(origin);
        UNKNOWN_ORIGIN.with(format!(
            "this server has no token, so it answers no web page of another origin, such as `{origin}`: send the request from a program, or give the server a token"
        ))
    }

    pub(super) fn no_json_type() -> ProblemResponse {
        NOT_JSON_TYPE.with("this server has no token, so it reads only bodies that are declared as JSON, which a web page of another origin cannot send: send the header `Content-Type: application/json`, or give the server a token",
        )
    }

    pub(super) fn unknown_key(key: &str) -> ProblemResponse {
        UNKNOWN_KEY.with(format!(
            "no verdict is cached under `{key}`: it was never computed here, it was `unavailable`, or the cache has evicted it"
        ))
    }

    pub(super) fn unknown_task(reason: &str) -> ProblemResponse {
        UNKNOWN_TASK.with(reason)
    }

    /// `meant` is the existing route nearest to `path`.
    pub(super) fn unknown_route(path: &str, meant: Option<String>) -> ProblemResponse {
        let path = excerpt(path);
        let meant = meant.map_or_else(String::new, |route| format!(" (did you mean `{route}`?)"));
        UNKNOWN_ROUTE.with(format!(
            "there is nothing at `{path}`{meant}; /openapi.json lists the routes"
        ))
    }

    pub(super) fn wrong_method(method: &str, path: &str) -> ProblemResponse {
        let (method, path) = (excerpt(method), excerpt(path));
        WRONG_METHOD.with(format!(
            "`{path}` does not answer {method}; /openapi.json lists the routes"
        ))
    }

    pub(super) fn internal() -> ProblemResponse {
        INTERNAL.with("something went wrong inside the server; its log says what. The same request may succeed later")
    }
}

impl From<Full> for ProblemResponse {
    fn from(Full { retry_after }: Full) -> ProblemResponse {
        let seconds = retry_after.as_secs();
        let detail = format!("the queue is full; send the same request again in {seconds} s");
        ProblemResponse {
            retry_after: Some(retry_after),
            ..QUEUE_FULL.with(detail)
        }
    }
}

impl IntoResponse for ProblemResponse {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A problem has only texts and numbers, so serialising it cannot fail.
        let body = serde_json::to_vec(&self.problem).unwrap_or_default();
        let mut response =
            (status, [(header::CONTENT_TYPE, Problem::MEDIA_TYPE)], body).into_response();
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            let seconds = HeaderValue::from(after.as_secs().max(1));
            headers.insert(header::RETRY_AFTER, seconds);
        }
        if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // RFC 7694 and RFC 9110, 15.5.16: the answer names what would have been accepted.
            let (name, accepted) = match self.problem.kind.ends_with(UNKNOWN_ENCODING.1) {
                true => (header::ACCEPT_ENCODING, "gzip"),
                false => (header::ACCEPT, "application/json"),
            };
            headers.insert(name, HeaderValue::from_static(accepted));
        }
        if status == StatusCode::UNAUTHORIZED {
            // Not Basic: a browser would ask for a password, and then send it with the requests of every page.
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The response if a handler panicked. The panic itself is already on stderr.
pub(super) fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    ProblemResponse::internal().into_response()
}
