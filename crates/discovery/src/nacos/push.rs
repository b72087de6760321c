//! Pushes of Nacos from version 2 on: one connection of gRPC on which followed services are subscribed. A
//! push only names a service that has changed; its instances are asked for over HTTP, so that there is one
//! reading of answers. If the connection cannot be had, the interval of the calls remains.

mod connect;
mod subscription;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use model::discovery::ServiceKey;
use model::outbound::OutboundPolicy;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval_at, timeout};
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use self::connect::NacosConnector;
use self::subscription::{Subscription, namespace_of, resolve_nacos_group};
use super::asker::NacosClient;
use super::payload::{NacosPayload, OutgoingPayloads};
use crate::parts::shortened;
use crate::publish::RegistryBackoff;

/// The task that keeps one connection for pushes.
pub(super) struct NacosPush {
    servers: Vec<String>,
    /// The addresses that may not be connected to.
    policy: OutboundPolicy,
    asker: Arc<NacosClient>,
    wanted: watch::Receiver<Vec<ServiceKey>>,
    changed: mpsc::Sender<ServiceKey>,
}

/// `HOST:PORT` of gRPC for a server's URL; none for https and for ports beyond the last one.
pub(super) fn address(url: &str, offset: u16) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    let port = uri.port_u16().unwrap_or(80).checked_add(offset)?;
    (uri.scheme_str() == Some("http")).then(|| Some(format!("{}:{port}", uri.host()?)))?
}

impl NacosPush {
    pub(super) fn new(
        servers: Vec<String>,
        policy: OutboundPolicy,
        asker: Arc<NacosClient>,
        wanted: watch::Receiver<Vec<ServiceKey>>,
        changed: mpsc::Sender<ServiceKey>,
    ) -> NacosPush {
        NacosPush { servers, policy, asker, wanted, changed }
    }

    /// Keeps a connection to one of the servers without end.
    pub(super) async fn run(mut self) {
        let mut pause = RegistryBackoff::default();
        let servers = self.servers.clone();
        for server in servers.iter().cycle() {
            // A connection without a subscription would report nothing.
            if self.wanted.wait_for(|wanted| !wanted.is_empty()).await.is_err() {
                return;
            }
            let began = Instant::now();
            let Err(reason) = self.session(server).await;
            tracing::debug!(server, %reason, "no pushes of nacos; services are asked for by the interval");
            if began.elapsed() >= LASTING {
                pause.reset();
            }
            pause.wait().await;
        }
    }

