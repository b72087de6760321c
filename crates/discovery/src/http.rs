//! The HTTP client that all registries share: HTTP/1.1 with connections that are kept, TLS, several servers
//! that are asked in turn, a deadline for each server that a call is sent to, and limits on answers. It knows
//! no registry.

mod connection;
mod lines;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64;
use http::{HeaderMap, HeaderName, Method, Uri, header};
use http_body_util::{BodyExt, Limited};
use model::outbound::OutboundPolicy;
use percent_encoding::percent_decode_str;
use tokio::task::JoinSet;

use connection::Connections;
pub(crate) use lines::ResponseLines;
pub(crate) use tls::TlsSettings;

/// How the servers of a registry are reached.
#[derive(Clone, Debug)]
pub(crate) struct HttpSettings {
    /// `http://HOST:PORT` or `https://HOST:PORT`, each with a path in front of the targets if it has one, and
    /// with `USER:PASSWORD@` for basic authentication. Servers are asked in this order until one answers.
    pub(crate) servers: Vec<String>,
    /// For connecting, with TLS.
    pub(crate) connect_timeout: Duration,
    /// For connecting, sending and the whole answer at each server that is asked, unless the call has its
    /// own. A call that is sent to several servers in turn may last as many times longer.
    pub(crate) timeout: Duration,
    pub(crate) tls: TlsSettings,
    /// Addresses that are not connected to.
    pub(crate) policy: OutboundPolicy,
    /// Bytes of an answer's body.
    pub(crate) answer_bytes: usize,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct RegistryRequest {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    /// Fields beyond Host and those of the body; their values are never logged.
    pub(crate) fields: Vec<(HeaderName, String)>,
    pub(crate) body: Vec<u8>,
    /// For the whole answer at each server that is asked; none: that of the settings.
    pub(crate) timeout: Option<Duration>,
}

impl RegistryRequest {
    /// A GET of `target`, a path with its query.
    pub(crate) fn get(target: impl Into<String>) -> RegistryRequest {
        RegistryRequest {
            method: Method::GET,
            target: target.into(),
            fields: Vec::new(),
            body: Vec::new(),
            timeout: None,
        }
    }

    /// A POST or PUT with a body of that media type.
    pub(crate) fn with_body(
        method: Method,
        target: impl Into<String>,
        media_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> RegistryRequest {
        let call = RegistryRequest { method, body: body.into(), ..RegistryRequest::get(target) };
        call.with(header::CONTENT_TYPE, media_type)
    }

    /// The call with one field more.
    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> RegistryRequest {
        self.fields.push((name, value.to_owned()));
        self
    }

    /// The call with a deadline of its own at each server.
    #[must_use]
    pub(crate) fn within(mut self, timeout: Duration) -> RegistryRequest {
        self.timeout = Some(timeout);
        self
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct RegistryResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl RegistryResponse {
    /// The body of an answer with status 200.
    ///
    /// # Errors
    /// Another status, with the beginning of the body, which says why.
    pub(crate) fn ok(&self) -> Result<&[u8], String> {
        if self.status == 200 {
            return Ok(&self.body);
        }
        Err(self.refusal())
    }

    /// The body of an answer with a status from 200 to 299.
    ///
    /// # Errors
    /// As [`RegistryResponse::ok`].
    pub(crate) fn success(&self) -> Result<&[u8], String> {
        if (200..300).contains(&self.status) { Ok(&self.body) } else { Err(self.refusal()) }
    }

    /// The status and the beginning of the body.
    fn refusal(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body).chars().take(SHOWN_MAX_CHARS).collect();
        let hint = match self.status {
            401 | 403 => ", which means that the credentials are missing, wrong or expired",
            _ => "",
        };
        let status = self.status;
        if text.is_empty() {
            format!("status {status}{hint}")
        } else {
            format!("status {status}{hint}: {text}")
        }
    }

    /// The value of a field, if it is text.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A server of the settings.
#[derive(Debug)]
pub(super) struct RegistryServer {
    /// As messages name it: without user and password.
    name: String,
    host: String,
    port: u16,
    is_tls: bool,
    authority: String,
    /// In front of all targets, without a slash at its end.
    path: String,
    authorization: Option<String>,
    connections: Connections,
}

/// A client of the servers of one registry. Cloned handles share the connections.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    servers: Vec<RegistryServer>,
    /// The index of the server that is asked first: the last one with an answer, whatever its status.
    current: AtomicUsize,
    settings: HttpSettings,
}

impl HttpClient {
    /// A client of these servers; nothing is opened or read yet.
    ///
    /// # Errors
    /// A server's URL is unusable; the error names it.
    pub(crate) fn new(settings: HttpSettings) -> Result<HttpClient, String> {
        if settings.servers.is_empty() {
            return Err("there is no server to ask".to_owned());
        }
        let servers =
            settings.servers.iter().map(|url| RegistryServer::parse(url)).collect::<Result<_, _>>()?;
        Ok(HttpClient { inner: Arc::new(Inner { servers, current: AtomicUsize::new(0), settings }) })
    }

    /// Sends the call to the servers in turn until one answers with a status below 500, beginning with the
    /// one that answered last. A call may reach more than one server: it must do no harm when it is repeated.
    ///
    /// # Errors
    /// The reasons of all servers. The answer of the last server is returned if it has the status 500 or
    /// above.
    pub(crate) async fn call(&self, call: &RegistryRequest) -> Result<RegistryResponse, String> {
        let mut failures = Vec::new();
        let count = self.inner.servers.len();
        let first = self.inner.current.load(Ordering::Relaxed);
        for turn in 0..count {
            let index = (first + turn) % count;
            match self.call_at(index, call).await {
                Ok(reply) if reply.status >= 500 && turn + 1 < count => {
                    failures.push(format!("{}: status {}", self.inner.servers[index].name, reply.status));
                }
                Ok(reply) => {
                    self.inner.current.store(index, Ordering::Relaxed);
                    return Ok(reply);
                }
                Err(reason) => failures.push(reason),
            }
        }
        Err(failures.join("; "))
    }

    /// Sends the call to every server at the same time. One result each, in the order of the answers; its
    /// error is the server's name and the reason.
    pub(crate) async fn call_each(&self, call: &RegistryRequest) -> Vec<Result<RegistryResponse, String>> {
        let mut calls = JoinSet::new();
        for index in 0..self.inner.servers.len() {
            let (client, call) = (self.clone(), call.clone());
            calls.spawn(async move { client.call_at(index, &call).await });
        }
        let mut results = Vec::new();
        while let Some(result) = calls.join_next().await {
            results.push(result.unwrap_or_else(|fault| Err(fault.to_string())));
        }
        results
    }

    /// Sends the call to the server of that index only, within the deadline of the call or of the settings.
    ///
    /// # Errors
    /// The server's name and the reason.
    pub(crate) async fn call_at(
        &self,
        index: usize,
        call: &RegistryRequest,
    ) -> Result<RegistryResponse, String> {
        let server = &self.inner.servers[index % self.inner.servers.len()];
        let settings = &self.inner.settings;
        let timeout = call.timeout.unwrap_or(settings.timeout);
        let waits_on_kept = AtomicBool::new(false);
        let answer = async {
            let (response, sender) = server.connections.send(server, call, settings, &waits_on_kept).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, settings.answer_bytes).collect().await.map_err(|error| {
                let limit = settings.answer_bytes;
                format!("the answer broke off, or is longer than {limit} bytes: {error}")
            })?;
            server.connections.keep(sender);
            Ok(RegistryResponse {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.to_bytes(),
            })
        };
        let answer = match tokio::time::timeout(timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                server.connections.timed_out(&waits_on_kept);
                Err(format!("no whole answer within {} ms", timeout.as_millis()))
            }
        };
        answer.map_err(|reason: String| format!("{}: {reason}", server.name))
    }

