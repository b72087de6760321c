//! Changes of request bodies, responses, their media types and headers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::DiffLimit;
use super::document_walk::OperationPair;
use super::engine::{DiffEngine, clip_text};
use super::equivalence::restricts_nothing;
use super::reference::{DiffDocument, DiffNode, SchemaView, extend_pointer};
use super::schema_site::{SchemaSite, SiteKind};
use super::schema_walk::compare_schemas;

/// Response headers that OpenAPI describes elsewhere and ignores here.
const IGNORED_HEADER: &str = "content-type";

/// Whether values of this media type have visible types, so that `1` and `"1"` differ.
pub(super) fn is_json_media_type(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or("").trim();
    name.eq_ignore_ascii_case("application/json") || name.to_ascii_lowercase().ends_with("+json")
}

/// A media type in its parts, in lower case except for the values of parameters.
#[derive(PartialEq, Eq)]
struct MediaTypeName {
    /// Type, subtype and structured suffix.
    kind: String,
    subtype: String,
    suffix: String,
    parameters: BTreeMap<String, String>,
}

impl MediaTypeName {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let (kind, subtype) = parts.next()?.trim().split_once('/')?;
        let (subtype, suffix) = subtype.split_once('+').unwrap_or((subtype, ""));
        let parameters = parts.filter_map(|part| part.split_once('=')).map(|(name, value)| {
            (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned())
        });
        Some(Self {
            kind: kind.to_ascii_lowercase(),
            subtype: subtype.to_ascii_lowercase(),
            suffix: suffix.to_ascii_lowercase(),
            parameters: parameters.collect(),
        })
    }

    /// Whether `other` is the same type or a refinement, as `application/problem+json` of `application/json`.
    fn contains(&self, other: &Self) -> bool {
        let is_refinement =
            self.suffix.is_empty() && !other.suffix.is_empty() && other.suffix == self.subtype;
        let is_same = self.subtype == other.subtype && self.suffix == other.suffix;
        self.kind == other.kind && (is_refinement || is_same)
    }
}

/// Media types of two `content` objects: pairs, added and removed ones.
struct ContentMatch<'a> {
    paired: Vec<(&'a str, DiffNode<'a>, &'a str, DiffNode<'a>)>,
    added: Vec<(&'a str, DiffNode<'a>)>,
    removed: Vec<(&'a str, DiffNode<'a>)>,
}

fn match_content<'a>(engine: &DiffEngine<'a>, old: &DiffNode<'a>, new: &DiffNode<'a>) -> ContentMatch<'a> {
    let members = |document: DiffDocument<'a>, node: &DiffNode<'a>| {
        document.child(node, "content").map(|content| document.members(&content)).unwrap_or_default()
    };
    let mut new: BTreeMap<&str, DiffNode<'a>> = members(engine.new, new).into_iter().collect();
    let old: BTreeMap<&str, DiffNode<'a>> = members(engine.old, old).into_iter().collect();
    let mut matched = ContentMatch { paired: Vec::new(), added: Vec::new(), removed: Vec::new() };
    let mut open = Vec::new();
    for (name, node) in old {
        match new.remove(name) {
            Some(partner) => matched.paired.push((name, node, name, partner)),
            None => open.push((name, node)),
        }
    }
    for (name, node) in open {
        let parsed = MediaTypeName::parse(name);
        let is_related = |other: &&str| match (&parsed, MediaTypeName::parse(other)) {
            (Some(parsed), Some(other)) => parsed.contains(&other) || other.contains(parsed),
            _ => false,
        };
        let partner = new.keys().copied().find(is_related);
        match partner.and_then(|partner| new.remove_entry(partner)) {
            Some((new_name, partner)) => matched.paired.push((name, node, new_name, partner)),
            None => matched.removed.push((name, node)),
        }
    }
    matched.added = new.into_iter().collect();
    matched
}

