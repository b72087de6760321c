//! # contract
//!
//! Serves the operations of a contract: checks requests and responses by its OpenAPI document, answers from
//! the document, and shows it. The routes of a contract have this plugin with the settings of the contract;
//! on another route it checks requests by one operation.
//!
//! ```json
//! { "contract_id": "pets", "operation": "getPet", "request": "enforce" }
//! ```
//!
//! **Requests.** `request` is `enforce`, `warn` or `off`. Parameters in path, query, fields and cookies are
//! read by their `style` and checked by their schema; `base_path` stands in front of the path of the
//! document. The body is checked by the schema of its media type: JSON, forms and texts, of `max_body_bytes`
//! at most. A body of more than 64 KiB is checked on a thread beside the workers. A faulty request is
//! answered 400 with `application/problem+json` (RFC 9457): up to 20 `errors`, each with `in`, `name`,
//! `pointer`, `rule` and `detail`; a body that is too long with 413. With `warn` it passes, and the error
//! log has the faults, at most once a second.
//!
//! **Responses.** With `response: warn` or `enforce`, the status and the media type have to be in the
//! document, and a body of JSON or text has to obey its schema. With `enforce` a faulty response is replaced
//! by 502, and so is one with a body of more than `max_body_bytes`; with `warn` a body is checked if its
//! `Content-Length` is at most that, and faults are in the error log. Streams of events and coded bodies are
//! not checked.
//!
//! **Fields.** With `headers: declared`, fields of a request that the operation does not declare are not
//! sent on. Those of HTTP itself, of tracing and of forwarding are, and those that name an authenticated
//! consumer. Fields that other plugins set are dropped like those of clients, unless the operation declares
//! them.
//!
//! **Answers of the document.** With `mock: true` the response is made of the examples and schemas of the
//! operation; the field `Prefer: code=404, example=name, dynamic=true` chooses. `allow` makes the answer to
//! other methods: 204 to OPTIONS, 405 otherwise, both with `Allow`. `docs` is the path of a page for
//! readers; the document is beside it, at `PATH/openapi.json`. With `unknown: true` the answer is 404.

mod docs;
mod passed_fields;
mod problem;
mod request;
mod response;
mod rules;

use std::sync::Arc;

use contract::ContractDocument;
use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, Portion, ResponseStep,
};
use message::Method;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use docs::ContractDocs;
use problem::problem;
use rules::{CompiledOperation, check_document, operation_of};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    model::contract::CONTRACT_PLUGIN,
    510,
    &[PluginPhase::RequestBody, PluginPhase::Access, PluginPhase::ResponseHead, PluginPhase::ResponseBody],
    ContractConfig::schema,
    build,
)
.checking_contracts(check_document)
.documented(include_str!("contract.rs"));

attributes! {
    struct ContractConfig {
        /// The contract.
        contract_id: String, { "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9-_.]+$" };
        /// The operation that requests are checked by.
        operation: Option<String>, { "minLength": 1 };
        /// The methods of the path, for the answer to others.
        allow: Option<Vec<String>>, { "items": { "type": "string" }, "minItems": 1 };
        /// The path of the page that shows the document.
        docs: Option<String>, { "pattern": "^/" };
        /// Answers 404.
        unknown: bool = false;
        /// The path in front of the path of the document.
        base_path: Option<String>, { "pattern": "^(/[^/?#*{}]+)*$" };
        /// The check of requests.
        request: String = "enforce".to_owned(), { "enum": ["off", "warn", "enforce"] };
        /// The check of responses.
        response: String = "off".to_owned(), { "enum": ["off", "warn", "enforce"] };
        /// The fields of requests that are sent on.
        headers: String = "all".to_owned(), { "enum": ["all", "declared"] };
        /// Answers from the document.
        mock: bool = false;
        /// The longest body, in bytes, that is checked.
        max_body_bytes: usize = 8 * 1024 * 1024, { "minimum": 1, "maximum": 67_108_864 };
    }
    {
        "oneOf": [
            { "required": ["operation"] },
            { "required": ["allow"] },
            { "required": ["docs"] },
            { "required": ["unknown"] },
        ],
    }
}

/// Milliseconds between two lines about faults of one instance.
const LOG_INTERVAL_MS: u64 = 1_000;

/// The treatment of a faulty message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultAction {
    /// Nothing is checked.
    Off,
    /// It is logged.
    Warn,
    /// The message is refused.
    Enforce,
}

