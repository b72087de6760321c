//! # request-id
//!
//! Gives each request an id that the node, the client and the log share. A request with an id keeps it.
//!
//! ```json
//! {
//!     "header_name": "X-Request-Id",
//!     "include_in_response": true,
//!     "algorithm": "uuid"
//! }
//! ```
//!
//! The id is taken from the field `header_name` of the request; if that is missing or empty, an id is
//! generated and set there for the node. With `include_in_response` it is set on the response too, unless the
//! node has set the field itself. Logs and templates find it as `$request_id` and `$apisix_request_id`.
//!
//! The values of `algorithm`:
//!
//! | `algorithm` | looks like | made of |
//! |---|---|---|
//! | `uuid` | `8a6e0804-2bd0-4672-b79d-d97027f9071a` | 122 random bits (RFC 9562, version 4) |
//! | `uuidv7` | `019a8d4e-5c1f-7a3b-9d2e-3f4a5b6c7d8e` | the millisecond it was made in, then 74 random bits (RFC 9562, version 7): sorts by time |
//! | `nanoid` | `V1StGXR8_Z5jdHi6B-myT` | 126 random bits in 21 characters that need no escaping in a URL |
//! | `ksuid` | `0ujtsYcgvSTl8PAuAdqWYSMnLOv` | the second it was made in, then 128 random bits: sorts by time |
//! | `range_id` | `gY7cPq0LmZtB4WnD` | `range_id.length` characters drawn from `range_id.char_set` |
//!
//! The random numbers make equal ids by chance practically impossible. They are not meant for secrets: an id
//! must not grant access.
//!
//! If the plugin is in a global rule and on a route with different `header_name`s, a request has two ids;
//! `$request_id` is then the route's.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{Build, Flow, Plugin, PluginKind, PluginPhase, ResponseStep};
use net::env::random_u64;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use crate::shared::fields::is_token;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "request-id",
    12015,
    &[PluginPhase::Rewrite, PluginPhase::ResponseHead],
    RequestIdConfig::schema,
    build,
)
.checked(|config| compile(config).map(drop))
.documented(include_str!("request_id.rs"));

attributes! {
    struct RequestIdConfig {
        /// The field that carries the id, in requests and responses.
        header_name: Box<str> = HEADER_NAME_DEFAULT.into();
        /// Whether the client is told the id.
        include_in_response: bool = true;
        /// How an id is made where the request brings none.
        algorithm: AlgorithmName = AlgorithmName::Uuid;
        /// The length and the characters of ids that the algorithm range_id makes.
        range_id: RangeConfig = RangeConfig { length: 16, char_set: RANGE_CHAR_SET_DEFAULT.into() };
    }
    {"title": "Give each request an id"}
}

words! {
    enum AlgorithmName {
        Uuid = "uuid",
        Nanoid = "nanoid",
        RangeId = "range_id",
        Ksuid = "ksuid",
        Uuidv7 = "uuidv7",
    }
}

attributes! {
    struct RangeConfig {
        /// The number of characters.
        length: usize = 16, {"minimum": 6};
        /// The characters to draw from; one that is there twice is drawn twice as often.
        char_set: String = RANGE_CHAR_SET_DEFAULT.into(), {"minLength": 6};
    }
}

struct RequestId {
    header_name: Box<str>,
    include_in_response: bool,
    algorithm: RequestIdAlgorithm,
}

enum RequestIdAlgorithm {
    Uuid,
    Nanoid,
    Range { length: usize, characters: Box<[u8]> },
    Ksuid,
    UuidV7,
}

/// The id of the request, as the response will carry it.
#[derive(Default)]
struct AssignedRequestId(Vec<u8>);

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<RequestId, String> {
    let RequestIdConfig { header_name, include_in_response, algorithm, range_id } =
        config::parse_config(config)?;
    if !is_token(&header_name) {
        return Err(format!("header_name `{header_name}` cannot be the name of a field"));
    }
    let algorithm = match algorithm {
        AlgorithmName::Uuid => RequestIdAlgorithm::Uuid,
        AlgorithmName::Nanoid => RequestIdAlgorithm::Nanoid,
        AlgorithmName::Ksuid => RequestIdAlgorithm::Ksuid,
        AlgorithmName::Uuidv7 => RequestIdAlgorithm::UuidV7,
        AlgorithmName::RangeId => range(range_id)?,
    };
    Ok(RequestId { header_name, include_in_response, algorithm })
}

