//! # zstd
//!
//! Compresses response bodies with Zstandard for clients that accept it. An extension of this gateway: about
//! as small as `brotli` at its middle levels, at the cost of `gzip` at level 1.
//!
//! ```json
//! {
//!   "types": ["text/html", "text/css", "application/javascript", "application/json"],
//!   "min_length": 256,
//!   "comp_level": 3,
//!   "vary": true
//! }
//! ```
//!
//! **Responses, fields, streams, logs, secrets.** As for [`gzip`](gzip.md), with `zstd` in place of `gzip`. A
//! client that accepts several codings of a route with the same weight gets Zstandard.
//!
//! **Level.** `comp_level` 1 is the fastest, 19 the smallest. Compression runs on the thread of the request;
//! above 9 it takes more than a millisecond for 64 KiB.
//!
//! **Memory.** A response in flight has a state of one to three megabytes at level 3. The window is at most 1
//! MiB, and smaller for a response that tells a shorter length; every client decodes it (RFC 9659).

use exchange::plugin::PluginKind;

use crate::shared::encoding::{Zstd, ZstdLevel, coding_attributes, coding_kind};

/// The plugin.
pub(crate) const KIND: PluginKind = coding_kind::<Config>("zstd", 997, include_str!("zstd.rs"));

coding_attributes! {
    Zstd, settings_of;
    {
        /// How hard it is tried to make the body small: 1 is the fastest, 19 the smallest.
        comp_level: u16 = 3, { "minimum": 1, "maximum": 19 };
    }
    {}
}

fn settings_of(config: &Config) -> Result<ZstdLevel, String> {
    Ok(ZstdLevel(u8::try_from(config.comp_level).map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, configuration_check, lines, respond};
    use serde_json::json;

    use super::*;
    use crate::shared::encoding::decode::decode_content;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({}), None);
        check(json!({"types": "*", "comp_level": 19, "http_version": 1.0, "vary": true}), None);
        check(json!({"types": []}), Some("types"));
        check(json!({"comp_level": 0}), Some("comp_level"));
        check(json!({"comp_level": 20}), Some("comp_level"));
        check(json!({"min_length": 0}), Some("min_length"));
        check(json!({"http_version": 3}), Some("http_version"));
    }

    #[test]
    fn body_decodes_whatever_length_was_declared() {
        let body: String = (0..30_000).map(|number| format!("line {number}\n")).collect();
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({}));
        for length in [None, Some(body.len().to_string()), Some("100".to_owned()), Some(u64::MAX.to_string())]
        {
            let mut exchange =
                scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, zstd\r\n\r\n");
            let length = length.as_deref().map(|length| ("Content-Length", length));
            let fields: Vec<_> = [("Content-Type", "text/html")].into_iter().chain(length).collect();
            respond(&mut exchange, 200, &fields);
            assert_eq!(plugin.coding_weight(&mut exchange), 1_000);
            let mut encoder = plugin.encoder(&mut exchange).unwrap();
            assert!(lines(&exchange.response.headers).contains(&"Content-Encoding: zstd".to_owned()));
            let mut coded = Vec::new();
            encoder.piece(body.as_bytes(), &mut coded).unwrap();
            encoder.end(&mut coded).unwrap();
            assert!(
                decode_content(b"zstd", &coded, 1_000_000).as_deref() == Ok(body.as_bytes()),
                "{length:?}"
            );
        }
    }
}
