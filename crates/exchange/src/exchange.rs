//! One request and its response on their way through the gateway: everything that plugins, matching,
//! forwarding and logs know of it. Connections of every protocol fill it and read it. A worker keeps
//! exchanges for reuse, so that a request allocates nothing; [`Exchange::reset`] makes one as good as new.

pub mod address;
mod attempt;
pub mod begun_reply;
mod bodies;
pub mod body;
mod body_copy;
pub mod body_demand;
pub mod consumer;
pub mod context;
mod detached;
mod directory;
pub mod forwarded;
mod host_name;
pub mod own_variables;
mod plugin_reply;
mod proxy;
pub mod reason;
pub mod request_id;
pub mod reuse;
mod target;
pub mod timeline;
mod times;
mod tls;
pub mod trace;
pub(crate) mod variables;

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use message::{FieldError, RequestHead, ResponseHead};
use router::Params;
use router::path::{PathScratch, canonicalize};
use router::vars::GaveUp;

pub use address::CompactAddress;
pub use attempt::{Attempt, Attempts};
pub use body_copy::{BodyCopies, BodyCopy, SharedCopy};
pub use consumer::Consumer;
pub use context::{ConnectionContext, RequestScheme};
pub use directory::{Directory, RouteInfo, ServiceName, UpstreamHost, UpstreamOrigin};
pub use host_name::hostname;
pub use plugin_reply::PluginReply;
pub use proxy::ProxyContext;
pub use request_id::RequestId;
pub use timeline::Timeline;
pub use times::ExchangeTimes;
pub use tls::TlsContext;
pub use trace::{TraceContext, Traces};

pub use target::ExchangeTarget;

use begun_reply::BegunReply;
use body::ReadBody;
use body_demand::BodyDemand;
use own_variables::OwnVariables;

use crate::client_address::ClientAddress;
use crate::failure::ExchangeFailure;
use crate::grpc;
use crate::local::WorkerLocal;
use crate::plugin::encode::BodyEncoder;
use crate::plugin::phase_name::PluginPhase;
use crate::plugin::state::RequestStates;
use crate::plugin::upstream_ref::UpstreamRef;

/// The largest `scratch` that the next request finds; a piece of a body may have made it megabytes long.
const SCRATCH_KEPT_BYTES: usize = 16 * 1024;

/// One request and its response.
pub struct Exchange {
    local: Rc<WorkerLocal>,
    /// The connection it arrived on.
    pub connection: ConnectionContext,
    /// The request's head. Plugins change its fields; this is forwarded.
    pub request: RequestHead,
    /// The response's head, once there is one.
    pub response: ResponseHead,
    /// When things happened.
    pub times: ExchangeTimes,
    /// When its plugins ran, where that is recorded.
    pub timeline: Timeline,
    /// The traces that it belongs to.
    pub traces: Traces,
    /// The attempts made at endpoints.
    pub attempts: Attempts,
    /// Why it failed, if it did.
    pub failure: Option<ExchangeFailure>,
    /// The parameters of the route's path.
    pub params: Params,
    /// Its id.
    pub request_id: RequestId,
    /// Sizes and origin of the messages.
    pub stats: Stats,
    /// The facts of a gRPC call; none for other requests, and for clients that speak HTTP/1 unless a plugin
    /// translates.
    pub grpc: Option<grpc::GrpcCallState>,
    /// The target of the request, and how it is forwarded.
    pub target: ExchangeTarget,
    /// The client: the peer, or the one that a trusted peer named.
    pub client: ClientAddress,
    /// The client of the request that this one was made for, if a plugin made it (see [`crate::inner`]).
    pub inner_client: Option<ClientAddress>,
    /// The results of matching and authentication.
    pub decision: ExchangeDecision,
    /// The request's body, as far as it was read before an endpoint was selected.
    pub body: ReadBody,
    /// Asks the pipeline for the body while a plugin waits.
    body_demand: Rc<BodyDemand>,
    /// The first bytes of the bodies, where a plugin asked for them.
    pub copies: BodyCopies,
    /// Codes the response body, if a plugin does; see [`Plugin::encoder`](crate::plugin::Plugin::encoder).
    pub encoder: Option<Box<dyn BodyEncoder>>,
    /// A plugin of the gateway codes the response body, or has coded it: the copy for loggers is not coded.
    pub response_is_coded: bool,
    /// Fields that plugins want on the response, whichever side makes it; merged into it before its plugins
    /// run.
    pub early_fields: Vec<(Box<str>, Box<str>)>,
    /// The reply that plugins have begun to write, if one has.
    pub begun_reply: BegunReply,
    /// The plugins' states for this request.
    pub states: RequestStates,
    /// The variables that scripts have set.
    pub own_variables: OwnVariables,
    /// The number of the plugin instance that runs. A cell, because one that runs inside another one is
    /// entered in the log phase too.
    pub instance: Cell<u32>,
    /// A pattern search was given up, so that a rule is undecided, and the request is refused.
    pub gave_up: Cell<Option<GaveUp>>,
    /// A plugin ends the request while its body is sent; the pipeline takes it after each piece.
    pub request_fault: Option<Box<ExchangeFailure>>,
    /// A buffer for values that are needed for a moment.
    pub scratch: Vec<u8>,
}

