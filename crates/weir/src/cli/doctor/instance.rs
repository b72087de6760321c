//! Checks of the instance that runs on the data folder: its version, its configuration, its workers, its
//! certificates.

use std::time::Duration;

use control::source::store::RunningInstance;
use serde_json::Value;
use stdx::clock::CivilTime;

use super::DoctorCheck;
use crate::admin_client::{AdminClient, AdminOutcome, address_of};
use crate::ask::{InstanceRequest, ask_instance};

/// Days before the end of a certificate from which it needs attention.
const DAYS_LEFT: u64 = 14;
/// Longest wait for the control API.
const PATIENCE: Duration = Duration::from_secs(5);

/// All checks; only one where no instance runs.
pub(super) fn check_instance(node: &AdminClient, running: Option<&RunningInstance>) -> Vec<DoctorCheck> {
    let Some(running) = running else {
        return vec![DoctorCheck::ok("instance", format!("none runs on {}", node.settings.data.display()))];
    };
    let mut checks = Vec::new();
    if running.listeners.is_some() && running.address("admin").is_none() {
        let found = format!(
            "process {} runs; nothing more is known without its Admin API (`admin: off`)",
            running.process
        );
        checks.push(DoctorCheck::ok("instance", found));
        checks.extend(certificates(node, running));
        return checks;
    }
    let status = match node.ask("GET", "weir/status", "") {
        Ok(AdminOutcome::Answered(answer)) if answer.status == 200 => answer.body.unwrap_or_default(),
        Ok(AdminOutcome::Answered(answer)) => {
            let found = format!("process {}: {}", running.process, answer.reason());
            checks.push(DoctorCheck::attention("instance", found, "give its Admin key in WEIR_ADMIN_KEY"));
            Value::Null
        }
        Ok(AdminOutcome::Nobody) => Value::Null,
        Err(error) => {
            let advice = "look at its log; restart it if it does not answer";
            checks.push(DoctorCheck::attention(
                "instance",
                format!("process {}: {error:#}", running.process),
                advice,
            ));
            Value::Null
        }
    };
    if !status.is_null() {
        checks.push(version(node, running));
        checks.push(workers(&status));
        checks.push(faults(&status));
        checks.extend(writes(&status));
    }
    checks.extend(certificates(node, running));
    checks
}

/// The instance may be older than this binary after an installation.
fn version(node: &AdminClient, running: &RunningInstance) -> DoctorCheck {
    let own = env!("CARGO_PKG_VERSION");
    let session = match node.ask("GET", "weir/session", "") {
        Ok(AdminOutcome::Answered(answer)) if answer.status == 200 => answer.body.unwrap_or_default(),
        _ => Value::Null,
    };
    same_version(running.process, session["version"].as_str(), own)
}

fn same_version(process: u32, runs: Option<&str>, own: &str) -> DoctorCheck {
    match runs {
        Some(runs) if runs != own => DoctorCheck::attention(
            "instance",
            format!("process {process} is version {runs}, and this binary {own}"),
            "`weir upgrade` replaces it without losing a connection",
        ),
        Some(runs) => DoctorCheck::ok("instance", format!("process {process} runs version {runs}")),
        None => DoctorCheck::ok("instance", format!("process {process} answers")),
    }
}

