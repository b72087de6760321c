//! One object as filters and orders of a list see it: its summary with its traffic.

use model::search::Searchable;

use super::{Figures, Summary};

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SummaryRow<'a> {
    pub(crate) summary: &'a Summary,
    /// None: not measured for this kind.
    pub(crate) figures: Option<Figures>,
    pub(crate) now_ms: u64,
}

impl Searchable for SummaryRow<'_> {
    fn any_word(&self, test: &mut dyn FnMut(&str) -> bool) -> bool {
        let facts = &self.summary.facts;
        test(&self.summary.key.id)
            || facts.name.as_deref().is_some_and(&mut *test)
            || facts.hosts.iter().any(|host| test(host))
            || facts.paths.iter().any(|path| test(path))
            || facts.desc.as_deref().is_some_and(&mut *test)
    }

    fn any_text(&self, field: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
        let (summary, facts) = (self.summary, &self.summary.facts);
        let mut list = |texts: &[Box<str>]| texts.iter().any(|text| test(text));
        match field {
            "host" | "names" => list(&facts.hosts),
            "path" | "uri" => list(&facts.paths),
            "plugin" => list(&facts.plugins),
            // A route without methods takes all of them.
            "method" if facts.methods.is_empty() && !facts.paths.is_empty() => {
                METHODS.iter().any(|method| test(method))
            }
            "method" => list(&facts.methods),
            "id" => test(&summary.key.id) || test(summary.key.own_id()),
            "name" => facts.name.as_deref().is_some_and(test),
            "service" => facts.service.as_deref().is_some_and(test),
            "upstream" => facts.upstream.as_deref().is_some_and(test),
            "group" => facts.group.as_deref().is_some_and(test),
            "type" => facts.object_type.as_deref().is_some_and(test),
            "state" => test(summary.state.as_str()),
            "label" => facts.labels.iter().any(|(key, value)| test(key) || test(&format!("{key}:{value}"))),
            _ => false,
        }
    }

    #[allow(clippy::cast_precision_loss)] // Numbers of lists are far below 2^53.
    fn number(&self, field: &str) -> Option<f64> {
        match field {
            "priority" => Some(self.summary.facts.priority as f64),
            "changed" => {
                let updated_ms = self.summary.facts.updated_ms?;
                Some(self.now_ms.saturating_sub(updated_ms) as f64 * 1_000.0)
            }
            "rps" => Some(self.figures?.rps),
            "p5xx" => self.figures?.p5xx,
            "p99" => Some(self.figures?.p99_us? as f64),
            _ => None,
        }
    }
}

/// The methods that a route can name.
const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];
