//! The decision record, as the control API sends it, and its text for a terminal. Makes no decision.
//!
//! ```json
//! {"revision": 7,
//!  "request": {"host": "api.example.com", "path": "/orders/7"},
//!  "matched": {"id": "1", "service_id": "s", "upstream_id": "u", "plugins": ["key-auth"], "params": {"id": "7"}},
//!  "considered": [{"id": "1", "name": "orders", "path": "/orders/*", "host": "*.example.com", "verdict": "matched"},
//!                 {"id": "2", "path": "/*", "verdict": "outranked", "by": "1"}]}
//! ```
//! `closed` says why the answer is 503; `unplaced` lists faulty routes that are not in the table. Verdicts:
//! `matched`, `method`, `remote_addr`, `host`, `vars`, `undecided`, `parameter`, `outranked`. A `detail` says
//! more.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use super::ExplainRequest;
use super::journey::Journey;
use crate::terminal::Paint;

/// The route that a request takes, and the reasons.
#[derive(Debug, Deserialize)]
pub(super) struct DecisionRecord {
    /// The configuration revision that the decision belongs to.
    revision: Option<u64>,
    /// The request as the router saw it.
    request: Seen,
    /// The route, if one matches.
    matched: Option<MatchedRoute>,
    /// Why the request is answered 503, if it is: the configuration that it needs is faulty.
    closed: Option<String>,
    /// Every candidate, in the order in which the router tried them.
    #[serde(default)]
    considered: Vec<RouteCandidate>,
    /// Routes outside the table, because their match is faulty.
    #[serde(default)]
    unplaced: Vec<Unplaced>,
    /// Its plugins and its destination.
    #[serde(flatten)]
    journey: Journey,
}

#[derive(Debug, Deserialize)]
struct Unplaced {
    id: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Seen {
    host: Option<String>,
    path: String,
}

#[derive(Debug, Deserialize)]
struct MatchedRoute {
    id: String,
    service_id: Option<String>,
    upstream_id: Option<String>,
    #[serde(default)]
    plugins: Vec<String>,
    #[serde(default)]
    params: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct RouteCandidate {
    id: String,
    name: Option<String>,
    path: String,
    host: Option<String>,
    verdict: String,
    by: Option<String>,
    detail: Option<String>,
}

impl DecisionRecord {
    /// The record as lines for a terminal.
    pub(super) fn render(&self, question: &ExplainRequest, paint: Paint) -> String {
        let mut text = String::new();
        let host = self.request.host.as_deref().filter(|host| !host.is_empty()).unwrap_or("(none)");
        self.line(&mut text, "request", &format!("{} {}", question.method, question.url), paint);
        self.line(&mut text, "host", host, paint);
        self.line(&mut text, "path", &self.request.path, paint);
        self.line(&mut text, "client", &question.remote_addr.to_string(), paint);
        if let Some(revision) = self.revision {
            self.line(&mut text, "revision", &revision.to_string(), paint);
        }
        match &self.matched {
            Some(matched) => self.render_match(matched, &mut text, paint),
            None => {
                let answer =
                    "none: the answer is 404 `404 Route Not Found`, unless a global rule answers first";
                self.line(&mut text, "route", &paint.bad(answer), paint);
            }
        }
        if let Some(reason) = &self.closed {
            self.line(&mut text, "answer", &paint.bad(&format!("503: {reason}")), paint);
        }
        self.render_candidates(&mut text, paint);
        self.journey.render(self.considered.len(), &mut text, paint);
        self.render_unplaced(&mut text, paint);
        text
    }

    /// Printed, because a faulty route may be the one that the request was meant for.
    fn render_unplaced(&self, text: &mut String, paint: Paint) {
        if self.unplaced.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "\n{}",
            paint.faint("Faulty routes that match nothing, because what they match cannot be read:")
        );
        for Unplaced { id, reason } in &self.unplaced {
            let _ = writeln!(text, "{id}: {}", paint.bad(reason));
        }
    }

    fn render_match(&self, matched: &MatchedRoute, text: &mut String, paint: Paint) {
        let name = self.considered.iter().find(|candidate| candidate.id == matched.id);
        let name = name.and_then(|candidate| candidate.name.as_ref());
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        self.line(text, "route", &format!("{}{name}", paint.good(&matched.id)), paint);
        let named = [("service", &matched.service_id), ("upstream", &matched.upstream_id)];
        for (label, id) in named.into_iter().filter_map(|(label, id)| Some((label, id.as_ref()?))) {
            self.line(text, label, id, paint);
        }
        if !matched.plugins.is_empty() {
            self.line(text, "plugins", &matched.plugins.join(", "), paint);
        }
        for (name, value) in &matched.params {
            self.line(text, "parameter", &format!("{name} = {value}"), paint);
        }
    }

