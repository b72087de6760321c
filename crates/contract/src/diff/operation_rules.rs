//! Changes of one operation: its id, tags, deprecation and stability, then its parameters, bodies and
//! security.

use std::collections::BTreeSet;

use serde_json::Value;

use super::DiffLimit;
use super::document_walk::{OperationPair, OperationSide};
use super::engine::{DiffEngine, clip_text};
use super::lifecycle::{
    LifecycleEvent, LifecycleState, RemovalStage, STABILITY_LEVELS, lifecycle_events, removal_stage,
    stability_rank,
};
use super::parameter::compare_parameters;
use super::payload::{compare_request_body, compare_responses};
use super::reference::{DiffNode, extend_pointer, member_place};
use super::security::compare_operation_security;
use super::value_set::string_items;

fn stability<'a>(node: &DiffNode<'a>) -> Option<&'a Value> {
    node.value.get("x-stability-level")
}

/// Whether an operation promises nothing yet, so that its removal is no change for clients.
fn is_experimental(node: &DiffNode<'_>) -> bool {
    stability_rank(stability(node)).is_ok_and(|rank| rank < 2)
}

/// Reports an operation of the old document that the new one does not have.
pub(super) fn report_removed_operation(
    engine: &mut DiffEngine<'_>,
    side: &OperationSide<'_>,
    is_whole_path: bool,
) -> Result<(), DiffLimit> {
    if is_experimental(&side.node) {
        return Ok(());
    }
    let stage = removal_stage(side.node.is_true("deprecated"), side.node.value.get("x-sunset"), engine.today);
    let (rule, reason) = match stage {
        RemovalStage::NotDeprecated => ("removed-without-deprecation", "without having been deprecated"),
        RemovalStage::Deprecated => ("removed-with-deprecation", "after it was deprecated"),
        RemovalStage::BeforeSunset => ("removed-before-sunset", "before its sunset date"),
        RemovalStage::InvalidSunset => ("", "and its `x-sunset` is no date"),
        RemovalStage::AfterSunset => return Ok(()),
    };
    let rule = match (rule, is_whole_path) {
        ("", _) => "api-path-sunset-parse".to_owned(),
        (rule, true) => format!("api-path-{rule}"),
        (rule, false) => format!("api-{rule}"),
    };
    engine.report(&rule, &side.node.pointer, format!("The operation was removed {reason}."))
}

pub(super) fn compare_operation<'a>(
    engine: &mut DiffEngine<'a>,
    pair: &OperationPair<'a>,
) -> Result<(), DiffLimit> {
    compare_stability(engine, pair)?;
    if is_experimental(&pair.new.node) {
        return Ok(());
    }
    compare_names(engine, pair)?;
    compare_lifecycle(engine, pair)?;
    compare_parameters(engine, pair)?;
    compare_request_body(engine, pair)?;
    compare_responses(engine, pair)?;
    compare_operation_security(engine, pair)
}

fn compare_stability(engine: &mut DiffEngine<'_>, pair: &OperationPair<'_>) -> Result<(), DiffLimit> {
    let place = member_place(&pair.old.node, &pair.new.node, "x-stability-level");
    let (old, new) =
        match (stability_rank(stability(&pair.old.node)), stability_rank(stability(&pair.new.node))) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(text), _) | (_, Err(text)) => {
                let text =
                    format!("The `x-stability-level` `{}` is none of {STABILITY_LEVELS:?}.", clip_text(text));
                return engine.report("api-invalid-stability-level", &place, text);
            }
        };
    if old == new {
        return Ok(());
    }
    let rule = if new < old { "api-stability-decreased" } else { "api-stability-increased" };
    let (old, new) = (STABILITY_LEVELS[old], STABILITY_LEVELS[new]);
    engine.report(rule, &place, format!("The stability changed from `{old}` to `{new}`."))
}

fn compare_names(engine: &mut DiffEngine<'_>, pair: &OperationPair<'_>) -> Result<(), DiffLimit> {
    let (old, new) = (pair.old.node.text("operationId"), pair.new.node.text("operationId"));
    let show = |name: Option<&str>| clip_text(name.unwrap_or("none"));
    if old.is_some() && old != new {
        let place = extend_pointer(&pair.old.node.pointer, "operationId");
        let text = format!("The operation id changed from `{}` to `{}`.", show(old), show(new));
        engine.report("api-operation-id-removed", &place, text)?;
    }
    if old.is_none() && new.is_some() {
        let place = extend_pointer(&pair.new.node.pointer, "operationId");
        engine.report(
            "api-operation-id-added",
            &place,
            format!("The operation id `{}` was added.", show(new)),
        )?;
    }
    let tags = |node: &DiffNode<'_>| -> BTreeSet<String> {
        string_items(node.value.get("tags")).into_iter().map(str::to_owned).collect()
    };
    let (old, new) = (tags(&pair.old.node), tags(&pair.new.node));
    for tag in old.difference(&new) {
        let place = extend_pointer(&pair.old.node.pointer, "tags");
        engine.report("api-tag-removed", &place, format!("The tag `{}` was removed.", clip_text(tag)))?;
    }
    for tag in new.difference(&old) {
        let place = extend_pointer(&pair.new.node.pointer, "tags");
        engine.report("api-tag-added", &place, format!("The tag `{}` was added.", clip_text(tag)))?;
    }
    Ok(())
}

/// `deprecated` and `x-sunset` of an operation or a parameter.
pub(super) fn lifecycle_state<'a>(node: &DiffNode<'a>) -> LifecycleState<'a> {
    LifecycleState { is_deprecated: node.is_true("deprecated"), sunset: node.value.get("x-sunset") }
}

fn compare_lifecycle(engine: &mut DiffEngine<'_>, pair: &OperationPair<'_>) -> Result<(), DiffLimit> {
    let (old, new) = (lifecycle_state(&pair.old.node), lifecycle_state(&pair.new.node));
    for event in lifecycle_events(old, new, engine.today) {
        let rule = match event {
            LifecycleEvent::Reactivated => "endpoint-reactivated",
            LifecycleEvent::Deprecated => "endpoint-deprecated",
            LifecycleEvent::DeprecatedWithSunset => "endpoint-deprecated-with-sunset",
            LifecycleEvent::DeprecatedWithInvalidSunset => "api-deprecated-sunset-parse",
            LifecycleEvent::DeprecatedWithPastSunset => "api-sunset-date-too-small",
            LifecycleEvent::SunsetDeleted => "sunset-deleted",
            LifecycleEvent::SunsetBecameInvalid => "api-path-sunset-parse",
            LifecycleEvent::SunsetEarlier => "api-sunset-date-changed-earlier",
            LifecycleEvent::SunsetEarlierThanToday => "api-sunset-date-changed-too-small",
        };
        engine.report(rule, &pair.new.node.pointer, format!("The operation {}.", event.describe()))?;
    }
    Ok(())
}
