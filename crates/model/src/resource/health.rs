//! Health checks as written. Knows their defaults; checking is the gateway's.

use std::time::Duration;

use serde::Deserialize;

use super::common::on;
use crate::number;

/// The health checks of an upstream; passive ones need active ones beside them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthChecks {
    /// Checks that ask the nodes.
    pub active: ActiveChecks,
    /// Checks that watch the traffic.
    pub passive: Option<PassiveChecks>,
}

/// The protocol of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum CheckType {
    #[default]
    Http,
    Https,
    Tcp,
    /// The health service of gRPC; active checks only. Not in APISIX.
    Grpc,
}

impl CheckType {
    /// As users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CheckType::Http => "http",
            CheckType::Https => "https",
            CheckType::Tcp => "tcp",
            CheckType::Grpc => "grpc",
        }
    }
}

/// Checks that ask the nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ActiveChecks {
    /// The protocol.
    #[serde(rename = "type")]
    pub check_type: CheckType,
    /// How long an answer may take.
    #[serde(deserialize_with = "number::seconds")]
    pub timeout: Duration,
    /// How many nodes are asked at a time.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub concurrency: u32,
    /// The host name sent; none: the node's.
    pub host: Option<Box<str>>,
    /// The port asked; none: the node's.
    #[serde(deserialize_with = "number::optional_integer")]
    pub port: Option<u16>,
    /// The method asked with.
    pub http_method: Box<str>,
    /// The path asked for.
    pub http_path: Box<str>,
    /// The body sent.
    pub http_req_body: Box<str>,
    /// Whether the node's certificate is verified.
    #[serde(default = "on")]
    pub https_verify_certificate: bool,
    /// Whether HTTP checks use their connection again. Not in APISIX.
    pub reuse_connection: bool,
    /// The service that a check of type `grpc` asks about; none is the whole server. Not in APISIX.
    pub grpc_service: Option<Box<str>>,
    /// Header lines sent, `Name: value`.
    pub req_headers: Box<[Box<str>]>,
    /// The same, under the name that ADC gives them.
    pub http_request_headers: Box<[Box<str>]>,
    /// When a node is taken for up.
    pub healthy: Healthy,
    /// When a node is taken for down.
    pub unhealthy: Unhealthy,
}

impl Default for ActiveChecks {
    fn default() -> ActiveChecks {
        ActiveChecks {
            check_type: CheckType::Http,
            timeout: Duration::from_secs(1),
            concurrency: 10,
            host: None,
            port: None,
            http_method: "GET".into(),
            http_path: "/".into(),
            http_req_body: "".into(),
            https_verify_certificate: true,
            reuse_connection: false,
            grpc_service: None,
            req_headers: Box::default(),
            http_request_headers: Box::default(),
            healthy: Healthy { interval: SECOND, successes: 2, http_statuses: vec![200, 302] },
            unhealthy: Unhealthy {
                interval: SECOND,
                http_failures: 5,
                tcp_failures: 2,
                timeouts: 3,
                http_statuses: vec![429, 404, 500, 501, 502, 503, 504, 505],
            },
        }
    }
}

/// Checks that watch the traffic.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, from = "PassiveForm")]
pub struct PassiveChecks {
    /// When a node is taken for up.
    pub healthy: Healthy,
    /// When a node is taken for down.
    pub unhealthy: Unhealthy,
}

/// When a node is taken for up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "HealthyForm")]
pub struct Healthy {
    /// How often a node that is up is asked.
    pub interval: Duration,
    /// How many good answers make it up.
    pub successes: u16,
    /// The statuses of a good answer.
    pub http_statuses: Vec<u16>,
}

/// When a node is taken for down.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "UnhealthyForm")]
pub struct Unhealthy {
    /// How often a node that is down is asked.
    pub interval: Duration,
    /// How many bad answers make it down; 0: they do not count.
    pub http_failures: u16,
    /// How many failed connections make it down; 0: they do not count.
    pub tcp_failures: u16,
    /// How many answers that did not come in time make it down; 0: they do not count.
    pub timeouts: u16,
    /// The statuses of a bad answer.
    pub http_statuses: Vec<u16>,
}

