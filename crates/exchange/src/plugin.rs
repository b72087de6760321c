//! The plugin trait: one method per phase, what a plugin may ask for, and how it answers. It names no
//! plugin; `plugins::ALL` lists them and boot hands the list in.
//!
//! ```text
//! match a route
//!   rewrite      global rules, then the route (authentication runs here), then what only the consumer brought
//!   access       global rules, then the route
//!   before_proxy just before a node is chosen
//!   … the node answers, or a plugin did, or the gateway failed …
//!   response_head, response_body, response_trailers
//!   log          after the last byte
//! ```
//!
//! A plugin instance is built once, when the configuration changes, and is shared by all workers; what belongs to one
//! request lives in [`Exchange::state`]. Layer 4 has a trait of its own, in [`stream`].

pub mod batch;
pub mod chain;
pub mod ordered;
pub mod outbound;
mod service_thread;
pub mod services;
pub mod state;
pub mod stream;

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use message::{Headers, ResponseHead};
use model::catalog::{PluginInfo, RunPolicy, Subsystem};
use serde_json::Value;

use crate::exchange::Exchange;

/// A compiled plugin. Each method runs in the phase of its name, only if the kind lists that phase in
/// [`PluginKind::phases`]; a phase that is not listed costs nothing.
pub trait Plugin: Send + Sync + 'static {
    /// Runs before anything is decided about the request; authentication belongs here.
    fn rewrite<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Continue
    }

    /// Decides whether the request may pass.
    fn access<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Continue
    }

    /// Runs once before the first node is chosen.
    fn before_proxy<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Continue
    }

    /// May change [`Exchange::response`] before it is sent; runs for origin's answers and local ones alike.
    fn response_head(&self, _exchange: &mut Exchange) {}

    /// Sees and edits the response body, in the portions that [`Plugin::wants_response_body`] asked for.
    fn response_body(&self, _exchange: &mut Exchange, _body: &mut Vec<u8>, _portion: Portion) {}

    /// Sees and edits the trailers of the response.
    fn response_trailers(&self, _exchange: &mut Exchange, _trailers: &mut Headers) {}

    /// Sees each 1xx answer before it is passed on.
    fn informational(&self, _exchange: &mut Exchange, _head: &mut ResponseHead) {}

    /// Runs after the exchange ended, however it ended.
    fn log(&self, _exchange: &Exchange) {}

    /// This instance's need of the request body; asked before the access phase, of kinds that list
    /// [`Phase::RequestBody`].
    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        BodyNeed::None
    }

    /// This instance's need of the response body; asked after the `response_head` phase.
    fn wants_response_body(&self, _exchange: &Exchange) -> BodyNeed {
        BodyNeed::None
    }

    /// The instance is in force from now on.
    fn start(&self) {}

    /// The instance is no longer in force for new requests.
    fn stop(&self) {}
}

/// A plugin's need of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyNeed {
    /// Nothing: the body passes by untouched, at full speed.
    None,
    /// Each piece as it arrives.
    Stream,
    /// The whole body at once; one that is longer than `limit_bytes` is refused.
    Buffer {
        /// The largest body accepted, in bytes.
        limit_bytes: usize,
    },
    /// The beginning of the body, for the log phase; the body itself passes by untouched, at full speed.
    Copy {
        /// How much of it is kept at least, if there is as much; other plugins may have asked for more.
        limit_bytes: usize,
    },
}

/// Which part of a body a [`Plugin::response_body`] call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// More will follow.
    Piece,
    /// The last piece (it may be empty), or the whole body where [`BodyNeed::Buffer`] was asked for.
    Last,
}

/// How a phase goes on.
pub enum Flow<'a> {
    /// To the next plugin.
    Continue,
    /// The exchange is answered here; the response phases and the log still run.
    Reply(Box<Reply>),
    /// The plugin has to wait for something.
    Wait(Pin<Box<dyn Future<Output = Decision> + 'a>>),
}

/// The decision of a plugin that has waited.
pub enum Decision {
    /// To the next plugin.
    Continue,
    /// The exchange is answered here.
    Reply(Box<Reply>),
}

impl Flow<'_> {
    /// Answers with `reply`.
    pub fn reply(reply: Reply) -> Self {
        Flow::Reply(Box::new(reply))
    }
}

/// An answer made by the gateway itself.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Fields besides Content-Length, Date and Server, which are added when it is sent.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// The body.
    pub body: Cow<'static, [u8]>,
}

impl Reply {
    /// A status with no body.
    pub fn status(status: u16) -> Reply {
        Reply { status, ..Reply::default() }
    }

    /// A JSON body, closed by a newline as the contract's answers are (contract section 2.1).
    pub fn json(status: u16, body: &Value) -> Reply {
        Reply::status(status)
            .with_header("Content-Type", "application/json")
            .with_body(format!("{body}\n").into_bytes())
    }

    /// `{"message": text}`, the shape of the stock plugins' refusals (contract section 2.5).
    pub fn message(status: u16, text: &str) -> Reply {
        Reply::json(status, &serde_json::json!({ "message": text }))
    }

    /// Adds a field.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Reply {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Cow<'static, [u8]>>) -> Reply {
        self.body = body.into();
        self
    }
}

/// The phases a kind takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// [`Plugin::rewrite`]
    Rewrite,
    /// [`Plugin::wants_request_body`]
    RequestBody,
    /// [`Plugin::access`]
    Access,
    /// [`Plugin::before_proxy`]
    BeforeProxy,
    /// [`Plugin::response_head`]
    ResponseHead,
    /// [`Plugin::response_body`] and [`Plugin::response_trailers`]
    ResponseBody,
    /// [`Plugin::informational`]
    Informational,
    /// [`Plugin::log`]
    Log,
}

