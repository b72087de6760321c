//! Answers of Nacos: the instances of a service, as its APIs of version 1, 2 and 3 send them, and the answer
//! to a login. It does not ask.

use std::fmt;
use std::time::Duration;

use model::discovery::ServiceInstance;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::http::RegistryResponse;
use crate::parts::{
    Collected, Loose, metadata, parse_host, parse_weight, port, read_answer, read_message, shortened,
};
use crate::registration::Renewal;

/// One instance. Nacos sends more fields than are used.
#[derive(Deserialize)]
struct NacosEntry {
    ip: String,
    port: Option<Value>,
    weight: Option<Value>,
    healthy: Option<bool>,
    enabled: Option<bool>,
    metadata: Option<Value>,
}

/// The answer of version 1 is a service; versions 2 and 3 put a service or a list into `data`.
#[derive(Deserialize)]
struct NacosAnswer {
    hosts: Option<Loose<NacosEntry>>,
    code: Option<i64>,
    message: Option<String>,
    data: Option<NacosData>,
}

/// A service, or the list of its instances. It is read without a copy of its whole text in between.
struct NacosData(Loose<NacosEntry>);

impl<'de> Deserialize<'de> for NacosData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NacosData, D::Error> {
        deserializer.deserialize_any(DataVisitor)
    }
}

struct DataVisitor;

impl<'de> Visitor<'de> for DataVisitor {
    type Value = NacosData;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a service or a list of instances")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<NacosData, A::Error> {
        Loose::deserialize(SeqAccessDeserializer::new(list)).map(NacosData)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NacosData, A::Error> {
        #[derive(Deserialize)]
        struct NacosHosts {
            hosts: Loose<NacosEntry>,
        }
        NacosHosts::deserialize(MapAccessDeserializer::new(map)).map(|service| NacosData(service.hosts))
    }
}

/// The rules that make an instance of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct NacosRules {
    /// Weight of an instance without one.
    pub(super) default_weight: u32,
    /// Whether the port of gRPC in the metadata is used.
    pub(super) is_grpc: bool,
}

/// The instances of a service, and the reason why some were left out.
///
/// # Errors
/// The text is no such answer, Nacos refuses, or no instance is usable.
pub(super) fn read_nacos_instances(
    text: &[u8],
    rules: NacosRules,
) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
    let answer: NacosAnswer =
        read_answer(text).map_err(|error| format!("the answer is no list of instances: {error}"))?;
    if let Some(code) = answer.code.filter(|code| !matches!(code, 0 | 200)) {
        let message = answer.message.unwrap_or_default();
        return Err(format!("Nacos answers code {code}: {}", shortened(&message)));
    }
    let Loose(entries) = match (answer.hosts, answer.data) {
        (Some(hosts), _) | (None, Some(NacosData(hosts))) => hosts,
        (None, None) => return Err("the answer has neither `hosts` nor `data`".to_owned()),
    };
    // Weights are fractions there and whole numbers here. One fraction makes hundredths of all weights of the
    // service.
    let scale =
        if entries.iter().flatten().any(|entry| has_fraction(entry.weight.as_ref())) { 100.0 } else { 1.0 };
    let mut collected = Collected::default();
    for entry in entries {
        collected.take(entry.and_then(|entry| instance(entry, rules, scale)));
    }
    collected.finish()
}

/// Whether an answer says that the service does not exist, which servers of version 3 say with status 404.
pub(super) fn is_unknown(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct NacosRefusal {
        code: i64,
    }
    text.len() <= MAX_REFUSAL_BYTES
        && read_message::<NacosRefusal>(text).is_ok_and(|refusal| refusal.code == SERVICE_NOT_EXIST)
}

/// The answer to a registration, a heartbeat or a withdrawal: the text `ok`, or an object with a code.
///
/// # Errors
/// The refusal, a sentence.
pub(super) fn renewal(reply: &RegistryResponse) -> Result<Renewal, String> {
    #[derive(Deserialize)]
    struct Coded {
        code: i64,
        message: Option<String>,
    }
    let Ok(coded) = read_message::<Coded>(&reply.body) else {
        return reply.success().map(|_| Renewal::Kept);
    };
    match coded.code {
        0 | 200 | BEAT_TAKEN => reply.success().map(|_| Renewal::Kept),
        BEAT_UNKNOWN | INSTANCE_NOT_FOUND | SERVICE_NOT_EXIST => Ok(Renewal::Lost),
        code => {
            let message = coded.message.unwrap_or_default();
            Err(format!("status {}, code {code}: {}", reply.status, shortened(&message)))
        }
    }
}

