//! One request and its response on their way through the gateway: everything plugins, matching, forwarding and logs
//! know of it. It is protocol-neutral: connections fill it and read it. A worker keeps exchanges for reuse, so that a
//! request allocates nothing; `Exchange::reset` is what makes one as good as new.

mod attempt;
pub(crate) mod body;
mod body_copy;
mod context;
pub(crate) mod reuse;
mod times;
mod variables;

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use http1::{FieldError, RequestHead, ResponseHead};
use router::Params;

pub use attempt::{Attempt, Attempts};
pub use body_copy::BodyCopy;
pub(crate) use body_copy::SharedCopy;
pub use context::{Address, ConnectionContext, Scheme};
pub use times::Times;

use body::ReadBody;

use crate::failure::Failure;
use crate::forward::WithheldFields;
use crate::overload::limiter::Permit;
use crate::plugin::chain::Chain;
use crate::plugin::state::RequestStates;
use crate::runtime::{Consumer, Generation, Route};
use crate::worker::Worker;

/// See the module.
pub struct Exchange {
    /// The connection it arrived on.
    pub connection: ConnectionContext,
    /// The request's head. Plugins change its fields; what is forwarded is this.
    pub request: RequestHead,
    /// The response's head, once there is one.
    pub response: ResponseHead,
    /// When things happened.
    pub times: Times,
    /// The tries made at nodes.
    pub attempts: Attempts,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The route's parameters.
    pub params: Params,
    /// What the access log and `X-Weir-…` headers call it; set on demand.
    pub request_id: Option<Box<str>>,
    /// Bytes of the response body sent to the client.
    pub response_body_bytes: u64,
    /// Bytes of the whole response sent to the client.
    pub response_bytes: u64,
    /// Bytes of the request as received, head and body.
    pub request_bytes: u64,
    /// Whether the response was made by the gateway or a plugin rather than by a node.
    pub answered_locally: bool,
    /// Fields that plugins want on the response, whoever makes it; merged into it before its plugins run.
    pub(crate) early_fields: Vec<(Box<str>, Box<str>)>,
    /// The request's body, as far as it was read before a node was chosen.
    pub(crate) body: ReadBody,
    /// What the request asks for, canonical and decoded: matched, logged, shown to plugins.
    pub(crate) path: Vec<u8>,
    /// The canonical path in encoded form.
    pub(crate) encoded_path: Vec<u8>,
    /// The path as it is forwarded, where a plugin changed it.
    pub(crate) rewritten_path: Option<Vec<u8>>,
    /// The query as it is forwarded, where a plugin changed it.
    pub(crate) forward_query: Option<Vec<u8>>,
    /// The Host as it is forwarded, where a plugin or the upstream changes it.
    pub(crate) forward_host: Option<Vec<u8>>,
    /// The authority without port, in lower case.
    pub(crate) host: Vec<u8>,
    pub(crate) client_address: IpAddr,
    /// The client's port, unless a proxy named the client and not its port.
    pub(crate) client_port: Option<u16>,
    /// A plugin has set `X-Real-IP`; it is sent as it is.
    pub(crate) real_ip_is_rewritten: bool,
    /// Fields that the gateway would send and a plugin has taken away.
    pub(crate) withheld: WithheldFields,
    /// A plugin has set the Host; the upstream's rule no longer counts.
    pub(crate) host_is_rewritten: bool,
    pub(crate) upgrading: bool,
    pub(crate) route: Option<u32>,
    pub(crate) upstream: Option<u32>,
    pub(crate) consumer: Option<Arc<Consumer>>,
    pub(crate) chain: Option<Arc<Chain>>,
    pub(crate) generation: Option<Rc<Generation>>,
    pub(crate) worker: Option<Rc<Worker>>,
    /// The beginning of the request body, where a plugin asked for it; filled while the body is sent on.
    pub(crate) request_copy: Option<SharedCopy>,
    /// The beginning of the response body as the client got it, where a plugin asked for it.
    pub(crate) response_copy: Option<BodyCopy>,
    pub(crate) states: RequestStates,
    /// Its place among those that wait for the upstream, where their number is limited.
    pub(crate) permit: Option<Permit>,
    pub(crate) instance: u32,
    pub(crate) scratch: Vec<u8>,
}

