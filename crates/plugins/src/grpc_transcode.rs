//! # grpc-transcode
//!
//! Lets clients of HTTP and JSON call a gRPC service.
//!
//! ```json
//! {
//!     "proto_id": "1",
//!     "service": "shop.Orders",
//!     "method": "Get",
//!     "deadline": 500,
//!     "pb_option": ["int64_as_string", "enum_as_name"]
//! }
//! ```
//!
//! The upstream has the scheme `grpc` or `grpcs`. `proto_id` names an object of the kind `protos`. Its
//! `content` is the text of a `.proto` file or a descriptor set in base64
//! (`protoc --include_imports --descriptor_set_out`). A text can import the files of `google/protobuf`. A
//! changed proto is in force for the next request. A route without such a proto, service or method answers
//! 503, and the reason is at `GET /apisix/admin/weir/status`, as for a method that takes a stream: a request
//! has one message.
//!
//! **Requests.** The message has the fields of the JSON body of a POST, PUT or PATCH with the content type
//! `application/json`, those of the form of any other POST, otherwise those of the query. The names are those
//! of the definition; other names are left out. A value of a wrong type, a body that is no JSON object, or
//! more than 4 MiB are refused with 400 or 413, as is HEAD with 405. Integers may be text, also as `#123` or
//! `0x7B`; enumerations are names or numbers; `null` is a field that is not given; a name that is repeated in
//! a query or form, or has a repeated field, is a list. The other fields of the request's head are metadata
//! of the call.
//!
//! **Responses.** One message is one JSON object. `pb_option` has up to one option of each row, the first of
//! which is the default:
//!
//! | | |
//! |---|---|
//! | `enum_as_name`, `enum_as_value` | enumerations |
//! | `int64_as_number`, `int64_as_string`, `int64_as_hexstring` | integers beyond 32 bits: a number with 14 digits, `"#123"`, `"#0x7B"` |
//! | `auto_default_values`, `no_default_values`, `use_default_values`, `use_default_metatable` | fields that are not set: with their defaults in proto3 only, never, always, or only empty lists and maps |
//! | `disable_hooks`, `enable_hooks` | no effect |
//!
//! Bytes are text; bytes that are not UTF-8 are one character each. A `oneof` also has a field of its own
//! name with the name of the field that is set. Well-known types are messages like others: a timestamp has
//! `seconds` and `nanos`.
//!
//! A method that answers with a stream gives one line of JSON for each message, as it arrives
//! (`application/x-ndjson`); if the call fails later, the last line is `{"error":{"code":…,"message":…}}`.
//!
//! **Failures.** A failed call has a status of HTTP by its status of gRPC, and `grpc-status`, `grpc-message`
//! and `grpc-status-details-bin` in the head; its body is empty. With `show_status_in_body` the body has the
//! details: `{"error":{"code":…,"message":…,"details":[…]}}`, where messages of `status_detail_type` are
//! decoded.
//!
//! | gRPC | HTTP | gRPC | HTTP |
//! |---|---|---|---|
//! | 1 | 499 | 9, 11, 3 | 400 |
//! | 2, 13, 15 | 500 | 10, 6 | 409 |
//! | 4 | 504 | 12 | 501 |
//! | 5 | 404 | 14 | 503 |
//! | 7 | 403 | 16 | 401 |
//! | 8 | 429 | any other | 599 |
//!
//! A response that is no such message, or is longer than `max_resp_body_size`, is answered with 502;
//! `weir_plugin_call_failures_total` counts them. `deadline` is sent as `grpc-timeout` and ends the call here
//! as well, with 504. It counts from when the call is made, after the body of the request has arrived; a
//! `grpc-timeout` of the client counts from its request.

mod call;
mod definition;
mod frames;
mod number;
mod request;
mod response;
mod status;

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use exchange::Exchange;
use exchange::grpc::timeout_text;
use exchange::observe::pace::Pace;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase, Portion,
    ResponseStep,
};
use message::{FieldId, Headers, Method};
use model::{Id, ObjectKind, schema};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::outages::Outages;
use crate::shared::side_thread;
use call::{TranscodeCall, TranscodeStage};
use frames::Converter;
use response::JsonOptions;
use status::DetailType;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    NAME,
    506,
    &[PluginPhase::RequestBody, PluginPhase::Access, PluginPhase::ResponseHead, PluginPhase::ResponseBody],
    GrpcTranscodeConfig::schema,
    build,
)
.checking_protos(|content| definition::compile_definition(content).map(drop))
.documented(include_str!("grpc_transcode.rs"));