const SECOND: Duration = Duration::from_secs(1);

/// Statuses that passive checks take for good, unless written otherwise.
const PASSIVE_GOOD: [u16; 19] =
    [200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 306, 307, 308];

/// The types that passive checks may be written with.
#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PassiveType {
    #[default]
    Http,
    Https,
    Tcp,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PassiveForm {
    /// Without effect, as in APISIX: every request is observed alike.
    #[serde(default, rename = "type")]
    _check_type: PassiveType,
    healthy: Option<HealthyForm>,
    unhealthy: Option<UnhealthyForm>,
}

impl From<PassiveForm> for PassiveChecks {
    fn from(form: PassiveForm) -> PassiveChecks {
        let healthy = form.healthy.unwrap_or_default();
        let unhealthy = form.unhealthy.unwrap_or_default();
        PassiveChecks {
            healthy: Healthy {
                interval: Duration::ZERO,
                successes: healthy.successes.unwrap_or(5),
                http_statuses: healthy.http_statuses.map_or_else(|| PASSIVE_GOOD.to_vec(), |list| list.0),
            },
            unhealthy: Unhealthy {
                interval: Duration::ZERO,
                http_failures: unhealthy.http_failures.unwrap_or(5),
                tcp_failures: unhealthy.tcp_failures.unwrap_or(2),
                timeouts: unhealthy.timeouts.unwrap_or(7),
                http_statuses: unhealthy.http_statuses.map_or_else(|| vec![429, 500, 503], |list| list.0),
            },
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HealthyForm {
    #[serde(deserialize_with = "number::optional_seconds")]
    interval: Option<Duration>,
    #[serde(deserialize_with = "number::optional_integer")]
    successes: Option<u16>,
    http_statuses: Option<Statuses>,
}

impl From<HealthyForm> for Healthy {
    fn from(form: HealthyForm) -> Healthy {
        let default = ActiveChecks::default().healthy;
        Healthy {
            interval: form.interval.unwrap_or(default.interval),
            successes: form.successes.unwrap_or(default.successes),
            http_statuses: form.http_statuses.map_or(default.http_statuses, |list| list.0),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UnhealthyForm {
    #[serde(deserialize_with = "number::optional_seconds")]
    interval: Option<Duration>,
    #[serde(deserialize_with = "number::optional_integer")]
    http_failures: Option<u16>,
    #[serde(deserialize_with = "number::optional_integer")]
    tcp_failures: Option<u16>,
    #[serde(deserialize_with = "number::optional_integer")]
    timeouts: Option<u16>,
    http_statuses: Option<Statuses>,
}

impl From<UnhealthyForm> for Unhealthy {
    fn from(form: UnhealthyForm) -> Unhealthy {
        let default = ActiveChecks::default().unhealthy;
        Unhealthy {
            interval: form.interval.unwrap_or(default.interval),
            http_failures: form.http_failures.unwrap_or(default.http_failures),
            tcp_failures: form.tcp_failures.unwrap_or(default.tcp_failures),
            timeouts: form.timeouts.unwrap_or(default.timeouts),
            http_statuses: form.http_statuses.map_or(default.http_statuses, |list| list.0),
        }
    }
}

#[derive(Deserialize)]
struct Statuses(#[serde(deserialize_with = "number::integers")] Vec<u16>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_differ_between_active_and_passive() {
        let checks: HealthChecks = serde_json::from_str(
            r#"{"active":{"unhealthy":{"interval":2}},"passive":{"unhealthy":{"http_failures":3}}}"#,
        )
        .unwrap();
        assert_eq!(checks.active.healthy.successes, 2);
        assert_eq!((checks.active.unhealthy.interval.as_secs(), checks.active.unhealthy.timeouts), (2, 3));
        let passive = checks.passive.unwrap();
        assert_eq!((passive.unhealthy.http_failures, passive.unhealthy.timeouts), (3, 7));
        assert_eq!(passive.healthy.successes, 5);
    }
}
