//! `weir explain --tcp`: the stream route that a session would get. The question, and the text of the record
//! for a terminal.

use std::fmt::Write;

use model::report::{ExplainSession, SessionTransport};
use serde::Deserialize;

use super::journey::Journey;
use crate::terminal::Paint;

/// The stream route that a session gets, and the reasons.
#[derive(Debug, Deserialize)]
pub(super) struct SessionRecord {
    revision: Option<u64>,
    matched: Option<MatchedStreamRoute>,
    /// Why the route serves nothing, if that is so.
    closed: Option<String>,
    /// The first bytes that are awaited before the route is found.
    #[serde(default)]
    awaits: Vec<String>,
    /// Every stream route, the most precise first.
    #[serde(default)]
    considered: Vec<StreamRouteCandidate>,
    /// The destination.
    #[serde(flatten)]
    journey: Journey,
}

#[derive(Debug, Deserialize)]
struct MatchedStreamRoute {
    id: String,
    name: Option<String>,
    service_id: Option<String>,
    #[serde(default)]
    plugins: Vec<String>,
    target: String,
}

#[derive(Debug, Deserialize)]
struct StreamRouteCandidate {
    id: String,
    name: Option<String>,
    verdict: String,
    by: Option<String>,
}

impl SessionRecord {
    /// The record as lines for a terminal.
    pub(super) fn render(&self, session: &ExplainSession, paint: Paint) -> String {
        let mut text = String::new();
        let mut line = |label: &str, value: &str| {
            let _ = writeln!(text, "{} {value}", paint.faint(&format!("{label:<9}")));
        };
        line("session", &format!("{} {}", session.local, session.transport.as_str()));
        line("client", &session.remote_addr.to_string());
        if let Some(name) = &session.sni {
            line("sni", name);
        }
        if !session.alpn.is_empty() {
            line("alpn", &session.alpn.join(", "));
        }
        if let Some(first) = &session.first {
            line("first", first);
        }
        if let Some(revision) = self.revision {
            line("revision", &revision.to_string());
        }
        if !self.awaits.is_empty() && session.transport != SessionTransport::Udp {
            line("waits for", &format!("first bytes of the client: {}", self.awaits.join(", ")));
        }
        match &self.matched {
            Some(MatchedStreamRoute { id, name, service_id, plugins, target }) => {
                let name = name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
                line("route", &format!("{}{name}", paint.good(id)));
                if let Some(service) = service_id {
                    line("service", service);
                }
                if !plugins.is_empty() {
                    line("plugins", &plugins.join(", "));
                }
                match target.as_str() {
                    "http" => line("goes to", "the routes of HTTP"),
                    "none" => line("goes to", &paint.bad("no upstream, unless a plugin chooses one")),
                    _ => {}
                }
            }
            None => line("route", &paint.bad("none: the connection is closed")),
        }
        if let Some(reason) = &self.closed {
            line("answer", &paint.bad(&format!("the connection is closed: {reason}")));
        }
        self.render_candidates(&mut text, paint);
        self.journey.render(self.considered.len(), &mut text, paint);
        text
    }

    fn render_candidates(&self, text: &mut String, paint: Paint) {
        if self.considered.is_empty() {
            text.push_str("\nThere are no stream routes.\n");
            return;
        }
        let width = |heading: &str, cell: fn(&StreamRouteCandidate) -> &str| {
            let cells = self.considered.iter().map(|one| cell(one).chars().count());
            cells.chain([heading.len()]).max().unwrap_or(0)
        };
        let (id, name) =
            (width("STREAM ROUTE", |one| &one.id), width("NAME", StreamRouteCandidate::shown_name));
        let heading = format!("{:<id$}  {:<name$}  VERDICT", "STREAM ROUTE", "NAME");
        let _ = writeln!(text, "\n{}", paint.faint(&heading));
        for candidate in &self.considered {
            let verdict = candidate.verdict_text();
            let verdict = if candidate.verdict == "matched" { paint.good(&verdict) } else { verdict };
            let _ = writeln!(text, "{:<id$}  {:<name$}  {verdict}", candidate.id, candidate.shown_name());
        }
    }
}

impl StreamRouteCandidate {
    fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or("-")
    }

    /// The verdict in words.
    fn verdict_text(&self) -> String {
        match (self.verdict.as_str(), &self.by) {
            ("matched", _) => "matched".to_owned(),
            ("server_port", _) => "lost: its server_port is another one".to_owned(),
            ("transport", _) => "lost: the scheme of its upstream is for other sessions".to_owned(),
            ("first_bytes", Some(plain)) => {
                format!("lost: stream route {plain} serves this port without first bytes")
            }
            ("server_addr", _) => "lost: its server_addr does not hold the address".to_owned(),
            ("remote_addr", _) => "lost: its remote_addr does not hold the client".to_owned(),
            ("sni", _) => "lost: its sni is not that of the client".to_owned(),
            ("alpn", _) => "lost: the client offers none of its alpn".to_owned(),
            ("sniff", _) => "lost: the first bytes are of another protocol".to_owned(),
            ("outranked", Some(winner)) => format!("lost: stream route {winner} is more precise"),
            (other, _) => format!("lost: {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn session() -> ExplainSession {
        let question = json!({ "local": "127.0.0.1:9100", "sni": "db.test", "alpn": ["h2"] });
        serde_json::from_value(question).unwrap()
    }

    #[test]
    fn match_and_losers_are_rendered() {
        let record = json!({
            "revision": 3,
            "matched": {"id": "7", "name": "db", "service_id": null, "plugins": ["ip-restriction"], "target": "upstream"},
            "closed": null,
            "considered": [
                {"id": "7", "name": "db", "verdict": "matched", "by": null},
                {"id": "long-name", "name": null, "verdict": "remote_addr", "by": null},
                {"id": "9", "name": null, "verdict": "outranked", "by": "7"},
                {"id": "names", "name": null, "verdict": "first_bytes", "by": "7"},
                {"id": "udp", "name": null, "verdict": "transport", "by": null},
            ],
            "awaits": ["client_hello", "ssh"],
            "considered_total": 3,
            "upstream": {"id": "db", "type": "roundrobin", "candidates": [
                {"address": "127.0.0.1:5432", "state": "usable", "share": 100.0},
            ]},
        });
        let record: SessionRecord = serde_json::from_value(record).unwrap();
        let expected = "\
session   127.0.0.1:9100 tcp
client    127.0.0.1
sni       db.test
alpn      h2
revision  3
waits for first bytes of the client: client_hello, ssh
route     7 (db)
plugins   ip-restriction

STREAM ROUTE  NAME  VERDICT
7             db    matched
long-name     -     lost: its remote_addr does not hold the client
9             -     lost: stream route 7 is more precise
names         -     lost: stream route 7 serves this port without first bytes
udp           -     lost: the scheme of its upstream is for other sessions

upstream  db (roundrobin)
          127.0.0.1:5432  usable     100 %
";
        let rendered = record.render(&session(), Paint::Plain);
        assert_eq!(rendered, expected, "\n{rendered}");
    }

    #[test]
    fn session_without_a_route_is_told_closed() {
        let record: SessionRecord =
            serde_json::from_value(json!({ "matched": null, "considered": [] })).unwrap();
        let rendered = record.render(&session(), Paint::Plain);
        assert!(rendered.contains("route     none: the connection is closed\n"), "{rendered}");
        assert!(rendered.ends_with("There are no stream routes.\n"), "{rendered}");
    }
}
