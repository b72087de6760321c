//! # mocking
//!
//! Replies with an example or with generated data, without an upstream.
//!
//! ```json
//! {
//!   "content_type": "application/json",
//!   "response_schema": {
//!     "type": "object",
//!     "properties": {
//!       "name": { "type": "string", "example": "Ada" },
//!       "scores": { "type": "array", "items": { "type": "integer" } }
//!     }
//!   }
//! }
//! ```
//!
//! `response_example` is the body, with variables (`hello $remote_addr`). Without it `response_schema` is the
//! JSON Schema of an object from which a body is generated: values of the types `string`, `number`,
//! `integer`, `boolean`, `array` (one to three items) and `object`; an `example` of the right type is used as
//! it is. The body is XML for the content types `application/xml` and `text/xml`, and JSON for
//! `application/json` and `text/plain`; `text/html` needs an example.
//!
//! `response_status` and `response_headers` set the rest of the response; the fields replace those of the
//! plugin, and their values may hold variables (`"X-Route": "$route_id"`), and `delay` delays it by a number
//! of seconds. Unless `with_mock_header` is false, the field `x-mock-by` marks the response as a mock.

mod generate;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use net::env;
use router::vars::Template;
use serde_json::{Map, Value};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::reply_fields::ReplyFields;
use crate::shared::{config, fields};
use generate::Generator;

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("mocking", 10900, &[PluginPhase::Access], MockingConfig::schema, build)
        .checked(check)
        .documented(include_str!("mocking.rs"));

/// The value of `x-mock-by`.
const MOCKED_BY: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

attributes! {
    struct MockingConfig {
        /// How many seconds the client waits.
        delay: i64 = 0;
        /// The status of the response.
        response_status: u16 = 200, { "minimum": 100 };
        /// The Content-Type of the response.
        content_type: String = "application/json;charset=utf8".into();
        /// The body, with variables.
        response_example: Option<String>;
        /// A JSON Schema by which a body is made up where there is no example.
        response_schema: Option<Value>, { "type": "object" };
        /// Adds a field that tells that the response is made up.
        with_mock_header: bool = true;
        /// Fields of the response, with variables in their values.
        response_headers: Option<Map<String, Value>>, {
            "minProperties": 1,
            "patternProperties": { "^[^:]+$": { "oneOf": [{ "type": "string" }, { "type": "number" }] } },
        };
    }
    { "anyOf": [{ "required": ["response_example"] }, { "required": ["response_schema"] }] }
}

/// The compiled plugin.
struct Mocking {
    /// The response without its body and its configured fields.
    head: BufferedReply,
    fields: ReplyFields,
    body: MockBody,
    delay_ms: u64,
}

enum MockBody {
    Example(Template),
    Json(Generator),
    Xml(Generator),
}

fn check(config: &Value) -> Result<(), String> {
    compile(config).map(|_| ())
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    compile(config).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value) -> Result<Mocking, String> {
    let config: MockingConfig = config::parse_config(config)?;
    if !(200..=999).contains(&config.response_status) {
        return Err(format!("response_status {} ends no exchange: 200 to 999 do", config.response_status));
    }
    let mut head = BufferedReply::status(config.response_status);
    head = head
        .with_header("Content-Type", fields::parse_field_text(&Value::from(config.content_type.as_str()))?);
    if config.with_mock_header {
        head = head.with_header("x-mock-by", MOCKED_BY);
    }
    let headers = config.response_headers.iter().flatten().map(|(name, value)| (&**name, value));
    let fields = ReplyFields::compile("response_headers", headers)?;
    let delay_ms = u64::try_from(config.delay).unwrap_or(0).saturating_mul(1_000);
    Ok(Mocking { head, fields, body: body(&config)?, delay_ms })
}

fn body(config: &MockingConfig) -> Result<MockBody, String> {
    // The media type ends at the last semicolon, as in APISIX.
    let media_type =
        config.content_type.rsplit_once(';').map_or(&*config.content_type, |(media_type, _)| media_type);
    if !["application/xml", "application/json", "text/plain", "text/html", "text/xml"].contains(&media_type) {
        return Err("unsupported content type!".to_owned());
    }
    if let Some(example) = &config.response_example {
        let template = Template::compile(example).map_err(|error| format!("response_example: {error}"))?;
        return Ok(MockBody::Example(template));
    }
    let schema = config.response_schema.as_ref().ok_or("response_example or response_schema is needed")?;
    let generator = Generator::compile(schema).map_err(|reason| format!("response_schema: {reason}"))?;
    match media_type {
        "application/xml" | "text/xml" => Ok(MockBody::Xml(generator)),
        "text/html" => {
            Err("a body made up from response_schema is XML or JSON; text/html needs response_example".into())
        }
        _ => Ok(MockBody::Json(generator)),
    }
}

