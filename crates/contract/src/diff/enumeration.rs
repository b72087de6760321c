//! Changes of `enum`, `const` and `x-extensible-enum` of one pair of schemas.

use serde_json::Value;

use super::DiffLimit;
use super::engine::show_value;
use super::reference::SchemaView;
use super::schema_site::{SchemaPair, SiteKind};
use super::schema_walk::SchemaWalk;
use super::value_set::{keeps_positions, missing_values};
use super::{ChangeLevel, reference::extend_pointer};

/// Keywords that may hold the values which an `enum` held before.
const RESTRICTING: [&str; 8] = ["oneOf", "anyOf", "allOf", "not", "const", "if", "then", "else"];

fn may_restrict_values(schema: &SchemaView<'_>) -> bool {
    RESTRICTING.iter().any(|keyword| schema.raw(keyword).is_some())
}

fn enum_values<'a>(schema: &SchemaView<'a>, keyword: &str) -> Option<&'a [Value]> {
    match schema.get(keyword) {
        Some(Value::Array(values)) => Some(values),
        _ => None,
    }
}

impl<'a> SchemaWalk<'_, 'a> {
    pub(super) fn compare_enumeration(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        self.compare_const(pair)?;
        self.compare_extensible_enum(pair)?;
        let old = enum_values(&pair.old, "enum");
        let new = enum_values(&pair.new, "enum");
        let (old_values, new_values) = (old.unwrap_or_default(), new.unwrap_or_default());
        let removed = missing_values(old_values, new_values);
        let added = missing_values(new_values, old_values);
        self.compare_enum_order(pair, old, new)?;
        if removed.is_empty() && added.is_empty() {
            return Ok(());
        }
        let became_free = new.is_none() && !may_restrict_values(&pair.new);
        let became_listed = old.is_none() && !may_restrict_values(&pair.old);
        // Request rules name every new list, because a list narrows whatever restricted the values before.
        if became_listed || (old.is_none() && self.site.is_request()) {
            self.emit_enum(pair, "became-enum", "accepts only listed values now")?;
        }
        if became_free {
            self.emit_enum(pair, "became-not-enum", "accepts values outside of the former list")?;
        } else {
            for value in removed {
                let predicate = format!("lost the listed value {}", show_value(value));
                self.emit_enum(pair, "enum-value-removed", &predicate)?;
            }
        }
        if !became_listed {
            for value in added {
                let predicate = format!("got the listed value {}", show_value(value));
                self.emit_enum(pair, "enum-value-added", &predicate)?;
            }
        }
        Ok(())
    }

    /// The rules for the list of a whole response body have the prefix `response-mediatype`.
    fn emit_enum(&mut self, pair: &SchemaPair<'a>, edit: &str, predicate: &str) -> Result<(), DiffLimit> {
        if self.site.is_header_parameter && !pair.is_root() && edit == "became-enum" {
            let place = extend_pointer(&pair.new.pointer, "enum");
            let rule = "request-header-property-became-enum";
            return self.emit_rule(rule, ChangeLevel::Breaking, &place, &pair.path, predicate);
        }
        if self.site.kind != SiteKind::ResponseBody || !pair.is_root() {
            return self.emit_at(pair, edit, "enum", predicate);
        }
        let is_under_all_of = pair.is_under_all_of || pair.has_all_of();
        let ceiling = self.ceiling(is_under_all_of, pair.is_hidden);
        let place = extend_pointer(&pair.new.pointer, "enum");
        self.emit_rule(&format!("response-mediatype-{edit}"), ceiling, &place, "", predicate)
    }

    fn compare_enum_order(
        &mut self,
        pair: &SchemaPair<'a>,
        old: Option<&[Value]>,
        new: Option<&[Value]>,
    ) -> Result<(), DiffLimit> {
        let (Some(old), Some(new)) = (old, new) else {
            return Ok(());
        };
        if !self.engine.options.property_order_is_wire || keeps_positions(old, new) {
            return Ok(());
        }
        let place = extend_pointer(&pair.new.pointer, "enum");
        let predicate = "has listed values at other positions, which are their numbers on the wire";
        self.emit_rule("wire-enum-order-changed", ChangeLevel::Breaking, &place, &pair.path, predicate)
    }

    fn compare_const(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        match (pair.old.get("const"), pair.new.get("const")) {
            (None, Some(new)) => {
                let predicate = format!("accepts only the value {} now", show_value(new));
                self.emit_at(pair, "const-added", "const", &predicate)
            }
            (Some(old), None) => {
                let predicate = format!("accepts other values than {}", show_value(old));
                self.emit_at(pair, "const-removed", "const", &predicate)
            }
            (Some(old), Some(new))
                if !missing_values(std::slice::from_ref(old), std::slice::from_ref(new)).is_empty() =>
            {
                let predicate =
                    format!("changed its only value from {} to {}", show_value(old), show_value(new));
                self.emit_at(pair, "const-changed", "const", &predicate)
            }
            _ => Ok(()),
        }
    }

    fn compare_extensible_enum(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        let old = enum_values(&pair.old, "x-extensible-enum");
        let new = enum_values(&pair.new, "x-extensible-enum");
        let (Some(old), Some(new)) = (old, new) else {
            return Ok(());
        };
        for value in missing_values(old, new) {
            let predicate = format!("lost the value {} of `x-extensible-enum`", show_value(value));
            self.emit_at(pair, "x-extensible-enum-value-removed", "x-extensible-enum", &predicate)?;
        }
        Ok(())
    }
}
