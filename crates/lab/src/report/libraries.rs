//! The TLS libraries of the contenders, as a note beside handshakes: a handshake is mostly the library's
//! work, and another version of it may be much faster. It reads version texts; how they are made is in the
//! start scripts.

use crate::result::{RunReport, ScenarioResult};

/// The note of a scenario in which each connection carries one request after its handshake; `None` for
/// others.
pub(super) fn note_tls_libraries(report: &RunReport, result: &ScenarioResult) -> Option<String> {
    let scenario = &result.scenario;
    if !scenario.protocol.is_encrypted() || scenario.load.keep_alive {
        return None;
    }
    let measured = result.contenders.iter().filter(|one| !one.runs.is_empty());
    let libraries: Vec<_> = measured.map(|one| (&one.name, library(report, &one.name))).collect();
    if libraries.iter().all(|(_, library)| library.is_none()) {
        return None;
    }
    let phrases =
        libraries.iter().map(|(name, library)| format!("{name} {}", library.unwrap_or("does not tell")));
    Some(format!("TLS libraries: {}.", phrases.collect::<Vec<_>>().join(", ")))
}

/// The library in the version text of a contender: the part after its last comma. Texts of earlier results
/// have none.
fn library<'a>(report: &'a RunReport, name: &str) -> Option<&'a str> {
    let facts = report.contenders.iter().find(|facts| facts.definition.name == name)?;
    Some(facts.version.as_deref()?.rsplit_once(", ")?.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::scenario::ScenarioProtocol;

    #[test]
    fn handshakes_name_the_libraries() {
        let mut report = sample::small(1, 3, 1.0);
        for facts in &mut report.contenders {
            facts.version = match facts.definition.name.as_str() {
                "nginx" => Some("nginx/1.22.1, OpenSSL 3.0.19".to_owned()),
                name => Some(format!("{name} 1")),
            };
        }
        assert_eq!(note_tls_libraries(&report, &report.scenarios[0]), None, "clear text");
        let scenario = &mut report.scenarios[0].scenario;
        scenario.protocol = ScenarioProtocol::Https;
        assert_eq!(note_tls_libraries(&report, &report.scenarios[0]), None, "kept connections");
        report.scenarios[0].scenario.load.keep_alive = false;
        let note = note_tls_libraries(&report, &report.scenarios[0]).unwrap();
        assert!(note.starts_with("TLS libraries: ") && note.contains("nginx OpenSSL 3.0.19"), "{note}");
        assert!(note.contains("weir does not tell"), "{note}");
        report.scenarios[0].contenders.clear();
        assert_eq!(note_tls_libraries(&report, &report.scenarios[0]), None, "nothing was measured");
    }
}
