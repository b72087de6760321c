//! Groups of scenarios on a page. A stored run has no groups, so the group follows from the load of a
//! scenario; the name of a scenario decides nothing.

use crate::result::{RunReport, ScenarioResult};
use crate::scenario::{Scenario, ScenarioProtocol, Tool};

use super::summary::DIRECT;

/// A heading, in the order of the page.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ScenarioGroup {
    /// Small answers on kept connections.
    Small,
    /// One request a connection.
    NewConnections,
    /// Answers of 1,000 bytes or more.
    Downloads,
    /// Requests with a body.
    Uploads,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2, over TLS or in clear text.
    Http2,
    /// Calls of gRPC.
    Grpc,
    /// HTTP/3.
    Http3,
    /// Messages of WebSocket.
    WebSocket,
    /// Bytes and datagrams.
    Layer4,
    /// Further routes beside the measured one.
    Routes,
    /// The configuration changes meanwhile.
    Changes,
    /// Idle or slow clients beside the load.
    Beside,
    /// The origin delays or fails.
    Origins,
    /// Requests are due at a given rate.
    Rate,
    /// Loads of published articles.
    Published,
    /// All contenders at the same time.
    Together,
    /// Forwarders that differ in threads and buffers only.
    ThreadModels,
}

impl ScenarioGroup {
    /// The group of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let load = &scenario.load;
        let answer_bytes = load
            .path
            .strip_prefix("/bytes/")
            .and_then(|bytes| bytes.parse().ok())
            .or(load.expect.bytes)
            .unwrap_or_default();
        let origin = ["/delay/", "/slow/", "/flaky/"].iter().any(|path| load.path.starts_with(path));
        match scenario.protocol {
            _ if scenario.together => Self::Together,
            _ if scenario.baseline.as_deref() == Some(DIRECT) => Self::ThreadModels,
            ScenarioProtocol::Https => Self::Tls,
            ScenarioProtocol::Http2 | ScenarioProtocol::H2c => Self::Http2,
            ScenarioProtocol::Grpc => Self::Grpc,
            ScenarioProtocol::Http3 => Self::Http3,
            ScenarioProtocol::Websocket => Self::WebSocket,
            ScenarioProtocol::Tcp | ScenarioProtocol::Udp | ScenarioProtocol::TlsByName => Self::Layer4,
            _ if scenario.changes_per_second > 0.0 => Self::Changes,
            _ if scenario.routes > 0 => Self::Routes,
            _ if scenario.idle_connections > 0 || scenario.slow_clients > 0 => Self::Beside,
            _ if load.rate.is_some() || load.rate_share.is_some() => Self::Rate,
            _ if load.tool == Tool::Ab || load.threads > 1 => Self::Published,
            _ if origin => Self::Origins,
            _ if load.body_bytes > 0 => Self::Uploads,
            _ if answer_bytes >= DOWNLOAD_LEAST_BYTES => Self::Downloads,
            _ if !load.keep_alive => Self::NewConnections,
            ScenarioProtocol::Http => Self::Small,
        }
    }

    /// For headings.
    pub fn title(self) -> &'static str {
        match self {
            Self::Small => "Small answers on kept connections",
            Self::NewConnections => "A new connection for each request",
            Self::Downloads => "Response bodies",
            Self::Uploads => "Request bodies",
            Self::Tls => "TLS",
            Self::Http2 => "HTTP/2",
            Self::Grpc => "gRPC",
            Self::Http3 => "HTTP/3",
            Self::WebSocket => "WebSocket",
            Self::Layer4 => "Layer 4: TCP, UDP, TLS by name",
            Self::Routes => "Many routes",
            Self::Changes => "Changes under load",
            Self::Beside => "Idle and slow clients",
            Self::Origins => "Slow and failing origins",
            Self::Rate => "A given rate",
            Self::Published => "As in published articles",
            Self::Together => "All gateways at once",
            Self::ThreadModels => "Thread models",
        }
    }
}

/// The groups that a run has, each with the indexes of its scenarios in the order of the run.
pub fn groups(report: &RunReport) -> Vec<(ScenarioGroup, Vec<usize>)> {
    let mut groups: Vec<(ScenarioGroup, Vec<usize>)> = Vec::new();
    let of = |(index, result): (usize, &ScenarioResult)| (ScenarioGroup::of(&result.scenario), index);
    let mut indexes: Vec<(ScenarioGroup, usize)> = report.scenarios.iter().enumerate().map(of).collect();
    indexes.sort_unstable();
    for (group, index) in indexes {
        match groups.last_mut() {
            Some((last, members)) if *last == group => members.push(index),
            _ => groups.push((group, vec![index])),
        }
    }
    groups
}

/// A response of this size or more is a download; a smaller one costs about as much as an empty one.
const DOWNLOAD_LEAST_BYTES: u64 = 1000;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::report::sample;

    #[test]
    fn each_shipped_scenario_has_its_group() {
        let rows: &[(&str, ScenarioGroup)] = &[
            ("small", ScenarioGroup::Small),
            ("connections-1000", ScenarioGroup::Small),
            ("stripped-prefix", ScenarioGroup::Small),
            ("ten-plugins", ScenarioGroup::Small),
            ("tracing", ScenarioGroup::Small),
            ("short-connections", ScenarioGroup::NewConnections),
            ("page", ScenarioGroup::Downloads),
            ("down-10mb", ScenarioGroup::Downloads),
            ("up-1kb", ScenarioGroup::Uploads),
            ("tls-handshake-full", ScenarioGroup::Tls),
            ("http2-small", ScenarioGroup::Http2),
            ("h2c-c32-m10", ScenarioGroup::Http2),
            ("h2-rate-16000", ScenarioGroup::Http2),
            ("grpc-unary-c32-m10", ScenarioGroup::Grpc),
            ("h3-1mb", ScenarioGroup::Http3),
            ("websocket", ScenarioGroup::WebSocket),
            ("tcp-messages", ScenarioGroup::Layer4),
            ("udp-datagrams", ScenarioGroup::Layer4),
            ("tls-by-name", ScenarioGroup::Layer4),
            ("routes-1", ScenarioGroup::Routes),
            ("changes", ScenarioGroup::Changes),
            ("changes-10000-routes", ScenarioGroup::Changes),
            ("idle-10000", ScenarioGroup::Beside),
            ("slow-clients-500", ScenarioGroup::Beside),
            ("slow-origin-20", ScenarioGroup::Origins),
            ("failing-origin", ScenarioGroup::Origins),
            ("open-loop-half", ScenarioGroup::Rate),
            ("ab-50000-200-page", ScenarioGroup::Published),
            ("wrk-12-100", ScenarioGroup::Published),
            ("all-at-once", ScenarioGroup::Together),
            ("thread-models-layer-4", ScenarioGroup::ThreadModels),
        ];
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/scenarios");
        for (name, expected) in rows {
            let text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
            let scenario = Scenario::parse(name, &text).unwrap();
            assert_eq!(ScenarioGroup::of(&scenario), *expected, "{name}");
        }
    }

    #[test]
    fn groups_hold_every_scenario_once() {
        let report = sample::report();
        let groups = groups(&report);
        let mut all: Vec<usize> = groups.iter().flat_map(|(_, members)| members).copied().collect();
        assert!(groups.is_sorted_by_key(|(group, _)| *group));
        all.sort_unstable();
        assert_eq!(all, (0..report.scenarios.len()).collect::<Vec<_>>());
    }
}