impl Phase {
    /// How many phases there are.
    pub const COUNT: usize = Phase::Log as usize + 1;

    /// The contract's name of the phase; none for one that the contract does not have.
    fn contract_name(self) -> Option<&'static str> {
        Some(match self {
            Phase::Rewrite => "rewrite",
            Phase::RequestBody => return None,
            Phase::Access => "access",
            Phase::BeforeProxy => "before_proxy",
            Phase::ResponseHead | Phase::Informational => "header_filter",
            Phase::ResponseBody => "body_filter",
            Phase::Log => "log",
        })
    }
}

/// The declaration in a plugin's file: its name, order, phases, schemas, and how to build an instance.
pub struct PluginKind {
    /// The name users write.
    pub name: &'static str,
    /// Where it runs among the others: higher first.
    pub priority: i32,
    /// The phases it takes part in.
    pub phases: &'static [Phase],
    /// Whether it authenticates consumers.
    pub auth: bool,
    /// Whether the copy of a global rule is skipped where the route has its own (contract section 2.5).
    pub prefer_route: bool,
    /// The JSON Schema of its configuration on routes, services, plugin configs, consumer groups and global rules.
    pub schema: fn() -> Value,
    /// The JSON Schema of its configuration on consumers and credentials, for authentication plugins.
    pub consumer_schema: Option<fn() -> Value>,
    /// The JSON Schema of its metadata.
    pub metadata_schema: Option<fn() -> Value>,
    /// Checks a configuration that the schema accepts, by rules that a schema cannot express.
    pub check: fn(&Value) -> Result<(), String>,
    /// The field of a consumer's configuration that finds the consumer (`key` of `key-auth`), for authentication
    /// plugins.
    pub consumer_key: Option<&'static str>,
    /// Compiles a checked configuration.
    pub build: BuildPlugin,
    /// Its part at layer 4; none if it is for HTTP alone.
    pub stream: Option<stream::StreamKind>,
    /// The module documentation, for the reference page.
    pub documentation: &'static str,
}

impl PluginKind {
    /// A kind for HTTP that has no metadata, authenticates no consumer, and checks nothing beyond its schema.
    pub const fn new(
        name: &'static str,
        priority: i32,
        phases: &'static [Phase],
        schema: fn() -> Value,
        build: BuildPlugin,
    ) -> PluginKind {
        PluginKind {
            name,
            priority,
            phases,
            auth: false,
            prefer_route: false,
            schema,
            consumer_schema: None,
            metadata_schema: None,
            check: |_| Ok(()),
            consumer_key: None,
            build,
            stream: None,
            documentation: "",
        }
    }

    /// Checks what the schema cannot express with `check`.
    #[must_use]
    pub const fn checked(self, check: fn(&Value) -> Result<(), String>) -> PluginKind {
        PluginKind { check, ..self }
    }

    /// Authenticates consumers: their configurations have this schema, and the field `key` finds the consumer.
    #[must_use]
    pub const fn authenticates(self, consumer_schema: fn() -> Value, key: &'static str) -> PluginKind {
        PluginKind { auth: true, consumer_schema: Some(consumer_schema), consumer_key: Some(key), ..self }
    }

    /// Has metadata of this schema.
    #[must_use]
    pub const fn with_metadata(self, schema: fn() -> Value) -> PluginKind {
        PluginKind { metadata_schema: Some(schema), ..self }
    }

    /// Skips the copy of a global rule where the route has its own (contract section 2.5).
    #[must_use]
    pub const fn prefers_route(self) -> PluginKind {
        PluginKind { prefer_route: true, ..self }
    }

    /// Serves layer 4 as well.
    #[must_use]
    pub const fn on_streams(self, stream: stream::StreamKind) -> PluginKind {
        PluginKind { stream: Some(stream), ..self }
    }

    /// Has this source text; its module documentation is the plugin's reference page.
    #[must_use]
    pub const fn documented(self, documentation: &'static str) -> PluginKind {
        PluginKind { documentation, ..self }
    }

    /// The kind as the catalog shows it to the control side: data, and no way to run it.
    pub fn info(&self) -> PluginInfo {
        PluginInfo {
            phases: self.phases.iter().filter_map(|phase| phase.contract_name()).collect(),
            subsystems: match self.stream {
                Some(_) => &[Subsystem::Http, Subsystem::Stream],
                None => &[Subsystem::Http],
            },
            is_auth: self.auth,
            run_policy: if self.prefer_route { RunPolicy::PreferRoute } else { RunPolicy::Both },
            consumer_schema: self.consumer_schema.map(|schema| schema().into()),
            metadata_schema: self.metadata_schema.map(|schema| schema().into()),
            consumer_key: self.consumer_key,
            check: self.check,
            ..PluginInfo::new(self.name, i64::from(self.priority), (self.schema)())
        }
    }
}

/// Compiles a configuration that was checked; the error is a sentence.
pub type BuildPlugin = fn(&Build<'_>, &Value) -> Result<Arc<dyn Plugin>, String>;

/// Everything that an instance is built with.
pub struct Build<'a> {
    /// The object it stands in, such as `routes/1`.
    pub owner: &'a str,
    /// The plugin's metadata, if there is any.
    pub metadata: Option<&'a Value>,
    /// State that outlives configuration changes.
    pub states: &'a state::StateRegistry,
    /// Calls to other peers, and queues.
    pub services: &'a services::Services,
}
