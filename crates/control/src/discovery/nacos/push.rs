//! Pushes of Nacos from version 2 on: one connection of gRPC on which followed services are subscribed. A push only
//! names a service that has changed; its instances are asked for over HTTP, so that there is one reading of answers. If
//! the connection cannot be had, the interval of the calls remains.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use model::discovery::ServiceKey;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval_at, timeout};
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::asker::Asker;
use super::payload::{Outgoing, Payload};
use crate::discovery::publish::Pause;
use crate::source::etcd::Connector;

/// See the module.
pub(super) struct Push {
    servers: Vec<String>,
    asker: Arc<Asker>,
    wanted: watch::Receiver<Vec<ServiceKey>>,
    changed: mpsc::Sender<ServiceKey>,
}

/// `HOST:PORT` of gRPC for a server's URL; none for https and for ports beyond the last one.
pub(super) fn address(url: &str, offset: u16) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    let port = uri.port_u16().unwrap_or(80).checked_add(offset)?;
    (uri.scheme_str() == Some("http")).then(|| Some(format!("{}:{port}", uri.host()?)))?
}

impl Push {
    pub(super) fn new(
        servers: Vec<String>,
        asker: Arc<Asker>,
        wanted: watch::Receiver<Vec<ServiceKey>>,
        changed: mpsc::Sender<ServiceKey>,
    ) -> Push {
        Push { servers, asker, wanted, changed }
    }

    /// Keeps a connection to one of the servers without end.
    pub(super) async fn run(mut self) {
        let mut pause = Pause::default();
        let servers = self.servers.clone();
        for server in servers.iter().cycle() {
            // A connection without a subscription would report nothing.
            if self.wanted.wait_for(|wanted| !wanted.is_empty()).await.is_err() {
                return;
            }
            let Err(reason) = self.session(server, &mut pause).await;
            tracing::debug!(server, %reason, "no pushes of nacos; services are asked for by the interval");
            pause.wait().await;
        }
    }

    async fn session(&mut self, server: &str, pause: &mut Pause) -> Result<Infallible, String> {
        let endpoint =
            Endpoint::from_shared(format!("http://{server}")).map_err(|error| error.to_string())?;
        let endpoint = endpoint.connect_timeout(CALL_TIMEOUT);
        let channel = endpoint
            .connect_with_connector(Connector::plain(server))
            .await
            .map_err(|error| error.to_string())?;
        self.unary(&channel, "ServerCheckRequest", &json!({})).await?;
        let (sender, receiver) = mpsc::channel(MAX_ANSWERS);
        let setup = json!({
            "clientVersion": "Weir", "abilities": {}, "tenant": "",
            "labels": {"source": "sdk", "module": "naming"}
        });
        let _ = sender.try_send(Payload::new("ConnectionSetupRequest", &setup, None));
        // The server answers on the stream with its first message, which may be the first push.
        let opening = open(&channel, receiver);
        tokio::pin!(opening);
        let mut stream: Option<Streaming<Payload>> = None;
        let mut subscribed = BTreeSet::new();
        let mut alive = interval_at(Instant::now() + HEALTH_INTERVAL, HEALTH_INTERVAL);
        // The server knows the connection a moment after its stream was opened.
        let mut is_behind = true;
        let mut attempt = Instant::now();
        loop {
            tokio::select! {
                opened = &mut opening, if stream.is_none() => stream = Some(opened?),
                message = next(stream.as_mut()) => {
                    let message = message.map_err(|status| status.message().to_owned())?;
                    let message = message.ok_or("the server ended the connection")?;
                    self.take(&message, &sender)?;
                }
                changed = self.wanted.changed() => {
                    changed.map_err(|_| "the registry is stopped")?;
                    is_behind = true;
                    attempt = Instant::now();
                }
                _ = alive.tick() => drop(self.unary(&channel, "HealthCheckRequest", &json!({})).await?),
                () = tokio::time::sleep_until(attempt), if is_behind => {
                    match self.subscribe(&channel, &mut subscribed).await {
                        Ok(()) => {
                            is_behind = false;
                            pause.reset();
                        }
                        Err(reason) if attempt.elapsed() > CALL_TIMEOUT => return Err(reason),
                        Err(_) => attempt = Instant::now() + SUBSCRIBE_INTERVAL,
                    }
                }
            }
        }
    }