/// Sizes of the messages of an exchange, in bytes, and where the response came from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// The request as received, head and body.
    pub request_bytes: u64,
    /// The whole response sent to the client.
    pub response_bytes: u64,
    /// The response body sent to the client.
    pub response_body_bytes: u64,
    /// Whether the gateway or a plugin made the response rather than an upstream.
    pub answered_locally: bool,
    /// Whether the response is a stored one of an upstream; then it counts as answered locally too.
    pub is_stored: bool,
}

/// The results of matching and authentication.
#[derive(Clone, Default)]
pub struct ExchangeDecision {
    /// The configuration that the exchange began with.
    pub directory: Option<Rc<dyn Directory>>,
    /// The slot of its route.
    pub route: Option<u32>,
    /// The authenticated consumer.
    pub consumer: Option<Arc<Consumer>>,
    /// The claims of the token that the request was authenticated by, where a plugin keeps them for others.
    pub claims: Option<Rc<jsonx::Value>>,
    /// The user that a login without a consumer found, with the attributes that the provider of the login
    /// gave.
    pub external_user: Option<Arc<serde_json::Value>>,
    /// Fields of the request that plugins set to what an authentication told of the user: responses may
    /// depend on them.
    pub user_fields: Vec<Box<str>>,
    /// The plugin that made the response, if one did.
    pub plugin_reply: Option<PluginReply>,
    /// The upstream that a plugin selected in place of the route's.
    pub upstream: Option<UpstreamRef>,
    /// How often the attempts may begin anew once those of an upstream are used up.
    pub fallbacks: u8,
    /// A plugin has decided which origins may read the response, so that no other one allows any.
    pub has_cors: bool,
    /// The part of a cache in the response, as `$upstream_cache_status` tells it.
    pub cache_status: Option<&'static str>,
    /// The request is forwarded as a protocol upgrade.
    pub is_upgrade: bool,
    /// The plugins of which no instance of a chain runs any more; see [`Exchange::skip_plugin`].
    pub skipped_plugins: Vec<&'static str>,
    /// The longest body that a plugin allows, in bytes; 0 is without a limit.
    pub max_body_bytes: u64,
    /// How much of the body is awaited before an endpoint is selected.
    pub body_arrival: BodyArrival,
}

/// How much of a request body is awaited before an endpoint is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyArrival {
    /// The first bytes of a body with a declared length, as many as the limits of the engine say.
    #[default]
    Prefix,
    /// The whole body, up to [`AWAITED_BODY_MAX_BYTES`].
    Whole,
    /// Nothing: the body is streamed from its first byte.
    Nothing,
}

/// The longest body that is held in memory only because it is awaited whole; the rest of a longer one is
/// streamed.
pub const AWAITED_BODY_MAX_BYTES: usize = 8 * 1024 * 1024;

/// The most fallbacks of one request.
pub const FALLBACKS_MAX: u8 = 8;

/// A request body cannot be replaced, because it was not read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyUnread;

