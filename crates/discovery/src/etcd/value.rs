//! The value of one key of etcd as an instance, in the forms that services write: an object with host and
//! port, an object with an address (gRPC's naming), a list of URLs (Kratos), or plain `HOST:PORT` (go-zero).
//! It does not ask.

use model::discovery::ServiceInstance;
use serde_json::Value;

use crate::parts::{metadata, parse_host, parse_weight, port, read_message, shortened};

/// The instance of a value; none if it says that it is out of service. `is_secure` chooses among URLs.
///
/// # Errors
/// The value has none of the forms.
pub(super) fn read_etcd_instance(
    value: &[u8],
    is_secure: bool,
    default_weight: u32,
) -> Result<Option<ServiceInstance>, String> {
    let text = std::str::from_utf8(value).map_err(|_| "a value is no text".to_owned())?.trim();
    let fields: Value = match text.starts_with('{') {
        true => read_message(text.as_bytes()).map_err(|error| format!("a value is no JSON: {error}"))?,
        false => return at(text, default_weight).map(Some),
    };
    let first =
        |names: &[&str]| names.iter().find_map(|name| fields.get(*name).filter(|value| !value.is_null()));
    let status = first(&["status"]).and_then(Value::as_str);
    if status.is_some_and(|status| !status.eq_ignore_ascii_case("up"))
        || first(&["enabled"]) == Some(&Value::Bool(false))
    {
        return Ok(None);
    }
    let weight = parse_weight(first(&["weight", "Weight"]), default_weight)?;
    let facts = metadata(first(&["metadata", "Metadata"]));
    let name = first(&["host", "ip", "address", "Addr", "addr"]).and_then(Value::as_str);
    let mut instance = match (name, first(&["port", "Port"]), first(&["endpoints"])) {
        (Some(name), Some(number), _) => ServiceInstance {
            host: parse_host(name)?,
            port: port(Some(number))?,
            ..ServiceInstance::default()
        },
        (Some(address), None, _) => at(address, weight)?,
        (None, _, Some(urls)) => at(url(urls, is_secure)?, weight)?,
        (None, _, None) => {
            return Err("a value has neither `host` with `port`, `Addr`, nor `endpoints`".to_owned());
        }
    };
    instance.weight = weight;
    instance.metadata = facts;
    Ok(Some(instance))
}

/// `HOST:PORT`, or a URL with both.
fn at(address: &str, weight: u32) -> Result<ServiceInstance, String> {
    let authority = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    let fault = || format!("`{}` is no HOST:PORT", shortened(address));
    let (name, number) = authority.rsplit_once(':').ok_or_else(fault)?;
    let number = number.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(fault)?;
    // An IPv6 address without brackets would lose its last group.
    if name.contains(':') && !name.starts_with('[') {
        return Err(fault());
    }
    Ok(ServiceInstance { host: parse_host(name)?, port: number, weight, ..ServiceInstance::default() })
}

/// The first URL of HTTP, else the first one of gRPC; with TLS where that is wanted.
fn url(urls: &Value, is_secure: bool) -> Result<&str, String> {
    let urls: Vec<&str> = urls.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let has_tls = |url: &str| {
        url.starts_with("https://") || url.starts_with("grpcs://") || url.contains("isSecure=true")
    };
    let of = |scheme: &str| urls.iter().find(|url| url.starts_with(scheme) && has_tls(url) == is_secure);
    of("http").or_else(|| of("grpc")).copied().ok_or_else(|| {
        let kind = if is_secure { "with" } else { "without" };
        format!("`endpoints` has no URL of HTTP or gRPC {kind} TLS")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::show_instances;

    fn read(value: &str) -> Result<Option<ServiceInstance>, String> {
        read_etcd_instance(value.as_bytes(), false, 100)
    }

    #[test]
    fn all_forms_are_read() {
        for (value, expected) in [
            ("10.0.0.1:80", "10.0.0.1:80 100"),
            ("[::1]:80\n", "::1:80 100"),
            (r#"{"host":"10.0.0.1","port":80,"weight":7}"#, "10.0.0.1:80 7"),
            (r#"{"ip":"10.0.0.1","port":"80"}"#, "10.0.0.1:80 100"),
            (r#"{"Op":0,"Addr":"10.0.0.1:80","Metadata":null}"#, "10.0.0.1:80 100"),
            (
                r#"{"endpoints":["grpc://10.0.0.1:90","http://10.0.0.1:80?isSecure=false"]}"#,
                "10.0.0.1:80 100",
            ),
        ] {
            assert_eq!(show_instances(&[read(value).unwrap().unwrap()]), [expected], "{value}");
        }
        let secure = read_etcd_instance(br#"{"endpoints":["http://h:80","https://h:443"]}"#, true, 1)
            .unwrap()
            .unwrap();
        assert_eq!(show_instances(&[secure]), ["h:443 1"]);
    }

    #[test]
    fn metadata_and_status_are_used() {
        let found = read(r#"{"host":"h","port":80,"status":"up","metadata":{"zone":"a"}}"#).unwrap().unwrap();
        assert_eq!(found.metadata.get("zone").map(|zone| &**zone), Some("a"));
        assert_eq!(read(r#"{"host":"h","port":80,"status":"DOWN"}"#), Ok(None));
        assert_eq!(read(r#"{"host":"h","port":80,"enabled":false}"#), Ok(None));
    }

    #[test]
    fn faulty_values_have_a_reason() {
        for value in [
            "",
            "h",
            "h:",
            ":80",
            "h:0",
            "h:99999",
            "a b:80",
            "::1:80",
            "{",
            "{}",
            r#"{"host":"h"}"#,
            r#"{"endpoints":[]}"#,
        ] {
            assert!(read(value).is_err(), "{value}");
        }
        assert!(read_etcd_instance(&[0xff], false, 1).is_err());
        assert!(read(r#"{"host":"h","port":80,"weight":-1}"#).is_err());
    }
}
