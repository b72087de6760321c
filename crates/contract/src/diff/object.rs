//! Changes of properties: added and removed ones, `required`, read-only and write-only, and deprecation.

use std::collections::{HashMap, HashSet};

use super::lifecycle::{
    LifecycleEvent, LifecycleState, RemovalStage, STABILITY_LEVELS, lifecycle_events, removal_stage,
    stability_rank,
};
use super::reference::{SchemaView, extend_pointer};
use super::schema_site::{SchemaPair, SiteKind};
use super::schema_walk::SchemaWalk;
use super::transition::BranchTransition;
use super::value_set::{keeps_positions, string_items};
use super::{ChangeLevel, DiffLimit};

/// A property by name with the facts of its object.
struct PropertyFacts<'p> {
    name: &'p str,
    was_required: bool,
    is_required: bool,
    /// Whether the object has `allOf`: its branches may demand the property too.
    is_combined: bool,
}

impl<'a> SchemaWalk<'_, 'a> {
    pub(super) fn compare_properties(
        &mut self,
        pair: &SchemaPair<'a>,
        transition: &BranchTransition<'a>,
    ) -> Result<(), DiffLimit> {
        let old = self.engine.old.schema_map(&pair.old, "properties");
        let new = self.engine.new.schema_map(&pair.new, "properties");
        self.compare_property_order(pair, &old, &new)?;
        let was_required: HashSet<&str> = string_items(pair.old.get("required")).into_iter().collect();
        let is_required: HashSet<&str> = string_items(pair.new.get("required")).into_iter().collect();
        let new_by_name: HashMap<&str, &SchemaView<'a>> =
            new.iter().map(|(name, schema)| (*name, schema)).collect();
        let old_by_name: HashMap<&str, &SchemaView<'a>> =
            old.iter().map(|(name, schema)| (*name, schema)).collect();
        for (name, old_schema) in &old {
            let facts = PropertyFacts {
                name,
                was_required: was_required.contains(name),
                is_required: is_required.contains(name),
                is_combined: pair.is_under_all_of || pair.has_all_of(),
            };
            match new_by_name.get(name) {
                Some(new_schema) => self.compare_property(pair, &facts, old_schema, new_schema)?,
                None if transition.has_moved(name) => {}
                None => self.report_removed_property(pair, &facts, old_schema)?,
            }
        }
        for (name, new_schema) in &new {
            if !old_by_name.contains_key(name) {
                self.report_added_property(pair, name, is_required.contains(name), new_schema)?;
            }
        }
        Ok(())
    }

    fn compare_property(
        &mut self,
        pair: &SchemaPair<'a>,
        facts: &PropertyFacts<'_>,
        old: &SchemaView<'a>,
        new: &SchemaView<'a>,
    ) -> Result<(), DiffLimit> {
        let mut child = pair.descend(facts.name, old.clone(), new.clone());
        self.compare_required(&child, facts)?;
        self.compare_access(&child, facts)?;
        child.is_hidden |= self.site.hides(new.is_true("readOnly"), new.is_true("writeOnly"));
        self.compare_property_lifecycle(&child)?;
        self.visit(child);
        Ok(())
    }

    fn report_removed_property(
        &mut self,
        pair: &SchemaPair<'a>,
        facts: &PropertyFacts<'_>,
        old: &SchemaView<'a>,
    ) -> Result<(), DiffLimit> {
        let stage = removal_stage(old.is_true("deprecated"), old.get("x-sunset"), self.engine.today);
        let rule = match self.site.kind {
            SiteKind::RequestBody if old.is_true("readOnly") => return Ok(()),
            SiteKind::RequestBody => match stage {
                RemovalStage::NotDeprecated | RemovalStage::InvalidSunset => "request-property-removed",
                RemovalStage::Deprecated => "request-property-removed-with-deprecation",
                RemovalStage::BeforeSunset => "request-property-removed-before-sunset",
                RemovalStage::AfterSunset => return Ok(()),
            },
            SiteKind::ResponseBody => match (facts.was_required, old.is_true("writeOnly"), stage) {
                (true, true, _) => "response-required-write-only-property-removed",
                (false, true, _) => "response-optional-write-only-property-removed",
                (false, false, _) => "response-optional-property-removed",
                (true, false, RemovalStage::Deprecated) => {
                    "response-required-property-removed-with-deprecation"
                }
                (true, false, RemovalStage::BeforeSunset) => {
                    "response-required-property-removed-before-sunset"
                }
                (true, false, RemovalStage::AfterSunset) => return Ok(()),
                (true, false, _) => "response-required-property-removed",
            },
            SiteKind::Parameter | SiteKind::ResponseHeader => return Ok(()),
        };
        let place = extend_pointer(&extend_pointer(&pair.old.pointer, "properties"), facts.name);
        let ceiling = self.ceiling(pair.is_under_all_of, pair.is_hidden);
        self.emit_rule(rule, ceiling, &place, &pair.path_of(facts.name), "was removed")
    }

    fn report_added_property(
        &mut self,
        pair: &SchemaPair<'a>,
        name: &str,
        is_required: bool,
        new: &SchemaView<'a>,
    ) -> Result<(), DiffLimit> {
        let is_hidden =
            if self.site.is_request() { new.is_true("readOnly") } else { new.is_true("writeOnly") };
        let rule = match (self.site.kind, is_required, is_hidden) {
            (SiteKind::RequestBody | SiteKind::Parameter, _, true) => return Ok(()),
            (SiteKind::RequestBody, true, false) if new.get("default").is_some() => {
                "new-required-request-property-with-default"
            }
            (SiteKind::RequestBody, true, false) => "new-required-request-property",
            (SiteKind::RequestBody, false, false) => "new-optional-request-property",
            (SiteKind::Parameter, true, false) if self.site.is_header_parameter => {
                "new-required-request-header-property"
            }
            (SiteKind::ResponseBody, true, true) => "response-required-write-only-property-added",
            (SiteKind::ResponseBody, true, false) => "response-required-property-added",
            (SiteKind::ResponseBody, false, true) => "response-optional-write-only-property-added",
            (SiteKind::ResponseBody, false, false) => "response-optional-property-added",
            (SiteKind::Parameter | SiteKind::ResponseHeader, _, _) => return Ok(()),
        };
        let place = extend_pointer(&extend_pointer(&pair.new.pointer, "properties"), name);
        let ceiling = self.ceiling(pair.is_under_all_of, pair.is_hidden);
        let predicate = if is_required { "was added and is required" } else { "was added" };
        self.emit_rule(rule, ceiling, &place, &pair.path_of(name), predicate)
    }

    /// Compares whether a property of both documents is required. `child` is the property.
    fn compare_required(
        &mut self,
        child: &SchemaPair<'a>,
        facts: &PropertyFacts<'_>,
    ) -> Result<(), DiffLimit> {
        let became_required = match (facts.was_required, facts.is_required) {
            (false, true) => true,
            (true, false) => false,
            _ => return Ok(()),
        };
        let is_write_only = child.new.is_true("writeOnly");
        let rule = match (self.site.kind, became_required) {
            (SiteKind::RequestBody | SiteKind::Parameter, _) if child.new.is_true("readOnly") => {
                return Ok(());
            }
            (SiteKind::RequestBody, true) if child.new.get("default").is_some() => {
                "request-property-became-required-with-default"
            }
            (SiteKind::RequestBody, true) => "request-property-became-required",
            (SiteKind::RequestBody, false) => "request-property-became-optional",
            (SiteKind::Parameter, true) if self.site.is_header_parameter => {
                "request-header-property-became-required"
            }
            (SiteKind::ResponseBody, true) if is_write_only => "response-write-only-property-became-required",
            (SiteKind::ResponseBody, true) => "response-property-became-required",
            (SiteKind::ResponseBody, false) if is_write_only => {
                "response-write-only-property-became-optional"
            }
            (SiteKind::ResponseBody, false) => "response-property-became-optional",
            (SiteKind::Parameter | SiteKind::ResponseHeader, _) => return Ok(()),
        };
        let predicate = if became_required { "became required" } else { "became optional" };
        // A name that was added to `required` demands more for certain, in a branch of `allOf` too. A name
        // that was removed there may still be demanded by another branch.
        let ceiling = self.ceiling(facts.is_combined && !became_required, child.is_hidden);
        self.emit_rule(rule, ceiling, &child.new.pointer, &child.path, predicate)
    }

    fn property_ceiling(&self, child: &SchemaPair<'a>) -> ChangeLevel {
        self.ceiling(child.is_under_all_of || child.has_all_of(), child.is_hidden)
    }

    /// Compares `readOnly` and `writeOnly` of a property.
    fn compare_access(&mut self, child: &SchemaPair<'a>, facts: &PropertyFacts<'_>) -> Result<(), DiffLimit> {
        let side = match self.site.kind {
            SiteKind::RequestBody => "request",
            SiteKind::ResponseBody => "response",
            SiteKind::Parameter | SiteKind::ResponseHeader => return Ok(()),
        };
        let is_required = facts.was_required && (facts.is_required || side == "response");
        let presence = if is_required { "required" } else { "optional" };
        for (keyword, label) in [("writeOnly", "write-only"), ("readOnly", "read-only")] {
            let (was_set, is_set) = (child.old.is_true(keyword), child.new.is_true(keyword));
            if was_set == is_set {
                continue;
            }
            // OpenAPI 3.1 asks for a required read-only property in requests too; 3.0 did not.
            let was_demanded =
                side == "request" && keyword == "readOnly" && is_required && self.engine.old.is_31;
            let (edit, suffix) = match is_set {
                true => ("became", ""),
                false if was_demanded => ("became-not", "-in-openapi-31"),
                false => ("became-not", ""),
            };
            let rule = format!("{side}-{presence}-property-{edit}-{label}{suffix}");
            let predicate = if is_set { format!("became {label}") } else { format!("is no longer {label}") };
            self.emit_rule(&rule, self.property_ceiling(child), &child.new.pointer, &child.path, &predicate)?;
        }
        Ok(())
    }

    fn compare_property_lifecycle(&mut self, child: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        let side = match self.site.kind {
            SiteKind::RequestBody => "request",
            SiteKind::ResponseBody => "response",
            SiteKind::Parameter | SiteKind::ResponseHeader => return Ok(()),
        };
        self.compare_property_stability(child, side)?;
        let state = |schema: &SchemaView<'a>| LifecycleState {
            is_deprecated: schema.is_true("deprecated"),
            sunset: schema.get("x-sunset"),
        };
        for event in lifecycle_events(state(&child.old), state(&child.new), self.engine.today) {
            let edit = match event {
                LifecycleEvent::Reactivated => "reactivated",
                LifecycleEvent::Deprecated => "deprecated",
                LifecycleEvent::DeprecatedWithSunset => "deprecated-with-sunset",
                LifecycleEvent::DeprecatedWithInvalidSunset | LifecycleEvent::SunsetBecameInvalid => {
                    "deprecated-sunset-invalid"
                }
                LifecycleEvent::DeprecatedWithPastSunset => "sunset-date-too-small",
                LifecycleEvent::SunsetDeleted => "sunset-deleted",
                LifecycleEvent::SunsetEarlier => "sunset-date-changed-earlier",
                LifecycleEvent::SunsetEarlierThanToday => "sunset-date-changed-too-small",
            };
            let rule = format!("{side}-property-{edit}");
            self.emit_rule(
                &rule,
                self.property_ceiling(child),
                &child.new.pointer,
                &child.path,
                event.describe(),
            )?;
        }
        Ok(())
    }

    fn compare_property_stability(&mut self, child: &SchemaPair<'a>, side: &str) -> Result<(), DiffLimit> {
        let rank = |schema: &SchemaView<'a>| stability_rank(schema.get("x-stability-level"));
        let (Ok(old), Ok(new)) = (rank(&child.old), rank(&child.new)) else {
            return Ok(());
        };
        if old == new {
            return Ok(());
        }
        let verb = if new < old { "decreased" } else { "increased" };
        let rule = format!("{side}-property-stability-{verb}");
        let predicate =
            format!("changed its stability from {} to {}", STABILITY_LEVELS[old], STABILITY_LEVELS[new]);
        self.emit_rule(&rule, self.property_ceiling(child), &child.new.pointer, &child.path, &predicate)
    }

    /// With field numbers from the order of properties, only appending a property keeps the numbers of the
    /// others.
    fn compare_property_order(
        &mut self,
        pair: &SchemaPair<'a>,
        old: &[(&str, SchemaView<'a>)],
        new: &[(&str, SchemaView<'a>)],
    ) -> Result<(), DiffLimit> {
        if !self.engine.options.property_order_is_wire {
            return Ok(());
        }
        let names = |map: &[(&str, SchemaView<'a>)]| map.iter().map(|(name, _)| (*name).to_owned()).collect();
        let (old, new): (Vec<String>, Vec<String>) = (names(old), names(new));
        if new.is_empty() || keeps_positions(&old, &new) {
            return Ok(());
        }
        let place = extend_pointer(&pair.new.pointer, "properties");
        let predicate = "has properties at other positions, which are their field numbers on the wire";
        self.emit_rule("wire-property-order-changed", ChangeLevel::Breaking, &place, &pair.path, predicate)
    }
}
