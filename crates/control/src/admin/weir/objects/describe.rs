//! One object of a list as JSON, with the columns of its kind.

use std::collections::HashMap;
use std::sync::Arc;

use model::report::{CertificateFacts, UpstreamReport};
use model::{ObjectKey, ObjectKind};
use serde_json::{Map, Value, json};

use crate::report::Reports;
use crate::summary::{Summary, SummaryFacts, SummaryRow, rates};
use crate::view::View;

/// The parts of a list that are not in the objects themselves.
pub(super) struct Details<'v> {
    view: &'v View,
    /// Nodes and nodes that are not usable of the upstreams in force, by id.
    nodes: HashMap<Arc<str>, (usize, usize)>,
    /// The first certificate of each certificate object, by id.
    certificates: HashMap<Arc<str>, CertificateFacts>,
}

impl<'v> Details<'v> {
    /// Asks the gateway what lists of that kind show of it.
    pub(super) fn new(reports: &Reports, view: &'v View, kind: ObjectKind) -> Details<'v> {
        let nodes = match kind {
            ObjectKind::Upstream => reports.upstreams.upstreams(None).iter().filter_map(nodes_of).collect(),
            _ => HashMap::new(),
        };
        let mut certificates = HashMap::new();
        if kind == ObjectKind::Ssl {
            for report in reports.certificates.certificates(CERTIFICATES_MAX).0 {
                // The list has those that end first at its begin, and these are what a list warns of.
                if let Some(facts) = report.facts {
                    certificates.entry(report.id).or_insert(facts);
                }
            }
        }
        Details { view, nodes, certificates }
    }

    /// The end of the certificate of an object, in milliseconds.
    pub(super) fn not_after_ms(&self, summary: &Summary) -> Option<u64> {
        let facts = self.certificates.get(&summary.key.id)?;
        u64::try_from(facts.not_after_s).ok().map(|seconds| seconds.saturating_mul(1_000))
    }

    /// The nodes of an upstream, and those of them that are not usable; none for other kinds.
    pub(super) fn nodes(&self, summary: &Summary) -> Option<(usize, usize)> {
        if summary.key.kind != ObjectKind::Upstream {
            return None;
        }
        Some(self.nodes.get(&summary.key.id).copied().unwrap_or((summary.facts.nodes, 0)))
    }

    /// The number of objects that refer to it, directly or in a plugin.
    pub(super) fn used_by(&self, summary: &Summary) -> usize {
        let snapshot = &self.view.snapshot;
        snapshot.users_of(&summary.key).count() + snapshot.mentioned_by(&summary.key).count()
    }

    fn users(&self, key: &ObjectKey, kind: ObjectKind) -> usize {
        self.view.snapshot.users_of(key).filter(|user| user.kind == kind).count()
    }

    /// One object of the list.
    pub(super) fn describe(&self, row: &SummaryRow<'_>) -> Value {
        let (summary, facts) = (row.summary, &row.summary.facts);
        let id = match summary.key.kind {
            // The list is the one of their consumer.
            ObjectKind::Credential => summary.key.own_id(),
            _ => &summary.key.id,
        };
        let mut described = json!({
            "id": id,
            "name": facts.name,
            "desc": facts.desc,
            "state": summary.state.as_str(),
            "reason": summary.reason.as_deref(),
            "methods": facts.methods,
            "hosts": facts.hosts,
            "paths": facts.paths,
            "service": facts.service,
            "upstream": facts.upstream,
            "plugins": facts.plugins,
            "labels": labels(facts),
            "priority": facts.priority,
            "created_ms": facts.created_ms,
            "updated_ms": facts.updated_ms,
        });
        rates::add_figures(&mut described, row.figures);
        self.add_columns(&mut described, summary);
        described
    }

    /// Adds the columns that only its kind has.
    fn add_columns(&self, described: &mut Value, summary: &Summary) {
        let facts = &summary.facts;
        match summary.key.kind {
            ObjectKind::Upstream => {
                let (nodes, down) = self.nodes(summary).unwrap_or_default();
                described["type"] = json!(facts.object_type);
                described["scheme"] = json!(facts.scheme);
                described["nodes"] = json!(nodes);
                described["down"] = json!(down);
                described["used_by"] = json!(self.used_by(summary));
            }
            ObjectKind::Ssl => {
                let certificate = self.certificates.get(&summary.key.id);
                described["type"] = json!(facts.object_type);
                described["names"] = json!(facts.hosts);
                described["not_after_ms"] = json!(self.not_after_ms(summary));
                described["issuer"] = json!(certificate.map(|facts| &facts.issuer));
            }
            ObjectKind::Consumer => {
                described["group"] = json!(facts.group);
                described["credentials"] = json!(self.users(&summary.key, ObjectKind::Credential));
            }
            ObjectKind::Service => described["routes"] = json!(self.users(&summary.key, ObjectKind::Route)),
            ObjectKind::PluginConfig | ObjectKind::ConsumerGroup => {
                described["used_by"] = json!(self.used_by(summary));
            }
            ObjectKind::Secret => described["manager"] = json!(summary.key.id.split('/').next()),
            _ => {}
        }
    }
}

fn nodes_of(report: &UpstreamReport) -> Option<(Arc<str>, (usize, usize))> {
    let id = report.name.strip_prefix("/upstreams/")?;
    let down = report.nodes.iter().filter(|node| node.state() != "usable").count();
    Some((id.into(), (report.nodes.len(), down)))
}

fn labels(facts: &SummaryFacts) -> Map<String, Value> {
    facts.labels.iter().map(|(key, value)| (key.to_string(), Value::from(&**value))).collect()
}

/// Certificates that a list knows the end of; those of further ones are null.
const CERTIFICATES_MAX: usize = 10_000;
