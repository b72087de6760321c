//! # gzip
//!
//! Compresses response bodies with gzip for clients that accept it.
//!
//! ```json
//! {
//!   "types": ["text/html", "text/css", "application/javascript", "application/json"],
//!   "min_length": 256,
//!   "comp_level": 1,
//!   "vary": true
//! }
//! ```
//!
//! **Which responses.** Those with a `Content-Type` in `types` (`"*"` for all; parameters such as `charset`
//! do not count), of at least `min_length` bytes where the response has a `Content-Length`, to requests of at
//! least `http_version`. Sent as they are: responses with the status 204, 205, 206 or 304, responses that
//! have a `Content-Encoding` or `Cache-Control: no-transform`, gRPC calls, and requests that a plugin such as
//! `batch-requests` makes. When memory is short, responses are sent as they are too.
//!
//! **Which clients.** Those with `gzip` or `*` in `Accept-Encoding` and a weight (`q`) above 0, unless they
//! list `identity` with a greater one. Where a route has `gzip`, `brotli` and `zstd`, the coding with the
//! client's greatest weight is used; of equal ones `zstd`, then `brotli`, then `gzip`.
//!
//! **Fields.** The response gets `Content-Encoding: gzip`. A strong `ETag` becomes weak, one without quotes
//! is removed, and so are `Content-Length`, `Accept-Ranges` and digests of the body. With `vary` the response
//! says `Vary: Accept-Encoding`; set it wherever a cache stands between gateway and client, because it would
//! give compressed bodies to every client.
//!
//! **Level.** `comp_level` 1 is the fastest, 9 the smallest. Compression runs on the thread of the request: a
//! level above 6 costs several times the time of level 1 for a few percent of size.
//!
//! **Streams.** A response without `Content-Length`, such as server-sent events, is flushed when the upstream
//! has nothing more at hand, so that the client gets each piece at once. A response with one is compressed as
//! a whole. `buffers` is checked and has no effect, because no more than one piece of a body is compressed
//! before it is sent.
//!
//! **Other plugins.** The body is compressed behind all plugins that edit it. Loggers get it as it was
//! before, because compressed bytes cannot be read or searched in a log; `$body_bytes_sent` is what was sent.
//! `proxy-cache` stores what the upstream sent, so that an entry fits every client.
//!
//! **Secrets.** Do not compress responses over TLS that hold a secret (a token against CSRF, for example)
//! beside text that another party chooses: the length of the compressed response tells whether both are
//! alike, and many requests find the secret byte by byte (the attack BREACH). Leave their routes or media
//! types out.

use exchange::plugin::PluginKind;

use crate::shared::attributes::attributes;
use crate::shared::encoding::{Gzip, GzipLevel, coding_attributes, coding_kind};

/// The plugin.
pub(crate) const KIND: PluginKind = coding_kind::<Config>("gzip", 995, include_str!("gzip.rs"));

coding_attributes! {
    Gzip, settings_of;
    {
        /// How hard it is tried to make the body small: 1 is the fastest, 9 the smallest.
        comp_level: u16 = 1, { "minimum": 1, "maximum": 9 };
    }
    {
        /// Without effect; checked for compatibility.
        buffers: Buffers = Buffers { number: 32, size: 4_096 };
    }
}

attributes! {
    struct Buffers {
        /// How many buffers.
        number: u64 = 32, { "minimum": 1 };
        /// The size of one, in bytes.
        size: u64 = 4_096, { "minimum": 1 };
    }
}

