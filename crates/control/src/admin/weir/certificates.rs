//! `weir/certificates`: the certificates of `ssls` objects, those that ACME orders, and the one of this
//! listener, with names, dates and the number of routes that they serve. Private keys are not read.

mod file;
mod routes;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::ObjectKind;
use model::report::{CertificateFacts, CertificateReport, CertificateState};
use model::search::{CERTIFICATE_FIELDS, Searchable};
use serde_json::{Value, json};

use crate::admin::call::{AdminParts, Call};
use crate::serve::list_query::{limit, now_ms, parse_filter};
use crate::serve::{RefusalResponse, respond};
use crate::summary::{ListState, Summary};

use routes::RouteHosts;

/// One certificate of the list.
#[derive(Debug, Clone, Default)]
struct CertificateEntry {
    id: String,
    kind: &'static str,
    names: Vec<String>,
    facts: Option<CertificateContent>,
    state: &'static str,
    /// None: it serves no routes.
    routes: Option<usize>,
    /// The state of its orders.
    acme: Option<Value>,
    now_ms: u64,
}

/// The content of a certificate.
#[derive(Debug, Clone, Default)]
struct CertificateContent {
    issuer: String,
    subject: String,
    not_before_ms: u64,
    not_after_ms: u64,
    key_type: Option<String>,
}

/// Answers `weir/certificates?q=&limit=`.
pub(super) async fn answer_certificates(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    let listed = async {
        let filter = parse_filter(&call.query, &CERTIFICATE_FIELDS)?;
        let limit = limit(&call.query, LIMIT_MAX, LIMIT_MAX)?;
        let parts = Arc::clone(parts);
        let entries = respond::blocking(move || entries(&parts)).await?;
        let matched: Vec<&CertificateEntry> = entries.iter().filter(|entry| filter.matches(*entry)).collect();
        let list: Vec<Value> = matched.iter().take(limit).map(|entry| entry.describe()).collect();
        Ok(respond::json(StatusCode::OK, &json!({ "list": list, "total": matched.len() })))
    };
    let listed: Result<Response<Bytes>, RefusalResponse> = listed.await;
    listed.unwrap_or_else(|refusal| *refusal)
}

/// All certificates, those that end first at the begin, those without dates before them.
fn entries(parts: &AdminParts) -> Vec<CertificateEntry> {
    let now_ms = now_ms();
    let (view, summaries) = parts.summaries.newest(&parts.view, ObjectKind::Ssl);
    let hosts = RouteHosts::new(&parts.summaries.of_view(&view, ObjectKind::Route), &view);
    let mut reports: HashMap<Arc<str>, CertificateReport> = HashMap::new();
    for report in parts.reports.certificates.certificates(KNOWN_MAX).0 {
        // The first one of an object ends first.
        reports.entry(Arc::clone(&report.id)).or_insert(report);
    }
    let mut entries: Vec<CertificateEntry> = summaries
        .iter()
        .map(|summary| of_object(summary, reports.get(&summary.key.id), &hosts, now_ms))
        .collect();
    add_orders(parts, &mut entries, now_ms);
    entries.extend(parts.certificate_file.as_deref().map(|path| file::read_certificate_file(path, now_ms)));
    entries.sort_by(|left, right| left.order().cmp(&right.order()));
    entries
}

fn of_object(
    summary: &Summary,
    report: Option<&CertificateReport>,
    hosts: &RouteHosts,
    now_ms: u64,
) -> CertificateEntry {
    let names: Vec<String> = summary.facts.hosts.iter().map(ToString::to_string).collect();
    let facts = report.and_then(|report| report.facts.as_ref()).map(CertificateContent::from);
    let is_shown_to_clients = report.is_none_or(|report| !report.is_shown_to_nodes);
    let state = match (summary.state, report.map(|report| report.state)) {
        (ListState::Off, _) => "off",
        (ListState::Out, _) | (_, Some(CertificateState::Faulty | CertificateState::Refused)) => "out",
        _ => dated_state(facts.as_ref(), now_ms),
    };
    CertificateEntry {
        id: summary.key.id.to_string(),
        kind: "ssls",
        routes: is_shown_to_clients.then(|| hosts.count(&names)),
        names,
        facts,
        state,
        acme: None,
        now_ms,
    }
}

