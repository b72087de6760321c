//! The counts of a list by state, label and service.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::summary::{ListState, SummaryRow};

/// The counts over the objects that matched.
pub(super) fn count_facets(rows: &[SummaryRow<'_>]) -> Value {
    let mut states = [0_usize; ListState::ALL.len()];
    let mut labels: HashMap<(&str, &str), usize> = HashMap::new();
    let mut services: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        states[row.summary.state as usize] += 1;
        let facts = &row.summary.facts;
        for (key, value) in &facts.labels {
            *labels.entry((key, value)).or_default() += 1;
        }
        if let Some(service) = &facts.service {
            *services.entry(service).or_default() += 1;
        }
    }
    let states: Map<String, Value> = ListState::ALL
        .into_iter()
        .map(|state| (state.as_str().to_owned(), states[state as usize].into()))
        .collect();
    let labels = labels.into_iter().map(|((key, value), count)| (format!("{key}:{value}"), count));
    let services = services.into_iter().map(|(service, count)| (service.to_owned(), count));
    json!({ "state": states, "label": most(labels.collect()), "service": most(services.collect()) })
}

/// The values with the highest counts, those first.
fn most(mut counts: Vec<(String, usize)>) -> Map<String, Value> {
    counts.sort_by(|left, right| (right.1, &left.0).cmp(&(left.1, &right.0)));
    counts.into_iter().take(VALUES_MAX).map(|(value, count)| (value, count.into())).collect()
}

/// Values of a facet in an answer: more of them do not fit a menu.
const VALUES_MAX: usize = 50;
