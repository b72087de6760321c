//! Changes of security requirements and of the schemes that they name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::document_walk::OperationPair;
use super::engine::{DiffEngine, clip_text};
use super::reference::{DiffDocument, DiffNode, extend_pointer};
use super::value_set::string_items;
use super::{ChangeLevel, DiffLimit};

/// One alternative of a security list: the schemes that are needed together, each with its scopes.
type SecurityAlternative = BTreeMap<String, BTreeSet<String>>;

fn read_alternatives(list: Option<&Value>) -> Vec<SecurityAlternative> {
    let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let read = |item: &Value| -> Option<SecurityAlternative> {
        let schemes = item.as_object()?.iter();
        Some(schemes.map(|(name, scopes)| (name.clone(), read_scopes(scopes))).collect())
    };
    items.iter().filter_map(read).collect()
}

fn read_scopes(scopes: &Value) -> BTreeSet<String> {
    string_items(Some(scopes)).into_iter().map(str::to_owned).collect()
}

/// No requirement and an empty requirement both let requests without credentials pass.
fn allows_anonymous(alternatives: &[SecurityAlternative]) -> bool {
    alternatives.is_empty() || alternatives.iter().any(BTreeMap::is_empty)
}

fn describe_alternative(alternative: &SecurityAlternative) -> String {
    let names: Vec<&str> = alternative.keys().map(String::as_str).collect();
    clip_text(&names.join(" and "))
}

/// Alternatives by the names of their schemes: pairs with other scopes, added and removed ones.
struct SecurityDifference<'s> {
    added: Vec<&'s SecurityAlternative>,
    removed: Vec<&'s SecurityAlternative>,
    paired: Vec<(&'s SecurityAlternative, &'s SecurityAlternative)>,
}

fn compare_alternatives<'s>(
    old: &'s [SecurityAlternative],
    new: &'s [SecurityAlternative],
) -> SecurityDifference<'s> {
    let by_names = |list: &'s [SecurityAlternative]| -> BTreeMap<Vec<&'s str>, &'s SecurityAlternative> {
        let named = list.iter().filter(|alternative| !alternative.is_empty());
        named.map(|alternative| (alternative.keys().map(String::as_str).collect(), alternative)).collect()
    };
    let (old, new) = (by_names(old), by_names(new));
    let missing = |from: &BTreeMap<Vec<&'s str>, &'s SecurityAlternative>,
                   other: &BTreeMap<Vec<&'s str>, _>| {
        from.iter()
            .filter(|(names, _)| !other.contains_key(*names))
            .map(|(_, alternative)| *alternative)
            .collect()
    };
    SecurityDifference {
        added: missing(&new, &old),
        removed: missing(&old, &new),
        paired: old.iter().filter_map(|(names, old)| new.get(names).map(|new| (*old, *new))).collect(),
    }
}

pub(super) fn compare_operation_security(
    engine: &mut DiffEngine<'_>,
    pair: &OperationPair<'_>,
) -> Result<(), DiffLimit> {
    // An operation without a list of its own has that of the root.
    let effective = |document: DiffDocument<'_>, node: &DiffNode<'_>| match node.value.get("security") {
        Some(list) => (read_alternatives(Some(list)), extend_pointer(&node.pointer, "security")),
        None => (read_alternatives(document.root.get("security")), "/security".to_owned()),
    };
    let (old, old_place) = effective(engine.old, &pair.old.node);
    let (new, new_place) = effective(engine.new, &pair.new.node);
    let accepts_all = allows_anonymous(&new);
    match (allows_anonymous(&old), accepts_all) {
        (true, false) => {
            let text = "Requests without credentials are no longer accepted.".to_owned();
            return engine.report("api-security-anonymous-access-removed", &new_place, text);
        }
        (false, true) => {
            // Without any list in the new document the place is that of the removed list.
            let is_listed = engine.new.root.pointer(&new_place).is_some();
            let place = if is_listed { &new_place } else { &old_place };
            let text = "Requests without credentials are accepted now.".to_owned();
            return engine.report("api-security-anonymous-access-added", place, text);
        }
        _ => {}
    }
    report_security(
        engine,
        &compare_alternatives(&old, &new),
        "api-security",
        accepts_all,
        (&old_place, &new_place),
    )
}

/// Reports differences under rules of the prefix. `accepts_all`: no requirement of the new list rejects a
/// request.
fn report_security(
    engine: &mut DiffEngine<'_>,
    difference: &SecurityDifference<'_>,
    prefix: &str,
    accepts_all: bool,
    places: (&str, &str),
) -> Result<(), DiffLimit> {
    // Operations report the effect of the root's list; without one it is only text.
    let ceiling = if prefix == "api-security" { ChangeLevel::Breaking } else { ChangeLevel::Info };
    for alternative in &difference.added {
        let text = format!("The security alternative `{}` was added.", describe_alternative(alternative));
        engine.report_capped(&format!("{prefix}-added"), ceiling, places.1, text)?;
    }
    for alternative in difference.removed.iter().filter(|_| !accepts_all) {
        let text = format!("The security alternative `{}` was removed.", describe_alternative(alternative));
        engine.report_capped(&format!("{prefix}-removed"), ceiling, places.0, text)?;
    }
    for (old, new) in &difference.paired {
        for (scheme, old_scopes) in *old {
            let Some(new_scopes) = new.get(scheme) else {
                continue;
            };
            let scheme = clip_text(scheme);
            for scope in new_scopes.difference(old_scopes).filter(|_| !accepts_all) {
                let text = format!("The scheme `{scheme}` demands the scope `{}` now.", clip_text(scope));
                engine.report_capped(&format!("{prefix}-scope-added"), ceiling, places.1, text)?;
            }
            for scope in old_scopes.difference(new_scopes) {
                let text =
                    format!("The scheme `{scheme}` no longer demands the scope `{}`.", clip_text(scope));
                engine.report_capped(&format!("{prefix}-scope-removed"), ceiling, places.0, text)?;
            }
        }
    }
    Ok(())
}