impl Exchange {
    /// An exchange of the thread of `local`.
    pub fn new(local: Rc<WorkerLocal>) -> Exchange {
        Exchange {
            local,
            connection: ConnectionContext::default(),
            request: RequestHead::default(),
            response: ResponseHead::default(),
            times: ExchangeTimes::default(),
            timeline: Timeline::default(),
            traces: Traces::default(),
            attempts: Attempts::default(),
            failure: None,
            params: Params::default(),
            request_id: RequestId::default(),
            stats: Stats::default(),
            grpc: None,
            target: ExchangeTarget::default(),
            client: ClientAddress::default(),
            inner_client: None,
            decision: ExchangeDecision::default(),
            body: ReadBody::default(),
            body_demand: Rc::default(),
            copies: BodyCopies::default(),
            encoder: None,
            response_is_coded: false,
            early_fields: Vec::new(),
            begun_reply: BegunReply::default(),
            states: RequestStates::default(),
            own_variables: OwnVariables::default(),
            instance: Cell::new(0),
            gave_up: Cell::new(None),
            request_fault: None,
            scratch: Vec::new(),
        }
    }

    /// Forgets the last request. Buffers keep their capacity, up to a bound. No field may be left out: the
    /// pattern has no `..`, so that a new field does not compile before it is reset.
    pub fn reset(&mut self) {
        let Exchange {
            local,
            connection,
            request,
            response,
            times,
            timeline,
            traces,
            attempts,
            failure,
            params,
            request_id,
            stats,
            grpc,
            target,
            client,
            inner_client,
            decision,
            body,
            body_demand,
            copies,
            encoder,
            response_is_coded,
            early_fields,
            begun_reply,
            states,
            own_variables,
            instance,
            gave_up,
            request_fault,
            scratch,
        } = self;
        *connection = ConnectionContext::default();
        request.clear();
        local.give_headers(std::mem::take(&mut response.headers));
        response.clear();
        *times = ExchangeTimes::default();
        timeline.reset();
        *traces = Traces::default();
        attempts.clear();
        *failure = None;
        params.clear();
        *request_id = RequestId::default();
        *stats = Stats::default();
        *grpc = None;
        target.clear();
        *client = ClientAddress::default();
        *inner_client = None;
        *decision = ExchangeDecision::default();
        body.reset();
        body_demand.close();
        *copies = BodyCopies::default();
        *encoder = None;
        *response_is_coded = false;
        early_fields.clear();
        *begun_reply = BegunReply::default();
        states.clear();
        own_variables.clear();
        instance.set(0);
        gave_up.set(None);
        *request_fault = None;
        if scratch.capacity() > SCRATCH_KEPT_BYTES {
            *scratch = Vec::new();
        }
        scratch.clear();
    }

    /// The services of the thread that serves it.
    pub fn local(&self) -> &Rc<WorkerLocal> {
        &self.local
    }

    /// Forgets the response, and has memory for another one.
    pub fn begin_response(&mut self) {
        self.response.clear();
        self.take_response_memory();
    }

    /// Gets memory for the fields of the response where it has none.
    #[inline]
    pub fn take_response_memory(&mut self) {
        if self.response.headers.memory() == 0 {
            self.response.headers = self.local.take_headers();
        }
    }

    /// Returns the memory for the fields of the response while there are none: a request that waits holds
    /// nothing that another one could find in the caches.
    #[inline]
    pub fn give_response_memory(&mut self) {
        if self.response.headers.is_blank() {
            self.local.give_headers(std::mem::take(&mut self.response.headers));
        }
    }

    /// The route, once matched.
    pub fn route(&self) -> Option<&RouteInfo> {
        self.decision.directory.as_ref()?.route(self.decision.route?)
    }

    /// The canonical path, decoded: what matching, plugins and logs see.
    pub fn path(&self) -> &[u8] {
        &self.target.path
    }

    /// The path as the node will see it.
    pub fn forward_path(&self) -> &[u8] {
        self.target.rewritten_path.as_deref().unwrap_or(&self.target.encoded_path)
    }