pub(super) fn compare_request_body<'a>(
    engine: &mut DiffEngine<'a>,
    pair: &OperationPair<'a>,
) -> Result<(), DiffLimit> {
    let old = engine.old.child(&pair.old.node, "requestBody");
    let new = engine.new.child(&pair.new.node, "requestBody");
    let (old, new) = match (old, new) {
        (None, None) => return Ok(()),
        (None, Some(new)) if new.is_true("required") => {
            let text = "A required request body was added.".to_owned();
            return engine.report("request-body-added-required", &new.pointer, text);
        }
        (None, Some(new)) => {
            let text = "An optional request body was added.".to_owned();
            return engine.report("request-body-added-optional", &new.pointer, text);
        }
        (Some(old), None) => {
            let text = "The request body was removed.".to_owned();
            return engine.report("request-body-removed", &old.pointer, text);
        }
        (Some(old), Some(new)) => (old, new),
    };
    match (old.is_true("required"), new.is_true("required")) {
        (false, true) => {
            let text = "The request body became required.".to_owned();
            engine.report("request-body-became-required", &new.pointer, text)?;
        }
        (true, false) => {
            let text = "The request body became optional.".to_owned();
            engine.report("request-body-became-optional", &new.pointer, text)?;
        }
        _ => {}
    }
    let content = match_content(engine, &old, &new);
    for (name, node) in content.removed {
        let text = format!("The request body no longer accepts the media type `{}`.", clip_text(name));
        engine.report("request-body-media-type-removed", &node.pointer, text)?;
    }
    for (name, node) in content.added {
        let text = format!("The request body accepts the media type `{}` now.", clip_text(name));
        engine.report("request-body-media-type-added", &node.pointer, text)?;
    }
    for (_, old, new_name, new) in content.paired {
        let subject = format!("the request body ({})", clip_text(new_name));
        let site = SchemaSite::new(SiteKind::RequestBody, subject, is_json_media_type(new_name));
        compare_media_type(engine, &site, &old, &new)?;
    }
    Ok(())
}