const NAME: &str = "grpc-transcode";

/// The longest body of a request, in bytes: servers of gRPC take 4 MiB by default.
const REQUEST_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The longest message of a stream, in bytes. It is converted on the worker, while others wait.
const STREAMED_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The longest body that is converted on the worker, in bytes: that takes about a millisecond at most.
const AT_ONCE_BYTES: usize = 32 * 1024;

attributes! {
    struct GrpcTranscodeConfig {
        /// The longest body of a response, in bytes.
        max_resp_body_size: u64 = 67_108_864, { "minimum": 1 };
        /// The id of the object of the kind protos with the definition.
        proto_id: ProtoId;
        /// The name of the service, with its package.
        service: Box<str>;
        /// The name of the method.
        method: Box<str>;
        /// The time for a call, in milliseconds; 0 is without end.
        deadline: f64 = 0.0;
        /// The form of JSON and of values in it.
        pb_option: Vec<String> = DEFAULT_OPTIONS.map(str::to_owned).into(), {
            "minItems": 1,
            "items": { "description": "An option.", "type": "string", "enum": OPTIONS },
        };
        /// Whether the body of a failed call has its details.
        show_status_in_body: bool = false;
        /// The type of the messages in the details; without it they are not decoded.
        status_detail_type: Option<Box<str>>;
    }
}

const DEFAULT_OPTIONS: [&str; 4] =
    ["enum_as_name", "int64_as_number", "auto_default_values", "disable_hooks"];

const OPTIONS: [&str; 11] = [
    "enum_as_name",
    "enum_as_value",
    "int64_as_number",
    "int64_as_string",
    "int64_as_hexstring",
    "auto_default_values",
    "no_default_values",
    "use_default_values",
    "use_default_metatable",
    "enable_hooks",
    "disable_hooks",
];

/// The id of a proto: a text or a number.
struct ProtoId(Id);

impl Attribute for ProtoId {
    fn schema() -> Value {
        schema::find_object_schema(ObjectKind::Route)["properties"]["upstream_id"].clone()
    }

    fn read(written: Value) -> Result<Self, String> {
        Id::deserialize(written).map(ProtoId).map_err(|error| error.to_string())
    }

    fn write(&self) -> Value {
        self.0.as_str().into()
    }
}

struct GrpcTranscode {
    path: Box<str>,
    converter: Arc<Converter>,
    /// Whether the server answers with a stream of messages.
    streams: bool,
    timeout: Option<String>,
    shows_details: bool,
    detail_type: DetailType,
    outages: Outages,
}

/// Requests that cannot be converted: clients cause them, so there is one line in ten seconds at most.
static REFUSED: Pace = Pace::every_ms(10_000);

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: GrpcTranscodeConfig = config::parse_config(config)?;
    let id = config.proto_id.0.as_str();
    let content = build.proto(id).ok_or_else(|| format!("failed to find proto by id: {id}"))?;
    let key = format!("{NAME}/definition/{}", HEXLOWER.encode(digest(&SHA256, content.as_bytes()).as_ref()));
    let definition = build.states.keep(&key, || definition::compile_definition(content));
    let pool = definition.as_ref().as_ref().map_err(|reason| format!("proto {id}: {reason}"))?;
    let (service, name) = (&*config.service, &*config.method);
    let method = pool
        .get_service_by_name(service)
        .and_then(|service| service.methods().find(|method| method.name() == name))
        .ok_or_else(|| format!("Undefined service method: {service}/{name}"))?;
    if method.is_client_streaming() {
        return Err(format!("method {name}: it takes a stream of messages, and a request has one message"));
    }
    let detail_type = match &config.status_detail_type {
        None => DetailType::Any,
        Some(name) => pool.get_message_by_name(name).map_or(DetailType::Unknown, DetailType::Known),
    };
    let converter = Converter {
        input: method.input(),
        output: method.output(),
        form: JsonOptions::of(&config.pb_option),
        response_max_bytes: usize::try_from(config.max_resp_body_size).unwrap_or(usize::MAX),
        _definition: definition.clone(),
    };
    Ok(Arc::new(GrpcTranscode {
        path: format!("/{service}/{name}").into(),
        converter: Arc::new(converter),
        streams: method.is_server_streaming(),
        timeout: timeout(config.deadline),
        shows_details: config.show_status_in_body,
        detail_type,
        outages: Outages::new(build, NAME),
    }))
}

