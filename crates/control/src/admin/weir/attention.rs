//! The list of what needs the attention of users: failed writes, objects out of force, nodes that are down,
//! workers behind, etcd, last good forms, short memory, certificates that end, lost lines of logs. It decides
//! nothing and changes nothing.

use std::sync::Arc;

use model::ObjectKind;
use model::report::{CertificateReport, TrafficNow, UnusableNodes, WorkerRevision};
use serde_json::{Value, json};
use stdx::clock::CivilTime;

use crate::admin::call::AdminParts;
use crate::admin::live::Attention;
use crate::certificates::shown_time;
use crate::serve::list_query::now_ms;
use crate::source::etcd::{EtcdState, EtcdStatus};
use crate::verdict::{ObjectVerdict, VerdictState};
use crate::view::{View, WriteFailure};

/// The list as it is now, at most a second old. Blocks for milliseconds with many objects.
pub(super) fn attention_now(parts: &AdminParts) -> Arc<Attention> {
    parts.live.attention_or_find(|| find_attention(parts))
}

fn find_attention(parts: &AdminParts) -> Attention {
    let (view, reports, now_ms) = (parts.view.load(), &parts.reports, now_ms());
    let verdicts = view.verdicts(None);
    let unusable = reports.upstreams.unusable();
    let traffic = reports.traffic.as_ref().and_then(|traffic| traffic.now());
    let (certificates, _) = reports.certificates.certificates(LINES_MAX);
    let mut lines = Vec::new();
    lines.extend(view.write_failure.as_ref().map(writes_fail));
    lines.extend(objects(&verdicts, &[VerdictState::Out, VerdictState::Unplaced]));
    lines.extend(unusable.iter().take(LINES_MAX).map(nodes_down));
    lines.extend(workers_behind(&view, &reports.workers.revisions(), now_ms));
    lines.extend(view.etcd.iter().flat_map(etcd));
    lines.extend(objects(&verdicts, &[VerdictState::LastGood]));
    lines.extend(traffic.as_ref().and_then(memory));
    let ends = certificates.iter().filter_map(|certificate| certificate_ends(certificate, now_ms));
    lines.extend(ends.take(LINES_MAX));
    lines.extend(traffic.as_ref().and_then(|traffic| {
        let lost = traffic.log_lines_lost;
        parts.live.has_lost_lines(lost).then(|| lost_lines(lost))
    }));
    let of_source =
        view.faults.len() + view.compile_faults.iter().filter(|fault| fault.key.is_none()).count();
    Attention { lines, faults: verdicts.len() + of_source, unusable }
}

fn line(severity: &str, what: &str, title: String, detail: String, link: String) -> Value {
    json!({ "severity": severity, "what": what, "title": title, "detail": detail, "link": link })
}

/// The configuration cannot be written; requests are served as before.
fn writes_fail(failure: &WriteFailure) -> Value {
    let title = "Changes of the configuration cannot be written.".to_owned();
    let detail = format!("{}; since {}", failure.reason, time_of_day(failure.since_ms));
    let mut line = line("err", "writes_fail", title, detail, "/overview".to_owned());
    line["since_ms"] = failure.since_ms.into();
    line
}

/// etcd is not followed, or the copy of its data on this disk is old.
fn etcd(etcd: &EtcdStatus) -> impl Iterator<Item = Value> {
    let not_followed = match etcd.state {
        EtcdState::Starting | EtcdState::Following => None,
        EtcdState::Unreachable => {
            Some("etcd cannot be reached: the configuration that was read last is served.")
        }
        EtcdState::Behind => Some("etcd has older data than this instance serves."),
    };
    let reason = || etcd.reason.clone().unwrap_or_default();
    let not_followed = not_followed.map(|title| (title, reason()));
    let copy = etcd.copy_fault.clone();
    let copy = copy.map(|fault| ("The copy of etcd's data on this disk is not up to date.", fault));
    let link = || "/overview".to_owned();
    not_followed
        .into_iter()
        .chain(copy)
        .map(move |(title, detail)| line("warn", "etcd", title.to_owned(), detail, link()))
}

