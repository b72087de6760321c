//! Connections to one server: opened, kept for the next call for a while, and given up. A call on a kept
//! connection that fails before its answer begins is sent once more on a new one, because the server may have
//! closed the connection meanwhile. A kept connection that does not answer in time takes the others with it,
//! because a middlebox that forgets silent connections forgets all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use outbound::connect::connect_tcp;
use outbound::tls::Io;
use parking_lot::Mutex;
use rustls_pki_types::ServerName;

use super::{HttpSettings, RegistryRequest, RegistryServer};

pub(super) use hyper::body::Incoming;

/// The side of a connection that sends requests.
pub(super) type Sender = SendRequest<Full<Bytes>>;

/// Idle connections to one server.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Vec<IdleRegistryConnection>>);

/// An idle connection.
#[derive(Debug)]
struct IdleRegistryConnection {
    sender: Sender,
    since: Instant,
}

impl Connections {
    /// Sends a call on a kept connection or a new one. `waits_on_kept` is true while a kept one has not
    /// answered.
    pub(super) async fn send(
        &self,
        server: &RegistryServer,
        call: &RegistryRequest,
        settings: &HttpSettings,
        waits_on_kept: &AtomicBool,
    ) -> Result<(Response<Incoming>, Sender), String> {
        self.keep_usable(Instant::now());
        let kept = self.0.lock().pop();
        if let Some(IdleRegistryConnection { mut sender, .. }) = kept {
            waits_on_kept.store(true, Ordering::Relaxed);
            let answer = match sender.ready().await {
                Ok(()) => sender.send_request(request(server, call)?).await,
                Err(error) => Err(error),
            };
            waits_on_kept.store(false, Ordering::Relaxed);
            if let Ok(response) = answer {
                return Ok((response, sender));
            }
        }
        let mut sender = match tokio::time::timeout(settings.connect_timeout, open(server, settings)).await {
            Ok(opened) => opened?,
            Err(_) => {
                return Err(format!("no connection within {} ms", settings.connect_timeout.as_millis()));
            }
        };
        let sent = sender.send_request(request(server, call)?).await;
        let response = sent.map_err(|error| format!("no answer: {error}"))?;
        Ok((response, sender))
    }

    /// Gives up connections that are closed or were idle for [`IDLE_LIMIT`] at `now`.
    pub(super) fn keep_usable(&self, now: Instant) {
        self.0.lock().retain(|idle| {
            !idle.sender.is_closed() && now.saturating_duration_since(idle.since) < IDLE_LIMIT
        });
    }

    /// Gives all kept connections up if a call has timed out on one of them.
    pub(super) fn timed_out(&self, waits_on_kept: &AtomicBool) {
        if waits_on_kept.load(Ordering::Relaxed) {
            self.0.lock().clear();
        }
    }

    /// Keeps a connection after the body of its answer was read.
    pub(super) fn keep(&self, sender: Sender) {
        let mut idle = self.0.lock();
        if idle.len() < IDLE_MAX {
            idle.push(IdleRegistryConnection { sender, since: Instant::now() });
        }
    }
}

async fn open(server: &RegistryServer, settings: &HttpSettings) -> Result<Sender, String> {
    let stream = connect_tcp(&server.host, server.port, &settings.policy).await?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let stream: Box<dyn Io> = match server.is_tls {
        false => Box::new(stream),
        true => {
            let name = ServerName::try_from(server.host.clone())
                .map_err(|_| "its host is a name that no certificate can have".to_owned())?;
            let connector = settings.tls.connector()?;
            let secured = connector.connect(name, stream).await;
            Box::new(secured.map_err(|error| format!("no TLS with it: {error}"))?)
        }
    };
    let mut builder = Builder::new();
    builder.max_buf_size(HEAD_MAX_BYTES).max_headers(FIELDS_MAX);
    let (sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| format!("no HTTP: {error}"))?;
    // It ends with the last sender and the body of the answer; an error shows in the call.
    tokio::spawn(connection);
    Ok(sender)
}

fn request(server: &RegistryServer, call: &RegistryRequest) -> Result<Request<Full<Bytes>>, String> {
    let target = format!("{}{}", server.path, call.target);
    let mut request =
        Request::builder().method(call.method.clone()).uri(target).header(HOST, &server.authority);
    let has_authorization = call.fields.iter().any(|(name, _)| *name == AUTHORIZATION);
    let own = server.authorization.iter().filter(|_| !has_authorization).map(|value| (AUTHORIZATION, value));
    for (name, value) in call.fields.iter().map(|(name, value)| (name.clone(), value)).chain(own) {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the value of {name} has a control character"))?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    request
        .body(Full::from(call.body.clone()))
        .map_err(|_| "the path and the service's name make no request".to_owned())
}

/// Idle connections to one server.
const IDLE_MAX: usize = 64;
/// Connections that were idle for longer are not used again. Servers and middleboxes close them after a
/// minute or more.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of an answer's head.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Fields of an answer's head.
const FIELDS_MAX: usize = 100;