/// The value of `grpc-timeout` for a deadline in milliseconds; none for one that is not set.
fn timeout(deadline_ms: f64) -> Option<String> {
    // A float beyond the range of integers becomes the last one.
    (deadline_ms > 0.0).then(|| timeout_text((deadline_ms * 1e6).ceil() as u64))
}

impl Plugin for GrpcTranscode {
    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        BodyNeed::Buffer { limit_bytes: REQUEST_MAX_BYTES }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let request = &exchange.request;
        if request.method == Method::Head {
            // Its client takes no body, and the response to the call has one.
            return Flow::reply(
                BufferedReply::status(405).with_header("Allow", "GET, POST, PUT, PATCH, DELETE"),
            );
        }
        let body = exchange.request_body().unwrap_or_default();
        let content_type = request.headers.get_known(FieldId::ContentType).unwrap_or_default();
        let query = exchange.forward_query().unwrap_or_default();
        if body.len() + query.len() <= AT_ONCE_BYTES {
            let made = self.converter.frame(request.method, content_type, query, body);
            return self.forward(exchange, made).map_or(Flow::Continue, Flow::reply);
        }
        let Some(held) = side_thread::hold_job_bytes(body.len()) else {
            return Flow::reply(BufferedReply::status(503));
        };
        let (converter, method) = (self.converter.clone(), request.method);
        let (content_type, query, body) = (content_type.to_vec(), query.to_vec(), body.to_vec());
        Flow::Wait(Box::pin(async move {
            let convert = move || {
                let _held = held;
                converter.frame(method, &content_type, &query, &body)
            };
            match side_thread::run_on_side_thread(convert).await {
                Ok(made) => self
                    .forward(exchange, made)
                    .map_or(PhaseDecision::Continue, |reply| PhaseDecision::Reply(Box::new(reply))),
                Err(_) => PhaseDecision::Reply(Box::new(BufferedReply::status(503))),
            }
        }))
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        self.begin_response(exchange);
        ResponseStep::Done
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        match exchange.peek_state::<TranscodeCall>() {
            None | Some(TranscodeCall { stage: TranscodeStage::Nothing | TranscodeStage::Asked, .. }) => {
                BodyNeed::None
            }
            Some(_) if self.streams => BodyNeed::Stream,
            Some(_) => BodyNeed::Buffer { limit_bytes: self.converter.response_max_bytes },
        }
    }

    fn response_trailers(&self, exchange: &mut Exchange, trailers: &mut Headers) {
        self.end_call(exchange, trailers);
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        if self.streams {
            self.convert_piece(exchange, body, portion);
            ResponseStep::Done
        } else {
            self.convert_whole(exchange, body)
        }
    }
}

impl GrpcTranscode {
    /// Sends the request as a call with this frame; a reply if that is not possible.
    fn forward(&self, exchange: &mut Exchange, frame: Result<Vec<u8>, String>) -> Option<BufferedReply> {
        let frame = match frame {
            Ok(frame) => frame,
            Err(reason) => {
                if let Some(count) = REFUSED.add(1, exchange.local().now_ms()) {
                    tracing::warn!(
                        count,
                        reason,
                        "failed to encode request data to protobuf; the last of several"
                    );
                }
                return Some(BufferedReply::json(400, &json!({ "error_msg": reason })));
            }
        };
        for name in ["content-encoding", "grpc-encoding", "grpc-accept-encoding"] {
            exchange.request.headers.remove(name);
        }
        let headers = &mut exchange.request.headers;
        let mut is_set = headers.set("Content-Type", b"application/grpc").is_ok();
        if let Some(timeout) = &self.timeout {
            is_set &= headers.set("grpc-timeout", timeout.as_bytes()).is_ok();
        }
        is_set &= exchange.request.set_method("POST").is_ok();
        is_set &= exchange.set_forward_path(self.path.as_bytes()).is_ok();
        is_set &= exchange.set_forward_query(b"").is_ok();
        is_set &= exchange.set_request_body(frame).is_ok();
        if !is_set {
            return Some(BufferedReply::json(
                400,
                &json!({ "error_msg": "the request cannot be sent as a call" }),
            ));
        }
        // The body may have taken long to arrive, which is no time of the call.
        let begun_ns = match &self.timeout {
            Some(_) => exchange.local().clock_ns(),
            None => exchange.times.started_ns,
        };
        exchange.translate_call(begun_ns);
        exchange.state::<TranscodeCall>().stage = TranscodeStage::Asked;
        None
    }
}

#[cfg(test)]
mod tests;