impl Mocking {
    /// The response without its body.
    fn head(&self, exchange: &Exchange) -> BufferedReply {
        self.fields.add_to(exchange, self.head.clone())
    }
}

impl Plugin for Mocking {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let body = match &self.body {
            MockBody::Example(template) => {
                let mut body = Vec::new();
                template.render(exchange, &mut body);
                body
            }
            MockBody::Json(generator) => generator.generate(exchange).to_string().into_bytes(),
            MockBody::Xml(generator) => generate::xml("data", &generator.generate(exchange)).into_bytes(),
        };
        let reply = self.head(exchange).with_body(body);
        if self.delay_ms == 0 {
            return Flow::reply(reply);
        }
        let delay_ms = self.delay_ms;
        Flow::Wait(Box::pin(async move {
            // The delay is the configured behaviour, and a mock is no hot path.
            env::sleep_ms(delay_ms).await;
            PhaseDecision::Reply(Box::new(reply))
        }))
    }

    fn explain(&self, exchange: &mut Exchange, _: PluginPhase) -> Explained {
        let reply = match &self.body {
            MockBody::Example(template) => {
                let mut body = Vec::new();
                template.render(exchange, &mut body);
                self.head(exchange).with_body(body)
            }
            // The body is made up at random.
            MockBody::Json(_) | MockBody::Xml(_) => self.head(exchange),
        };
        let explained = Explained::replies(&reply);
        if self.delay_ms == 0 { explained } else { explained.because(format!("after {} ms", self.delay_ms)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exchange::testing::check_configuration;
    use gateway::testing::Scene;
    use model::catalog::SchemaType;
    use serde_json::json;

    const ASK: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

    #[test]
    fn configurations() {
        let check = |config: Value, want: Result<(), &str>| {
            check_configuration(&KIND, SchemaType::Plugin, &config, want.err());
        };
        check(json!({ "response_example": "a" }), Ok(()));
        check(json!({ "response_example": "a", "delay": -1, "content_type": "text/html" }), Ok(()));
        check(json!({ "response_example": "a", "response_headers": { "A": "b", "C": 1 } }), Ok(()));
        check(
            json!({ "response_schema": { "properties": {} }, "content_type": "text/xml;charset=utf8" }),
            Ok(()),
        );
        check(json!({}), Err("response_example"));
        check(json!({ "response_example": "a", "content_type": "" }), Err("unsupported content type!"));
        check(
            json!({ "response_example": "a", "content_type": "image/png" }),
            Err("unsupported content type!"),
        );
        check(json!({ "response_example": "a", "content_type": "a\r\nb;text/html" }), Err("character"));
        check(json!({ "response_example": "a", "response_status": 99 }), Err("response_status"));
        check(json!({ "response_example": "a", "response_status": 101 }), Err("response_status"));
        check(json!({ "response_example": "${" }), Err("response_example"));
        check(json!({ "response_example": "a", "response_headers": { "A": "b\n" } }), Err("character"));
        check(
            json!({ "response_schema": { "properties": {} }, "content_type": "text/html" }),
            Err("text/html"),
        );
        check(json!({ "response_schema": { "properties": { "a": {} } } }), Err("type"));
        check(json!({ "response_example": "a", "unknown": 1 }), Err("unknown"));
    }

    #[test]
    fn an_example_is_the_body() {
        let config = json!({
            "response_example": "{\"from\":\"$remote_addr\"}", "response_status": 201,
            "response_headers": { "X-A": 1, "X-B": "$remote_addr$arg_none" },
        });
        let outcome = Scene::with_plugins(&[&KIND], &json!({ "mocking": config })).run(ASK);
        assert_eq!((outcome.status, &*outcome.body), (201, "{\"from\":\"127.0.0.1\"}"));
        let fields: Vec<String> =
            outcome.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let by = format!("x-mock-by: {MOCKED_BY}");
        assert_eq!(fields, ["Content-Type: application/json;charset=utf8", &*by, "X-A: 1", "X-B: 127.0.0.1"]);
    }

    #[test]
    fn body_is_generated_from_schema() {
        let schema = json!({ "properties": { "a": { "type": "string", "example": "<$host>" } } });
        let check = |content_type: &str, want: &str| {
            let config =
                json!({ "response_schema": schema, "content_type": content_type, "with_mock_header": false });
            let outcome = Scene::with_plugins(&[&KIND], &json!({ "mocking": config })).run(ASK);
            assert_eq!((outcome.status, outcome.fields.len(), &*outcome.body), (200, 1, want));
        };
        check("application/json", r#"{"a":"<h>"}"#);
        check("text/plain", r#"{"a":"<h>"}"#);
        check("text/xml", "<data>\n<a>&lt;h&gt;</a>\n</data>");
    }
}