impl Exchange {
    pub(crate) fn new() -> Exchange {
        Exchange {
            connection: ConnectionContext::default(),
            request: RequestHead::default(),
            response: ResponseHead::default(),
            times: Times::default(),
            attempts: Attempts::default(),
            failure: None,
            params: Params::default(),
            request_id: None,
            response_body_bytes: 0,
            response_bytes: 0,
            request_bytes: 0,
            answered_locally: false,
            early_fields: Vec::new(),
            body: ReadBody::default(),
            path: Vec::new(),
            encoded_path: Vec::new(),
            rewritten_path: None,
            forward_query: None,
            forward_host: None,
            host: Vec::new(),
            client_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            client_port: None,
            real_ip_is_rewritten: false,
            withheld: WithheldFields::default(),
            host_is_rewritten: false,
            upgrading: false,
            route: None,
            upstream: None,
            consumer: None,
            chain: None,
            generation: None,
            worker: None,
            request_copy: None,
            response_copy: None,
            states: RequestStates::default(),
            permit: None,
            instance: 0,
            scratch: Vec::new(),
        }
    }

    /// Forgets the last request; buffers keep their room, up to a bound.
    pub(crate) fn reset(&mut self) {
        self.request.clear();
        self.response.clear();
        self.times = Times::default();
        self.attempts.clear();
        self.failure = None;
        self.params.clear();
        self.request_id = None;
        self.response_body_bytes = 0;
        self.response_bytes = 0;
        self.request_bytes = 0;
        self.answered_locally = false;
        self.early_fields.clear();
        self.body.reset();
        self.path.clear();
        self.encoded_path.clear();
        self.rewritten_path = None;
        self.forward_query = None;
        self.forward_host = None;
        self.host.clear();
        self.host_is_rewritten = false;
        self.real_ip_is_rewritten = false;
        self.withheld = WithheldFields::default();
        self.upgrading = false;
        self.route = None;
        self.upstream = None;
        self.consumer = None;
        self.chain = None;
        self.generation = None;
        self.request_copy = None;
        self.response_copy = None;
        self.states.clear();
        self.permit = None;
        self.scratch.clear();
    }

    /// The route, once matched.
    pub fn route(&self) -> Option<&Arc<Route>> {
        self.generation.as_ref()?.routes.get(self.route?)
    }

    /// The canonical path, decoded: what matching, plugins and logs see.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The path as the node will see it.
    pub fn forward_path(&self) -> &[u8] {
        self.rewritten_path.as_deref().unwrap_or(&self.encoded_path)
    }

    /// Changes the path the node will see. It must begin with a slash and hold no byte that cannot stand in a request
    /// line; anything else is refused.
    pub fn set_forward_path(&mut self, path: &[u8]) -> Result<(), FieldError> {
        check_target(path)?;
        self.rewritten_path = Some(path.to_vec());
        Ok(())
    }

    /// The query the node will see, without the question mark.
    pub fn forward_query(&self) -> Option<&[u8]> {
        match &self.forward_query {
            Some(query) if query.is_empty() => None,
            Some(query) => Some(query),
            None => self.request.query(),
        }
    }

    /// Changes the query the node will see; an empty one takes it away.
    pub fn set_forward_query(&mut self, query: &[u8]) -> Result<(), FieldError> {
        check_target(query)?;
        self.forward_query = Some(query.to_vec());
        Ok(())
    }

    /// Changes the Host the node will see.
    pub fn set_forward_host(&mut self, host: &str) -> Result<(), FieldError> {
        check_target(host.as_bytes())?;
        self.forward_host = Some(host.as_bytes().to_vec());
        self.host_is_rewritten = true;
        Ok(())
    }

    /// The body of the request, where matching or a plugin asked to see it whole.
    pub fn request_body(&self) -> Option<&[u8]> {
        self.body.whole()
    }

    /// The host the client asked for, in lower case and without port.
    pub fn host(&self) -> &[u8] {
        &self.host
    }

    /// The client's address: the peer's, or what a trusted peer said it is.
    pub fn client_address(&self) -> IpAddr {
        self.client_address
    }

