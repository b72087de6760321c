//! The log server: joins entries into batches and posts them. It knows neither requests nor formats.

use exchange::plugin::batch::{Delivery, Entry, Sink};
use exchange::plugin::outbound::{Destination, HttpClient, OutboundLimits, OutboundRequest};
use exchange::plugin::services::Services;
use message::{Headers, Method};
use net::endpoint::KeepAlive;
use serde::Deserialize;

/// The longest response that is read; it only confirms that a batch has arrived.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;
/// How many bytes of a refusal are logged.
const TOLD_MAX_BYTES: usize = 200;

/// How the entries of a batch are joined.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConcatMethod {
    /// A JSON list.
    #[default]
    Json,
    /// One line for each entry.
    NewLine,
}

/// The log server of one plugin instance.
pub(super) struct LogServer {
    destination: Destination,
    headers: Headers,
    limits: OutboundLimits,
    concat_method: ConcatMethod,
    /// A batch is one entry, sent without a list around it.
    is_single: bool,
}

impl LogServer {
    /// The server at `uri`.
    ///
    /// # Errors
    /// Why it cannot be reached, or why the value is not valid in `Authorization`.
    pub(super) fn new(
        services: &Services,
        uri: &str,
        authorization: Option<&str>,
        timeout_ms: u64,
        concat_method: ConcatMethod,
        is_single: bool,
    ) -> Result<LogServer, String> {
        let mut headers = Headers::new();
        let content_type = match concat_method {
            ConcatMethod::Json => "application/json",
            ConcatMethod::NewLine => "text/plain",
        };
        headers.set("Content-Type", content_type.as_bytes()).expect("a constant that can stand in a field");
        if let Some(value) = authorization.filter(|value| !value.is_empty()) {
            let set = headers.set("Authorization", value.as_bytes());
            set.map_err(|error| format!("auth_header cannot stand in a field: {error}"))?;
        }
        Ok(LogServer {
            destination: services.destination(uri, KeepAlive::default())?,
            headers,
            limits: OutboundLimits {
                connect_timeout_ms: timeout_ms,
                total_timeout_ms: timeout_ms,
                max_body_bytes: ANSWER_MAX_BYTES,
            },
            concat_method,
            is_single,
        })
    }

    fn body(&self, batch: &[Entry]) -> Vec<u8> {
        match (self.concat_method, batch) {
            (_, [entry]) if self.is_single => entry.to_vec(),
            (ConcatMethod::NewLine, _) => batch.join(&b'\n'),
            (ConcatMethod::Json, _) => [b"[", &*batch.join(&b','), b"]"].concat(),
        }
    }
}

impl Sink for LogServer {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [Entry]) -> Delivery<'a> {
        Box::pin(async move {
            let request = OutboundRequest {
                method: Method::Post,
                headers: self.headers.clone(),
                body: self.body(batch).into(),
            };
            let answer = client.send(&self.destination, &request, &self.limits).await;
            let answer = answer.map_err(|error| error.to_string())?;
            if answer.status < 400 {
                return Ok(());
            }
            let told = &answer.body[..answer.body.len().min(TOLD_MAX_BYTES)];
            let (uri, status) = (self.destination.uri(), answer.status);
            Err(format!("{uri} answered with status {status}: {}", String::from_utf8_lossy(told)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_put_together_as_configured() {
        let services = exchange::testing::services();
        let check = |method, is_single, entries: &[&str], expected: &str, content_type: &str| {
            let server =
                LogServer::new(&services, "http://127.0.0.1:1/", Some("Basic 123"), 1, method, is_single)
                    .unwrap();
            let batch: Vec<Entry> = entries.iter().map(|entry| entry.as_bytes().into()).collect();
            assert_eq!(String::from_utf8_lossy(&server.body(&batch)), expected);
            assert_eq!(server.headers.get("content-type"), Some(content_type.as_bytes()));
            assert_eq!(server.headers.get("authorization"), Some(&b"Basic 123"[..]));
        };
        check(ConcatMethod::Json, false, &["{}", "{\"a\":1}"], "[{},{\"a\":1}]", "application/json");
        check(ConcatMethod::Json, false, &["{}"], "[{}]", "application/json");
        check(ConcatMethod::Json, true, &["{}"], "{}", "application/json");
        check(ConcatMethod::NewLine, false, &["{}", "{}"], "{}\n{}", "text/plain");
        check(ConcatMethod::NewLine, true, &["{}"], "{}", "text/plain");
        let none =
            LogServer::new(&services, "http://127.0.0.1:1/", Some(""), 1, ConcatMethod::Json, true).unwrap();
        assert!(!none.headers.contains("authorization"));
        let bad = LogServer::new(&services, "http://127.0.0.1:1/", Some("a\nb"), 1, ConcatMethod::Json, true);
        assert!(bad.is_err_and(|reason| reason.contains("auth_header")));
    }
}
