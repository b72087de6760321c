//! Requests that a plugin sends through the data plane of its own worker, without a socket: they are routed,
//! authenticated, limited and logged like those of clients. The client of an inner request is that of the
//! request that it was made for. The gateway serves them; plugins find it through [`InnerRequests`]. A
//! detached request is the rest of a client's request without the client: a plugin that answers the client in
//! another way lets the request go on to the upstream.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use message::{Headers, RequestHead};

use crate::client_address::ClientAddress;
use crate::exchange::Exchange;
use crate::exchange::context::ConnectionContext;
use crate::local::WorkerLocal;
use crate::plugin::PluginPhase;

/// A request of a plugin.
pub struct InnerRequest {
    /// The connection of the request that it is made for: its peer, its TLS facts.
    pub connection: ConnectionContext,
    /// The client of that request, whatever the fields of this one say.
    pub client: ClientAddress,
    /// The head.
    pub head: RequestHead,
    /// The body; none if it is empty.
    pub body: Vec<u8>,
    /// The longest time until the response is whole, in milliseconds.
    pub timeout_ms: u64,
    /// The longest body of the response, in bytes.
    pub max_body_bytes: usize,
}

/// The end of an inner request.
pub enum InnerOutcome {
    /// A whole response.
    Response(InnerResponse),
    /// There was no whole response in time.
    TimedOut,
    /// The body of the response is too long.
    TooLong,
    /// The response was cut.
    Cut,
}

/// The response to an inner request.
pub struct InnerResponse {
    /// The status.
    pub status: u16,
    /// The fields, hop-by-hop ones left out.
    pub headers: Headers,
    /// The body; `None` for a response that cannot have one.
    pub body: Option<Vec<u8>>,
}

/// Whether a request goes on detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detachment {
    /// It does.
    Begun,
    /// There are [`DETACHED_MAX`] on this worker already.
    Full,
    /// The request cannot be sent without its client: its body was not read whole, or nothing serves on this
    /// thread.
    Impossible,
}

/// The most detached requests of one worker at the same time.
pub const DETACHED_MAX: usize = 64;

/// The longest time of a detached request, in milliseconds. No client ends one that the upstream draws out.
pub const DETACHED_MS: u64 = 300_000;

/// The future of an inner request.
pub type InnerFuture<'a> = Pin<Box<dyn Future<Output = InnerOutcome> + 'a>>;

/// The side that serves inner requests.
pub trait InnerService {
    /// Serves `request`.
    fn serve(self: Rc<Self>, request: InnerRequest) -> InnerFuture<'static>;

    /// See [`InnerRequests::detach`].
    fn detach(
        self: Rc<Self>,
        exchange: &Exchange,
        phase: PluginPhase,
        begin: &mut dyn FnMut(&mut Exchange),
    ) -> Detachment;
}

/// The inner requests of one worker.
#[derive(Default)]
pub struct InnerRequests(RefCell<Option<Weak<dyn InnerService>>>);

impl InnerRequests {
    /// Those of the worker of `local`.
    pub fn of(local: &WorkerLocal) -> Rc<InnerRequests> {
        local.resource(InnerRequests::default)
    }

    /// Lets `service` serve them. It is not kept alive.
    pub fn serve_with(&self, service: Weak<dyn InnerService>) {
        *self.0.borrow_mut() = Some(service);
    }

    /// Sends `request`. On a thread that serves no requests the response is cut.
    pub async fn send(&self, request: InnerRequest) -> InnerOutcome {
        let service = self.0.borrow().as_ref().and_then(Weak::upgrade);
        match service {
            Some(service) => service.serve(request).await,
            None => InnerOutcome::Cut,
        }
    }

    /// Lets the request of `exchange` go on in a task of its own, behind the plugin instance that calls this
    /// in `phase`, the access phase or the one before the upstream: later plugins of the request phases run,
    /// and the upstream is chosen, asked and retried as for the client's request. `begin` changes the copy
    /// before that and sets the plugin's state in it. Its response goes to no client and passes no plugins of
    /// the response phases; plugins see it in
    /// [`upstream_response`](crate::plugin::Plugin::upstream_response), and those that ran for the copy log
    /// it. It has [`DETACHED_MS`] at most, and ends with the worker.
    pub fn detach(
        &self,
        exchange: &Exchange,
        phase: PluginPhase,
        begin: &mut dyn FnMut(&mut Exchange),
    ) -> Detachment {
        let service = self.0.borrow().as_ref().and_then(Weak::upgrade);
        service.map_or(Detachment::Impossible, |service| service.detach(exchange, phase, begin))
    }
}