    async fn session(&mut self, server: &str) -> Result<Infallible, String> {
        let endpoint =
            Endpoint::from_shared(format!("http://{server}")).map_err(|error| error.to_string())?;
        let connector = NacosConnector::new(server, self.policy.clone())?;
        let connecting = timeout(CALL_TIMEOUT, endpoint.connect_with_connector(connector)).await;
        let channel =
            connecting.map_err(|_| "no connection in time".to_owned())?.map_err(|error| chain(&error))?;
        self.unary(&channel, "ServerCheckRequest", &json!({})).await.map_err(NacosCallError::into_reason)?;
        let (sender, receiver) = mpsc::channel(MAX_ANSWERS);
        let setup = json!({
            "clientVersion": "Weir", "abilities": {}, "tenant": "",
            "labels": {"source": "sdk", "module": "naming"}
        });
        let _ = sender.try_send(NacosPayload::new("ConnectionSetupRequest", &setup, None));
        // The server answers on the stream with its first message, which may be the first push.
        let opening = open(&channel, receiver);
        tokio::pin!(opening);
        let mut stream: Option<Streaming<NacosPayload>> = None;
        let mut subscribed = BTreeSet::new();
        let mut alive = interval_at(Instant::now() + HEALTH_INTERVAL, HEALTH_INTERVAL);
        // The server knows the connection a moment after its stream was opened.
        let mut behind_since = Some(Instant::now());
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
                    attempt = Instant::now();
                    behind_since = Some(attempt);
                }
                _ = alive.tick() => {
                    self.unary(&channel, "HealthCheckRequest", &json!({})).await.map_err(NacosCallError::into_reason)?;
                }
                () = tokio::time::sleep_until(attempt), if behind_since.is_some() => {
                    let refused = self.subscribe(&channel, &mut subscribed).await?;
                    let is_late = behind_since.is_some_and(|since| since.elapsed() > CALL_TIMEOUT);
                    match refused {
                        None => behind_since = None,
                        Some(reason) if is_late && subscribed.is_empty() => return Err(reason),
                        // Services that the server refuses alone are asked for by the interval.
                        Some(_) if is_late => behind_since = None,
                        Some(_) => attempt = Instant::now() + SUBSCRIBE_INTERVAL,
                    }
                }
            }
        }
    }

    /// Subscribes to services that are followed, and asks for each of them, because it may have changed
    /// before. Gives the reason of the first subscription that the server refuses.
    ///
    /// # Errors
    /// The connection cannot be used.
    async fn subscribe(
        &mut self,
        channel: &Channel,
        subscribed: &mut BTreeSet<Subscription>,
    ) -> Result<Option<String>, String> {
        let keys = self.wanted.borrow_and_update().clone();
        let wanted: BTreeSet<Subscription> = keys.iter().map(Subscription::of).collect();
        let gone: Vec<Subscription> = subscribed.difference(&wanted).cloned().collect();
        let new: Vec<Subscription> = wanted.difference(subscribed).cloned().collect();
        let mut refused = None;
        let changes = gone.into_iter().map(|one| (one, false)).chain(new.into_iter().map(|one| (one, true)));
        for (subscription, is_wanted) in changes {
            let body = subscription.body(is_wanted);
            match self.unary(channel, "SubscribeServiceRequest", &body).await {
                Ok(_) if is_wanted => {
                    keys.iter().filter(|key| subscription.is_of(key)).for_each(|key| self.tell(key));
                    subscribed.insert(subscription);
                }
                Ok(_) => drop(subscribed.remove(&subscription)),
                Err(NacosCallError::ByServer(reason)) => drop(refused.get_or_insert(reason)),
                Err(NacosCallError::Broken(reason)) => return Err(reason),
            }
        }
        Ok(refused)
    }

    /// Takes a request of the server, and answers it.
    fn take(&self, message: &NacosPayload, sender: &mpsc::Sender<NacosPayload>) -> Result<(), String> {
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
                    && (group.is_empty() || resolve_nacos_group(key) == group)
                    && (namespace.is_empty() || namespace_of(key) == namespace)
            };
            wanted.iter().filter(is_meant).for_each(|key| self.tell(key));
        }
        if let Some(kind) = kind.strip_suffix("Request") {
            let answer = json!({"requestId": body.get("requestId"), "resultCode": 200, "success": true});
            // A server that does not take answers ends the connection by itself.
            let _ = sender.try_send(NacosPayload::new(&format!("{kind}Response"), &answer, None));
        }
        Ok(())
    }

    fn tell(&self, key: &ServiceKey) {
        // A full channel means that everything is asked for anyway.
        let _ = self.changed.try_send(key.clone());
    }

    async fn unary(&self, channel: &Channel, kind: &str, body: &Value) -> Result<Value, NacosCallError> {
        let token = self.asker.push_token().await.map_err(NacosCallError::Broken)?;
        let call = async {
            let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
            grpc.ready().await.map_err(|error| NacosCallError::Broken(error.to_string()))?;
            let path = PathAndQuery::from_static("/Request/request");
            let codec = ProstCodec::<NacosPayload, NacosPayload>::default();
            let request = tonic::Request::new(NacosPayload::new(kind, body, token.as_deref()));
            let answer = grpc.unary(request, path, codec).await;
            let answer =
                answer.map_err(|status| NacosCallError::Broken(status.message().to_owned()))?.into_inner();
            let (_, answer) = answer.read().map_err(NacosCallError::Broken)?;
            match answer.get("resultCode").and_then(Value::as_i64) {
                None | Some(200) => Ok(answer),
                Some(code) => {
                    let message = answer.get("message").and_then(Value::as_str).unwrap_or_default();
                    Err(NacosCallError::ByServer(format!("code {code} for {kind}: {}", shortened(message))))
                }
            }
        };
        let answer = timeout(CALL_TIMEOUT, call).await;
        answer.unwrap_or_else(|_| Err(NacosCallError::Broken(format!("no answer to {kind}"))))
    }
}

/// The reason why a call was not done.
enum NacosCallError {
    /// The server has answered with another code than 200.
    ByServer(String),
    /// The connection, the login or the answer is unusable.
    Broken(String),
}

impl NacosCallError {
    fn into_reason(self) -> String {
        match self {
            NacosCallError::ByServer(reason) | NacosCallError::Broken(reason) => reason,
        }
    }
}

/// An error with its causes; that of a connection says the reason in its cause only.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

async fn open(
    channel: &Channel,
    answers: mpsc::Receiver<NacosPayload>,
) -> Result<Streaming<NacosPayload>, String> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    grpc.ready().await.map_err(|error| error.to_string())?;
    let path = PathAndQuery::from_static("/BiRequestStream/requestBiStream");
    let codec = ProstCodec::<NacosPayload, NacosPayload>::default();
    let stream = grpc.streaming(tonic::Request::new(OutgoingPayloads(answers)), path, codec).await;
    stream.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
}

/// The next message; forever while the stream is not open.
async fn next(stream: Option<&mut Streaming<NacosPayload>>) -> Result<Option<NacosPayload>, tonic::Status> {
    match stream {
        Some(stream) => stream.message().await,
        None => std::future::pending().await,
    }
}

/// For one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of signs of life; Nacos drops a connection that is silent for 20 s.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of attempts to subscribe on a new connection.
const SUBSCRIBE_INTERVAL: Duration = Duration::from_millis(100);
/// A session of this length was a success, so that the next one begins without a longer pause.
const LASTING: Duration = Duration::from_secs(5);
/// Limit of a message: a push holds all instances of its service.
const MAX_MESSAGE_BYTES: usize = 32 << 20;
/// Answers to the server that wait to be sent.
const MAX_ANSWERS: usize = 64;

#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod tests;