    /// Subscribes to services that are followed, and asks for each of them, because it may have changed before.
    async fn subscribe(
        &mut self,
        channel: &Channel,
        subscribed: &mut BTreeSet<ServiceKey>,
    ) -> Result<(), String> {
        let wanted = self.wanted.borrow_and_update().clone();
        let gone: Vec<ServiceKey> = subscribed.iter().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            self.unary(channel, "SubscribeServiceRequest", &subscription(&key, false)).await?;
            subscribed.remove(&key);
        }
        for key in wanted {
            if !subscribed.contains(&key) {
                self.unary(channel, "SubscribeServiceRequest", &subscription(&key, true)).await?;
                self.tell(&key);
                subscribed.insert(key);
            }
        }
        Ok(())
    }

    /// Takes a request of the server, and answers it.
    fn take(&self, message: &Payload, sender: &mpsc::Sender<Payload>) -> Result<(), String> {
        let (kind, body) = message.read()?;
        if kind == "ConnectResetRequest" {
            return Err("the server asks for another connection".to_owned());
        }
        if kind == "NotifySubscriberRequest" {
            let text = |name: &str| body.pointer(name).and_then(Value::as_str).unwrap_or_default();
            let name = text("/serviceInfo/name");
            let name = name.split_once("@@").map_or(name, |(_, name)| name);
            let (namespace, group) = (text("/namespace"), text("/serviceInfo/groupName"));
            let wanted = self.wanted.borrow().clone();
            let is_meant = |key: &&ServiceKey| {
                *key.service == *name
                    && (group.is_empty() || group_of(key) == group)
                    && (namespace.is_empty() || namespace_of(key) == namespace)
            };
            wanted.iter().filter(is_meant).for_each(|key| self.tell(key));
        }
        if let Some(kind) = kind.strip_suffix("Request") {
            let answer = json!({"requestId": body.get("requestId"), "resultCode": 200, "success": true});
            // A server that does not take answers ends the connection by itself.
            let _ = sender.try_send(Payload::new(&format!("{kind}Response"), &answer, None));
        }
        Ok(())
    }

    fn tell(&self, key: &ServiceKey) {
        // A full channel means that everything is asked for anyway.
        let _ = self.changed.try_send(key.clone());
    }

    async fn unary(&self, channel: &Channel, kind: &str, body: &Value) -> Result<Value, String> {
        let token = self.asker.push_token().await?;
        let call = async {
            let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
            grpc.ready().await.map_err(|error| error.to_string())?;
            let path = PathAndQuery::from_static("/Request/request");
            let codec = ProstCodec::<Payload, Payload>::default();
            let request = tonic::Request::new(Payload::new(kind, body, token.as_deref()));
            let answer =
                grpc.unary(request, path, codec).await.map_err(|status| status.message().to_owned())?;
            let (_, answer) = answer.into_inner().read()?;
            match answer.get("resultCode").and_then(Value::as_i64) {
                None | Some(200) => Ok(answer),
                Some(code) => {
                    Err(format!("code {code} for {kind}: {}", answer.get("message").unwrap_or(&Value::Null)))
                }
            }
        };
        timeout(CALL_TIMEOUT, call).await.map_err(|_| format!("no answer to {kind}"))?
    }
}

async fn open(channel: &Channel, answers: mpsc::Receiver<Payload>) -> Result<Streaming<Payload>, String> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    grpc.ready().await.map_err(|error| error.to_string())?;
    let path = PathAndQuery::from_static("/BiRequestStream/requestBiStream");
    let codec = ProstCodec::<Payload, Payload>::default();
    let stream = grpc.streaming(tonic::Request::new(Outgoing(answers)), path, codec).await;
    stream.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
}

/// The next message; forever while the stream is not open.
async fn next(stream: Option<&mut Streaming<Payload>>) -> Result<Option<Payload>, tonic::Status> {
    match stream {
        Some(stream) => stream.message().await,
        None => std::future::pending().await,
    }
}

fn subscription(key: &ServiceKey, is_wanted: bool) -> Value {
    json!({
        "namespace": namespace_of(key), "serviceName": &*key.service, "groupName": group_of(key),
        "subscribe": is_wanted, "clusters": "", "module": "naming"
    })
}

fn namespace_of(key: &ServiceKey) -> &str {
    if key.namespace.is_empty() { "public" } else { &key.namespace }
}

fn group_of(key: &ServiceKey) -> &str {
    if key.group.is_empty() { "DEFAULT_GROUP" } else { &key.group }
}

/// For one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of signs of life; Nacos drops a connection that is silent for 20 s.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of attempts to subscribe on a new connection.
const SUBSCRIBE_INTERVAL: Duration = Duration::from_millis(100);
/// Limit of a message: a push holds all instances of its service.
const MAX_MESSAGE_BYTES: usize = 32 << 20;
/// Answers to the server that wait to be sent.
const MAX_ANSWERS: usize = 64;

#[cfg(test)]
mod tests;