/// A line for each object in one of these states.
fn objects<'v>(
    verdicts: &'v [ObjectVerdict],
    states: &'v [VerdictState],
) -> impl Iterator<Item = Value> + 'v {
    let found = verdicts.iter().filter(|verdict| states.contains(&verdict.state));
    found.take(LINES_MAX).map(|verdict| {
        let key = &verdict.key;
        let object = format!("{} {}", capitalized(noun(key.kind)), key.own_id());
        let detail = verdict.faults.first().map_or_else(String::new, |fault| {
            let more = verdict.faults.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            let place = if fault.pointer.is_empty() { String::new() } else { format!("{}: ", fault.pointer) };
            format!("{place}{}{more}", fault.reason)
        });
        let link = key.path();
        match (verdict.state, verdict.revision_in_force) {
            (VerdictState::LastGood, Some(revision)) => {
                let title = format!("{object} runs its last good form, of r{revision}.");
                line("warn", "last_good", title, detail, link)
            }
            (VerdictState::LastGood, None) => {
                line("warn", "last_good", format!("{object} runs an earlier good form."), detail, link)
            }
            (VerdictState::Unplaced, _) => {
                let title = format!("{object} is out of force: no request reaches it.");
                line("err", "objects_out", title, detail, link)
            }
            _ => {
                let effect = match key.kind {
                    ObjectKind::Route
                    | ObjectKind::Service
                    | ObjectKind::Upstream
                    | ObjectKind::PluginConfig => ": its requests are answered 503",
                    ObjectKind::GlobalRule => ": all requests are answered 503",
                    _ => "",
                };
                let title = format!("{object} is out of force{effect}.");
                line("err", "objects_out", title, detail, link)
            }
        }
    })
}

fn nodes_down(upstream: &UnusableNodes) -> Value {
    let path = object_path(&upstream.name);
    let (down, total) = (upstream.nodes.len(), upstream.total);
    let verb = if down == 1 { "is" } else { "are" };
    let owner = match path.split_once('/') {
        Some(("upstreams", id)) => format!("upstream {id}"),
        _ => format!("the upstream in {path}"),
    };
    let reasons: Vec<String> = upstream
        .nodes
        .iter()
        .take(NODES_NAMED)
        .map(|(address, state, transition)| format!("{address} {state}, {}", transition.cause))
        .collect();
    let since_ms = upstream.nodes.iter().map(|(.., transition)| transition.at_ms).min().unwrap_or_default();
    let more = down.saturating_sub(NODES_NAMED);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let detail = format!("{}{more}; since {}", reasons.join("; "), time_of_day(since_ms));
    let title = format!("{down} of {total} endpoints of {owner} {verb} down.");
    let mut line = line("err", "endpoints_down", title, detail, format!("/{path}"));
    line["since_ms"] = since_ms.into();
    line
}

/// Workers that have not taken the revision up long after its change.
fn workers_behind(view: &View, workers: &[WorkerRevision], now_ms: u64) -> Option<Value> {
    let revision = view.revision();
    let changed_ms = view.changed.filter(|(changed, _)| *changed == revision).map_or(0, |(_, at_ms)| at_ms);
    let behind: Vec<String> = workers
        .iter()
        .filter(|worker| worker.revision < revision)
        .map(|worker| format!("worker {} runs r{}", worker.worker, worker.revision))
        .collect();
    if behind.is_empty() || now_ms.saturating_sub(changed_ms) < BEHIND_MS {
        return None;
    }
    let (count, total) = (behind.len(), workers.len());
    let verb = if count == 1 { "does" } else { "do" };
    let title = format!("{count} of {total} workers {verb} not run revision {revision} yet.");
    Some(line("warn", "workers_behind", title, behind.join(", "), "/overview".to_owned()))
}

fn memory(traffic: &TrafficNow) -> Option<Value> {
    let limit_bytes = traffic.memory_limit_bytes?;
    let resident_bytes = traffic.point.figures.resident_bytes;
    let percent = resident_bytes.saturating_mul(100).checked_div(limit_bytes)?;
    if percent < MEMORY_PERCENT {
        return None;
    }
    let mib = |bytes: u64| bytes >> 20;
    let title = format!("Memory is at {percent} % of its limit.");
    let detail = format!(
        "{} of {} MiB; requests of the lowest priority are refused first",
        mib(resident_bytes),
        mib(limit_bytes)
    );
    let severity = if percent >= MEMORY_FULL_PERCENT { "err" } else { "warn" };
    Some(line(severity, "memory", title, detail, "/overview".to_owned()))
}