fn range(config: RangeConfig) -> Result<RequestIdAlgorithm, String> {
    let length = config.length;
    if length > RANGE_LENGTH_MAX {
        return Err(format!("range_id.length is {length}, the most is {RANGE_LENGTH_MAX}"));
    }
    let characters = config.char_set.into_bytes();
    if !characters.iter().all(u8::is_ascii_graphic) {
        return Err("range_id.char_set may hold visible ASCII characters only".to_owned());
    }
    Ok(RequestIdAlgorithm::Range { length, characters: characters.into() })
}

impl Plugin for RequestId {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let brought = exchange.request.headers.get(&self.header_name).filter(|value| !value.is_empty());
        let id: Box<str> = match brought {
            Some(value) => String::from_utf8_lossy(value).into(),
            None => {
                let (seconds, nanoseconds) = exchange.local().wall_at(exchange.times.started_ns);
                let id = self.algorithm.make(seconds * 1_000 + u64::from(nanoseconds) / 1_000_000);
                // If the head is full, the request continues without the field, but with its id.
                let _ = exchange.request.headers.set(&self.header_name, id.as_bytes());
                id.into()
            }
        };
        if self.include_in_response {
            let given = &mut exchange.state::<AssignedRequestId>().0;
            given.clear();
            given.extend_from_slice(id.as_bytes());
        }
        exchange.request_id.set(id);
        Flow::Continue
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        if !self.include_in_response
            || exchange.response.headers.get(&self.header_name).is_some_and(|value| !value.is_empty())
        {
            return ResponseStep::Done;
        }
        let given = std::mem::take(&mut exchange.state::<AssignedRequestId>().0);
        if !given.is_empty() {
            // A full response head is no reason to fail the response.
            let _ = exchange.response.headers.set(&self.header_name, &given);
        }
        ResponseStep::Done
    }
}

impl RequestIdAlgorithm {
    fn make(&self, unix_ms: u64) -> String {
        match self {
            RequestIdAlgorithm::Uuid => {
                uuid::Builder::from_random_bytes(random_bytes()).into_uuid().to_string()
            }
            RequestIdAlgorithm::Nanoid => {
                let bits = u128::from_be_bytes(random_bytes());
                let digit = |place: u32| char::from(NANOID_ALPHABET[(bits >> (6 * place)) as usize & 0x3f]);
                (0..NANOID_LENGTH).map(digit).collect()
            }
            RequestIdAlgorithm::Range { length, characters } => {
                let pick = |_| {
                    // The high half of a product: even enough for any set that fits a configuration.
                    let index = (u128::from(random_u64()) * characters.len() as u128) >> 64;
                    char::from(characters[index as usize])
                };
                (0..*length).map(pick).collect()
            }
            RequestIdAlgorithm::Ksuid => ksuid(unix_ms / 1_000, random_bytes()),
            RequestIdAlgorithm::UuidV7 => {
                let random: [u8; 16] = random_bytes();
                let random = random.first_chunk().expect("sixteen bytes begin with ten");
                uuid::Builder::from_unix_timestamp_millis(unix_ms, random).into_uuid().to_string()
            }
        }
    }
}

/// Four bytes of time and sixteen at random, as one number in base 62.
fn ksuid(unix_seconds: u64, payload: [u8; 16]) -> String {
    let seconds = unix_seconds.saturating_sub(KSUID_EPOCH) as u32;
    let mut number = [0; 20];
    number[..4].copy_from_slice(&seconds.to_be_bytes());
    number[4..].copy_from_slice(&payload);
    let mut text = [b'0'; KSUID_LENGTH];
    for digit in text.iter_mut().rev() {
        let mut remainder = 0_u32;
        for byte in &mut number {
            let value = remainder << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            remainder = value % 62;
        }
        *digit = BASE62[remainder as usize];
    }
    text.iter().copied().map(char::from).collect()
}

fn random_bytes() -> [u8; 16] {
    (u128::from(random_u64()) << 64 | u128::from(random_u64())).to_be_bytes()
}

