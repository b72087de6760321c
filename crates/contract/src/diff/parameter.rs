//! Changes of the parameters of an operation, those of its path item included.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::DiffLimit;
use super::document_walk::{OperationPair, OperationSide, template_parameters};
use super::engine::{DiffEngine, clip_text};
use super::lifecycle::{LifecycleEvent, RemovalStage, lifecycle_events, removal_stage};
use super::operation_rules::lifecycle_state;
use super::payload::is_json_media_type;
use super::reference::{DiffDocument, DiffNode, SchemaView, extend_pointer, member_place};
use super::schema_site::{SchemaSite, SiteKind};
use super::schema_walk::compare_schemas;
use super::value_set::keeps_positions;

/// Location and name of a parameter. Path parameters have the name of the old template, header names are
/// lower case.
type ParameterKey = (String, String);

#[derive(Clone)]
struct ParameterEntry<'a> {
    node: DiffNode<'a>,
    name: &'a str,
    location: &'a str,
    /// Declared at the path item and therefore valid for all its operations.
    is_shared: bool,
}

/// The parameters of one side: by key, and the keys in order of declaration.
struct OperationParameters<'a> {
    entries: BTreeMap<ParameterKey, ParameterEntry<'a>>,
    order: Vec<ParameterKey>,
}

pub(super) fn compare_parameters<'a>(
    engine: &mut DiffEngine<'a>,
    pair: &OperationPair<'a>,
) -> Result<(), DiffLimit> {
    let old_names = template_parameters(&pair.old.template);
    let new_names = template_parameters(&pair.new.template);
    let renamed: HashMap<&str, &str> = new_names.into_iter().zip(old_names).collect();
    let old = collect_parameters(engine.old, &pair.old, &HashMap::new());
    let new = collect_parameters(engine.new, &pair.new, &renamed);
    for (key, entry) in &old.entries {
        match new.entries.get(key) {
            Some(new_entry) => compare_parameter(engine, entry, new_entry)?,
            None => report_removed_parameter(engine, entry)?,
        }
    }
    for (_, entry) in new.entries.iter().filter(|(key, _)| !old.entries.contains_key(*key)) {
        report_added_parameter(engine, entry)?;
    }
    if engine.options.property_order_is_wire && !keeps_positions(&old.order, &new.order) {
        let place = member_place(&pair.old.node, &pair.new.node, "parameters");
        let text =
            "The parameters are at other positions, which are their field numbers on the wire.".to_owned();
        engine.report("wire-parameter-order-changed", &place, text)?;
    }
    Ok(())
}

/// Parameters of the path item and of the operation, which replaces those of the same location and name.
fn collect_parameters<'a>(
    document: DiffDocument<'a>,
    side: &OperationSide<'a>,
    renamed: &HashMap<&str, &str>,
) -> OperationParameters<'a> {
    let mut list = OperationParameters { entries: BTreeMap::new(), order: Vec::new() };
    for (holder, is_shared) in [(&side.path_item, true), (&side.node, false)] {
        let Some(Value::Array(values)) = holder.value.get("parameters") else {
            continue;
        };
        let pointer = extend_pointer(&holder.pointer, "parameters");
        for (index, value) in values.iter().enumerate() {
            let node = document.resolve(value, extend_pointer(&pointer, &index.to_string()));
            let (Some(name), Some(location)) = (node.text("name"), node.text("in")) else {
                continue;
            };
            let key_name = match location {
                "path" => renamed.get(name).copied().unwrap_or(name).to_owned(),
                "header" => name.to_ascii_lowercase(),
                _ => name.to_owned(),
            };
            let key = (location.to_owned(), key_name);
            if list.entries.insert(key.clone(), ParameterEntry { node, name, location, is_shared }).is_none()
            {
                list.order.push(key);
            }
        }
    }
    list
}

impl<'a> ParameterEntry<'a> {
    fn is_required(&self) -> bool {
        self.location == "path" || self.node.is_true("required")
    }

    fn subject(&self) -> String {
        format!("{} parameter `{}`", clip_text(self.location), clip_text(self.name))
    }

    fn style(&self) -> &'a str {
        let default = if matches!(self.location, "query" | "cookie") { "form" } else { "simple" };
        self.node.text("style").unwrap_or(default)
    }

    fn is_exploded(&self) -> bool {
        self.node.value.get("explode").and_then(Value::as_bool).unwrap_or(self.style() == "form")
    }

    /// The parameter's schema, and whether it is the content of a JSON text.
    fn schema(&self, document: DiffDocument<'a>) -> Option<(SchemaView<'a>, bool)> {
        if let Some(value) = self.node.value.get("schema") {
            return Some((document.schema(value, extend_pointer(&self.node.pointer, "schema")), false));
        }
        let content = document.child(&self.node, "content")?;
        let (media_type, entry) = document.members(&content).into_iter().next()?;
        let value = entry.value.get("schema")?;
        Some((
            document.schema(value, extend_pointer(&entry.pointer, "schema")),
            is_json_media_type(media_type),
        ))
    }
}