fn has_fraction(weight: Option<&Value>) -> bool {
    weight.and_then(Value::as_f64).is_some_and(|weight| weight.fract() != 0.0)
}

fn instance(entry: NacosEntry, rules: NacosRules, scale: f64) -> Result<Option<ServiceInstance>, String> {
    if entry.healthy == Some(false) || entry.enabled == Some(false) {
        return Ok(None);
    }
    let scaled = entry.weight.as_ref().and_then(Value::as_f64).map(|weight| Value::from(weight * scale));
    let grpc_port = entry.metadata.as_ref().and_then(|metadata| metadata.get("gRPC_port"));
    let port_value = grpc_port.filter(|_| rules.is_grpc).or(entry.port.as_ref());
    Ok(Some(ServiceInstance {
        host: parse_host(&entry.ip)?,
        port: port(port_value)?,
        weight: parse_weight(scaled.as_ref().or(entry.weight.as_ref()), rules.default_weight)?,
        metadata: metadata(entry.metadata.as_ref()),
        ..ServiceInstance::default()
    }))
}

/// The answer to a login.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NacosToken {
    pub(super) text: String,
    pub(super) lifetime: Duration,
}

/// The token of an answer to a login; version 3 of some servers puts it into `data`.
///
/// # Errors
/// The answer has none.
pub(super) fn read_nacos_token(text: &[u8]) -> Result<NacosToken, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NacosLogin {
        access_token: Option<String>,
        token_ttl: Option<u64>,
        data: Option<Box<NacosLogin>>,
    }
    let mut login: NacosLogin =
        read_message(text).map_err(|_| "the answer to the login is no JSON".to_owned())?;
    if login.access_token.is_none()
        && let Some(data) = login.data.take()
    {
        login = *data;
    }
    let text = login.access_token.filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES);
    let text = text.ok_or("the answer to the login has no accessToken")?;
    let seconds = login.token_ttl.unwrap_or(DEFAULT_TOKEN_S).clamp(1, MAX_TOKEN_S);
    Ok(NacosToken { text, lifetime: Duration::from_secs(seconds) })
}

