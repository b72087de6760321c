//! A document that is fetched from a URL, once for all workers and all instances that name it, and kept for a
//! time. Outlives configuration changes.

use std::rc::Rc;
use std::sync::Arc;

use exchange::local::WorkerLocal;
use exchange::plugin::Build;
use exchange::plugin::outbound::{OutboundDestination, OutboundLimits, OutboundRequest, OutboundTls};
use message::{Headers, Method};
use net::endpoint::KeepAlive;
use serde_json::{Map, Value};

use super::document::{DOCUMENT_BYTES_MAX, OasDocument};
use crate::shared::fetched::Fetched;
use crate::shared::side_thread;

/// See the module.
pub(super) struct RemoteDocument {
    call: Arc<DocumentCall>,
    kept_ms: u64,
    document: Arc<Fetched<OasDocument>>,
}

/// The call that fetches the document.
struct DocumentCall {
    destination: OutboundDestination,
    headers: Headers,
    limits: OutboundLimits,
}

impl RemoteDocument {
    /// The document at `url`, which is asked for with `headers`.
    ///
    /// # Errors
    /// The URL cannot be called, or a field cannot be sent; a sentence.
    pub(super) fn new(
        build: &Build<'_>,
        url: &str,
        headers: &Map<String, Value>,
        verifies: bool,
        timeout_ms: u64,
        kept_ms: u64,
    ) -> Result<RemoteDocument, String> {
        let tls = OutboundTls::verifying(verifies);
        let destination = build.services.destination(url, KeepAlive::default(), &tls)?;
        let mut fields = Headers::new();
        for (name, value) in headers {
            let set = fields.set(name, value.as_str().unwrap_or_default().as_bytes());
            set.map_err(|error| format!("spec_url_request_headers.{name}: {error}"))?;
        }
        let mut sorted: Vec<_> = headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        sorted.sort_unstable();
        let key = format!("oas-validator {url} {verifies} {}", sorted.join("&"));
        let limits = OutboundLimits {
            connect_timeout_ms: timeout_ms,
            total_timeout_ms: timeout_ms,
            max_body_bytes: DOCUMENT_BYTES_MAX,
        };
        let document = build.states.keep(&key, Fetched::default);
        Ok(RemoteDocument {
            call: Arc::new(DocumentCall { destination, headers: fields, limits }),
            kept_ms,
            document,
        })
    }

    /// The document; an older one until a new one is fetched.
    ///
    /// # Errors
    /// It cannot be fetched or is faulty, a sentence for the log.
    pub(super) async fn get(&self, local: &Rc<WorkerLocal>) -> Result<Arc<OasDocument>, Arc<str>> {
        let fetch = || {
            let (call, local) = (self.call.clone(), local.clone());
            async move { call.fetch(&local).await }
        };
        self.document.get_or_stale(self.kept_ms, fetch).await
    }
}

impl DocumentCall {
    async fn fetch(&self, local: &WorkerLocal) -> Result<OasDocument, String> {
        let request =
            OutboundRequest { method: Method::Get, headers: self.headers.clone(), body: Vec::new().into() };
        let answer = local.http.send(&self.destination, &request, &self.limits).await;
        let answer = answer.map_err(|error| format!("failed to fetch spec from URL: {error}"))?;
        if answer.status != 200 {
            return Err(format!("spec URL returned status {}", answer.status));
        }
        // A large document takes more than a millisecond.
        let read = move || OasDocument::read(&String::from_utf8_lossy(&answer.body));
        let read = side_thread::run_on_side_thread(read).await.map_err(|fault| fault.to_string())?;
        read.map_err(|reason| format!("failed to compile openapi spec fetched from URL: {reason}"))
    }
}
