//! Calls of guests to other servers: a task on the worker sends each, and brings the answer to the context
//! that called.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use exchange::local::WorkerLocal;
use exchange::plugin::outbound::{
    CopiedLine, DestinationOpener, GrpcAnswer, GrpcCall, GrpcDestination, OutboundDestination, OutboundError,
    OutboundLimits, OutboundRequest, OutboundResponse, OutboundTls,
};
use message::{Headers, Method};
use net::endpoint::KeepAlive;
use net::env;
use stdx::hash::FastMap;
use tokio::sync::oneshot;

use crate::abi::{AbiStatus, Pairs};
use crate::host::{CallKind, CallResponse, Host, PendingCall, ResponseDelivery};
use crate::limits::{CALL_BODY_BYTES_MAX, CALLS_PER_CONTEXT_MAX, CALLS_PER_INSTANCE_MAX, DESTINATIONS_MAX};

/// `UNAVAILABLE` of gRPC, for a call without an answer.
const GRPC_UNAVAILABLE: u32 = 14;
/// The bytes before a message of gRPC: a mark of compression, and the length.
const GRPC_PREFIX_BYTES: usize = 5;

/// A call to be sent.
pub(crate) struct OutgoingCall {
    /// The base URI.
    pub upstream: String,
    /// Fields without the pseudo ones.
    pub headers: Headers,
    /// The rest of the request.
    pub payload: CallPayload,
    /// The time for the whole call.
    pub timeout_ms: u64,
}

/// The part of a call that depends on its protocol.
pub(crate) enum CallPayload {
    Http { method: Box<[u8]>, target: String, authority: Box<[u8]>, body: Vec<u8> },
    Grpc { method: String, message: Vec<u8> },
}

/// The servers that guests of this worker have called.
#[derive(Default)]
struct Destinations {
    http: RefCell<FastMap<String, Rc<OutboundDestination>>>,
    grpc: RefCell<FastMap<String, Rc<GrpcDestination>>>,
}

/// Starts a call for the current context; the number that the answer will have.
pub(crate) fn start_call(host: &mut Host, outgoing: OutgoingCall, kind: CallKind) -> Result<u32, AbiStatus> {
    let context = host.current;
    if host.calls >= CALLS_PER_INSTANCE_MAX {
        return Err(AbiStatus::InternalFailure);
    }
    let token = host.last_call.checked_add(1).unwrap_or(1);
    let home = host.home.clone();
    let (cancel, cancelled) = oneshot::channel();
    let calls = host.calls_of(context).ok_or(AbiStatus::BadArgument)?;
    if calls.len() >= CALLS_PER_CONTEXT_MAX {
        return Err(AbiStatus::InternalFailure);
    }
    // An instance that only checks a configuration sends no call: the answer never comes.
    let Some(home) = home else {
        host.last_call = token;
        return Ok(token);
    };
    let local = home.local.upgrade().ok_or(AbiStatus::InternalFailure)?;
    calls.push(PendingCall { token, _cancel: cancel });
    host.calls += 1;
    host.last_call = token;
    let plugin = host.identity.name;
    env::spawn(async move {
        let answer = tokio::select! {
            biased;
            _ = cancelled => return,
            answer = send(&local, &home.opener, outgoing) => answer,
        };
        let answer = answer.unwrap_or_else(|reason| {
            tracing::warn!(target: "wasm", plugin, %reason, "a call of the plugin failed");
            CallResponse { status: GRPC_UNAVAILABLE, message: reason.into_bytes(), ..CallResponse::default() }
        });
        if let Some(cell) = home.cell.upgrade() {
            cell.deliver(context, ResponseDelivery { token, kind, answer });
        }
    });
    Ok(token)
}

async fn send(
    local: &WorkerLocal,
    opener: &DestinationOpener,
    outgoing: OutgoingCall,
) -> Result<CallResponse, String> {
    let OutgoingCall { upstream, headers, payload, timeout_ms } = outgoing;
    let destinations = local.resource(Destinations::default);
    let said = |error: OutboundError| error.to_string();
    match payload {
        CallPayload::Http { method, target, authority, body } => {
            let destination = destinations.http(&upstream, opener, timeout_ms).await?;
            let request = OutboundRequest { method: Method::of(&method), headers, body: Bytes::from(body) };
            let copy = CopiedLine { method, target, host: authority };
            let limits = OutboundLimits {
                connect_timeout_ms: timeout_ms,
                total_timeout_ms: timeout_ms,
                max_body_bytes: CALL_BODY_BYTES_MAX,
            };
            local.http.send_copy(&destination, &copy, &request, &limits).await.map(of_http).map_err(said)
        }
        CallPayload::Grpc { method, message } => {
            let destination = destinations.grpc(&upstream, opener, timeout_ms).await?;
            let call = GrpcCall {
                method: &method,
                headers: &headers,
                message: &message,
                timeout_ms,
                max_reply_bytes: CALL_BODY_BYTES_MAX,
            };
            destination.call(&call).await.map(of_grpc).map_err(said)
        }
    }
}

fn of_http(response: OutboundResponse) -> CallResponse {
    let mut headers: Pairs = vec![(b":status".to_vec(), response.status.to_string().into_bytes())];
    headers
        .extend(response.headers.iter().map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec())));
    CallResponse {
        status: u32::from(response.status),
        message: Vec::new(),
        headers,
        body: response.body,
        trailers: Pairs::new(),
    }
}

fn of_grpc(answer: GrpcAnswer) -> CallResponse {
    CallResponse {
        status: answer.status,
        message: answer.message.into_bytes(),
        body: answer.reply.get(GRPC_PREFIX_BYTES..).unwrap_or_default().to_vec(),
        ..CallResponse::default()
    }
}

impl Destinations {
    async fn http(
        &self,
        uri: &str,
        opener: &DestinationOpener,
        wait_ms: u64,
    ) -> Result<Rc<OutboundDestination>, String> {
        if let Some(known) = self.http.borrow().get(uri) {
            return Ok(known.clone());
        }
        let tls = OutboundTls::verifying(true);
        let opened = Rc::new(opener.open(uri, KeepAlive::default(), &tls, wait_ms).await?);
        let mut kept = self.http.borrow_mut();
        if kept.len() >= DESTINATIONS_MAX {
            // A guest that makes up names would fill the table; those in use come back with their next call.
            kept.clear();
        }
        kept.insert(uri.to_owned(), opened.clone());
        Ok(opened)
    }

    async fn grpc(
        &self,
        uri: &str,
        opener: &DestinationOpener,
        wait_ms: u64,
    ) -> Result<Rc<GrpcDestination>, String> {
        if let Some(known) = self.grpc.borrow().get(uri) {
            return Ok(known.clone());
        }
        let opened = Rc::new(opener.open_grpc(uri, &OutboundTls::verifying(true), wait_ms).await?);
        let mut kept = self.grpc.borrow_mut();
        if kept.len() >= DESTINATIONS_MAX {
            kept.clear();
        }
        kept.insert(uri.to_owned(), opened.clone());
        Ok(opened)
    }
}
