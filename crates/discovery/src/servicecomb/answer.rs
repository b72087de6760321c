//! Answers of the service-center of ServiceComb: the instances of a microservice, refusals, and the answer to
//! a login. It does not ask.

use std::collections::HashMap;

use model::discovery::ServiceInstance;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::parts::{
    Collected, Loose, metadata, parse_host, parse_weight, read_answer, read_message, shortened,
};

#[derive(Deserialize)]
struct ServiceCombAnswer {
    instances: Option<Loose<ServiceCombEntry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceCombEntry {
    #[serde(default)]
    endpoints: Vec<String>,
    status: Option<String>,
    properties: Option<Value>,
    version: Option<String>,
    data_center_info: Option<Value>,
}

/// The rules that make an instance of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceCombRules {
    /// Whether the endpoint with TLS is wanted.
    pub(super) is_secure: bool,
    pub(super) default_weight: u32,
}

/// The instances of an answer, and the reason why some were left out.
///
/// # Errors
/// The text is no such answer, or no instance is usable.
pub(super) fn read_servicecomb_instances(
    text: &[u8],
    rules: ServiceCombRules,
) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
    // An array would be read as an object without fields, which is the answer for an empty service.
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err("the answer is no JSON object".to_owned());
    }
    let answer: ServiceCombAnswer =
        read_answer(text).map_err(|error| format!("the answer is no list of instances: {error}"))?;
    let mut collected = Collected::default();
    let Some(instances) = answer.instances else {
        return if is_empty(text) {
            Ok((Vec::new(), None))
        } else {
            Err("the answer has no field `instances`".to_owned())
        };
    };
    for entry in instances.0 {
        collected.take(entry.and_then(|entry| instance(entry, rules)));
    }
    collected.finish()
}

/// Whether an answer without instances is the one for an empty service: `{}` or null `instances`. An object
/// with other fields only comes from another kind of server.
fn is_empty(text: &[u8]) -> bool {
    let fields: Result<HashMap<String, IgnoredAny>, _> = read_message(text);
    fields.is_ok_and(|fields| fields.is_empty() || fields.contains_key("instances"))
}

fn instance(entry: ServiceCombEntry, rules: ServiceCombRules) -> Result<Option<ServiceInstance>, String> {
    if entry.status.is_some_and(|status| status != "UP") {
        return Ok(None);
    }
    let (name, number) = endpoint(&entry.endpoints, rules.is_secure)?;
    let mut facts = metadata(entry.properties.as_ref());
    let written = facts.remove("weight").map(|weight| Value::String(weight.into()));
    if let Some(version) = entry.version {
        facts.entry("version".into()).or_insert_with(|| version.into());
    }
    let zone = entry.data_center_info.as_ref().and_then(|info| info.get("availableZone")?.as_str());
    if let Some(zone) = zone {
        facts.entry("zone".into()).or_insert_with(|| zone.into());
    }
    Ok(Some(ServiceInstance {
        host: parse_host(&name)?,
        port: number,
        weight: parse_weight(written.as_ref(), rules.default_weight)?,
        metadata: facts,
        ..ServiceInstance::default()
    }))
}

/// Host and port of the REST endpoint, that is `rest://`, `http://` or `https://`;
/// `rest://HOST:PORT?sslEnabled=true` has TLS. An instance that has only endpoints with TLS, or only ones
/// without, is used through those.
fn endpoint(endpoints: &[String], is_secure: bool) -> Result<(String, u16), String> {
    let has_tls = |url: &str| url.starts_with("https://") || url.contains("sslEnabled=true");
    let rest =
        |url: &&String| ["rest://", "http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    let mut usable: Vec<&String> = endpoints.iter().filter(rest).collect();
    usable.sort_by_key(|url| has_tls(url) != is_secure);
    let url = usable.first().ok_or("it has no endpoint of the kind rest")?;
    let fault = || format!("its endpoint `{}` has no HOST:PORT", shortened(url));
    let authority =
        url.split_once("://").map_or("", |(_, rest)| rest).split(['/', '?']).next().unwrap_or_default();
    let (name, number) = authority.rsplit_once(':').ok_or_else(fault)?;
    let number = number.parse().ok().filter(|number| *number != 0).ok_or_else(fault)?;
    Ok((name.to_owned(), number))
}

/// A refusal: whether it says that the service does not exist, and its text.
pub(super) fn read_servicecomb_refusal(status: u16, text: &[u8]) -> (bool, String) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ServiceCombRefusal {
        error_code: Value,
        #[serde(default)]
        error_message: String,
    }
    match read_message::<ServiceCombRefusal>(text) {
        Ok(refusal) => {
            let code =
                refusal.error_code.as_str().map_or_else(|| refusal.error_code.to_string(), str::to_owned);
            let message = format!("code {}: {}", shortened(&code), shortened(&refusal.error_message));
            (code == UNKNOWN_SERVICE, message)
        }
        Err(_) => (false, format!("status {status}")),
    }
}

