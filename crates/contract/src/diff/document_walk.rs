//! Compares the roots of two documents: paths and their operations, webhooks, schemas and security schemes.

use std::collections::{BTreeMap, HashMap};

use super::DiffLimit;
use super::engine::{DiffEngine, clip_text};
use super::operation_rules::{compare_operation, report_removed_operation};
use super::reference::{DiffDocument, DiffNode};
use super::security::{compare_root_security, compare_security_schemes};

/// Methods of a path item, in the order in which operations are compared.
const METHODS: [&str; 9] = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// An operation of one document with all that it inherits from its path item.
#[derive(Clone)]
pub(super) struct OperationSide<'a> {
    pub(super) node: DiffNode<'a>,
    pub(super) path_item: DiffNode<'a>,
    /// Path template as written.
    pub(super) template: String,
}

/// An operation of both documents.
pub(super) struct OperationPair<'a> {
    pub(super) old: OperationSide<'a>,
    pub(super) new: OperationSide<'a>,
}

pub(super) fn compare_roots(engine: &mut DiffEngine<'_>) -> Result<(), DiffLimit> {
    let (old, new) = (engine.old.root_node(), engine.new.root_node());
    compare_version(engine)?;
    compare_security_schemes(engine)?;
    compare_component_names(engine)?;
    let mut inherits_security = compare_paths(engine, &old, &new)?;
    inherits_security |= compare_webhooks(engine, &old, &new)?;
    leave_operation(engine);
    compare_root_security(engine, inherits_security)
}

fn compare_version(engine: &mut DiffEngine<'_>) -> Result<(), DiffLimit> {
    let version = |document: DiffDocument<'_>| {
        let version = document
            .root
            .get("info")
            .and_then(|info| info.get("version"))
            .and_then(|version| version.as_str());
        version.unwrap_or("").to_owned()
    };
    let (old, new) = (version(engine.old), version(engine.new));
    if old == new {
        return Ok(());
    }
    let (old, new) = (clip_text(&old), clip_text(&new));
    engine.report(
        "api-version-changed",
        "/info/version",
        format!("The version changed from `{old}` to `{new}`."),
    )
}

fn compare_component_names(engine: &mut DiffEngine<'_>) -> Result<(), DiffLimit> {
    let names = |document: DiffDocument<'_>| -> BTreeMap<String, String> {
        let node = DiffNode { value: document.root, pointer: String::new() };
        let schemas = document.child(&node, "components").and_then(|node| document.child(&node, "schemas"));
        let members = schemas.map(|node| document.members(&node)).unwrap_or_default();
        members.into_iter().map(|(name, node)| (name.to_owned(), node.pointer)).collect()
    };
    let (old, new) = (names(engine.old), names(engine.new));
    for (name, place) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        let name = clip_text(name);
        engine.report(
            "api-schema-removed",
            place,
            format!("The schema `{name}` was removed from the components."),
        )?;
    }
    Ok(())
}

/// The template with its parameters replaced, so that renamed parameters do not make another path.
fn path_shape(template: &str) -> String {
    let mut shape = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let Some(length) = rest[start..].find('}') else {
            break;
        };
        shape.push_str(&rest[..start]);
        shape.push_str("{}");
        rest = &rest[start + length + 1..];
    }
    shape.push_str(rest);
    shape
}

/// Names of the parameters of a template, in order.
pub(super) fn template_parameters(template: &str) -> Vec<&str> {
    let ends = template.split('{').skip(1);
    ends.filter_map(|part| part.split_once('}')).map(|(name, _)| name).collect()
}

/// The new path item of each old one: the same template first, otherwise one of the same shape.
fn match_paths<'a>(
    old: &[(&'a str, DiffNode<'a>)],
    new: &[(&'a str, DiffNode<'a>)],
) -> (Vec<Option<usize>>, Vec<bool>) {
    let by_template: HashMap<&str, usize> =
        new.iter().enumerate().map(|(index, (name, _))| (*name, index)).collect();
    let mut by_shape: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, (template, _)) in new.iter().enumerate() {
        by_shape.entry(path_shape(template)).or_default().push(index);
    }
    let mut taken = vec![false; new.len()];
    let mut matches: Vec<Option<usize>> =
        old.iter().map(|(name, _)| by_template.get(name).copied()).collect();
    matches.iter().flatten().for_each(|index| taken[*index] = true);
    for (found, (template, _)) in matches.iter_mut().zip(old).filter(|(found, _)| found.is_none()) {
        let candidates = by_shape.get(&path_shape(template)).map(Vec::as_slice).unwrap_or_default();
        *found = candidates.iter().copied().find(|index| !taken[*index]);
        found.iter().for_each(|index| taken[*index] = true);
    }
    (matches, taken)
}