fn workers(status: &Value) -> DoctorCheck {
    let revision = status["revision"].as_u64().unwrap_or_default();
    let workers = status["workers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let behind = workers.iter().filter(|worker| worker["revision"].as_u64() < Some(revision)).count();
    let found = format!("{} of {} run revision {revision}", workers.len() - behind, workers.len());
    if behind == 0 {
        return DoctorCheck::ok("workers", found);
    }
    let advice =
        "a worker takes a revision up within a second; if it stays behind, look at the log for stalls";
    DoctorCheck::attention("workers", found, advice)
}

fn faults(status: &Value) -> DoctorCheck {
    let faults = status["faults"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(first) = faults.first() else {
        return DoctorCheck::ok("configuration", "every object serves as written");
    };
    let key = first["key"].as_str().map(|key| format!("{key}: ")).unwrap_or_default();
    let reason = first["reason"].as_str().unwrap_or("unknown");
    let found = format!("{} faults, the first: {key}{reason}", faults.len());
    DoctorCheck::attention(
        "configuration",
        found,
        "`GET /apisix/admin/weir/verdicts` lists all with their places",
    )
}

/// Writes that fail; requests are served as before.
fn writes(status: &Value) -> Option<DoctorCheck> {
    let reason = status["write_failure"]["reason"].as_str()?;
    let since_s = status["write_failure"]["since_ms"].as_u64().unwrap_or_default() / 1_000;
    let found = format!("fail since {}: {reason}", date(since_s));
    Some(DoctorCheck::failed(
        "writes",
        found,
        "free space on the disk of the data folder; the next write tries again",
    ))
}

/// Certificates that have expired or do so soon.
fn certificates(node: &AdminClient, running: &RunningInstance) -> Option<DoctorCheck> {
    let control = address_of(Some(running), "control", &node.settings, node.settings.control).ok()??;
    let target = "/v1/weir/certificates";
    let question =
        InstanceRequest { method: "GET", target, fields: &[], body: "", patience: PATIENCE, tls: None };
    let answer = ask_instance(control, &question).ok().filter(|answer| answer.status == 200)?.body.ok()?;
    let now_s = stdx::clock::unix_time().as_secs();
    let soon = date(now_s + DAYS_LEFT * 86_400);
    Some(ending(&answer, &date(now_s), &soon))
}

/// A time as the control API writes it; such texts are ordered as the times are.
fn date(unix_s: u64) -> String {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::at(unix_s);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn ending(answer: &Value, now: &str, soon: &str) -> DoctorCheck {
    let list = answer["list"].as_array().map(Vec::as_slice).unwrap_or_default();
    let begins_later = |one: &&Value| one["not_before"].as_str().is_some_and(|begin| begin > now);
    if let Some(early) = list.iter().find(begins_later) {
        let (id, begin) =
            (early["id"].as_str().unwrap_or_default(), early["not_before"].as_str().unwrap_or_default());
        let advice = "look at the clock of this machine; else use another certificate until then";
        return DoctorCheck::failed("certificates", format!("ssls/{id} is not valid before {begin}"), advice);
    }
    let ends = |one: &&Value, until: &str| one["not_after"].as_str().is_some_and(|end| end < until);
    let ends_soon: Vec<&Value> = list.iter().filter(|one| ends(one, soon)).collect();
    let Some(first) = ends_soon.first() else {
        let total = answer["total"].as_u64().unwrap_or_default();
        return DoctorCheck::ok(
            "certificates",
            format!("{total} of ssls objects, none ends within {DAYS_LEFT} days"),
        );
    };
    let (id, end) =
        (first["id"].as_str().unwrap_or_default(), first["not_after"].as_str().unwrap_or_default());
    let found = format!(
        "{} end within {DAYS_LEFT} days or have ended, the first: ssls/{id} at {end}",
        ends_soon.len()
    );
    let advice = "replace them, or let ACME order them (acme_domains)";
    if ends_soon.iter().any(|one| ends(one, now)) {
        DoctorCheck::failed("certificates", found, advice)
    } else {
        DoctorCheck::attention("certificates", found, advice)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::CheckState;
    use super::*;

    #[test]
    fn workers_behind_and_faults_need_attention() {
        let status = json!({"revision": 3, "workers": [{"worker": 0, "revision": 3}, {"worker": 1, "revision": 2}],
            "faults": [{"key": "/routes/1", "reason": "x"}]});
        assert_eq!(workers(&status).found, "1 of 2 run revision 3");
        assert_eq!(
            (workers(&status).state, faults(&status).state),
            (CheckState::Attention, CheckState::Attention)
        );
        let good = json!({"revision": 3, "workers": [{"worker": 0, "revision": 3}], "faults": []});
        assert_eq!((workers(&good).state, faults(&good).state), (CheckState::Ok, CheckState::Ok));
    }

    #[test]
    fn failed_writes_are_named() {
        let status = json!({"write_failure": {"reason": "no space left", "since_ms": 1_767_225_730_000_u64}});
        let check = writes(&status).unwrap();
        assert_eq!(
            (check.state, &*check.found),
            (CheckState::Failed, "fail since 2026-01-01T00:02:10Z: no space left")
        );
        assert!(writes(&json!({})).is_none());
    }

    #[test]
    fn certificates_are_judged_by_their_end() {
        let answer = |end: &str| json!({"total": 1, "list": [{"id": "a", "not_after": end}]});
        let state = |end: &str| ending(&answer(end), "2026-01-10T00:00:00Z", "2026-01-24T00:00:00Z").state;
        assert_eq!(state("2026-03-01T00:00:00Z"), CheckState::Ok);
        assert_eq!(state("2026-01-12T00:00:00Z"), CheckState::Attention);
        assert_eq!(state("2026-01-09T00:00:00Z"), CheckState::Failed);
        let early = json!({"total": 1, "list": [{"id": "a", "not_before": "2026-01-11T00:00:00Z",
            "not_after": "2026-03-01T00:00:00Z"}]});
        assert_eq!(ending(&early, "2026-01-10T00:00:00Z", "2026-01-24T00:00:00Z").state, CheckState::Failed);
    }

    #[test]
    fn older_instance_is_named() {
        assert_eq!(same_version(7, Some("0.1.0"), "0.2.0").state, CheckState::Attention);
        assert_eq!(same_version(7, Some("0.2.0"), "0.2.0").state, CheckState::Ok);
        assert_eq!(same_version(7, None, "0.2.0").state, CheckState::Ok);
    }
}