/// The compiled plugin.
enum ContractPlugin {
    Operation(Box<OperationPlugin>),
    /// The field `Allow`.
    OtherMethods(String),
    Docs(Box<ContractDocs>),
    Unknown,
}

/// The plugin on the route of an operation.
struct OperationPlugin {
    document: Arc<ContractDocument>,
    operation: Arc<CompiledOperation>,
    /// Bytes in front of the path of the document.
    base_length: usize,
    request: FaultAction,
    response: FaultAction,
    passes_declared_fields_only: bool,
    is_mocked: bool,
    max_body_bytes: usize,
    pace: Pace,
}

impl FaultAction {
    fn of(name: &str) -> FaultAction {
        match name {
            "off" => FaultAction::Off,
            "warn" => FaultAction::Warn,
            _ => FaultAction::Enforce,
        }
    }
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: ContractConfig = config::parse_config(config)?;
    if config.unknown {
        return Ok(Arc::new(ContractPlugin::Unknown));
    }
    if let Some(allow) = &config.allow {
        return Ok(Arc::new(ContractPlugin::OtherMethods(allow.join(", "))));
    }
    let id = &config.contract_id;
    let document = build.assembly.contract(id).ok_or_else(|| format!("contract {id} is not in force"))?;
    if let Some(path) = config.docs {
        let docs = ContractDocs::new(&document, path, config.base_path.unwrap_or_default());
        return Ok(Arc::new(ContractPlugin::Docs(Box::new(docs))));
    }
    let name = config.operation.unwrap_or_default();
    let operation = operation_of(&document, &name).map_err(|fault| fault.to_string())?;
    let operation = operation.ok_or_else(|| format!("contract {id} has no operation {name}"))?;
    Ok(Arc::new(ContractPlugin::Operation(Box::new(OperationPlugin {
        document,
        operation,
        base_length: config.base_path.map_or(0, |base| base.len()),
        request: FaultAction::of(&config.request),
        response: FaultAction::of(&config.response),
        passes_declared_fields_only: config.headers == "declared",
        is_mocked: config.mock,
        max_body_bytes: config.max_body_bytes,
        pace: Pace::every_ms(LOG_INTERVAL_MS),
    }))))
}

impl Plugin for ContractPlugin {
    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        match self {
            ContractPlugin::Operation(plugin) => plugin.need_of_request_body(exchange),
            _ => BodyNeed::None,
        }
    }

    fn refuse_long_body(&self, _exchange: &Exchange) -> Option<BufferedReply> {
        match self {
            ContractPlugin::Operation(plugin) => {
                let detail = format!("The body has more than {} bytes.", plugin.max_body_bytes);
                Some(problem(413, "The body is too long", Some(&detail), Vec::new()))
            }
            _ => None,
        }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self {
            ContractPlugin::Operation(plugin) => plugin.check_request(exchange),
            ContractPlugin::OtherMethods(allow) => Flow::reply(other_method(exchange.request.method, allow)),
            ContractPlugin::Docs(docs) => Flow::reply(docs.reply(exchange)),
            ContractPlugin::Unknown => Flow::reply(unknown()),
        }
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        match self {
            ContractPlugin::Operation(plugin) => plugin.check_response_head(exchange),
            _ => ResponseStep::Done,
        }
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        match self {
            ContractPlugin::Operation(plugin) => plugin.need_of_response_body(exchange),
            _ => BodyNeed::None,
        }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        _portion: Portion,
    ) -> ResponseStep<'a> {
        if let ContractPlugin::Operation(plugin) = self {
            plugin.check_response_body(exchange, body);
        }
        ResponseStep::Done
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        if phase != PluginPhase::Access {
            return Explained::passes();
        }
        match self {
            ContractPlugin::Operation(plugin) => plugin.explain(exchange),
            ContractPlugin::OtherMethods(allow) => {
                Explained::replies(&other_method(exchange.request.method, allow))
            }
            ContractPlugin::Docs(docs) => Explained::replies(&docs.reply(exchange)),
            ContractPlugin::Unknown => Explained::replies(&unknown()),
        }
    }
}

/// The answer to a method that the path does not have.
fn other_method(method: Method, allow: &str) -> BufferedReply {
    let reply = match method {
        Method::Options => BufferedReply::status(204),
        _ => problem(405, "The contract has no such method for this path", None, Vec::new()),
    };
    reply.with_header("Allow", allow)
}

fn unknown() -> BufferedReply {
    problem(404, "The contract has no such path", None, Vec::new())
}