    /// Changes the path the node will see. It must begin with a slash and hold no byte that cannot stand in a
    /// request line; anything else is refused. A `#` is encoded, because a request has no fragment (RFC 9112
    /// section 3.2).
    pub fn set_forward_path(&mut self, path: &[u8]) -> Result<(), FieldError> {
        check_target(path)?;
        self.target.rewritten_path = Some(without_fragment(path));
        Ok(())
    }

    /// As [`Self::set_forward_path`], in the canonical form that the path of a client gets, so that code of
    /// users cannot send dot segments on that it took from a client. A path that leads above the root is
    /// refused.
    pub fn set_canonical_forward_path(&mut self, path: &[u8]) -> Result<(), FieldError> {
        let mut scratch = PathScratch::default();
        let options = self.local().options.path;
        let canonical = canonicalize(path, &options, &mut scratch).map_err(|_| FieldError::Value)?;
        self.set_forward_path(canonical.forward())
    }

    /// The query the node will see, without the question mark.
    pub fn forward_query(&self) -> Option<&[u8]> {
        match &self.target.forward_query {
            Some(query) if query.is_empty() => None,
            Some(query) => Some(query),
            None => self.request.query(),
        }
    }

    /// Changes the query the node will see; an empty one takes it away. A `#` is encoded, as in a path.
    pub fn set_forward_query(&mut self, query: &[u8]) -> Result<(), FieldError> {
        check_target(query)?;
        self.target.forward_query = Some(without_fragment(query));
        Ok(())
    }

    /// Changes the Host the node will see.
    ///
    /// # Errors
    /// It is not what a client may send as its Host: a name or an address, perhaps with a port.
    pub fn set_forward_host(&mut self, host: &str) -> Result<(), FieldError> {
        if !message::syntax::is_authority(host.as_bytes()) {
            return Err(FieldError::Value);
        }
        self.target.forward_host = Some(host.as_bytes().to_vec());
        self.target.host_is_rewritten = true;
        Ok(())
    }

    /// Selects the upstream of this request in place of the route's. Before the first attempt, or from
    /// [`Plugin::before_attempt`](crate::plugin::Plugin::before_attempt) for the next one.
    pub fn set_upstream(&mut self, upstream: UpstreamRef) {
        self.decision.upstream = Some(upstream);
    }

    /// Whether the configuration of this request has the upstream.
    pub fn has_upstream(&self, upstream: &UpstreamRef) -> bool {
        let directory = self.decision.directory.as_ref();
        directory.is_some_and(|directory| directory.has_upstream(upstream.identity()))
    }

    /// Lets the attempts begin anew up to `count` times (at most [`FALLBACKS_MAX`]) once those that an
    /// upstream allows are used up, for a plugin that selects another upstream in
    /// [`Plugin::before_attempt`](crate::plugin::Plugin::before_attempt) then. A request that could do its
    /// work twice is not repeated there either.
    pub fn allow_fallbacks(&mut self, count: u8) {
        self.decision.fallbacks = count.min(FALLBACKS_MAX);
    }

    /// Takes one of the allowed fallbacks; false if none is left.
    pub fn take_fallback(&mut self) -> bool {
        let left = self.decision.fallbacks.checked_sub(1);
        self.decision.fallbacks = left.unwrap_or_default();
        left.is_some()
    }

    /// Keeps instances of the plugin `name` in the chains of this request from running in phases of the
    /// request from here on. Their response and log phases run, because an instance may have run before. One
    /// that runs inside another plugin is not concerned.
    pub fn skip_plugin(&mut self, name: &'static str) {
        if !self.skips(name) {
            self.decision.skipped_plugins.push(name);
        }
    }

    /// Whether instances of the plugin `name` are left out.
    #[inline]
    pub fn skips(&self, name: &str) -> bool {
        self.decision.skipped_plugins.contains(&name)
    }

    /// The host the client asked for, in lower case and without port.
    pub fn host(&self) -> &[u8] {
        &self.target.host
    }

    /// The client's address: the peer's, or what a trusted peer said it is.
    pub fn client_address(&self) -> IpAddr {
        self.client.address
    }

    /// Corrects the client; only for plugins that know which peers to trust.
    pub fn set_client(&mut self, client: ClientAddress) {
        self.client = client;
    }

