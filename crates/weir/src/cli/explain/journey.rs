//! The plugins that a request would meet and its destination, as the record tells them, and their text.

use std::fmt::Write;

use serde::Deserialize;

use crate::terminal::Paint;

/// See the module. An older instance leaves these parts out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Journey {
    /// The effect of each plugin, in running order.
    pipeline: Vec<JourneyStep>,
    /// The request as an endpoint would receive it.
    forwarded: Option<Forwarded>,
    /// The upstream with its endpoints.
    upstream: Option<JourneyUpstream>,
    /// The upstreams that a plugin divides such requests among.
    choices: Vec<JourneyChoice>,
    /// The number of all candidates; the record lists the first ones.
    considered_total: usize,
}

#[derive(Debug, Deserialize)]
struct JourneyStep {
    plugin: String,
    phase: String,
    from: String,
    runs: Option<bool>,
    why: Option<String>,
    would: Option<Would>,
}

#[derive(Debug, Deserialize)]
struct Would {
    action: String,
    status: Option<u16>,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Forwarded {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
struct JourneyChoice {
    share: f64,
    upstream: Option<JourneyUpstream>,
}

#[derive(Debug, Deserialize)]
struct JourneyUpstream {
    id: String,
    #[serde(rename = "type")]
    method: String,
    candidates: Vec<NodeCandidate>,
}

#[derive(Debug, Deserialize)]
struct NodeCandidate {
    address: String,
    state: String,
    share: f64,
}

impl Journey {
    /// Appends the parts that the record has.
    pub(super) fn render(&self, listed: usize, text: &mut String, paint: Paint) {
        if self.considered_total > listed {
            let _ =
                writeln!(text, "{}", paint.faint(&format!("… and {} more", self.considered_total - listed)));
        }
        self.render_plugins(text, paint);
        if let Some(forwarded) = &self.forwarded {
            let _ = writeln!(text, "\n{} {} {}", paint.faint("sent as  "), forwarded.method, forwarded.url);
            for (name, value) in &forwarded.headers {
                let _ = writeln!(text, "          {}", paint.faint(&format!("{name}: {value}")));
            }
        }
        if let Some(upstream) = &self.upstream {
            upstream.render("", text, paint);
        }
        for choice in &self.choices {
            match &choice.upstream {
                Some(upstream) => {
                    upstream.render(&format!(", {} % of such requests", choice.share), text, paint)
                }
                None => {
                    let _ =
                        writeln!(text, "\n{} {} % have no upstream", paint.faint("upstream "), choice.share);
                }
            }
        }
    }

    fn render_plugins(&self, text: &mut String, paint: Paint) {
        if self.pipeline.is_empty() {
            return;
        }
        let width = |column: fn(&JourneyStep) -> &str, heading: &str| {
            self.pipeline
                .iter()
                .map(|step| column(step).chars().count())
                .chain([heading.len()])
                .max()
                .unwrap_or(0)
        };
        let plugin = width(|step| &step.plugin, "PLUGIN");
        let phase = width(|step| &step.phase, "PHASE");
        let from = width(|step| &step.from, "FROM");
        let heading = format!("{:<plugin$}  {:<phase$}  {:<from$}  EFFECT", "PLUGIN", "PHASE", "FROM");
        let _ = writeln!(text, "\n{}", paint.faint(&heading));
        for step in &self.pipeline {
            let cells = format!("{:<plugin$}  {:<phase$}  {:<from$}", step.plugin, step.phase, step.from);
            let _ = writeln!(text, "{cells}  {}", step.effect(paint));
        }
    }
}

impl JourneyUpstream {
    fn render(&self, share: &str, text: &mut String, paint: Paint) {
        let _ = writeln!(text, "\n{} {} ({}){share}", paint.faint("upstream "), self.id, self.method);
        let width = self.candidates.iter().map(|one| one.address.len()).max().unwrap_or(0);
        for NodeCandidate { address, state, share } in &self.candidates {
            let state = if matches!(state.as_str(), "usable" | "allowed") {
                format!("{state:<9}")
            } else {
                paint.bad(&format!("{state:<9}"))
            };
            let _ = writeln!(text, "          {address:<width$}  {state}  {share} %");
        }
    }
}

impl JourneyStep {
    /// The effect in words.
    fn effect(&self, paint: Paint) -> String {
        let would = self.would.as_ref().map(|would| {
            let said = would.text.replace(char::is_control, " ");
            match (would.action.as_str(), would.status) {
                ("reply" | "redirect", Some(status)) => {
                    paint.bad(format!("answers {status} {said}").trim_end())
                }
                ("count", _) => format!("counts: {said}"),
                ("change", _) => format!("changes: {said}"),
                ("choose", _) => format!("divides: {said}"),
                _ => said,
            }
        });
        let word = match self.runs {
            Some(true) if would.is_none() => Some("passes".to_owned()),
            Some(true) => None,
            Some(false) => Some("does not run".to_owned()),
            None => Some(paint.noted("unknown")),
        };
        let parts: Vec<String> = [word, would].into_iter().flatten().collect();
        let effect = parts.join(": ");
        match &self.why {
            Some(why) => format!("{effect} ({why})"),
            None => effect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_and_endpoints_are_tables() {
        let journey: Journey = serde_json::from_value(serde_json::json!({
            "pipeline": [
                {"plugin": "key-auth", "phase": "rewrite", "from": "route", "runs": true,
                 "why": "passes as consumer jack", "would": null},
                {"plugin": "opa", "phase": "access", "from": "global_rule", "runs": null, "why": null,
                 "would": {"action": "call", "status": null, "text": "it would ask http://opa"}},
                {"plugin": "acl", "phase": "access", "from": "service", "runs": true, "why": null,
                 "would": {"action": "reply", "status": 403, "text": "no\n"}},
                {"plugin": "cors", "phase": "header_filter", "from": "route", "runs": false, "why": "its filter",
                 "would": null},
            ],
            "forwarded": {"method": "GET", "url": "http://h/a", "headers": [["Host", "h"]]},
            "upstream": {"id": "u", "type": "roundrobin", "candidates": [
                {"address": "127.0.0.1:80", "state": "usable", "share": 100.0},
                {"address": "127.0.0.1:8080", "state": "unhealthy", "share": 0.0}]},
            "considered_total": 3,
        }))
        .unwrap();
        let mut text = String::new();
        journey.render(1, &mut text, Paint::Plain);
        let expected = "\
… and 2 more

PLUGIN    PHASE          FROM         EFFECT
key-auth  rewrite        route        passes (passes as consumer jack)
opa       access         global_rule  unknown: it would ask http://opa
acl       access         service      answers 403 no
cors      header_filter  route        does not run (its filter)

sent as   GET http://h/a
          Host: h

upstream  u (roundrobin)
          127.0.0.1:80    usable     100 %
          127.0.0.1:8080  unhealthy  0 %
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn divided_requests_have_a_share_for_each_upstream() {
        let upstream = |id: &str| {
            serde_json::json!({"id": id, "type": "roundrobin", "candidates": [
                {"address": "127.0.0.1:80", "state": "usable", "share": 100.0}]})
        };
        let journey: Journey = serde_json::from_value(serde_json::json!({
            "upstream": null,
            "choices": [{"share": 5.0, "upstream": upstream("canary")}, {"share": 95.0, "upstream": upstream("stable")}],
        }))
        .unwrap();
        let mut text = String::new();
        journey.render(0, &mut text, Paint::Plain);
        let expected = "
upstream  canary (roundrobin), 5 % of such requests
          127.0.0.1:80  usable     100 %

upstream  stable (roundrobin), 95 % of such requests
          127.0.0.1:80  usable     100 %
";
        assert_eq!(text, expected, "\n{text}");
    }
}