fn report_removed_parameter(
    engine: &mut DiffEngine<'_>,
    entry: &ParameterEntry<'_>,
) -> Result<(), DiffLimit> {
    let stage =
        removal_stage(entry.node.is_true("deprecated"), entry.node.value.get("x-sunset"), engine.today);
    let rule = match stage {
        RemovalStage::NotDeprecated => "request-parameter-removed",
        RemovalStage::Deprecated => "request-parameter-removed-with-deprecation",
        RemovalStage::BeforeSunset => "request-parameter-removed-before-sunset",
        RemovalStage::InvalidSunset => "request-parameter-sunset-parse",
        RemovalStage::AfterSunset => return Ok(()),
    };
    report(engine, rule, entry, "was removed")
}

fn report_added_parameter(engine: &mut DiffEngine<'_>, entry: &ParameterEntry<'_>) -> Result<(), DiffLimit> {
    let rule = match (entry.location, entry.is_shared, entry.is_required()) {
        ("path", _, _) => "new-request-path-parameter",
        (_, true, true) => "new-required-request-default-parameter-to-existing-path",
        (_, true, false) => "new-optional-request-default-parameter-to-existing-path",
        (_, false, true) => "new-required-request-parameter",
        (_, false, false) => "new-optional-request-parameter",
    };
    let predicate = if entry.is_required() { "was added and is required" } else { "was added" };
    report(engine, rule, entry, predicate)
}

fn report(
    engine: &mut DiffEngine<'_>,
    rule: &str,
    entry: &ParameterEntry<'_>,
    predicate: &str,
) -> Result<(), DiffLimit> {
    engine.report(rule, &entry.node.pointer, format!("The {} {predicate}.", entry.subject()))
}

fn compare_parameter<'a>(
    engine: &mut DiffEngine<'a>,
    old: &ParameterEntry<'a>,
    new: &ParameterEntry<'a>,
) -> Result<(), DiffLimit> {
    match (old.is_required(), new.is_required()) {
        (false, true) => report(engine, "request-parameter-became-required", new, "became required")?,
        (true, false) => report(engine, "request-parameter-became-optional", new, "became optional")?,
        _ => {}
    }
    if (old.style(), old.is_exploded()) != (new.style(), new.is_exploded()) {
        let predicate = "is serialized in another way (`style`, `explode`)";
        report(engine, "request-parameter-serialization-changed", new, predicate)?;
    }
    compare_parameter_lifecycle(engine, old, new)?;
    let (Some((old_schema, is_strict)), Some((new_schema, _))) =
        (old.schema(engine.old), new.schema(engine.new))
    else {
        return Ok(());
    };
    let mut site = SchemaSite::new(SiteKind::Parameter, format!("the {}", new.subject()), is_strict);
    site.is_header_parameter = new.location == "header";
    site.is_optional_parameter = !old.is_required() && !new.is_required();
    site.is_form_exploded = new.style() == "form" && new.is_exploded();
    compare_schemas(engine, &site, old_schema, new_schema)
}

fn compare_parameter_lifecycle(
    engine: &mut DiffEngine<'_>,
    old: &ParameterEntry<'_>,
    new: &ParameterEntry<'_>,
) -> Result<(), DiffLimit> {
    for event in lifecycle_events(lifecycle_state(&old.node), lifecycle_state(&new.node), engine.today) {
        let rule = match event {
            LifecycleEvent::Reactivated => "request-parameter-reactivated",
            LifecycleEvent::Deprecated | LifecycleEvent::DeprecatedWithSunset => {
                "request-parameter-deprecated"
            }
            LifecycleEvent::DeprecatedWithInvalidSunset | LifecycleEvent::SunsetBecameInvalid => {
                "request-parameter-sunset-parse"
            }
            LifecycleEvent::DeprecatedWithPastSunset => "request-parameter-sunset-date-too-small",
            LifecycleEvent::SunsetDeleted => "request-parameter-sunset-deleted",
            LifecycleEvent::SunsetEarlier => "request-parameter-sunset-date-changed-earlier",
            LifecycleEvent::SunsetEarlierThanToday => "request-parameter-sunset-date-changed-too-small",
        };
        report(engine, rule, new, event.describe())?;
    }
    Ok(())
}
