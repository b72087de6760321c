//! Environment variables that the kubelet sets for each Service in a pod's namespace. For a Service
//! `weir-admin` they begin with `WEIR_ADMIN_` and look like misspelt settings. Knows no setting.

use std::net::IpAddr;

/// Whether the kubelet could have set `name` to that value. Name and value both have to fit, so that a port
/// number in `WEIR_ADMIN_PORT`, which the kubelet never sets, is still reported.
///
/// For the Service `weir-admin` with port 9180 the kubelet sets `WEIR_ADMIN_SERVICE_HOST`,
/// `WEIR_ADMIN_SERVICE_PORT`, `WEIR_ADMIN_SERVICE_PORT_<PORT'S NAME>`, `WEIR_ADMIN_PORT`,
/// `WEIR_ADMIN_PORT_9180_TCP`, and the last one followed by `_PROTO`, `_PORT` and `_ADDR`.
pub(super) fn is_service_variable(name: &str, value: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    match words[..] {
        ["WEIR", .., "SERVICE", "HOST"] => is_address(value),
        ["WEIR", .., "PORT", port, protocol] if is_port(port) && is_protocol(protocol) => is_url(value),
        ["WEIR", .., "PORT", port, protocol, part] if is_port(port) && is_protocol(protocol) => match part {
            "PROTO" => is_protocol(value),
            "PORT" => is_port(value),
            "ADDR" => is_address(value),
            _ => false,
        },
        ["WEIR", ..] if words.windows(2).any(|pair| pair == ["SERVICE", "PORT"]) => is_port(value),
        ["WEIR", .., "PORT"] => is_url(value),
        _ => false,
    }
}

fn is_address(text: &str) -> bool {
    text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

fn is_protocol(text: &str) -> bool {
    ["tcp", "udp", "sctp"].iter().any(|protocol| text.eq_ignore_ascii_case(protocol))
}

/// `tcp://10.96.0.12:9180`; IPv6 has brackets.
fn is_url(text: &str) -> bool {
    let Some((protocol, authority)) = text.split_once("://") else { return false };
    let is_endpoint =
        authority.rsplit_once(':').is_some_and(|(host, port)| is_address(host) && is_port(port));
    is_protocol(protocol) && is_endpoint
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;
    use crate::settings::table::variable_of;

    #[test]
    fn name_and_value_both_look_like_the_kubelets() {
        let check = |name: &str, value: &str, expected: bool| {
            assert_eq!(is_service_variable(name, value), expected, "{name}={value}");
        };
        for service in ["WEIR", "WEIR_ADMIN", "WEIR_ETCD", "WEIR_ACCESS_LOG", "WEIR_2"] {
            let check = |end: &str, value: &str| check(&format!("{service}{end}"), value, true);
            check("_SERVICE_HOST", "10.96.0.12");
            check("_SERVICE_HOST", "fd00::12");
            check("_SERVICE_PORT", "9180");
            check("_SERVICE_PORT_HTTP_ADMIN", "9180");
            check("_PORT", "tcp://10.96.0.12:9180");
            check("_PORT", "tcp://[fd00::12]:9180");
            check("_PORT_9180_TCP", "tcp://10.96.0.12:9180");
            check("_PORT_53_UDP", "udp://10.96.0.12:53");
            check("_PORT_9180_TCP_PROTO", "tcp");
            check("_PORT_9180_TCP_PORT", "9180");
            check("_PORT_9180_TCP_ADDR", "10.96.0.12");
        }
        check("WEIR_ADMIN_PORT", "9180", false);
        check("WEIR_ADMIN_PORT", "127.0.0.1:9180", false);
        check("WEIR_ADMIN_PORT", "http://10.96.0.12:9180", false);
        check("WEIR_ADMIN_PORT", "tcp://admin.example:9180", false);
        check("WEIR_ADMIN_SERVICE_HOST", "admin.example", false);
        check("WEIR_ADMIN_SERVICE_PORT", "http", false);
        check("WEIR_ADMIN_PORT_HTTP_TCP", "tcp://10.96.0.12:9180", false);
        check("WEIR_ADMIN_PORT_9180_TCP_NAME", "http", false);
        check("WEIR_ADMIM", "10.96.0.12", false);
        check("WEIRD_PORT", "tcp://10.96.0.12:9180", false);
    }

    #[test]
    fn no_setting_has_such_a_name() {
        let values = ["10.96.0.12", "9180", "tcp://10.96.0.12:9180", "tcp"];
        for name in SETTINGS.iter().flat_map(|setting| [Some(setting.name), setting.short_name]).flatten() {
            let variable = variable_of(name);
            assert!(!values.iter().any(|value| is_service_variable(&variable, value)), "{variable}");
        }
    }
}