/// Compares the schemas of a media type, for whole bodies and (OpenAPI 3.2) for single items of a stream.
fn compare_media_type<'a>(
    engine: &mut DiffEngine<'a>,
    site: &SchemaSite,
    old: &DiffNode<'a>,
    new: &DiffNode<'a>,
) -> Result<(), DiffLimit> {
    let side = if site.is_request() { "request" } else { "response" };
    for (keyword, label) in [("schema", "schema"), ("itemSchema", "item-schema")] {
        let view = |document: DiffDocument<'a>, node: &DiffNode<'a>| -> Option<SchemaView<'a>> {
            let value = node.value.get(keyword)?;
            Some(document.schema(value, extend_pointer(&node.pointer, keyword)))
        };
        match (view(engine.old, old), view(engine.new, new)) {
            (Some(old), Some(new)) => compare_schemas(engine, site, old, new)?,
            (None, Some(new)) if new.is_false() => {
                let text = format!("No value is accepted for {} any more.", site.subject);
                engine.report(&format!("{side}-body-schema-became-false"), &new.pointer, text)?;
            }
            (None, Some(new)) if !restricts_nothing(&new, &[]) => {
                let text = format!("A schema was added to {}.", site.subject);
                engine.report(&format!("{side}-body-media-type-{label}-added"), &new.pointer, text)?;
            }
            (Some(old), None) if !restricts_nothing(&old, &[]) => {
                let text = format!("The schema of {} was removed.", site.subject);
                let is_untyped = !site.is_request() && label == "item-schema" && !new.has("schema");
                let suffix = if is_untyped { "-untyped" } else { "" };
                engine.report(
                    &format!("{side}-body-media-type-{label}-removed{suffix}"),
                    &old.pointer,
                    text,
                )?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn compare_responses<'a>(
    engine: &mut DiffEngine<'a>,
    pair: &OperationPair<'a>,
) -> Result<(), DiffLimit> {
    let members = |document: DiffDocument<'a>, node: &DiffNode<'a>| -> BTreeMap<&'a str, DiffNode<'a>> {
        let responses =
            document.child(node, "responses").map(|node| document.members(&node)).unwrap_or_default();
        responses.into_iter().filter(|(status, _)| !status.starts_with("x-")).collect()
    };
    let old = members(engine.old, &pair.old.node);
    let new = members(engine.new, &pair.new.node);
    for (status, node) in &old {
        match new.get(status) {
            Some(new_node) => compare_response(engine, status, node, new_node)?,
            None => report_status(engine, status, node, "removed")?,
        }
    }
    for (status, node) in new.iter().filter(|(status, _)| !old.contains_key(*status)) {
        report_status(engine, status, node, "added")?;
    }
    Ok(())
}

/// Reports a status that is in one document only. `default` is no status and says nothing about success.
fn report_status(
    engine: &mut DiffEngine<'_>,
    status: &str,
    node: &DiffNode<'_>,
    verb: &str,
) -> Result<(), DiffLimit> {
    if !status.starts_with(|first: char| first.is_ascii_digit()) {
        return Ok(());
    }
    let class = if status.starts_with('2') { "success" } else { "non-success" };
    let text = format!("The response status `{}` was {verb}.", clip_text(status));
    engine.report(&format!("response-{class}-status-{verb}"), &node.pointer, text)
}

fn compare_response<'a>(
    engine: &mut DiffEngine<'a>,
    status: &str,
    old: &DiffNode<'a>,
    new: &DiffNode<'a>,
) -> Result<(), DiffLimit> {
    let status = clip_text(status);
    compare_headers(engine, &status, old, new)?;
    let content = match_content(engine, old, new);
    for (name, node) in content.removed {
        let text =
            format!("The response of status {status} no longer has the media type `{}`.", clip_text(name));
        engine.report("response-media-type-removed", &node.pointer, text)?;
    }
    for (name, node) in content.added {
        let text = format!("The response of status {status} has the media type `{}` now.", clip_text(name));
        engine.report("response-media-type-added", &node.pointer, text)?;
    }
    for (old_name, old, new_name, new) in content.paired {
        compare_media_type_names(engine, &status, old_name, new_name, &new.pointer)?;
        let subject = format!("the response of status {status} ({})", clip_text(new_name));
        let site = SchemaSite::new(SiteKind::ResponseBody, subject, is_json_media_type(new_name));
        compare_media_type(engine, &site, &old, &new)?;
    }
    Ok(())
}

fn compare_media_type_names(
    engine: &mut DiffEngine<'_>,
    status: &str,
    old_name: &str,
    new_name: &str,
    place: &str,
) -> Result<(), DiffLimit> {
    let (Some(old), Some(new)) = (MediaTypeName::parse(old_name), MediaTypeName::parse(new_name)) else {
        return Ok(());
    };
    if old_name == new_name || old == new {
        return Ok(());
    }
    let has_same_name = (&old.kind, &old.subtype, &old.suffix) == (&new.kind, &new.subtype, &new.suffix);
    let is_added = new.parameters.keys().any(|name| !old.parameters.contains_key(name));
    let is_removed = old.parameters.keys().any(|name| !new.parameters.contains_key(name));
    let is_changed =
        old.parameters.iter().any(|(name, value)| new.parameters.get(name).is_some_and(|v| v != value));
    let rule = match (has_same_name, is_added, is_removed, is_changed) {
        (true, true, false, false) => "response-media-type-parameter-added",
        (true, false, true, false) => "response-media-type-parameter-removed",
        (true, false, false, true) => "response-media-type-parameter-changed",
        (false, false, false, false) if old.contains(&new) => "response-media-type-name-specialized",
        (false, false, false, false) => "response-media-type-name-generalized",
        _ => "response-media-type-name-changed",
    };
    let (old, new) = (clip_text(old_name), clip_text(new_name));
    let text = format!("The response of status {status} changed its media type from `{old}` to `{new}`.");
    engine.report(rule, place, text)
}

fn compare_headers<'a>(
    engine: &mut DiffEngine<'a>,
    status: &str,
    old: &DiffNode<'a>,
    new: &DiffNode<'a>,
) -> Result<(), DiffLimit> {
    let members = |document: DiffDocument<'a>, node: &DiffNode<'a>| -> BTreeMap<String, DiffNode<'a>> {
        let headers = document.child(node, "headers").map(|node| document.members(&node)).unwrap_or_default();
        let named = headers.into_iter().map(|(name, node)| (name.to_ascii_lowercase(), node));
        named.filter(|(name, _)| name != IGNORED_HEADER).collect()
    };
    let (old, new) = (members(engine.old, old), members(engine.new, new));
    for (name, node) in &old {
        let subject = format!("the response header `{}` of status {status}", clip_text(name));
        match new.get(name) {
            Some(new_node) => compare_header(engine, subject, node, new_node)?,
            None => {
                let is_required = node.is_true("required");
                let presence = if is_required { "required" } else { "optional" };
                let rule = format!("{presence}-response-header-removed");
                engine.report(&rule, &node.pointer, format!("Removed {subject}, which was {presence}."))?;
            }
        }
    }
    for (name, node) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let text = format!("Added the response header `{}` to status {status}.", clip_text(name));
        engine.report("response-header-added", &node.pointer, text)?;
    }
    Ok(())
}

fn compare_header<'a>(
    engine: &mut DiffEngine<'a>,
    subject: String,
    old: &DiffNode<'a>,
    new: &DiffNode<'a>,
) -> Result<(), DiffLimit> {
    if old.is_true("required") && !new.is_true("required") {
        let text = format!("Clients can no longer rely on {subject}: it became optional.");
        engine.report("response-header-became-optional", &new.pointer, text)?;
    }
    let schema = |document: DiffDocument<'a>, node: &DiffNode<'a>| {
        let value: &'a Value = node.value.get("schema")?;
        Some(document.schema(value, extend_pointer(&node.pointer, "schema")))
    };
    let (Some(old), Some(new)) = (schema(engine.old, old), schema(engine.new, new)) else {
        return Ok(());
    };
    // A header value is text, so that numbers can be read as strings.
    compare_schemas(engine, &SchemaSite::new(SiteKind::ResponseHeader, subject, false), old, new)
}