/// Code of version 1 for a heartbeat of an instance that it has.
const BEAT_TAKEN: i64 = 10_200;
/// Code of version 1 for a heartbeat of an instance that it does not have.
const BEAT_UNKNOWN: i64 = 20_404;
/// Code of version 3 for the same.
const INSTANCE_NOT_FOUND: i64 = 21_003;
/// Nacos's code for a service that does not exist, and the size of an answer with a code only.
const SERVICE_NOT_EXIST: i64 = 21_008;
const MAX_REFUSAL_BYTES: usize = 4096;
/// Limit of a token; a usual one has 150 bytes.
const MAX_TOKEN_BYTES: usize = 8192;
/// The lifetime of a token that says none, Nacos's default; and the longest one.
const DEFAULT_TOKEN_S: u64 = 18_000;
const MAX_TOKEN_S: u64 = 30 * 24 * 3600;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parts::show_instances;

    const RULES: NacosRules = NacosRules { default_weight: 100, is_grpc: false };

    fn read(answer: &Value) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
        read_nacos_instances(answer.to_string().as_bytes(), RULES)
    }

    #[test]
    fn answers_of_all_versions_are_read() {
        let host = json!({"ip": "10.0.0.1", "port": 80, "weight": 1.0, "healthy": true, "enabled": true,
            "metadata": {"zone": "a"}});
        for answer in [
            json!({"name": "DEFAULT_GROUP@@a", "hosts": [host], "valid": true}),
            json!({"code": 0, "message": "success", "data": {"hosts": [host]}}),
            json!({"code": 0, "message": "success", "data": [host]}),
        ] {
            let (found, reason) = read(&answer).unwrap();
            assert_eq!(show_instances(&found), ["10.0.0.1:80 1"]);
            assert_eq!(found[0].metadata.get("zone").map(|zone| &**zone), Some("a"));
            assert_eq!(reason, None);
        }
    }

    #[test]
    fn hostile_answers_are_failures() {
        let flat = |count: usize| format!("[{}0]", "[0],".repeat(count));
        let host = |metadata: &str| format!(r#"{{"ip":"10.0.0.1","port":80,"metadata":{{"a":{metadata}}}}}"#);
        for (metadata, expected) in [(flat(60_000), "100000 values"), (flat(2_000_000), "4000000 values")] {
            for answer in [
                format!(r#"{{"hosts":[{}]}}"#, host(&metadata)),
                format!(r#"{{"code":0,"data":{{"hosts":[{}]}}}}"#, host(&metadata)),
                format!(r#"{{"code":0,"data":[{}]}}"#, host(&metadata)),
            ] {
                let error = read_nacos_instances(answer.as_bytes(), RULES).unwrap_err();
                assert!(error.contains(expected), "{error}");
            }
        }
        // Members that are not used take no memory.
        let unused = format!(r#"{{"other":{},"hosts":[{}]}}"#, flat(60_000), host("1"));
        assert_eq!(read_nacos_instances(unused.as_bytes(), RULES).unwrap().0.len(), 1);
    }

    #[test]
    fn empty_answer_differs_from_a_refusal() {
        assert!(read(&json!({"hosts": []})).unwrap().0.is_empty());
        assert!(read(&json!({"code": 0, "data": []})).unwrap().0.is_empty());
        assert!(
            read(&json!({"code": 21_002, "message": "no\nservice", "data": null}))
                .unwrap_err()
                .contains("21002")
        );
        for text in ["", "<html>", "{", "[]", "{}", "{\"hosts\":[{\"ip\":\"10.0.0.1\"", "{\"data\":7}"] {
            assert!(read_nacos_instances(text.as_bytes(), RULES).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_service_has_its_own_code() {
        assert!(is_unknown(br#"{"code":21008,"message":"service not exist","data":null}"#));
        assert!(!is_unknown(br#"{"code":0,"data":[]}"#) && !is_unknown(b"404 page"));
    }

    #[test]
    fn faulty_instances_are_left_out_with_a_reason() {
        let (found, reason) = read(&json!({"hosts": [
            {"ip": "10.0.0.1", "port": 80}, {"ip": "10.0.0.2"}, {"ip": "a b", "port": 80}, {"port": 80},
            {"ip": "10.0.0.3", "port": 80, "healthy": false}, {"ip": "10.0.0.4", "port": 80, "enabled": false}]}))
        .unwrap();
        assert_eq!(show_instances(&found), ["10.0.0.1:80 100"]);
        assert_eq!(reason.unwrap(), "3 instances are left out, the first because it has no port");
    }

    #[test]
    fn fractions_scale_all_weights_of_a_service() {
        let (found, _) = read(&json!({"hosts": [
            {"ip": "10.0.0.1", "port": 80, "weight": 0.5}, {"ip": "10.0.0.2", "port": 80, "weight": 2.0},
            {"ip": "10.0.0.3", "port": 80, "weight": 0.0}]}))
        .unwrap();
        assert_eq!(show_instances(&found), ["10.0.0.1:80 50", "10.0.0.2:80 200", "10.0.0.3:80 0"]);
    }

    #[test]
    fn port_of_grpc_is_used_for_grpc() {
        let answer = json!({"hosts": [{"ip": "10.0.0.1", "port": 80, "metadata": {"gRPC_port": "9000"}}]});
        let rules = NacosRules { is_grpc: true, ..RULES };
        let (found, _) = read_nacos_instances(answer.to_string().as_bytes(), rules).unwrap();
        assert_eq!(show_instances(&found), ["10.0.0.1:9000 100"]);
        assert_eq!(show_instances(&read(&answer).unwrap().0), ["10.0.0.1:80 100"]);
    }

    #[test]
    fn tokens_are_read_from_a_login() {
        let expected = NacosToken { text: "t".to_owned(), lifetime: Duration::from_secs(60) };
        let plain = json!({"accessToken": "t", "tokenTtl": 60, "globalAdmin": true});
        assert_eq!(read_nacos_token(plain.to_string().as_bytes()), Ok(expected));
        let nested = json!({"code": 0, "data": {"accessToken": "t"}});
        assert_eq!(
            read_nacos_token(nested.to_string().as_bytes()).unwrap().lifetime,
            Duration::from_secs(18_000)
        );
        for text in ["unknown user!", "{}", "{\"accessToken\":\"\"}", "{\"accessToken\":7}"] {
            assert!(read_nacos_token(text.as_bytes()).is_err(), "{text}");
        }
    }
}