fn settings_of(config: &Config) -> Result<GzipLevel, String> {
    Ok(GzipLevel(u8::try_from(config.comp_level).map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, accepts, configuration_check, lines, respond};
    use model::catalog::SchemaType;
    use serde_json::{Value, json};

    use super::*;
    use crate::shared::attributes::Attribute;
    use crate::shared::encoding::decode::decode_content;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({}), None);
        check(json!({"types": "*", "comp_level": 9, "http_version": 1.0, "vary": true}), None);
        for buffers in [json!({}), json!({"number": 1}), json!({"size": 1})] {
            check(json!({ "buffers": buffers }), None);
        }
        check(json!({"types": []}), Some("types"));
        check(json!({"types": [""]}), Some("types"));
        check(json!({"types": "text/html"}), Some("types"));
        check(json!({"min_length": 0}), Some("min_length"));
        check(json!({"comp_level": 0}), Some("comp_level"));
        check(json!({"comp_level": 10}), Some("comp_level"));
        check(json!({"http_version": 2}), Some("http_version"));
        check(json!({"buffers": {"number": 0}}), Some("buffers"));
        check(json!({"buffers": {"size": 0}}), Some("buffers"));
        check(json!({"vary": 0}), Some("vary"));
        assert_eq!(Config::schema()["properties"]["buffers"]["default"], json!({"number": 32, "size": 4096}));
        assert_eq!(Config::schema()["properties"]["types"]["default"], json!(["text/html"]));
        assert_eq!(Config::schema()["properties"]["http_version"]["default"], json!(1.1));
        assert_eq!(accepts(&KIND, SchemaType::Plugin, &json!({"http_version": 1})), Ok(()));
    }

    /// The weight that a plugin of `config` gives the response with `fields` to `request`, and the fields
    /// afterwards.
    fn weigh(config: &Value, request: &str, status: u16, fields: &[(&str, &str)]) -> (u16, Vec<String>) {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, config);
        let (line, more) = request.split_once('|').unwrap_or((request, ""));
        let head = format!("{line}\r\nHost: a\r\n{more}\r\n");
        let mut exchange = scene.exchange(head.as_bytes());
        respond(&mut exchange, status, fields);
        (plugin.coding_weight(&mut exchange), lines(&exchange.response.headers))
    }

    const ACCEPTS: &str = "GET / HTTP/1.1|Accept-Encoding: gzip\r\n";

    #[test]
    fn response_is_coded_where_the_rules_hold() {
        let html = ("Content-Type", "text/html");
        let check = |config: Value, request: &str, status: u16, fields: &[(&str, &str)], expected: u16| {
            let (weight, _) = weigh(&config, request, status, fields);
            assert_eq!(weight, expected, "{config} {request} {status} {fields:?}");
        };
        check(json!({}), ACCEPTS, 200, &[html], 1_000);
        check(json!({}), "GET / HTTP/1.1", 200, &[html], 0);
        check(json!({}), "GET / HTTP/1.1|Accept-Encoding: br;q=1, gzip;q=0.4\r\n", 200, &[html], 400);
        check(json!({}), "HEAD / HTTP/1.1|Accept-Encoding: gzip\r\n", 200, &[html], 1_000);
        for (status, expected) in [(201, 1_000), (403, 1_000), (404, 1_000), (502, 1_000)] {
            check(json!({}), ACCEPTS, status, &[html], expected);
        }
        for status in [101, 204, 205, 206, 304] {
            check(json!({}), ACCEPTS, status, &[html], 0);
        }
        check(json!({}), ACCEPTS, 200, &[], 0);
        for (content_type, expected) in [
            ("text/html; charset=utf-8", 1_000),
            ("text/html ;charset=utf-8", 1_000),
            ("Text/HTML", 1_000),
            ("text/html5", 0),
            ("application/json", 0),
        ] {
            check(json!({}), ACCEPTS, 200, &[("Content-Type", content_type)], expected);
        }
        let xml = json!({"types": ["text/plain", "text/xml"]});
        check(xml.clone(), ACCEPTS, 200, &[html], 0);
        check(xml, ACCEPTS, 200, &[("Content-Type", "text/xml")], 1_000);
        let all = json!({"types": "*"});
        check(all.clone(), ACCEPTS, 200, &[("Content-Type", "video/3gpp")], 1_000);
        for grpc in ["application/grpc", "application/grpc+proto", "Application/GRPC"] {
            check(all.clone(), ACCEPTS, 200, &[("Content-Type", grpc)], 0);
        }
        check(all, ACCEPTS, 200, &[("Content-Type", "application/grpc-web+proto")], 1_000);
        for (length, expected) in [("20", 0), ("21", 1_000), ("5000", 1_000), ("many", 1_000)] {
            check(json!({"min_length": 21}), ACCEPTS, 200, &[html, ("Content-Length", length)], expected);
        }
        for old in ["br", "gzip", "identity", ""] {
            check(json!({}), ACCEPTS, 200, &[html, ("Content-Encoding", old)], 0);
        }
        check(json!({}), ACCEPTS, 200, &[html, ("Cache-Control", "max-age=1, no-transform")], 0);
        let old = "GET / HTTP/1.0|Accept-Encoding: gzip\r\n";
        check(json!({}), old, 200, &[html], 0);
        check(json!({"http_version": 1.0}), old, 200, &[html], 1_000);
    }

    #[test]
    fn vary_is_said_of_what_others_get_coded() {
        let html = ("Content-Type", "text/html");
        let check = |config: Value, request: &str, fields: &[(&str, &str)], expected: bool| {
            let (_, lines) = weigh(&config, request, 200, fields);
            let says = lines.iter().any(|line| line == "Vary: Accept-Encoding");
            assert_eq!(says, expected, "{config} {request} {fields:?}");
        };
        check(json!({"vary": true}), ACCEPTS, &[html], true);
        check(json!({"vary": true}), "GET / HTTP/1.1", &[html], true);
        check(json!({"vary": true}), "HEAD / HTTP/1.1", &[html], true);
        check(json!({"vary": true}), ACCEPTS, &[("Content-Type", "image/png")], false);
        check(json!({"vary": true}), ACCEPTS, &[html, ("Content-Encoding", "br")], false);
        check(json!({"vary": false}), ACCEPTS, &[html], false);
        check(json!({}), ACCEPTS, &[html], false);
    }

    #[test]
    fn encoder_writes_fields_and_the_body() {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({}));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&mut exchange, 200, &[("Content-Length", "300"), ("ETag", "\"a\""), ("A", "b")]);
        let mut encoder = plugin.encoder(&mut exchange).unwrap();
        let expected = ["ETag: W/\"a\"", "A: b", "Content-Encoding: gzip"];
        let mut fields = lines(&exchange.response.headers);
        fields.sort_by_key(|line| expected.iter().position(|field| field == line));
        assert_eq!(fields, expected);
        let (mut coded, body) = (Vec::new(), "abc".repeat(100));
        encoder.piece(body.as_bytes(), &mut coded).unwrap();
        encoder.end(&mut coded).unwrap();
        assert!(coded.len() < 60, "{}", coded.len());
        assert_eq!(decode_content(b"gzip", &coded, 300).as_deref(), Ok(body.as_bytes()));
    }

    #[test]
    fn response_to_a_plugin_is_not_coded() {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({}));
        for (is_inner, expected) in [(false, 1_000), (true, 0)] {
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
            respond(&mut exchange, 200, &[("Content-Type", "text/html")]);
            exchange.inner_client = is_inner.then_some(exchange.client);
            assert_eq!(plugin.coding_weight(&mut exchange), expected);
        }
    }

    #[test]
    fn body_is_sent_as_it_is_when_memory_is_short() {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({}));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&mut exchange, 200, &[("Content-Length", "300")]);
        exchange.local().shared.memory.update(99_000_000, 100_000_000);
        assert!(plugin.encoder(&mut exchange).is_none());
        assert_eq!(lines(&exchange.response.headers), ["Content-Length: 300"]);
    }
}