    /// Corrects the client's address; only for plugins that know whom to trust.
    pub fn set_client_address(&mut self, address: IpAddr) {
        self.client_address = address;
        self.client_port = None;
    }

    /// Says that the `X-Real-IP` among the request's fields is not the client's, but to be sent as it is.
    pub fn keep_real_ip_field(&mut self) {
        self.real_ip_is_rewritten = true;
    }

    /// Takes a field of the request away, and keeps the gateway from sending its own `X-Forwarded-Proto`, `-Host` or
    /// `-Port` in its place. A field set later is sent.
    pub fn remove_request_field(&mut self, name: &str) {
        self.request.headers.remove(name);
        self.withheld.add(name);
    }

    /// The consumer, once authenticated.
    pub fn consumer(&self) -> Option<&Arc<Consumer>> {
        self.consumer.as_ref()
    }

    /// The consumer that presents `key` to the authentication plugin `plugin`.
    pub fn find_consumer(&self, plugin: &str, key: &str) -> Option<Arc<Consumer>> {
        self.generation.as_ref()?.consumers.find(plugin, key).cloned()
    }

    /// The consumer of that name, without any credential: who an anonymous request counts as.
    pub fn consumer_named(&self, username: &str) -> Option<Arc<Consumer>> {
        self.generation.as_ref()?.consumers.named(username).cloned()
    }

    /// Says who the client is; the plugins of the consumer and its group join the route's from here on.
    pub fn authenticate(&mut self, consumer: Arc<Consumer>) {
        self.consumer = Some(consumer);
    }

    /// Puts a field on the response, whoever will make it.
    pub fn add_response_field(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        check_field(name, value)?;
        self.early_fields.push((name.into(), value.into()));
        Ok(())
    }

    /// The calling plugin instance's state for this request, made by `Default` on first use.
    pub fn state<T: std::any::Any + Default>(&mut self) -> &mut T {
        self.states.of(self.instance)
    }

    /// The calling plugin instance's state for this request, if it made one.
    pub fn peek_state<T: std::any::Any>(&self) -> Option<&T> {
        self.states.peek(self.instance)
    }

    /// Calls `read` with the beginning of the request body as far as it is known here: what a plugin asked to see of it
    /// whole, or the copy that one asked for. Nothing if nobody asked, or nothing was read.
    pub fn read_request_body<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match (self.body.whole(), &self.request_copy) {
            (Some(body), _) => Some(read(body)),
            (None, Some(copy)) => copy.read(read),
            (None, None) => None,
        }
    }

    /// The copy of the request body that a plugin asked for, where it was not read whole.
    fn copied_request_body(&self) -> Option<Vec<u8>> {
        self.request_copy.as_ref()?.read(<[u8]>::to_vec)
    }

    /// The beginning of the response body as the client got it; nothing if no plugin asked for a copy.
    pub fn response_copy(&self) -> Option<&[u8]> {
        self.response_copy.as_ref().map(BodyCopy::bytes)
    }

    /// Keeps at least the first `limit_bytes` of the response body.
    pub(crate) fn copy_response(&mut self, limit_bytes: usize) {
        let shared = self.worker().shared.clone();
        self.response_copy.get_or_insert_with(|| BodyCopy::new(shared)).extend_limit(limit_bytes);
    }

    /// Notes a piece of the response body on its way to the client.
    #[inline]
    pub(crate) fn note_response(&mut self, piece: &[u8]) {
        if let Some(copy) = &mut self.response_copy {
            copy.add(piece);
        }
    }

    /// The worker that serves it.
    pub fn worker(&self) -> &Rc<Worker> {
        self.worker.as_ref().expect("set as long as the exchange is leased")
    }

    /// The status of the response; 0 before there is one.
    pub fn status(&self) -> u16 {
        self.response.status
    }
}

fn check_field(name: &str, value: &str) -> Result<(), FieldError> {
    // The one place that knows what may stand in a field is the list itself.
    http1::Headers::new().append(name, value.as_bytes())
}

/// Bytes of a request line: visible ASCII only (RFC 9112 section 3.2 by way of RFC 3986).
fn check_target(text: &[u8]) -> Result<(), FieldError> {
    if text.iter().all(|byte| (0x21..0x7f).contains(byte)) { Ok(()) } else { Err(FieldError::Value) }
}