const HEADER_NAME_DEFAULT: &str = "X-Request-Id";
/// Limited, because an id is a field of request and response and must leave room for other fields.
const RANGE_LENGTH_MAX: usize = 1024;
/// The contract's default, which has a second `G` in the place of the `J`.
const RANGE_CHAR_SET_DEFAULT: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIGKLMNOPQRSTUVWXYZ0123456789";
const NANOID_LENGTH: u32 = 21;
const NANOID_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
/// The second that ksuids count from: 2014-05-13T16:53:20Z.
const KSUID_EPOCH: u64 = 1_400_000_000;
/// Digits of the largest 160-bit number in base 62.
const KSUID_LENGTH: usize = 27;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, configuration_check, decide, lines, respond};
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({}), None);
        check(json!({"header_name": "X-Id", "include_in_response": false, "algorithm": "ksuid"}), None);
        check(json!({"algorithm": "range_id", "range_id": {"char_set": "aeiou1", "length": 6}}), None);
        check(json!({"algorithm": "range_id", "range_id": {}}), None);
        check(json!({"algorithm": "snowflake"}), Some("algorithm"));
        check(json!({"include_in_response": "bad_type"}), Some("include_in_response"));
        check(json!({"header_name": ""}), Some("header_name"));
        check(json!({"header_name": "X Id"}), Some("header_name"));
        check(json!({"range_id": {"length": 5}}), Some("length"));
        check(json!({"range_id": {"char_set": "abcde"}}), Some("char_set"));
        check(json!({"algorithm": "range_id", "range_id": {"length": 4096}}), Some("the most is 1024"));
        check(
            json!({"algorithm": "range_id", "range_id": {"char_set": "abc\r\ndef"}}),
            Some("visible ASCII"),
        );
        check(json!({"algorithm": "range_id", "range_id": {"char_set": "äöüabc"}}), Some("visible ASCII"));
        check(json!({"header": "X-Id"}), Some("header"));
    }

    /// Sends a request through both phases and returns the field as the node, the client and the log see it.
    fn seen(config: &Value, request_field: &str, response: &[(&str, &str)]) -> (String, Vec<String>, String) {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, config);
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{request_field}\r\n");
        let mut exchange = scene.exchange(head.as_bytes());
        assert!(decide(plugin.rewrite(&mut exchange)).is_none());
        respond(&mut exchange, 200, response);
        exchange::testing::finish(plugin.response_head(&mut exchange));
        let name = config["header_name"].as_str().unwrap_or(HEADER_NAME_DEFAULT);
        let node = String::from_utf8(exchange.request.headers.get(name).unwrap().to_vec()).unwrap();
        (node, lines(&exchange.response.headers), exchange.request_id.get().to_owned())
    }

    #[test]
    fn received_id_is_kept() {
        let check = |config: Value, field: &str, response: &[(&str, &str)], expected: &[&str]| {
            let (node, client, log) = seen(&config, field, response);
            assert_eq!((&*node, &*log), ("mine", "mine"));
            assert_eq!(client, expected, "{config}");
        };
        check(json!({}), "x-request-id: mine\r\n", &[], &["X-Request-Id: mine"]);
        check(json!({"header_name": "X-A"}), "X-A: mine\r\n", &[("X-A", "")], &["X-A: mine"]);
        check(json!({}), "X-Request-Id: mine\r\n", &[("X-Request-Id", "node")], &["X-Request-Id: node"]);
        check(json!({"include_in_response": false}), "X-Request-Id: mine\r\n", &[], &[]);
    }

    #[test]
    fn generated_ids_have_their_format() {
        let check = |config: Value, length: usize, alphabet: &str| {
            for field in ["", "X-Request-Id:\r\n"] {
                let (node, client, log) = seen(&config, field, &[]);
                assert_eq!(client, [format!("X-Request-Id: {node}")]);
                assert_eq!(log, node);
                assert_eq!(node.len(), length, "{node}");
                assert!(node.chars().all(|character| alphabet.contains(character)), "{node}");
                assert_ne!(node, seen(&config, field, &[]).0);
            }
        };
        let word = std::str::from_utf8(NANOID_ALPHABET).unwrap();
        check(json!({}), 36, "0123456789abcdef-");
        check(json!({"algorithm": "uuidv7"}), 36, "0123456789abcdef-");
        check(json!({"algorithm": "nanoid"}), 21, word);
        check(json!({"algorithm": "ksuid"}), 27, word);
        check(json!({"algorithm": "range_id"}), 16, RANGE_CHAR_SET_DEFAULT);
        check(
            json!({"algorithm": "range_id", "range_id": {"length": 40, "char_set": "abcdef"}}),
            40,
            "abcdef",
        );
        assert_eq!(uuid::Uuid::parse_str(&RequestIdAlgorithm::Uuid.make(0)).unwrap().get_version_num(), 4);
        let sorting = RequestIdAlgorithm::UuidV7.make(0x0123_4567_89ab);
        assert!(sorting.starts_with("01234567-89ab-7"), "{sorting}");
    }

    #[test]
    fn ksuids_follow_their_specification() {
        assert_eq!(ksuid(0, [0; 16]), "000000000000000000000000000");
        assert_eq!(ksuid(KSUID_EPOCH + u64::from(u32::MAX), [0xff; 16]), "aWgEPTl1tmebfsQzFP4bxwgy80V");
        let earlier = ksuid(1_700_000_000, [0xff; 16]);
        assert!(earlier < ksuid(1_700_000_001, [0; 16]));
    }
}