/// Adds the state of orders to the objects that they renew, and the orders that have no object yet.
fn add_orders(parts: &AdminParts, entries: &mut Vec<CertificateEntry>, now_ms: u64) {
    let orders = parts.acme.as_ref().map(|acme| acme.certificates());
    let Some(Value::Array(orders)) = orders.and_then(|mut orders| orders.get_mut("list").map(Value::take))
    else {
        return;
    };
    for order in orders {
        let id = order["id"].as_str().unwrap_or_default().to_owned();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.id == id) {
            entry.kind = "acme";
            entry.acme = Some(order);
            continue;
        }
        let names = order["names"].as_array().into_iter().flatten();
        let names = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        entries.push(CertificateEntry {
            id,
            kind: "acme",
            names,
            state: "out",
            acme: Some(order),
            now_ms,
            ..CertificateEntry::default()
        });
    }
}

/// The state that the dates say.
fn dated_state(facts: Option<&CertificateContent>, now_ms: u64) -> &'static str {
    match facts {
        Some(facts) if facts.not_after_ms < now_ms => "expired",
        Some(facts) if facts.not_before_ms > now_ms => "not_yet",
        Some(facts) if facts.not_after_ms - now_ms < SOON_MS => "soon",
        _ => "in_force",
    }
}

impl From<&CertificateFacts> for CertificateContent {
    fn from(facts: &CertificateFacts) -> CertificateContent {
        CertificateContent {
            issuer: facts.issuer.clone(),
            subject: facts.subject.clone(),
            not_before_ms: ms(facts.not_before_s),
            not_after_ms: ms(facts.not_after_s),
            key_type: facts.key_type.clone(),
        }
    }
}

/// Milliseconds of a time in seconds; 0 for one before 1970.
fn ms(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or_default().saturating_mul(1_000)
}

impl CertificateEntry {
    fn order(&self) -> (u64, &str, &str) {
        (self.facts.as_ref().map_or(0, |facts| facts.not_after_ms), self.kind, &self.id)
    }

    fn describe(&self) -> Value {
        let facts = self.facts.as_ref();
        let mut described = json!({
            "id": self.id,
            "kind": self.kind,
            "names": self.names,
            "issuer": facts.map(|facts| &facts.issuer),
            "subject": facts.map(|facts| &facts.subject),
            "not_before_ms": facts.map(|facts| facts.not_before_ms),
            "not_after_ms": facts.map(|facts| facts.not_after_ms),
            "key_type": facts.and_then(|facts| facts.key_type.as_ref()),
            "state": self.state,
            "routes": self.routes,
        });
        if let Some(acme) = &self.acme {
            described["acme"] = acme.clone();
        }
        described
    }
}

impl Searchable for CertificateEntry {
    fn any_word(&self, test: &mut dyn FnMut(&str) -> bool) -> bool {
        test(&self.id)
            || self.names.iter().any(|name| test(name))
            || self.facts.as_ref().is_some_and(|facts| test(&facts.issuer) || test(&facts.subject))
    }

    fn any_text(&self, field: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
        let facts = self.facts.as_ref();
        match field {
            "id" => test(&self.id),
            "name" => self.names.iter().any(|name| test(name)),
            "kind" => test(self.kind),
            "state" => test(self.state),
            "issuer" => facts.is_some_and(|facts| test(&facts.issuer)),
            "subject" => facts.is_some_and(|facts| test(&facts.subject)),
            "type" => facts.and_then(|facts| facts.key_type.as_deref()).is_some_and(test),
            _ => false,
        }
    }

    #[allow(clippy::cast_precision_loss)] // Times are far below 2^53.
    fn number(&self, field: &str) -> Option<f64> {
        let end_ms = self.facts.as_ref().filter(|_| field == "ends")?.not_after_ms;
        Some((end_ms as f64 - self.now_ms as f64) * 1_000.0)
    }
}

/// Largest number of certificates in an answer, and the default.
const LIMIT_MAX: usize = 1_000;
/// Certificates with known dates, because the gateway parses them for each answer; those that end first.
const KNOWN_MAX: usize = 10_000;
/// Time before the end of a certificate from which on it needs attention: two weeks, as renewals by hand take
/// days.
const SOON_MS: u64 = 14 * 86_400_000;
