//! What an error or a status proves. The only question that matters: can the request have landed?

use std::error::Error;
use std::io::ErrorKind;

use crate::{Failure, evidence};

/// Sends a request and classifies whatever is not a success. Inside of an effect this is how an
/// error becomes a proof: Semel saw the request, and that no other one went out before it.
///
/// Use a client that follows no redirects (`reqwest::redirect::Policy::none()`): one that cannot
/// connect to where it was redirected reports a refused connection, though the first server may
/// have acted.
#[cfg(feature = "reqwest")]
pub async fn send(request: reqwest::RequestBuilder) -> Result<reqwest::Response, Failure> {
    response(self::request(request.send()).await?)
}

/// Makes one request of any client and classifies its error. Give the answer's status to
/// [`status`]. A refused connection proves that nothing was sent, unless an earlier request of the
/// attempt went out.
pub async fn request<T, E, F>(sending: F) -> Result<T, Failure>
where
    E: Error + 'static,
    F: Future<Output = Result<T, E>>,
{
    evidence::going_out();
    sending.await.map_err(|error| evidence::of_request(of_error(&error)))
}

/// Like [`request`], for a client that blocks its thread.
pub fn request_blocking<T, E>(sending: impl FnOnce() -> Result<T, E>) -> Result<T, Failure>
where
    E: Error + 'static,
{
    evidence::going_out();
    sending().map_err(|error| evidence::of_request(of_error(&error)))
}

/// Classifies any error. A refused connection proves that nothing was sent; whatever is not known
/// to be a proof counts as unknown.
///
/// Inside of an effect every error that comes this way, also by `?`, is unknown: Semel did not see
/// its request, nor what was sent before. Make it by [`send`] or [`request`], or say yourself what
/// you know: `Failure::not_applied("…")`.
pub fn error(error: &(dyn Error + 'static)) -> Failure {
    #[cfg(feature = "reqwest")]
    if let Some(code) = error.downcast_ref::<reqwest::Error>().and_then(reqwest::Error::status) {
        return status(code.as_u16()).unwrap_or_else(|| Failure::unknown(with_causes(error)));
    }
    evidence::of_error(of_error(error))
}

/// What an error proves about its own request.
fn of_error(error: &(dyn Error + 'static)) -> Failure {
    let reason = with_causes(error);
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return reqwest_error(error, reason);
    }
    if refused_to_connect(error) { Failure::not_applied(reason) } else { Failure::unknown(reason) }
}

/// Classifies an HTTP status that is not a success; `None` for 2xx.
///
/// Validation errors are refusals; missing credentials prove that nothing happened and can be
/// mended; a timeout, a conflict, a rate limit or any 5xx may come after the effect. Inside of an
/// effect it is a proof only if it answers the one request of the attempt, made by [`send`] or
/// [`request`].
pub fn status(status: u16) -> Option<Failure> {
    of_status(status).map(evidence::of_answer)
}

/// What a status proves about its own request.
pub(crate) fn of_status(status: u16) -> Option<Failure> {
    let reason = format!("HTTP status {status}");
    match status {
        200..=299 => None,
        401 | 403 | 407 => Some(Failure::not_applied(reason)),
        408 | 409 | 425 | 429 => Some(Failure::unknown(reason)),
        400..=499 => Some(Failure::refused(reason)),
        _ => Some(Failure::unknown(reason)),
    }
}

/// Passes a successful response on and classifies any other.
#[cfg(feature = "reqwest")]
pub fn response(response: reqwest::Response) -> Result<reqwest::Response, Failure> {
    match status(response.status().as_u16()) {
        None => Ok(response),
        Some(failure) => Err(failure),
    }
}

#[cfg(feature = "reqwest")]
fn reqwest_error(error: &reqwest::Error, reason: String) -> Failure {
    if let Some(failure) = error.status().and_then(|code| of_status(code.as_u16())) {
        return failure;
    }
    // A connect error says that no connection was made, a builder error that none was tried.
    if error.is_connect() || error.is_builder() {
        Failure::not_applied(reason)
    } else {
        Failure::unknown(reason)
    }
}

/// Only an error that says so about the connect itself: a reset may come after the request.
fn refused_to_connect(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.kind() == ErrorKind::ConnectionRefused;
        }
        cause = error.source();
    }
    false
}

fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, want: &str) {
        let got = match super::status(status) {
            None => "receipt",
            Some(failure) if failure.is_final() => "refused",
            Some(failure) if failure.is_proof() => "not applied",
            Some(_) => "unknown",
        };
        assert_eq!(got, want, "{status}");
    }

    #[test]
    fn a_status_proves_only_what_it_says() {
        for status in [200, 201, 202, 204] {
            check(status, "receipt");
        }
        for status in [400, 402, 404, 405, 410, 412, 413, 415, 422] {
            check(status, "refused");
        }
        for status in [401, 403, 407] {
            check(status, "not applied");
        }
        for status in [100, 302, 303, 408, 409, 425, 429, 500, 502, 503, 504, 599] {
            check(status, "unknown");
        }
    }

    #[test]
    fn only_a_refused_connection_is_a_proof() {
        let of = |kind: ErrorKind| error(&std::io::Error::from(kind)).is_proof();
        assert!(of(ErrorKind::ConnectionRefused));
        for kind in [ErrorKind::ConnectionReset, ErrorKind::TimedOut, ErrorKind::BrokenPipe] {
            assert!(!of(kind), "{kind:?}");
        }
    }
}