fn certificate_ends(certificate: &CertificateReport, now_ms: u64) -> Option<Value> {
    let facts = certificate.facts.as_ref()?;
    let now_s = i64::try_from(now_ms / 1_000).unwrap_or(i64::MAX);
    let left_s = facts.not_after_s - now_s;
    let name = certificate.names.first().map_or(&*certificate.id, |name| name);
    if facts.not_before_s > now_s {
        let title = format!("The certificate for {name} is not valid yet.");
        let detail = format!("ssls/{}; from {}", certificate.id, shown_time(facts.not_before_s));
        return Some(line("err", "certificate", title, detail, format!("/ssls/{}", certificate.id)));
    }
    if left_s >= CERTIFICATE_DAYS * DAY_S {
        return None;
    }
    let title = match left_s {
        ..=0 => format!("The certificate for {name} has expired."),
        _ => format!("The certificate for {name} expires in {}.", span(left_s)),
    };
    let severity = if left_s <= 0 { "err" } else { "warn" };
    let more = certificate.names.len().saturating_sub(1);
    let more = if more == 0 { String::new() } else { format!(", and {more} more names") };
    let detail = format!("ssls/{}{more}; until {}", certificate.id, shown_time(facts.not_after_s));
    Some(line(severity, "certificate", title, detail, format!("/ssls/{}", certificate.id)))
}

fn lost_lines(lost: u64) -> Value {
    let noun = if lost == 1 { "line of the logs was" } else { "lines of the logs were" };
    let title = format!("{lost} {noun} lost.");
    let detail = "they could not be written fast enough, or not at all; see the disk and the log's target";
    line("warn", "log_lines_lost", title, detail.to_owned(), "/overview".to_owned())
}

/// A span of at least a second in words: days from two days on, hours from two hours on.
fn span(seconds: i64) -> String {
    if seconds < 2 * HOUR_S {
        format!("{} min", seconds / 60)
    } else if seconds < 2 * DAY_S {
        format!("{} h", seconds / HOUR_S)
    } else {
        format!("{} days", seconds / DAY_S)
    }
}

/// The path of the object that an upstream is written in, without the part behind its id.
pub(super) fn object_path(identity: &str) -> &str {
    let path = identity.trim_start_matches('/');
    path.split(['#', '?']).next().unwrap_or(path)
}

/// Hours, minutes and seconds in UTC.
fn time_of_day(unix_ms: u64) -> String {
    let CivilTime { hour, minute, second, .. } = CivilTime::at(unix_ms / 1_000);
    format!("{hour:02}:{minute:02}:{second:02} UTC")
}

fn noun(kind: ObjectKind) -> String {
    if kind == ObjectKind::Ssl {
        return "certificate".to_owned();
    }
    let collection = kind.collection().replace('_', " ");
    collection.strip_suffix('s').map_or(collection.clone(), str::to_owned)
}

