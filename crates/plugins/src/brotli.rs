//! # brotli
//!
//! Compresses response bodies with Brotli for clients that accept it. Texts become a fifth smaller than with
//! `gzip`, at more time of the processor.
//!
//! ```json
//! {
//!   "types": ["text/html", "text/css", "application/javascript", "application/json"],
//!   "min_length": 256,
//!   "comp_level": 4,
//!   "vary": true
//! }
//! ```
//!
//! **Responses, fields, streams, logs, secrets.** As for [`gzip`](gzip.md), with `br` in place of `gzip`. A
//! route may have both: a client that accepts both with the same weight gets Brotli.
//!
//! **Level.** `comp_level` 0 is the fastest, 11 the smallest. Compression runs on the thread of the request:
//! 4 or 5 suits responses that are made for each request. 10 and 11 take tens of milliseconds for 64 KiB, in
//! which their thread serves no other request; they are for files that are compressed once.
//!
//! **Memory.** A response in flight has a state of up to twice the window (`lgwin`, a power of two: 19 is 512
//! KiB) and a table of one or two megabytes. The window is made smaller for a response that tells a shorter
//! length.
//!
//! **Blocks.** `lgblock` is the largest block, a power of two as well; 0 leaves it to the encoder. `mode`
//! says what the body is: 0 anything, 1 text in UTF-8, 2 a font in WOFF 2.0.

use exchange::plugin::PluginKind;

use crate::shared::encoding::{Brotli, BrotliMode, BrotliSettings, coding_attributes, coding_kind};

/// The plugin.
pub(crate) const KIND: PluginKind = coding_kind::<Config>("brotli", 996, include_str!("brotli.rs"));

coding_attributes! {
    Brotli, settings_of;
    {
        /// The kind of body: 0 anything, 1 text in UTF-8, 2 a font in WOFF 2.0.
        mode: u16 = 0, { "minimum": 0, "maximum": 2 };
        /// How hard it is tried to make the body small: 0 is the fastest, 11 the smallest.
        comp_level: u32 = 6, { "minimum": 0, "maximum": 11 };
        /// The window, a power of two in bytes; 0 leaves it to the encoder.
        lgwin: u32 = 19, { "enum": [0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24] };
        /// The largest block, a power of two in bytes; 0 leaves it to the encoder.
        lgblock: u32 = 0, { "enum": [0, 16, 17, 18, 19, 20, 21, 22, 23, 24] };
    }
    {}
}

fn settings_of(config: &Config) -> Result<BrotliSettings, String> {
    Ok(BrotliSettings {
        mode: match config.mode {
            1 => BrotliMode::Text,
            2 => BrotliMode::Font,
            _ => BrotliMode::Generic,
        },
        quality: config.comp_level,
        window_bits: config.lgwin,
        block_bits: config.lgblock,
    })
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, configuration_check, lines, respond};
    use serde_json::{Value, json};

    use super::*;
    use crate::shared::encoding::decode::decode_content;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({}), None);
        check(json!({"types": "*", "mode": 2, "comp_level": 0, "lgwin": 0, "lgblock": 0}), None);
        check(json!({"lgwin": 24, "lgblock": 24, "http_version": 1.0, "vary": true}), None);
        check(json!({"types": []}), Some("types"));
        check(json!({"mode": 3}), Some("mode"));
        check(json!({"comp_level": 12}), Some("comp_level"));
        check(json!({"lgwin": 9}), Some("lgwin"));
        check(json!({"lgwin": 25}), Some("lgwin"));
        check(json!({"lgblock": 15}), Some("lgblock"));
        check(json!({"min_length": 0}), Some("min_length"));
        check(json!({"http_version": 1.2}), Some("http_version"));
        check(json!({"vary": "on"}), Some("vary"));
    }

    #[test]
    fn every_setting_gives_a_body_that_decodes() {
        let body: String = (0..3_000).map(|number| format!("line {number}\n")).collect();
        let code = |config: Value, fields: &[(&str, &str)]| {
            let mut scene = Scene::new();
            let plugin = scene.build(&KIND, &config);
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
            respond(&mut exchange, 200, &[&[("Content-Type", "text/html")], fields].concat());
            assert_eq!(plugin.coding_weight(&mut exchange), 1_000, "{config}");
            let mut encoder = plugin.encoder(&mut exchange).unwrap();
            assert!(lines(&exchange.response.headers).contains(&"Content-Encoding: br".to_owned()));
            let mut coded = Vec::new();
            encoder.piece(body.as_bytes(), &mut coded).unwrap();
            encoder.end(&mut coded).unwrap();
            assert!(decode_content(b"br", &coded, 1_000_000).as_deref() == Ok(body.as_bytes()), "{config}");
            coded.len()
        };
        let length = body.len().to_string();
        // The length is a hint only: a plugin may have changed the body.
        let lengths = [&[("Content-Length", &*length)][..], &[("Content-Length", "100")], &[]];
        let configs = [
            json!({}),
            json!({"mode": 1}),
            json!({"mode": 2}),
            json!({"lgwin": 0, "lgblock": 16}),
            json!({"lgwin": 10}),
            json!({"lgwin": 24, "lgblock": 24}),
        ];
        for config in configs {
            for fields in lengths {
                code(config.clone(), fields);
            }
        }
        assert!(code(json!({"comp_level": 9}), &[]) < code(json!({"comp_level": 1}), &[]));
    }
}
