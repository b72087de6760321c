//! One active check over a connection of its own, so that it sees what a new client would: the node accepts,
//! and answers. It reads the head of the answer and nothing behind it. It decides nothing about the node.

use std::io;
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
use super::outcome::CheckOutcome;
use super::request::HttpRequest;
use super::rules::Observation;
use super::share::{CheckKey, CheckQuestion};

/// How the nodes of an upstream are asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HealthProbe {
    pub(crate) kind: ProbeKind,
    /// The TLS identity of the checks; none asks in cleartext.
    pub(crate) tls: Option<Arc<ClientTls>>,
    pub(crate) host: ProbeHost,
    /// The port that is asked; none is the node's.
    pub(crate) port: Option<u16>,
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

impl HealthProbe {
    /// Makes the check `key`, which is one of these.
    pub(super) async fn check(&self, key: &CheckKey) -> CheckOutcome {
        tokio::select! {
            biased;
            outcome = self.ask(key) => outcome,
            () = env::sleep_ms(self.timeout_ms) => CheckOutcome::late(self.timeout_ms),
        }
    }

    async fn ask(&self, key: &CheckKey) -> CheckOutcome {
        let CheckKey { address, host, asks, .. } = key;
        let stream = match env::connect(*address).await {
            Ok(stream) => stream,
            Err(error) => return CheckOutcome::refused(&error),
        };
        if *asks == CheckQuestion::Connection {
            return CheckOutcome::new(Observation::Success, "connected");
        }
        let mut transport = match &self.tls {
            None => Transport::from(stream),
            Some(identity) => {
                // `upstream_host` and `host` may have a port, which is no part of a server name.
                let name = without_port_str(host);
                // Boxed, so that checks without TLS do not pay for its size.
                match Box::pin(tls::client::run_client_handshake(stream, *address, name, identity)).await {
                    Ok(stream) => Transport::from(stream),
                    Err(error) => return CheckOutcome::no_tls(&error),
                }
            }
        };
        let outcome = match asks {
            CheckQuestion::Connection => unreachable!("a check for a connection ends above"),
            CheckQuestion::Grpc(service) => {
                let scheme = if self.tls.is_some() { "https" } else { "http" };
                Box::pin(grpc::probe_grpc_health(&mut transport, scheme, host, service)).await
            }
            CheckQuestion::Http(request) => ask_http(&mut transport, request).await,
        };
        outcome.unwrap_or_else(|error| CheckOutcome::broken(&error))
    }
}

async fn ask_http(transport: &mut Transport, request: &[u8]) -> io::Result<CheckOutcome> {
    write_all_bytes(transport, request).await?;
    let limits = HeadLimits { max_head_bytes: HEAD_MAX_BYTES, ..HeadLimits::OF_UPSTREAMS };
    let (mut head, mut wire, mut input) = (ResponseHead::new(), ResponseWire::default(), Vec::new());
    let mut interim = InterimRate::default();
    loop {
        match parse_upstream_response(&input, &mut head, &mut wire, &limits, false) {
            Ok(HeadStatus::Partial) => {
                if read_some(transport, &mut input).await? == 0 {
                    let ended = "it closed the connection before its answer was complete";
                    return Ok(CheckOutcome::new(Observation::TcpFailure, ended));
                }
            }
            Ok(HeadStatus::Complete { head_bytes })
                if head.status < 200 && interim.admits(env::monotonic_ns() / 1_000_000) =>
            {
                input.drain(..head_bytes);
                (head, wire) = (ResponseHead::new(), ResponseWire::default());
            }
            Ok(HeadStatus::Complete { .. }) => return Ok(CheckOutcome::status(head.status)),
            Err(error) => {
                let detail = format!("no HTTP response: {error}");
                return Ok(CheckOutcome::new(Observation::BadResponse, detail));
            }
        }
    }
}