/// The token of an answer to a login.
///
/// # Errors
/// The answer has none.
pub(super) fn read_servicecomb_token(text: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct ServiceCombLogin {
        token: String,
    }
    let login: ServiceCombLogin =
        read_message(text).map_err(|_| "the answer to the login has no token".to_owned())?;
    match login.token.is_empty() || login.token.len() > MAX_TOKEN_BYTES {
        true => Err("the answer to the login has no token".to_owned()),
        false => Ok(login.token),
    }
}

/// The code of the service-center for a microservice that does not exist.
const UNKNOWN_SERVICE: &str = "400012";
/// Limit of a token; a usual one has some hundred bytes.
const MAX_TOKEN_BYTES: usize = 8192;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parts::show_instances;

    fn read(answer: &Value, is_secure: bool) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
        read_servicecomb_instances(
            answer.to_string().as_bytes(),
            ServiceCombRules { is_secure, default_weight: 100 },
        )
    }

    #[test]
    fn endpoints_are_chosen_by_scheme() {
        let answer = json!({"instances": [{"instanceId": "1", "status": "UP", "version": "1.0.0",
            "endpoints": ["highway://10.0.0.1:70", "rest://10.0.0.1:443?sslEnabled=true", "rest://10.0.0.1:80"],
            "properties": {"weight": "5", "tag": "a"}, "dataCenterInfo": {"name": "d", "availableZone": "z"}}]});
        let (found, reason) = read(&answer, false).unwrap();
        assert_eq!((show_instances(&found), reason), (vec!["10.0.0.1:80 5".to_owned()], None));
        let names: Vec<&str> = found[0].metadata.keys().map(|name| &**name).collect();
        assert_eq!(names, ["tag", "version", "zone"]);
        assert_eq!(show_instances(&read(&answer, true).unwrap().0), ["10.0.0.1:443 5"]);
    }

    #[test]
    fn empty_and_faulty_answers_differ() {
        assert!(read(&json!({"instances": null}), false).unwrap().0.is_empty());
        assert!(read(&json!({}), false).unwrap().0.is_empty());
        let down = json!({"instances": [{"status": "DOWN", "endpoints": ["rest://h:80"]}]});
        assert!(read(&down, false).unwrap().0.is_empty());
        let faulty = json!({"instances": [{"status": "UP", "endpoints": ["rest://h"]}, {"status": "UP"}]});
        assert!(read(&faulty, false).unwrap_err().contains("has no HOST:PORT"));
        for text in ["", "x", "[]", "{\"instances\":[{", "{\"error\":\"no backend\"}", "{\"Instances\":null}"]
        {
            assert!(
                read_servicecomb_instances(
                    text.as_bytes(),
                    ServiceCombRules { is_secure: false, default_weight: 1 }
                )
                .is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn refusals_tell_unknown_services() {
        let unknown = br#"{"errorCode":"400012","errorMessage":"Micro-service does not exist","detail":"x"}"#;
        assert_eq!(
            read_servicecomb_refusal(400, unknown),
            (true, "code 400012: Micro-service does not exist".to_owned())
        );
        assert_eq!(
            read_servicecomb_refusal(401, br#"{"errorCode":"401201"}"#),
            (false, "code 401201:".to_owned() + " ")
        );
        assert_eq!(read_servicecomb_refusal(502, b"<html>"), (false, "status 502".to_owned()));
        assert_eq!(read_servicecomb_token(br#"{"token":"t"}"#), Ok("t".to_owned()));
        assert!(
            read_servicecomb_token(b"{}").is_err() && read_servicecomb_token(b"{\"token\":\"\"}").is_err()
        );
    }
}
