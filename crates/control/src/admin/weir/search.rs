//! `weir/search`: objects of all kinds for the palette, the best matches first, within a time budget.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, StatusCode};
use model::ObjectKind;
use model::search::{OBJECT_FIELDS, SearchFilter};
use serde_json::{Value, json};

use crate::admin::call::{AdminParts, Call};
use crate::serve::list_query::{limit, now_ms, parse_filter};
use crate::serve::{RefusalResponse, respond};
use crate::summary::{Summary, SummaryRow};

/// Answers `weir/search?q=&limit=`.
pub(super) async fn answer_search(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    let found = async {
        let filter = parse_filter(&call.query, &OBJECT_FIELDS)?;
        let limit = limit(&call.query, LIMIT_DEFAULT, LIMIT_MAX)?;
        let text = call.query.get("q").unwrap_or_default().trim().to_lowercase();
        let parts = Arc::clone(parts);
        respond::blocking(move || find(&parts, &filter, &text, limit)).await
    };
    let found: Result<Value, RefusalResponse> = found.await;
    match found {
        Ok(body) => respond::json(StatusCode::OK, &body),
        Err(refusal) => *refusal,
    }
}

fn find(parts: &AdminParts, filter: &SearchFilter, text: &str, limit: usize) -> Value {
    if filter.is_empty() {
        return json!({ "list": [], "more": false });
    }
    let (view, now_ms) = (parts.view.load(), now_ms());
    // The lists are kept until the next change; making them is not searching, so that it does not count.
    let mut kinds: Vec<(usize, Arc<[Summary]>)> = KINDS
        .into_iter()
        .enumerate()
        .map(|(place, kind)| (place, parts.summaries.of_view(&view, kind)))
        .collect();
    // The shortest first, because a search that runs out of time then misses objects of the longest kinds
    // only.
    kinds.sort_by_key(|(_, summaries)| summaries.len());
    let end = Instant::now() + BUDGET;
    let mut found: Vec<(u8, usize, usize, Summary)> = Vec::new();
    let mut more = false;
    'kinds: for (place, summaries) in &kinds {
        for (index, summary) in summaries.iter().enumerate() {
            if index % CLOCK_STEP == 0 && Instant::now() > end {
                more = true;
                break 'kinds;
            }
            if filter.matches(&SummaryRow { summary, figures: None, now_ms }) {
                found.push((rank(summary, text), *place, index, summary.clone()));
            }
        }
        if found.len() > FOUND_MAX {
            found.sort_by_key(|found| (found.0, found.1, found.2));
            found.truncate(limit + 1);
        }
    }
    found.sort_by_key(|found| (found.0, found.1, found.2));
    more |= found.len() > limit;
    let list: Vec<Value> = found.iter().take(limit).map(|(_, _, _, summary)| describe(summary)).collect();
    json!({ "list": list, "more": more })
}

/// How near the text is to the object's id or name; the lowest first.
fn rank(summary: &Summary, text: &str) -> u8 {
    let name = summary.facts.name.as_deref().unwrap_or_default().to_lowercase();
    let id = summary.key.id.to_lowercase();
    let own_id = summary.key.own_id().to_lowercase();
    let any = |test: &dyn Fn(&str) -> bool| test(&id) || test(&own_id) || test(&name);
    match () {
        () if any(&|known| known == text) => 0,
        () if any(&|known| known.starts_with(text)) => 1,
        () if any(&|known| known.contains(text)) => 2,
        () => 3,
    }
}

fn describe(summary: &Summary) -> Value {
    // Credentials are below their consumer, so that kind and id make the key of each object.
    let kind = match summary.key.kind {
        ObjectKind::Credential => ObjectKind::Consumer,
        kind => kind,
    };
    json!({
        "kind": kind.collection(),
        "id": &*summary.key.id,
        "name": summary.facts.name,
        "hint": hint(summary),
    })
}

/// A few words that tell the object from others.
pub(super) fn hint(summary: &Summary) -> String {
    let facts = &summary.facts;
    let several = |texts: &[Box<str>]| match texts {
        [] => String::new(),
        [one] => one.to_string(),
        [one, rest @ ..] => format!("{one} +{}", rest.len()),
    };
    match summary.key.kind {
        ObjectKind::Route => {
            let methods: Vec<&str> = facts.methods.iter().map(|method| &**method).collect();
            let match_text = format!("{}{}", several(&facts.hosts), several(&facts.paths));
            if methods.is_empty() { match_text } else { format!("{} {match_text}", methods.join(",")) }
        }
        ObjectKind::Service | ObjectKind::Ssl if !facts.hosts.is_empty() => several(&facts.hosts),
        ObjectKind::StreamRoute => several(&facts.paths),
        ObjectKind::Upstream => {
            let nodes = match facts.nodes {
                0 => String::new(),
                1 => ", 1 node".to_owned(),
                nodes => format!(", {nodes} nodes"),
            };
            format!("{}{nodes}", facts.object_type.as_deref().unwrap_or_default())
        }
        ObjectKind::Consumer if facts.group.is_some() => {
            format!("group {}", facts.group.as_deref().unwrap_or_default())
        }
        _ if !facts.plugins.is_empty() => several(&facts.plugins),
        _ => facts.desc.as_deref().unwrap_or_default().to_owned(),
    }
}

/// The kinds, those that people look for most often first.
const KINDS: [ObjectKind; 14] = [
    ObjectKind::Route,
    ObjectKind::Service,
    ObjectKind::Upstream,
    ObjectKind::Consumer,
    ObjectKind::Credential,
    ObjectKind::Ssl,
    ObjectKind::StreamRoute,
    ObjectKind::ConsumerGroup,
    ObjectKind::PluginConfig,
    ObjectKind::GlobalRule,
    ObjectKind::PluginMetadata,
    ObjectKind::Secret,
    ObjectKind::Proto,
    ObjectKind::Extension,
];
/// Default number of objects in an answer: the rows of a palette.
const LIMIT_DEFAULT: usize = 20;
/// Largest number of objects in an answer.
const LIMIT_MAX: usize = 100;
/// Time after which a search stops with what it has, because a palette asks at each key.
const BUDGET: Duration = Duration::from_millis(100);
/// Objects between two looks at the clock.
const CLOCK_STEP: usize = 256;
/// Matches that are held; beyond them only the best ones stay, one more than the answer has.
const FOUND_MAX: usize = 2_000;