    /// A table: the columns as wide as their widest cell.
    fn render_candidates(&self, text: &mut String, paint: Paint) {
        if self.considered.is_empty() {
            text.push_str("\nNo route has a path that fits.\n");
            return;
        }
        let rows: Vec<[&str; 4]> = self.considered.iter().map(RouteCandidate::cells).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([HEADINGS[column].len()]).max().unwrap_or(0)
        };
        let widths = [width(0), width(1), width(2), width(3)];
        let heading = format!("{}  {}", padded(&HEADINGS, &widths), "VERDICT");
        let _ = writeln!(text, "\n{}", paint.faint(&heading));
        for (row, candidate) in rows.iter().zip(&self.considered) {
            let verdict = candidate.verdict_text();
            let verdict = if candidate.verdict == "matched" { paint.good(&verdict) } else { verdict };
            let _ = writeln!(text, "{}  {verdict}", padded(row, &widths));
        }
    }

    fn line(&self, text: &mut String, label: &str, value: &str, paint: Paint) {
        let _ = writeln!(text, "{} {value}", paint.faint(&format!("{label:<9}")));
    }
}

impl RouteCandidate {
    fn cells(&self) -> [&str; 4] {
        [&self.id, self.name.as_deref().unwrap_or("-"), self.host.as_deref().unwrap_or("-"), &self.path]
    }

    /// The verdict in words.
    fn verdict_text(&self) -> String {
        let reason = match self.verdict.as_str() {
            "matched" => "matched".to_owned(),
            "method" => "lost: its methods do not hold this one".to_owned(),
            "remote_addr" => "lost: its remote_addrs do not hold the client".to_owned(),
            "host" => "lost: no host of it fits".to_owned(),
            "vars" => "lost: its vars are false".to_owned(),
            "undecided" => "whether its vars hold is not known: a value is too long for a pattern".to_owned(),
            "parameter" => "lost: the path does not fit past its first wildcard or parameter".to_owned(),
            "outranked" => match &self.by {
                Some(winner) => format!("lost: route {winner} is tried before it"),
                None => "lost: another route is tried before it".to_owned(),
            },
            other => format!("lost: {other}"),
        };
        match &self.detail {
            Some(detail) => format!("{reason} ({detail})"),
            None => reason,
        }
    }
}

fn padded(cells: &[&str; 4], widths: &[usize; 4]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
    padded.join("  ")
}

const HEADINGS: [&str; 4] = ["ROUTE", "NAME", "HOST", "PATH"];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: serde_json::Value, expected: &str) {
        let record: DecisionRecord = serde_json::from_value(record).unwrap();
        let question = ExplainRequest {
            method: "GET".to_owned(),
            url: "http://api.example.com/orders/7".to_owned(),
            headers: Vec::new(),
            remote_addr: std::net::IpAddr::from([127, 0, 0, 1]),
        };
        let rendered = record.render(&question, Paint::Plain);
        assert_eq!(rendered, expected, "\n{rendered}");
    }

    #[test]
    fn renders_a_match_and_the_losers() {
        check(
            serde_json::json!({
                "revision": 7,
                "request": {"host": "api.example.com", "path": "/orders/7"},
                "matched": {"id": "12", "upstream_id": "u", "plugins": ["key-auth", "cors"], "params": {"id": "7"}},
                "considered": [
                    {"id": "4", "name": null, "path": "/orders/*", "host": "api.example.com", "verdict": "method"},
                    {"id": "12", "name": "orders", "path": "/orders/*", "host": "*.example.com", "verdict": "matched"},
                    {"id": "99", "path": "/*", "verdict": "outranked", "by": "12"},
                ]
            }),
            "\
request   GET http://api.example.com/orders/7
host      api.example.com
path      /orders/7
client    127.0.0.1
revision  7
route     12 (orders)
upstream  u
plugins   key-auth, cors
parameter id = 7

ROUTE  NAME    HOST             PATH       VERDICT
4      -       api.example.com  /orders/*  lost: its methods do not hold this one
12     orders  *.example.com    /orders/*  matched
99     -       -                /*         lost: route 12 is tried before it
",
        );
    }

    #[test]
    fn renders_faulty_objects() {
        check(
            serde_json::json!({
                "request": {"host": null, "path": "/a"},
                "matched": {"id": "1"},
                "closed": "route 1 is faulty: unknown plugin [key-auht]",
                "considered": [{"id": "1", "path": "/a", "verdict": "matched"}],
                "unplaced": [{"id": "2", "reason": "a route needs uri or uris"}],
            }),
            "\
request   GET http://api.example.com/orders/7
host      (none)
path      /a
client    127.0.0.1
route     1
answer    503: route 1 is faulty: unknown plugin [key-auht]

ROUTE  NAME  HOST  PATH  VERDICT
1      -     -     /a    matched

Faulty routes that match nothing, because what they match cannot be read:
2: a route needs uri or uris
",
        );
    }

    #[test]
    fn renders_no_match() {
        check(
            serde_json::json!({"request": {"host": null, "path": "/"}, "matched": null, "considered": []}),
            "\
request   GET http://api.example.com/orders/7
host      (none)
path      /
client    127.0.0.1
route     none: the answer is 404 `404 Route Not Found`, unless a global rule answers first

No route has a path that fits.
",
        );
    }
}