/// Compares the root's list. `is_inherited`: an operation of both documents has it, and reported its effect.
pub(super) fn compare_root_security(
    engine: &mut DiffEngine<'_>,
    is_inherited: bool,
) -> Result<(), DiffLimit> {
    if is_inherited {
        return Ok(());
    }
    let old = read_alternatives(engine.old.root.get("security"));
    let new = read_alternatives(engine.new.root.get("security"));
    let difference = compare_alternatives(&old, &new);
    report_security(engine, &difference, "api-global-security", false, ("/security", "/security"))
}

fn security_schemes<'a>(document: DiffDocument<'a>) -> BTreeMap<&'a str, DiffNode<'a>> {
    let components = document.child(&document.root_node(), "components");
    let schemes = components.and_then(|node| document.child(&node, "securitySchemes"));
    schemes.map(|node| document.members(&node)).unwrap_or_default().into_iter().collect()
}

pub(super) fn compare_security_schemes(engine: &mut DiffEngine<'_>) -> Result<(), DiffLimit> {
    let (old, new) = (security_schemes(engine.old), security_schemes(engine.new));
    for (name, node) in &old {
        let label = clip_text(name);
        match new.get(name) {
            Some(new_node) => compare_scheme(engine, &label, node, new_node)?,
            None => {
                let text = format!("The security scheme `{label}` was removed.");
                engine.report("api-security-component-removed", &node.pointer, text)?;
            }
        }
    }
    for (name, node) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let text = format!("The security scheme `{}` was added.", clip_text(name));
        engine.report("api-security-component-added", &node.pointer, text)?;
    }
    Ok(())
}

fn compare_scheme<'a>(
    engine: &mut DiffEngine<'a>,
    label: &str,
    old: &DiffNode<'a>,
    new: &DiffNode<'a>,
) -> Result<(), DiffLimit> {
    const FIELDS: [(&str, &str); 5] = [
        ("name", "api-security-component-api-key-name-changed"),
        ("in", "api-security-component-api-key-in-changed"),
        ("scheme", "api-security-component-http-scheme-changed"),
        ("bearerFormat", "api-security-component-bearer-format-changed"),
        ("openIdConnectUrl", "api-security-component-openid-connect-url-changed"),
    ];
    if old.text("type") != new.text("type") {
        let text = format!("The security scheme `{label}` changed its type.");
        return engine.report("api-security-component-type-changed", &new.pointer, text);
    }
    for (field, rule) in FIELDS {
        // Names of HTTP authentication schemes and of header fields are case-insensitive (RFC 9110, sections
        // 5.1 and 11.1).
        let read = |node: &DiffNode<'a>| {
            let text = node.text(field).unwrap_or("");
            let is_folded = field == "scheme" || (field == "name" && new.text("in") == Some("header"));
            if is_folded { text.to_ascii_lowercase() } else { text.to_owned() }
        };
        if read(old) != read(new) {
            let text = format!("The security scheme `{label}` changed its `{field}`.");
            engine.report(rule, &extend_pointer(&new.pointer, field), text)?;
        }
    }
    for flow in ["implicit", "password", "clientCredentials", "authorizationCode"] {
        let find = |document: DiffDocument<'a>, node: &DiffNode<'a>| {
            document.child(node, "flows").and_then(|flows| document.child(&flows, flow))
        };
        if let (Some(old), Some(new)) = (find(engine.old, old), find(engine.new, new)) {
            compare_flow(engine, &format!("{label} ({flow})"), &old, &new)?;
        }
    }
    Ok(())
}

fn compare_flow(
    engine: &mut DiffEngine<'_>,
    label: &str,
    old: &DiffNode<'_>,
    new: &DiffNode<'_>,
) -> Result<(), DiffLimit> {
    const URLS: [(&str, &str); 3] = [
        ("authorizationUrl", "api-security-component-oauth-url-changed"),
        ("tokenUrl", "api-security-component-oauth-token-url-changed"),
        ("refreshUrl", "api-security-component-oauth-refresh-url-changed"),
    ];
    for (field, rule) in URLS {
        if old.text(field) != new.text(field) {
            let text = format!("The security scheme `{label}` changed its `{field}`.");
            engine.report(rule, &extend_pointer(&new.pointer, field), text)?;
        }
    }
    let scopes = |node: &DiffNode<'_>| -> BTreeMap<String, Value> {
        let scopes = node.value.get("scopes").and_then(Value::as_object);
        scopes.into_iter().flatten().map(|(name, text)| (name.clone(), text.clone())).collect()
    };
    let (old_scopes, new_scopes) = (scopes(old), scopes(new));
    let names: BTreeSet<&String> = old_scopes.keys().chain(new_scopes.keys()).collect();
    for name in names {
        let (verb, holder) = match (old_scopes.get(name), new_scopes.get(name)) {
            (None, _) => ("added", new),
            (_, None) => ("removed", old),
            (old_text, new_text) if old_text != new_text => ("changed", new),
            _ => continue,
        };
        let text = format!("The scope `{}` of the security scheme `{label}` was {verb}.", clip_text(name));
        let rule = format!("api-security-component-oauth-scope-{verb}");
        engine.report(&rule, &extend_pointer(&holder.pointer, "scopes"), text)?;
    }
    Ok(())
}
