//! # echo
//!
//! Puts text before and after the body of responses, replaces the body, and sets fields: for tests of
//! clients, and to see which route a request reaches.
//!
//! ```json
//! {
//!   "before_body": "before the body ",
//!   "after_body": " after the body",
//!   "headers": { "X-Route": "shop" }
//! }
//! ```
//!
//! One of `before_body`, `body` and `after_body` is needed. `body` replaces the body of the response;
//! `before_body` and `after_body` stand around the body, the replaced one included. A response of the gateway
//! is changed like one of an upstream. `Content-Encoding`, `ETag` and `Last-Modified` are removed, because
//! they described the old body: text around a compressed body makes it unreadable, and `response-rewrite` is
//! the plugin for such bodies.
//!
//! The values in `headers` are texts or numbers, sent as they are: there are no variables in them. An empty
//! value removes the field. A value that is neither is refused when the object is written, where APISIX
//! leaves the field out.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{BodyNeed, Build, Plugin, PluginKind, PluginPhase, Portion, ResponseStep};
use serde_json::{Map, Value};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::{config, fields};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "echo",
    412,
    &[PluginPhase::ResponseHead, PluginPhase::ResponseBody],
    EchoConfig::schema,
    build,
)
.checked(|config| compile(config).map(drop))
.documented(include_str!("echo.rs"));

attributes! {
    struct EchoConfig {
        /// The text before the body.
        before_body: Option<String>;
        /// The text in place of the body.
        body: Option<String>;
        /// The text after the body.
        after_body: Option<String>;
        /// Fields of the response.
        headers: Option<Map<String, Value>>, { "minProperties": 1 };
    }
    {
        "minProperties": 1,
        "anyOf": [
            { "required": ["before_body"] },
            { "required": ["body"] },
            { "required": ["after_body"] },
        ],
    }
}

/// The compiled plugin.
struct Echo {
    before: Box<[u8]>,
    body: Option<Box<[u8]>>,
    after: Box<[u8]>,
    fields: Vec<EchoField>,
}

/// A field to set; an empty value removes it.
struct EchoField {
    name: Box<str>,
    value: String,
}

/// Whether the text before the body of a response was sent.
#[derive(Default)]
struct HasBegun(bool);

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    compile(config).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value) -> Result<Echo, String> {
    let config: EchoConfig = config::parse_config(config)?;
    let bytes = |text: Option<String>| text.unwrap_or_default().into_bytes().into_boxed_slice();
    let field = |(name, value): (&String, &Value)| {
        let field = fields::parse_field_name(name)
            .and_then(|name| Ok(EchoField { name, value: fields::parse_field_text(value)? }));
        field.map_err(|reason| format!("headers: {name}: {reason}"))
    };
    Ok(Echo {
        before: bytes(config.before_body),
        body: config.body.map(|body| body.into_bytes().into()),
        after: bytes(config.after_body),
        fields: config.headers.iter().flatten().map(field).collect::<Result<_, String>>()?,
    })
}

impl Plugin for Echo {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        let headers = &mut exchange.response.headers;
        for name in ["Content-Encoding", "ETag", "Last-Modified"] {
            headers.remove(name);
        }
        for EchoField { name, value } in &self.fields {
            headers.remove(name);
            if !value.is_empty() {
                // The name and the value were checked.
                let _ = headers.append(name, value.as_bytes());
            }
        }
        ResponseStep::Done
    }

    fn wants_response_body(&self, _exchange: &Exchange) -> BodyNeed {
        BodyNeed::Stream
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        let is_first = !std::mem::replace(&mut exchange.state::<HasBegun>().0, true);
        if let Some(replacement) = &self.body {
            body.clear();
            if is_first {
                body.extend_from_slice(replacement);
            }
        }
        if is_first {
            body.splice(..0, self.before.iter().copied());
        }
        if portion == Portion::Last {
            body.extend_from_slice(&self.after);
        }
        ResponseStep::Done
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, check_configuration, finish, lines, respond};
    use model::catalog::SchemaType;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let rows = [
            (json!({"before_body": "a", "body": "b", "after_body": "c", "headers": {"X-A": 1}}), None),
            (json!({"after_body": ""}), None),
            (json!({}), Some("at least 1 properties")),
            (json!({"headers": {"X-A": "b"}}), Some("before_body")),
            (json!({"body": 1}), Some("body")),
            (json!({"body": "a", "headers": {}}), Some("headers")),
            (json!({"body": "a", "headers": {"X-A": ["b"]}}), Some("invalid type as header value")),
            (json!({"body": "a", "headers": {"": "b"}}), Some("invalid field length in header")),
            (json!({"body": "a", "headers": {"X-A": "b\r\nX-B: c"}}), Some("headers: X-A")),
        ];
        for (config, fault) in rows {
            check_configuration(&KIND, SchemaType::Plugin, &config, fault);
        }
    }

    /// The body that a client gets of one that comes in these pieces.
    fn body(config: &Value, pieces: &[&str]) -> String {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, config);
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&mut exchange, 200, &[]);
        let mut sent = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let mut body = piece.as_bytes().to_vec();
            let portion = if index + 1 == pieces.len() { Portion::Last } else { Portion::Piece };
            finish(plugin.response_body(&mut exchange, &mut body, portion));
            sent.extend(body);
        }
        String::from_utf8(sent).unwrap()
    }

    #[test]
    fn texts_stand_around_body_of_any_pieces() {
        let around = json!({"before_body": "<", "after_body": ">"});
        let replaced = json!({"before_body": "<", "body": "new", "after_body": ">"});
        let rows: [(&Value, &[&str], &str); 7] = [
            (&around, &["old"], "<old>"),
            (&around, &["o", "l", "d", ""], "<old>"),
            (&around, &[""], "<>"),
            (&replaced, &["old"], "<new>"),
            (&replaced, &["o", "l", "d"], "<new>"),
            (&replaced, &[""], "<new>"),
            (&json!({"body": ""}), &["old"], ""),
        ];
        for (config, pieces, expected) in rows {
            assert_eq!(body(config, pieces), expected, "{config} {pieces:?}");
        }
    }

    #[test]
    fn fields_are_set_and_those_of_old_body_removed() {
        let mut scene = Scene::new();
        let headers = json!({"X-A": "$uri", "x-b": 2, "X-C": "", "Location": "https://a"});
        let plugin = scene.build(&KIND, &json!({"body": "a", "headers": headers}));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let old = [("ETag", "\"1\""), ("X-B", "1"), ("X-B", "1"), ("X-C", "1"), ("Content-Encoding", "gzip")];
        respond(&mut exchange, 200, &old);
        finish(plugin.response_head(&mut exchange));
        let mut sent = lines(&exchange.response.headers);
        sent.sort();
        assert_eq!(sent, ["Location: https://a", "X-A: $uri", "x-b: 2"]);
    }
}