fn capitalized(text: String) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 86_400;
/// Days before its end from which a certificate is named: shorter than the 30 days at which orders are
/// renewed.
const CERTIFICATE_DAYS: i64 = 14;
/// Share of the memory limit from which it is named.
const MEMORY_PERCENT: u64 = 90;
/// Share from which requests of default priority are refused.
const MEMORY_FULL_PERCENT: u64 = 95;
/// How long after a change a worker may run an earlier revision without being named.
const BEHIND_MS: u64 = 5_000;
/// Lines of one sort.
const LINES_MAX: usize = 100;
/// Nodes of one upstream that a line names.
const NODES_NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use model::report::{CertificateFacts, CertificateState, Figures, NodeTransition, TrafficPoint};

    #[test]
    fn nodes_down_are_named_with_their_reason() {
        let node = |port: u16| {
            let transition = NodeTransition { at_ms: 1_767_225_730_000, cause: "connect_failed".into() };
            (std::net::SocketAddr::from(([10, 0, 4, 17], port)), "unhealthy", transition)
        };
        let down =
            |name: &str, nodes: Vec<_>| nodes_down(&UnusableNodes { name: name.into(), total: 6, nodes });
        let line = down("/upstreams/orders", vec![node(80)]);
        assert_eq!(line["title"], "1 of 6 endpoints of upstream orders is down.");
        assert_eq!(line["detail"], "10.0.4.17:80 unhealthy, connect_failed; since 00:02:10 UTC");
        assert_eq!((&line["link"], &line["severity"]), (&"/upstreams/orders".into(), &"err".into()));
        let line = down("/routes/7", (1..=5).map(node).collect());
        assert_eq!(line["title"], "5 of 6 endpoints of the upstream in routes/7 are down.");
        assert!(line["detail"].as_str().unwrap().contains("; and 2 more; since"), "{line}");
    }

    #[test]
    fn faulty_objects_are_named_with_their_effect() {
        let named = |kind: ObjectKind, state: VerdictState| {
            let key = model::ObjectKey::new(kind, "a").unwrap();
            let verdict = ObjectVerdict {
                key,
                state,
                revision_in_force: None,
                revision_written: 1,
                faults: Vec::new(),
                skipped: Vec::new(),
                warnings: Vec::new(),
            };
            let line = objects(&[verdict], &[state]).next().unwrap();
            [line["title"].as_str().unwrap().to_owned(), line["link"].as_str().unwrap().to_owned()]
        };
        let out = |kind| named(kind, VerdictState::Out);
        assert_eq!(
            out(ObjectKind::Route),
            ["Route a is out of force: its requests are answered 503.", "/routes/a"]
        );
        assert_eq!(
            out(ObjectKind::GlobalRule)[0],
            "Global rule a is out of force: all requests are answered 503."
        );
        assert_eq!(out(ObjectKind::Ssl), ["Certificate a is out of force.", "/ssls/a"]);
        let unplaced = named(ObjectKind::Route, VerdictState::Unplaced);
        assert_eq!(unplaced[0], "Route a is out of force: no request reaches it.");
    }

    #[test]
    fn memory_is_named_near_its_limit() {
        let at = |resident_bytes: u64, memory_limit_bytes| {
            let figures = Figures { resident_bytes, ..Figures::default() };
            let point = TrafficPoint { seq: 1, end_ms: 0, figures };
            memory(&TrafficNow { point, requests_total: 0, cores: 1, memory_limit_bytes, log_lines_lost: 0 })
        };
        assert_eq!(at(100, None), None);
        assert_eq!(at(89, Some(100)), None);
        assert_eq!(at(90, Some(100)).unwrap()["severity"], "warn");
        assert_eq!(at(96, Some(100)).unwrap()["severity"], "err");
    }

    #[test]
    fn certificates_are_named_before_their_end() {
        let named = |not_before_s: i64, left_s: i64| {
            let facts = CertificateFacts {
                index: 0,
                not_before_s,
                not_after_s: 1_000_000 + left_s,
                subject: String::new(),
                issuer: String::new(),
                serial: String::new(),
                has_staple: false,
                must_staple: false,
                key_type: None,
            };
            let certificate = CertificateReport {
                id: "1".into(),
                names: vec!["a.example".into()],
                is_shown_to_nodes: false,
                state: CertificateState::Valid,
                facts: Some(facts),
            };
            certificate_ends(&certificate, 1_000_000_000)
                .map(|line| line["title"].as_str().unwrap().to_owned())
        };
        let ends = |left_s: i64| named(0, left_s);
        assert_eq!(named(1_000_000, 15 * DAY_S), None);
        let early = named(1_000_001, 15 * DAY_S).unwrap();
        assert_eq!(early, "The certificate for a.example is not valid yet.");
        let expires = |text: &str| Some(format!("The certificate for a.example {text}."));
        assert_eq!(ends(15 * DAY_S), None);
        assert_eq!(ends(6 * DAY_S + 5), expires("expires in 6 days"));
        assert_eq!(ends(7_300), expires("expires in 2 h"));
        assert_eq!(ends(-5), expires("has expired"));
    }

    #[test]
    fn failed_writes_and_etcd_are_named() {
        let failure = WriteFailure { reason: "no space left".into(), since_ms: 1_767_225_730_000 };
        let line = writes_fail(&failure);
        assert_eq!((&line["severity"], &line["what"]), (&"err".into(), &"writes_fail".into()));
        assert_eq!(line["detail"], "no space left; since 00:02:10 UTC");
        let named = |state: EtcdState, copy_fault: Option<&str>| -> Vec<String> {
            let (reason, copy_fault) = (Some("refused".to_owned()), copy_fault.map(str::to_owned));
            let status = EtcdStatus { state, reason, copy_fault, ..EtcdStatus::starting("e") };
            etcd(&status)
                .map(|line| format!("{} {}", line["title"].as_str().unwrap(), line["detail"]))
                .collect()
        };
        assert!(named(EtcdState::Starting, None).is_empty() && named(EtcdState::Following, None).is_empty());
        let lines = named(EtcdState::Unreachable, Some("disk full"));
        assert!(
            lines[0].starts_with("etcd cannot be reached") && lines[0].ends_with("\"refused\""),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("The copy of etcd's data") && lines[1].ends_with("\"disk full\""),
            "{lines:?}"
        );
        assert_eq!(named(EtcdState::Behind, None).len(), 1);
    }

    #[test]
    fn workers_are_named_after_five_seconds() {
        let mut view = View::default();
        let workers = [WorkerRevision { worker: 0, revision: 0 }];
        assert_eq!(workers_behind(&view, &workers, 10_000), None, "revision 0 runs");
        view.changed = Some((0, 9_000));
        assert_eq!(workers_behind(&view, &workers, 10_000), None);
    }
}