    /// Says that the `X-Real-IP` among the request's fields is not the client's, but to be sent as it is.
    pub fn keep_real_ip_field(&mut self) {
        self.target.real_ip_is_rewritten = true;
    }

    /// Takes a field of the request away, and keeps the gateway from sending its own `X-Forwarded-Proto`,
    /// `-Host` or `-Port` in its place. A field set later is sent.
    pub fn remove_request_field(&mut self, name: &str) {
        self.request.headers.remove(name);
        self.target.withheld.add(name);
    }

    /// The consumer, once authenticated.
    pub fn consumer(&self) -> Option<&Arc<Consumer>> {
        self.decision.consumer.as_ref()
    }

    /// The consumer that presents `key` to the authentication plugin `plugin`.
    pub fn find_consumer(&self, plugin: &str, key: &str) -> Option<Arc<Consumer>> {
        if key.is_empty() {
            return None;
        }
        self.decision.directory.as_ref()?.consumer(plugin, key).cloned()
    }

    /// The consumer of that name, without any credential: an anonymous request counts as this one.
    pub fn consumer_named(&self, username: &str) -> Option<Arc<Consumer>> {
        self.decision.directory.as_ref()?.consumer_named(username).cloned()
    }

    /// Names the consumer; its plugins and those of its group join the route's from here on.
    pub fn authenticate(&mut self, consumer: Arc<Consumer>) {
        self.decision.consumer = Some(consumer);
    }

    /// Puts a field on the response, of an upstream or local.
    pub fn add_response_field(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        check_field(name, value)?;
        self.early_fields.push((name.into(), value.into()));
        Ok(())
    }

    /// The calling plugin instance's state for this request, made by `Default` on first use.
    pub fn state<T: std::any::Any + Default>(&mut self) -> &mut T {
        self.states.of(self.instance.get())
    }

    /// The calling plugin instance's state for this request, if it made one.
    pub fn peek_state<T: std::any::Any>(&self) -> Option<&T> {
        self.states.peek(self.instance.get())
    }

    /// Makes the request a gRPC call that a plugin translates for a client of another protocol. The fields of
    /// the request are those of the call already: `Content-Type`, and `grpc-timeout` if it has one, which
    /// counts from `begun_ns`.
    pub fn translate_call(&mut self, begun_ns: u64) {
        self.grpc = grpc::GrpcCallState::of(&self.request.headers, begun_ns)
            .map(|call| grpc::GrpcCallState { is_translated: true, ..call });
    }

    /// Whether it is a gRPC call of a client that speaks gRPC itself.
    pub fn is_native_call(&self) -> bool {
        self.grpc.is_some_and(|call| !call.is_translated)
    }

    /// The clock at the begin of a plugin's run, if runs are recorded; otherwise nothing, at the price of one
    /// branch.
    #[inline]
    pub fn begin_run(&self) -> Option<u64> {
        self.timeline.is_on().then(|| self.local.clock_ns())
    }

    /// Ends a run of the current instance, of the plugin `plugin`.
    #[inline]
    pub fn end_run(&mut self, plugin: &'static str, phase: PluginPhase, started_ns: Option<u64>) {
        if let Some(started_ns) = started_ns {
            let ended_ns = self.local.clock_ns();
            self.timeline.record(plugin, self.instance.get(), phase, started_ns, ended_ns);
        }
    }

    /// The status of the response; 0 before there is one.
    pub fn status(&self) -> u16 {
        self.response.status
    }
}

fn check_field(name: &str, value: &str) -> Result<(), FieldError> {
    // The one place that knows what may stand in a field is the list itself.
    message::Headers::new().append(name, value.as_bytes())
}

/// Bytes of a request line: visible ASCII only (RFC 9112 section 3.2 by way of RFC 3986).
/// A copy in which each `#` is encoded.
fn without_fragment(text: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'#').collect();
    parts.join(&b"%23"[..])
}

fn check_target(text: &[u8]) -> Result<(), FieldError> {
    if text.iter().all(|byte| (0x21..0x7f).contains(byte)) { Ok(()) } else { Err(FieldError::Value) }
}
