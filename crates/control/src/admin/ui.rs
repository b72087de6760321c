//! The dashboard at `/ui/` of the Admin API: the files of `web/dist`, which are part of the binary. The page
//! holds no secret and needs no key; it asks the Admin API with the key that its user types. It knows no
//! page.

mod files;
mod negotiation;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::serve::respond;
use files::CodedFile;
pub(super) use files::{DashboardFiles, embedded};
use negotiation::Coding;

/// Whether a path is one of the dashboard.
pub(super) fn is_dashboard_path(path: &str) -> bool {
    path == ROOT.trim_end_matches('/') || path.starts_with(ROOT)
}

/// Answers a request for a path of the dashboard.
pub(super) fn answer_dashboard(files: &DashboardFiles, head: &Parts) -> Response<Bytes> {
    let mut response = if !matches!(head.method, Method::GET | Method::HEAD) {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        refusal
    } else if let Some(name) = head.uri.path().strip_prefix(ROOT) {
        page_or_file(files, name, head)
    } else {
        redirect(head)
    };
    let headers = response.headers_mut();
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert_with(|| policy(""));
    for (name, value) in SECURITY {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn page_or_file(files: &DashboardFiles, name: &str, head: &Parts) -> Response<Bytes> {
    if name != INDEX
        && let Some(file) = file(files, name, head)
    {
        return file;
    }
    if name != INDEX && names_a_file(name) {
        return plain(StatusCode::NOT_FOUND, "no such file\n");
    }
    match files.plain(INDEX) {
        Some(index) => index_page(&index),
        None => plain(StatusCode::NOT_FOUND, "this build has no dashboard\n"),
    }
}

/// The page, with a nonce of its own in the places of [`NONCE_MARK`] and in its policy.
fn index_page(index: &Bytes) -> Response<Bytes> {
    let mut random = [0; NONCE_BYTES];
    if getrandom::fill(&mut random).is_err() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the system gives no random bytes\n");
    }
    let nonce = BASE64URL_NOPAD.encode(&random);
    let text = String::from_utf8_lossy(index).replace(NONCE_MARK, &nonce);
    let mut response = respond::with_body(StatusCode::OK, Bytes::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy(&format!(" 'nonce-{nonce}'")));
    response
}

/// A file in the best coding that the client accepts and the file has.
fn file(files: &DashboardFiles, name: &str, head: &Parts) -> Option<Response<Bytes>> {
    let Ok(CodedFile { coding, body }) = files.get(name, &negotiation::accepted(&head.headers))? else {
        return Some(plain(StatusCode::INTERNAL_SERVER_ERROR, "this build has a damaged file here\n"));
    };
    let mut response = respond::with_body(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
    // Names of assets hold a hash of their content.
    let caching = if name.starts_with(ASSETS) { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(coding) = coding.map(Coding::name) {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    Some(response)
}

/// `/ui` to `/ui/`, so that relative names in the page are below it.
fn redirect(head: &Parts) -> Response<Bytes> {
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = plain(StatusCode::PERMANENT_REDIRECT, "");
    // A query that reached here is made of characters that a field may hold.
    if let Ok(location) = HeaderValue::from_str(&format!("{ROOT}{query}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Whether a missing name is a missing file and not the address of a page. The id of an object may have dots
/// too (`routes/shop.v1`), so that only names directly at the root are judged by their suffix.
fn names_a_file(name: &str) -> bool {
    name.starts_with(ASSETS) || (!name.contains('/') && content_type(name) != UNKNOWN_TYPE)
}

fn content_type(name: &str) -> &'static str {
    let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    TYPES.iter().find(|(known, _)| *known == suffix).map_or(UNKNOWN_TYPE, |(_, content_type)| content_type)
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = respond::text_response(status, text);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The content security policy: nothing but files of this origin, no inline script, and styles with the
/// nonce.
fn policy(style_nonce: &str) -> HeaderValue {
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'{style_nonce}; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).expect("visible ASCII is a field value")
}

/// The path of the dashboard.
const ROOT: &str = "/ui/";
/// The page, which is served for every path of the dashboard that is no file.
const INDEX: &str = "index.html";
/// The folder of the files with a hash in their names.
const ASSETS: &str = "assets/";
/// The place of the nonce in the page.
const NONCE_MARK: &str = "%NONCE%";
/// Random bytes of a nonce; CSP level 3 asks for 128 bits at least.
const NONCE_BYTES: usize = 16;
/// The type of a file with an unknown suffix.
const UNKNOWN_TYPE: &str = "application/octet-stream";
/// Suffixes of files, and their types.
const TYPES: [(&str, &str); 14] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("webmanifest", "application/manifest+json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("ico", "image/x-icon"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("wasm", "application/wasm"),
    ("txt", "text/plain; charset=utf-8"),
];
/// Fields of every answer below `/ui`.
const SECURITY: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

#[cfg(test)]
mod tests;
