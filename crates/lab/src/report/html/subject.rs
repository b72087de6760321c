//! Why the subject of a run has no number in a scenario, in a few words for a chart.

use crate::report::headline::SUBJECT;
use crate::result::{RunReport, ScenarioResult};
use crate::scenario::ScenarioProtocol;

/// `None` if the subject was measured, or is no part of the run.
pub(super) fn absence(report: &RunReport, result: &ScenarioResult) -> Option<String> {
    let facts = report.contenders.iter().find(|facts| facts.definition.name == SUBJECT)?;
    let found = result.contenders.iter().find(|contender| contender.name == SUBJECT);
    if found.is_some_and(|contender| !contender.runs.is_empty()) {
        return None;
    }
    let version = &report.weir;
    let protocol = result.scenario.protocol;
    if !facts.definition.protocols.contains(&protocol) {
        let what = match protocol {
            ScenarioProtocol::Http => "HTTP without TLS",
            ScenarioProtocol::Https => "TLS",
            ScenarioProtocol::Http2 => "HTTP/2",
            ScenarioProtocol::H2c => "HTTP/2 without TLS",
            ScenarioProtocol::Grpc => "gRPC",
            ScenarioProtocol::Http3 => "HTTP/3",
            ScenarioProtocol::Websocket => "WebSocket",
            ScenarioProtocol::Tcp => "TCP",
            ScenarioProtocol::Udp => "UDP",
            ScenarioProtocol::TlsByName => "TLS by name",
        };
        return Some(format!("Weir {version} has no {what}"));
    }
    let reason = found.and_then(|contender| contender.absent.clone()).or_else(|| facts.absent.clone());
    Some(match reason {
        Some(reason) => format!("Weir {version}: {reason}"),
        None => "Weir did not take part".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn reason_of_absence_is_short() {
        let mut report = sample::small(1, 3, 1.0);
        assert_eq!(absence(&report, &report.scenarios[0]), None, "it was measured");
        let weir = report.scenarios[0].contenders.iter_mut().find(|one| one.name == SUBJECT).unwrap();
        weir.runs.clear();
        weir.absent = Some("died in round 1".to_owned());
        let reason = |report: &RunReport| absence(report, &report.scenarios[0]).unwrap();
        assert_eq!(reason(&report), "Weir 0.1.0: died in round 1");
        report.scenarios[0].contenders.retain(|one| one.name != SUBJECT);
        assert_eq!(reason(&report), "Weir did not take part");
        for (protocol, expected) in [
            (ScenarioProtocol::Https, "Weir 0.1.0 has no TLS"),
            (ScenarioProtocol::Http2, "Weir 0.1.0 has no HTTP/2"),
        ] {
            report.scenarios[0].scenario.protocol = protocol;
            assert_eq!(reason(&report), expected);
        }
        report.contenders.retain(|facts| facts.definition.name != SUBJECT);
        assert_eq!(absence(&report, &report.scenarios[0]), None, "the run is not about it");
    }
}
