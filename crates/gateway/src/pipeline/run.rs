//! The state that the steps of one exchange share, and the outcome of an exchange. It runs no step.

use std::cell::{Cell, RefCell};

use super::min_rate::MinRateGuard;
use super::places::{HeldPlaces, TunnelPlaces};
use crate::context::WorkerContext;
use crate::runtime::Generation;
use crate::upstream::protection::hold::NodeHold;
use crate::upstream::tunnel_end::UpstreamEnd;
use exchange::Exchange;
use exchange::WorkerLocal;
use exchange::deadline::Deadline;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::overload::limiter::Permit;

/// The remaining work when the pipeline is done with a request.
pub(crate) enum PipelineOutcome {
    /// Nothing: the request was answered, or its response was cut.
    Done,
    /// The endpoint accepted the upgrade: from now on bytes pass between it and the client.
    Tunnel {
        /// The endpoint's connection or stream.
        endpoint: Box<UpstreamEnd>,
        /// How long the tunnel may be idle before it is closed, in milliseconds.
        idle_timeout_ms: u64,
        /// The places of the request, which a tunnel holds until it ends.
        places: Option<Box<TunnelPlaces>>,
    },
}

/// The state that the steps of one exchange share.
pub(crate) struct PipelineRun<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) generation: &'a Generation,
    pub(super) deadline: &'a Deadline,
    /// Its place among the requests that wait for the upstream, if their number is limited.
    pub(super) permit: Cell<Option<Permit>>,
    /// Its places at the limits of route, consumer and upstream.
    pub(super) places: RefCell<HeldPlaces>,
    /// The client's minimum-rate guard, if the body was read in part before the attempt.
    pub(super) body_guard: Cell<Option<Box<MinRateGuard>>>,
    /// How long the client may be silent inside its body, if that may be a stream of messages, in
    /// milliseconds; 0 for other bodies.
    pub(super) stream_read_ms: Cell<u64>,
    /// Whether a plugin edits the request body.
    pub(super) edits_request_body: Cell<bool>,
    /// The client has closed its sending side after its request while the gateway waited for something else.
    /// It may have gone.
    pub(super) is_client_leaving: Cell<bool>,
    /// The time of the monotonic clock at which the deadline of the upstream ends the exchange; 0 is never.
    pub(super) ends_ns: Cell<u64>,
}

impl<'a> PipelineRun<'a> {
    pub(super) fn new(
        context: &'a WorkerContext,
        generation: &'a Generation,
        deadline: &'a Deadline,
    ) -> PipelineRun<'a> {
        PipelineRun {
            context,
            generation,
            deadline,
            permit: Cell::default(),
            places: RefCell::default(),
            body_guard: Cell::default(),
            stream_read_ms: Cell::default(),
            edits_request_body: Cell::default(),
            is_client_leaving: Cell::default(),
            ends_ns: Cell::default(),
        }
    }

    /// The places of this request for its tunnel, with the one at the `node`; none if it has none.
    pub(super) fn places_of_tunnel(&self, node: Option<NodeHold>) -> Option<Box<TunnelPlaces>> {
        self.places.take().with_node(node)
    }

    /// The services of this thread.
    #[inline]
    pub(super) fn local(&self) -> &'a WorkerLocal {
        &self.context.local
    }
}

/// Refuses a request for which it is undecided whether a rule matches, because another route, or serving it
/// without a plugin, could bypass a protection.
#[inline]
pub(super) fn refuse_undecided(exchange: &Exchange) -> Result<(), ExchangeFailure> {
    match exchange.gave_up.get() {
        None => Ok(()),
        Some(reason) => Err(ExchangeFailure::new(Cause::PatternLimit, reason.to_string())),
    }
}