/// Compares all paths. Returns whether an operation of both documents inherits the root's security.
fn compare_paths<'a>(
    engine: &mut DiffEngine<'a>,
    old: &DiffNode<'a>,
    new: &DiffNode<'a>,
) -> Result<bool, DiffLimit> {
    let members = |document: DiffDocument<'a>, root: &DiffNode<'a>| {
        let paths = document.child(root, "paths").map(|paths| document.members(&paths)).unwrap_or_default();
        paths.into_iter().filter(|(template, _)| template.starts_with('/')).collect::<Vec<_>>()
    };
    let (old, new) = (members(engine.old, old), members(engine.new, new));
    let (matches, taken) = match_paths(&old, &new);
    let mut inherits_security = false;
    for ((template, old_item), found) in old.iter().zip(matches) {
        match found {
            Some(index) => {
                let (new_template, new_item) = &new[index];
                let templates = (*template, *new_template);
                inherits_security |= compare_path_items(engine, templates, old_item, new_item, "")?;
            }
            None => {
                for (method, side) in operations(engine.old, template, old_item) {
                    enter_operation(engine, method, template, &side);
                    report_removed_operation(engine, &side, true)?;
                }
            }
        }
    }
    for ((template, new_item), _) in new.iter().zip(taken).filter(|(_, taken)| !taken) {
        for (method, side) in operations(engine.new, template, new_item) {
            report_added_operation(engine, method, template, &side)?;
        }
    }
    Ok(inherits_security)
}

fn operations<'a>(
    document: DiffDocument<'a>,
    template: &str,
    item: &DiffNode<'a>,
) -> Vec<(&'static str, OperationSide<'a>)> {
    let side = |method| {
        let node = document.child(item, method).filter(|node| node.value.is_object())?;
        Some((method, OperationSide { node, path_item: item.clone(), template: template.to_owned() }))
    };
    METHODS.into_iter().filter_map(side).collect()
}

/// Compares the operations of a path. `label` is written before the template of a webhook.
fn compare_path_items<'a>(
    engine: &mut DiffEngine<'a>,
    templates: (&str, &str),
    old: &DiffNode<'a>,
    new: &DiffNode<'a>,
    label: &str,
) -> Result<bool, DiffLimit> {
    let old_operations = operations(engine.old, templates.0, old);
    let mut new_operations: HashMap<&str, OperationSide<'a>> =
        operations(engine.new, templates.1, new).into_iter().collect();
    let mut inherits_security = false;
    for (method, old_side) in old_operations {
        match new_operations.remove(method) {
            Some(new_side) => {
                inherits_security |= !old_side.node.has("security") && !new_side.node.has("security");
                enter_operation(engine, method, &format!("{label}{}", templates.1), &new_side);
                compare_operation(engine, &OperationPair { old: old_side, new: new_side })?;
            }
            None => {
                enter_operation(engine, method, &format!("{label}{}", templates.0), &old_side);
                report_removed_operation(engine, &old_side, false)?;
            }
        }
    }
    for method in METHODS {
        if let Some(side) = new_operations.get(method) {
            report_added_operation(engine, method, &format!("{label}{}", templates.1), side)?;
        }
    }
    Ok(inherits_security)
}

fn report_added_operation(
    engine: &mut DiffEngine<'_>,
    method: &str,
    template: &str,
    side: &OperationSide<'_>,
) -> Result<(), DiffLimit> {
    enter_operation(engine, method, template, side);
    engine.report("endpoint-added", &side.node.pointer, "The operation was added.".to_owned())
}

fn enter_operation(engine: &mut DiffEngine<'_>, method: &str, template: &str, side: &OperationSide<'_>) {
    engine.operation = format!("{} {template}", method.to_ascii_uppercase()).into();
    engine.operation_id = side.node.text("operationId").map(Box::from);
}

fn leave_operation(engine: &mut DiffEngine<'_>) {
    engine.operation = Box::default();
    engine.operation_id = None;
}

fn compare_webhooks<'a>(
    engine: &mut DiffEngine<'a>,
    old: &DiffNode<'a>,
    new: &DiffNode<'a>,
) -> Result<bool, DiffLimit> {
    let members = |document: DiffDocument<'a>, root: &DiffNode<'a>| -> BTreeMap<&'a str, DiffNode<'a>> {
        let webhooks =
            document.child(root, "webhooks").map(|node| document.members(&node)).unwrap_or_default();
        webhooks.into_iter().collect()
    };
    let (old, new) = (members(engine.old, old), members(engine.new, new));
    let mut inherits_security = false;
    for (name, old_item) in &old {
        if let Some(new_item) = new.get(name) {
            inherits_security |= compare_path_items(engine, (name, name), old_item, new_item, "webhook:")?;
        } else {
            leave_operation(engine);
            let text = format!("The webhook `{}` was removed.", clip_text(name));
            engine.report("webhook-removed", &old_item.pointer, text)?;
        }
    }
    for (name, new_item) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        leave_operation(engine);
        engine.report(
            "webhook-added",
            &new_item.pointer,
            format!("The webhook `{}` was added.", clip_text(name)),
        )?;
    }
    Ok(inherits_security)
}
