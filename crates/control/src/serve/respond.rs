//! The form of every Admin API answer: headers, JSON with a line end, error envelopes. It knows no request.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use model::{ObjectKey, Snapshot, Warning};
use serde::Serialize;
use serde_json::json;

use crate::serve::RefusalResponse;

/// Headers of every answer of one server (contract 2.1).
#[derive(Debug, Clone)]
pub struct ApiHeaders {
    server: HeaderValue,
    cors: bool,
}

impl ApiHeaders {
    /// `emulated_version` is the APISIX version that the API behaves like, shown as
    /// `Server: APISIX/<version>`; characters that a header cannot hold are left out. Without it the header
    /// is `APISIX`, as in APISIX with `enable_server_tokens: false`.
    pub fn new(emulated_version: Option<&str>, cors: bool) -> ApiHeaders {
        let server = emulated_version.map(|version| {
            let version: String = version.chars().filter(char::is_ascii_graphic).collect();
            HeaderValue::from_str(&format!("APISIX/{version}")).expect("visible ASCII is a header value")
        });
        ApiHeaders { server: server.unwrap_or(HeaderValue::from_static("APISIX")), cors }
    }

    pub fn add_to(&self, response: Response<Bytes>) -> Response<Bytes> {
        let mut response = self.add_to_refusal(response);
        response.headers_mut().insert(API_VERSION, HeaderValue::from_static("v3"));
        response
    }

    /// Adds the headers except `X-API-VERSION`, for a caller without a valid key.
    pub fn add_to_refusal(&self, mut response: Response<Bytes>) -> Response<Bytes> {
        let headers = response.headers_mut();
        headers.insert(header::SERVER, self.server.clone());
        headers.entry(header::CONTENT_TYPE).or_insert(JSON);
        if self.cors {
            for (name, value) in CORS {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        response
    }

    /// The answer to `OPTIONS`, the same for every path.
    pub fn options(&self) -> Response<Bytes> {
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        if self.cors {
            for (name, value) in PREFLIGHT {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        self.add_to(response)
    }
}

/// A JSON body with a line end after it, as in APISIX.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response<Bytes> {
    let mut bytes = serde_json::to_vec(body).expect("maps with text keys always serialize");
    bytes.push(b'\n');
    with_body(status, Bytes::from(bytes))
}

/// `{"error_msg": ...}`.
pub(crate) fn error_response(status: StatusCode, message: impl AsRef<str>) -> Response<Bytes> {
    json(status, &json!({ "error_msg": message.as_ref() }))
}

/// 400 with the reason.
pub(crate) fn bad(message: impl AsRef<str>) -> Response<Bytes> {
    error_response(StatusCode::BAD_REQUEST, message)
}

/// As [`bad`], for handlers that give up with `?`.
pub(crate) fn refuse_request(message: impl AsRef<str>) -> RefusalResponse {
    Box::new(bad(message))
}

/// 404 for a path that names nothing.
pub(crate) fn not_found() -> Response<Bytes> {
    error_response(StatusCode::NOT_FOUND, "not found")
}

/// 503 because the queue of writes is full.
pub(crate) fn busy() -> RefusalResponse {
    Box::new(error_response(StatusCode::SERVICE_UNAVAILABLE, "too many writes are waiting"))
}

/// Runs `work` on a thread for blocking work, because JSON of many objects takes milliseconds that other
/// requests would wait for. A panic in it is answered 500.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RefusalResponse> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Box::new(empty(StatusCode::INTERNAL_SERVER_ERROR)))
}

/// 404 for an object that does not exist.
pub(crate) fn key_not_found() -> Response<Bytes> {
    json(StatusCode::NOT_FOUND, &json!({ "message": "Key not found" }))
}

/// A body of plain text.
pub(crate) fn text_response(status: StatusCode, body: &'static str) -> Response<Bytes> {
    with_body(status, Bytes::from_static(body.as_bytes()))
}

/// A status without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Bytes> {
    with_body(status, Bytes::new())
}

/// Adds an `X-Weir-Warning` field for each warning about a written object.
pub(crate) fn add_warnings(response: &mut Response<Bytes>, warnings: &[Warning]) {
    for warning in warnings.iter().take(MAX_WARNINGS) {
        // Field values are visible ASCII (RFC 9110 section 5.5), but names in a warning come from users.
        let text: String = warning
            .to_string()
            .chars()
            .map(|character| if character == ' ' || character.is_ascii_graphic() { character } else { '?' })
            .take(MAX_WARNING_BYTES)
            .collect();
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// As [`add_warnings`], for the objects under those keys; each warning begins with the key of its object.
pub(crate) fn warn_of<'k>(
    response: &mut Response<Bytes>,
    snapshot: &Snapshot,
    keys: impl IntoIterator<Item = &'k ObjectKey>,
) {
    let of_object = |key: &'k ObjectKey| {
        let place = move |warning: &Warning| format!("{}{}", key.path(), warning.pointer);
        let warnings = snapshot.warnings_at(key).into_iter();
        warnings.map(move |warning| Warning { pointer: place(&warning), reason: warning.reason })
    };
    let warnings: Vec<Warning> = keys.into_iter().flat_map(of_object).take(MAX_WARNINGS).collect();
    add_warnings(response, &warnings);
}

pub(crate) fn with_body(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const WARNING: HeaderName = HeaderName::from_static("x-weir-warning");
/// Fields of one answer. The head stays below the 8 KiB that many clients accept; `weir/verdicts` lists all
/// warnings.
const MAX_WARNINGS: usize = 10;
/// Bytes of one field, for the same limit.
const MAX_WARNING_BYTES: usize = 400;
const API_VERSION: HeaderName = HeaderName::from_static("x-api-version");
const CORS: [(HeaderName, &str); 4] = [
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "*"),
    (header::ACCESS_CONTROL_MAX_AGE, "3600"),
];
const PREFLIGHT: [(HeaderName, &str); 2] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, PUT, OPTIONS, DELETE, PATCH"),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
];
