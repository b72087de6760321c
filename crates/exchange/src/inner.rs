//! Requests that a plugin sends through the data plane of its own worker, without a socket: they are routed, authenticated,
//! limited and logged like those of clients. The client of an inner request is that of the request that it was made for.
//! The gateway serves them; plugins find it through [`InnerRequests`].

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use message::{Headers, RequestHead};

use crate::client_address::ClientAddress;
use crate::exchange::context::ConnectionContext;
use crate::local::Local;

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

/// The future of an inner request.
pub type InnerFuture<'a> = Pin<Box<dyn Future<Output = InnerOutcome> + 'a>>;

/// The side that serves inner requests.
pub trait InnerService {
    /// Serves `request`.
    fn serve(self: Rc<Self>, request: InnerRequest) -> InnerFuture<'static>;
}

/// The inner requests of one worker.
#[derive(Default)]
pub struct InnerRequests(RefCell<Option<Weak<dyn InnerService>>>);

impl InnerRequests {
    /// Those of the worker of `local`.
    pub fn of(local: &Local) -> Rc<InnerRequests> {
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
}
