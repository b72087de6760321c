//! Calls of etcd: one endpoint at a time, the next one when it fails, a token if etcd requires one. Every
//! call can be repeated without harm: reads, leases that expire, and writes under conditions. It does not
//! know the data.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use parking_lot::RwLock;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::etcd::connector::{EtcdConnector, etcd_tls_config};
use crate::etcd::message::{AuthenticateRequest, AuthenticateResponse, WatchRequest, WatchResponse};
use crate::etcd::{EtcdConfig, EtcdError, MAX_ANSWER_BYTES};

/// A client of one etcd cluster.
pub struct EtcdClient {
    config: EtcdConfig,
    endpoints: Vec<(String, Channel)>,
    /// The endpoint for the next call; the last one that answered.
    current: AtomicUsize,
    token: RwLock<Option<MetadataValue<Ascii>>>,
}

impl std::fmt::Debug for EtcdClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EtcdClient").field("config", &self.config).finish_non_exhaustive()
    }
}

impl EtcdClient {
    /// A client that connects at its first call. It must be created within a tokio runtime, because its
    /// connections are tasks of that runtime.
    ///
    /// # Errors
    /// A certificate that cannot be used, or an endpoint that is no address.
    pub fn new(config: EtcdConfig) -> Result<EtcdClient, EtcdError> {
        let secure = config.endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
        let tls = if secure { Some(etcd_tls_config(&config.tls)?) } else { None };
        let mut endpoints = Vec::new();
        for url in &config.endpoints {
            let authority = url.split_once("://").map_or(url.as_str(), |(_, authority)| authority);
            // The connector does TLS, so that the URI inside of the connection has the scheme http.
            let endpoint = Endpoint::from_shared(format!("http://{authority}"))
                .map_err(|_| EtcdError::Refused(format!("`{url}` is no address")))?
                .connect_timeout(config.timeout)
                .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES);
            let connector = EtcdConnector::new(url, &config, tls.as_ref())?;
            endpoints.push((url.clone(), endpoint.connect_with_connector_lazy(connector)));
        }
        Ok(EtcdClient { config, endpoints, current: AtomicUsize::new(0), token: RwLock::new(None) })
    }

    /// The endpoint that is called first.
    pub fn endpoint(&self) -> &str {
        &self.endpoints[self.current()].0
    }

    /// Uses another endpoint from now on.
    pub fn turn_away(&self) {
        self.turn_away_from(self.current());
    }

    fn turn_away_from(&self, index: usize) {
        let next = (index + 1) % self.endpoints.len();
        // Another call may have changed the endpoint already.
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Makes one call; tries each endpoint once until one answers.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, EtcdError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut last = String::new();
        let mut may_be_sent = false;
        let mut fresh_token = false;
        let mut tries = self.endpoints.len();
        while tries > 0 {
            let index = self.current();
            let attempt = self.unary(index, path, request.clone());
            let status = match tokio::time::timeout(self.config.timeout, attempt).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("no answer within {:?}", self.config.timeout)),
            };
            if wants_token(&status) && !fresh_token && self.config.user.is_some() {
                fresh_token = true;
                match self.authenticate(index).await {
                    Ok(()) => continue,
                    Err(refusal) if !is_transient(&refusal) => return Err(error_of_status(&refusal)),
                    Err(_) => {}
                }
            } else if !is_transient(&status) {
                return Err(error_of_status(&status));
            }
            may_be_sent |= !is_not_connected(&status);
            last = format!("{}: {}", self.endpoints[index].0, reason(&status));
            self.turn_away_from(index);
            tries -= 1;
        }
        Err(if may_be_sent { EtcdError::Unreachable(last) } else { EtcdError::NotConnected(last) })
    }

    /// Opens a watch at the current endpoint; other endpoints are not tried.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn watch(&self, request: WatchRequest) -> Result<Streaming<WatchResponse>, EtcdError> {
        let index = self.current();
        if self.config.user.is_some() && self.token.read().is_none() {
            self.authenticate(index).await.map_err(|status| error_of_status(&status))?;
        }
        let opened = tokio::time::timeout(self.config.timeout, self.stream(index, request.clone())).await;
        match opened {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(status)) => {
                if wants_token(&status) {
                    *self.token.write() = None;
                }
                Err(error_of_status(&status))
            }
            Err(_) => Err(EtcdError::Unreachable(format!("no watch within {:?}", self.config.timeout))),
        }
    }

    /// Drops the token, so that the next call gets a new one.
    fn forget_token(&self) {
        *self.token.write() = None;
    }

    /// Refuses the end of a watch: etcd ends one with a message, because the revision is compacted, the
    /// member has no leader, or the token has expired.
    ///
    /// # Errors
    /// [`EtcdError::Compacted`], otherwise [`EtcdError::Unreachable`] with the reason.
    pub fn refuse_canceled(&self, response: &WatchResponse) -> Result<(), EtcdError> {
        if !response.canceled {
            return Ok(());
        }
        let reason = &response.cancel_reason;
        if response.compact_revision > 0 || reason.contains("compacted") {
            return Err(EtcdError::Compacted);
        }
        if reason.contains("auth") || reason.contains("permission") {
            self.forget_token();
        }
        Err(EtcdError::Unreachable(format!("etcd ended the watch: {reason}")))
    }

    async fn stream(&self, index: usize, request: WatchRequest) -> Result<Streaming<WatchResponse>, Status> {
        let mut grpc = self.ready(index).await?;
        // etcd ends a watch when the stream of requests ends, so the stream stays open.
        let requests = OnceThenOpen { request: Some(request) };
        let mut request = Request::new(requests);
        self.sign(request.metadata_mut());
        // Without this field a member that has lost its cluster would keep the watch open and send nothing.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        grpc.streaming(request, path, codec).await.map(Response::into_inner)
    }

    async fn unary<Q, A>(&self, index: usize, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready(index).await?;
        let mut request = Request::new(request);
        self.sign(request.metadata_mut());
        let codec = ProstCodec::<Q, A>::default();
        grpc.unary(request, PathAndQuery::from_static(path), codec).await.map(Response::into_inner)
    }

    async fn ready(&self, index: usize) -> Result<Grpc<Channel>, Status> {
        let channel = self.endpoints[index].1.clone();
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_ANSWER_BYTES);
        grpc.ready().await.map_err(|fault| Status::unavailable(causes(&fault)))?;
        Ok(grpc)
    }

    fn sign(&self, metadata: &mut tonic::metadata::MetadataMap) {
        if let Some(token) = &*self.token.read() {
            metadata.insert("token", token.clone());
        }
    }

    async fn authenticate(&self, index: usize) -> Result<(), Status> {
        let Some((name, password)) = self.config.user.clone() else { return Ok(()) };
        self.forget_token();
        let request = AuthenticateRequest { name, password };
        let call = self.unary::<_, AuthenticateResponse>(index, "/etcdserverpb.Auth/Authenticate", request);
        let answer = tokio::time::timeout(self.config.timeout, call)
            .await
            .map_err(|_| Status::deadline_exceeded("no answer to the password"))??;
        let token = MetadataValue::try_from(answer.token.as_str())
            .map_err(|_| Status::internal("the token is no header value"))?;
        *self.token.write() = Some(token);
        Ok(())
    }
}

