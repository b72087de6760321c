//! One active check over a connection of its own, so that it sees what a new client would: the node accepts,
//! and answers. An HTTP check may use the connection of the last one. The head of the answer decides. It
//! decides nothing about the node.

use std::sync::Arc;

use http1::{HeadStatus, ResponseWire, parse_upstream_response};
use message::{HeadLimits, ResponseHead};
use net::tls::client::ClientTls;
use net::transport::Transport;
use net::{env, tls};

use super::super::authority::without_port_str;
use super::super::interim_rate::InterimRate;
use super::grpc;
use super::io::{read_some, write_all_bytes};
use super::kept::{CheckConnection, HttpResponse};
use super::outcome::CheckOutcome;
use super::request::HttpRequest;
use super::rules::Observation;
use super::share::{CheckKey, CheckQuestion, SharedCheck};

/// How the nodes of an upstream are asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HealthProbe {
    pub(crate) kind: ProbeKind,
    /// The TLS identity of the checks; none asks in cleartext.
    pub(crate) tls: Option<Arc<ClientTls>>,
    pub(crate) host: ProbeHost,
    /// The port that is asked; none is the node's.
    pub(crate) port: Option<u16>,
    /// HTTP checks use the connection of the check before.
    pub(crate) reuses_connection: bool,
    /// Time from the connection to the answer.
    pub(crate) timeout_ms: u64,
}

/// The protocol of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    /// A connection is enough.
    Tcp,
    /// HTTP/1.1; a status decides.
    Http(HttpRequest),
    /// The health service of gRPC, asked about this service; an empty name is the whole server.
    Grpc { service: Box<str> },
}

/// The host name that nodes are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeHost {
    /// `upstream_host`.
    Rewrite(Box<str>),
    /// The node's name where it has one, else that of the checks.
    Node(Option<Box<str>>),
    /// That of the checks; none is the node's address.
    Checks(Option<Box<str>>),
}

/// The longest head of an answer; those of health endpoints have a few hundred bytes.
const HEAD_MAX_BYTES: usize = 16 * 1024;

/// The end of a check, and how its connection can be used again, if at all.
struct Asked {
    outcome: CheckOutcome,
    response: Option<HttpResponse>,
    /// The node closed the connection before any byte of a response. If it was idle before, that says nothing
    /// about the node, which may close it at any time.
    is_unanswered: bool,
}

impl From<CheckOutcome> for Asked {
    fn from(outcome: CheckOutcome) -> Asked {
        Asked { outcome, response: None, is_unanswered: false }
    }
}

impl HealthProbe {
    /// Makes the check `check`, which is one of these. The outcome, and the response where its connection is
    /// to be kept.
    pub(super) async fn check(&self, check: &SharedCheck) -> (CheckOutcome, Option<HttpResponse>) {
        tokio::select! {
            biased;
            asked = self.ask(check) => (asked.outcome, asked.response.filter(|_| self.reuses_connection)),
            () = env::sleep_ms(self.timeout_ms) => (CheckOutcome::late(self.timeout_ms), None),
        }
    }

    async fn ask(&self, check: &SharedCheck) -> Asked {
        let CheckKey { asks, .. } = &*check.key;
        if let CheckQuestion::Http(request) = asks
            && let Some(kept) = check.connection.take()
        {
            let asked = ask_http(kept, request).await;
            if !asked.is_unanswered {
                return asked;
            }
        }
        self.ask_anew(&check.key).await
    }

    async fn ask_anew(&self, key: &CheckKey) -> Asked {
        let CheckKey { address, host, asks, .. } = key;
        let stream = match env::connect(*address).await {
            Ok(stream) => stream,
            Err(error) => return CheckOutcome::refused(&error).into(),
        };
        if *asks == CheckQuestion::Connection {
            return CheckOutcome::new(Observation::Success, "connected").into();
        }
        let mut transport = match &self.tls {
            None => Transport::from(stream),
            Some(identity) => {
                // `upstream_host` and `host` may have a port, which is no part of a server name.
                let name = without_port_str(host);
                // Boxed, so that checks without TLS do not pay for its size.
                match Box::pin(tls::client::run_client_handshake(stream, *address, name, identity)).await {
                    Ok(stream) => Transport::from(stream),
                    Err(error) => return CheckOutcome::no_tls(&error).into(),
                }
            }
        };
        match asks {
            CheckQuestion::Connection => unreachable!("a check for a connection ends above"),
            CheckQuestion::Grpc(service) => {
                let scheme = if self.tls.is_some() { "https" } else { "http" };
                let outcome = Box::pin(grpc::probe_grpc_health(&mut transport, scheme, host, service)).await;
                outcome.unwrap_or_else(|error| CheckOutcome::broken(&error)).into()
            }
            CheckQuestion::Http(request) => ask_http(CheckConnection::new(transport), request).await,
        }
    }
}

/// Sends `request` and reads the head of its response.
async fn ask_http(mut connection: CheckConnection, request: &[u8]) -> Asked {
    let limits = HeadLimits { max_head_bytes: HEAD_MAX_BYTES, ..HeadLimits::OF_UPSTREAMS };
    let (mut head, mut wire, mut input) = (ResponseHead::new(), ResponseWire::default(), Vec::new());
    let mut interim = InterimRate::default();
    let is_head = request.starts_with(b"HEAD ");
    if let Err(error) = write_all_bytes(&mut connection.transport, request).await {
        return Asked { is_unanswered: true, ..CheckOutcome::broken(&error).into() };
    }
    let mut is_unanswered = true;
    loop {
        match parse_upstream_response(&input, &mut head, &mut wire, &limits, is_head) {
            Ok(HeadStatus::Partial) => {
                let outcome = match read_some(&mut connection.transport, &mut input).await {
                    Ok(1..) => {
                        is_unanswered = false;
                        continue;
                    }
                    Ok(0) => {
                        let ended = "it closed the connection before its answer was complete";
                        CheckOutcome::new(Observation::TcpFailure, ended)
                    }
                    Err(error) => CheckOutcome::broken(&error),
                };
                return Asked { is_unanswered, ..outcome.into() };
            }
            Ok(HeadStatus::Complete { head_bytes })
                if head.status < 200 && interim.admits(env::monotonic_ns() / 1_000_000) =>
            {
                input.drain(..head_bytes);
                (head, wire) = (ResponseHead::new(), ResponseWire::default());
            }
            Ok(HeadStatus::Complete { head_bytes }) => {
                input.drain(..head_bytes);
                let can_go_on = head.status >= 200 && is_safe(request);
                let response = can_go_on.then_some(HttpResponse { connection, wire, rest: input });
                return Asked { response, ..CheckOutcome::status(head.status).into() };
            }
            Err(error) => {
                let detail = format!("no HTTP response: {error}");
                return CheckOutcome::new(Observation::BadResponse, detail).into();
            }
        }
    }
}

/// Whether `request` may be sent again when an idle connection was closed before an answer: nothing but
/// looking is asked for (RFC 9110 section 9.2.1).
fn is_safe(request: &[u8]) -> bool {
    [&b"GET "[..], b"HEAD ", b"OPTIONS "].iter().any(|method| request.starts_with(method))
}