    /// Sends the call to the servers in turn until one answers, and returns the lines of its body as they
    /// arrive. The timeout of the settings holds for the head of each server's answer.
    ///
    /// # Errors
    /// The reasons of all servers.
    pub(crate) async fn lines(&self, call: &RegistryRequest) -> Result<ResponseLines, String> {
        let mut failures = Vec::new();
        let settings = &self.inner.settings;
        let count = self.inner.servers.len();
        let first = self.inner.current.load(Ordering::Relaxed);
        for turn in 0..count {
            let index = (first + turn) % count;
            let server = &self.inner.servers[index];
            let waits_on_kept = AtomicBool::new(false);
            let sent = server.connections.send(server, call, settings, &waits_on_kept);
            let answer = match tokio::time::timeout(settings.timeout, sent).await {
                Ok(answer) => answer,
                Err(_) => {
                    server.connections.timed_out(&waits_on_kept);
                    Err(format!("no answer within {} ms", settings.timeout.as_millis()))
                }
            };
            match answer {
                // The sender is dropped: the connection ends with this answer.
                Ok((response, _)) => {
                    self.inner.current.store(index, Ordering::Relaxed);
                    let (head, body) = response.into_parts();
                    let status = head.status.as_u16();
                    return Ok(ResponseLines::new(status, body, settings.answer_bytes));
                }
                Err(reason) => failures.push(format!("{}: {reason}", server.name)),
            }
        }
        Err(failures.join("; "))
    }
}

impl RegistryServer {
    fn parse(url: &str) -> Result<RegistryServer, String> {
        // The URL may hold a password, so that messages show only its end.
        let shown = url.rsplit_once('@').map_or(url, |(_, end)| end).to_owned();
        let unusable = |reason: &str| format!("the server {shown:?} {reason}; write http://HOST:PORT");
        let uri: Uri = url.parse().map_err(|_| unusable("is no URL"))?;
        let authority = uri.authority().ok_or_else(|| unusable("is no URL with a host"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(unusable("has a scheme other than http and https")),
        };
        if uri.query().is_some() {
            return Err(unusable("has a query"));
        }
        let (user, authority_text) = match authority.as_str().rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest.to_owned()),
            None => (None, authority.as_str().to_owned()),
        };
        let port = match &authority_text[authority.host().len()..] {
            "" => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            rest => {
                let port = rest.strip_prefix(':').and_then(|port| port.parse().ok());
                let port = port.filter(|port: &u16| *port != 0);
                port.ok_or_else(|| unusable("has no port from 1 to 65535"))?
            }
        };
        let authorization = user.map(|user| {
            let decoded = percent_decode_str(user).collect::<Vec<u8>>();
            format!("Basic {}", BASE64.encode(&decoded))
        });
        Ok(RegistryServer {
            name: shown.trim_end_matches('/').to_owned(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port,
            is_tls,
            authority: authority_text,
            path: uri.path().trim_end_matches('/').to_owned(),
            authorization,
            connections: Connections::default(),
        })
    }
}

/// Characters of a refusal that an error shows.
const SHOWN_MAX_CHARS: usize = 120;

#[cfg(test)]
mod tests;