/// A stream of one request that never ends.
struct OnceThenOpen {
    request: Option<WatchRequest>,
}

impl tokio_stream::Stream for OnceThenOpen {
    type Item = WatchRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<WatchRequest>> {
        match self.request.take() {
            Some(request) => std::task::Poll::Ready(Some(request)),
            // No waker is stored, because this stream never continues; dropping the call drops it.
            None => std::task::Poll::Pending,
        }
    }
}

/// Whether etcd requires a token, or a newer one.
fn wants_token(status: &Status) -> bool {
    let message = status.message();
    status.code() == Code::Unauthenticated
        || message.contains("invalid auth token")
        || message.contains("user name is empty")
        || message.contains("auth: revision in header is old")
}

/// Whether another endpoint, or the same one a little later, may answer.
fn is_transient(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled => true,
        // Such a status with a source is the error of the connection.
        Code::Unknown | Code::Internal => {
            std::error::Error::source(status).is_some() || status.message().contains("etcdserver:")
        }
        // Too many requests wait at this member. `database space exceeded` has the same code and is final.
        Code::ResourceExhausted => status.message().contains("too many requests"),
        _ => false,
    }
}

/// Whether there was no connection on which the call could have been sent.
fn is_not_connected(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(fault) = cause {
        if fault.is::<tonic::ConnectError>() {
            return true;
        }
        cause = fault.source();
    }
    false
}

/// The error of a failed call or an ended watch.
pub fn error_of_status(status: &Status) -> EtcdError {
    let message = status.message();
    if message.contains("required revision has been compacted") {
        EtcdError::Compacted
    } else if status.code() == Code::OutOfRange && message.contains("message length too large") {
        EtcdError::TooLarge
    } else if is_transient(status) {
        EtcdError::Unreachable(reason(status))
    } else {
        EtcdError::Refused(reason(status))
    }
}

fn reason(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => causes(source),
        None => status.message().to_owned(),
    }
}

/// The error and its causes, outermost first; causes with a text that is already there are left out.
fn causes(fault: &dyn std::error::Error) -> String {
    let mut text = fault.to_string();
    let mut source = fault.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Interval of keepalive pings on an idle connection. etcd ends connections that send them more often than
/// every 5 s (its `grpc-keepalive-min-time`).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(6);
/// Time limit for the answer to a ping: with the interval, a cut network is noticed after 9 s.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);
/// HTTP/2 window, so that a first load of megabytes does not wait for the default of 64 KiB.
const WINDOW_BYTES: u32 = 4 << 20;
