//! Changes of patterns, defaults and constraint keywords of one pair of schemas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::DiffLimit;
use super::engine::{clip_text, show_value};
use super::equivalence::same_values;
use super::reference::SchemaView;
use super::schema_site::{SchemaPair, SiteKind};
use super::schema_walk::SchemaWalk;
use super::value_set::string_items;

/// Keywords with a schema that restricts by its presence: keyword and part of the rule name.
const CONSTRAINT_KEYWORDS: [(&str, &str); 8] = [
    ("contains", "contains"),
    ("contentSchema", "content-schema"),
    ("propertyNames", "property-names"),
    ("unevaluatedItems", "unevaluated-items"),
    ("unevaluatedProperties", "unevaluated-properties"),
    ("if", "if"),
    ("then", "then"),
    ("else", "else"),
];

impl<'a> SchemaWalk<'_, 'a> {
    pub(super) fn compare_keywords(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        self.compare_bounds(pair)?;
        self.compare_unique_items(pair)?;
        self.compare_pattern(pair)?;
        self.compare_default(pair)?;
        self.compare_content(pair)?;
        self.compare_constraints(pair)?;
        self.compare_dependent_required(pair)
    }

    fn compare_unique_items(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        match (pair.old.is_true("uniqueItems"), pair.new.is_true("uniqueItems")) {
            (false, true) => {
                self.emit_at(pair, "unique-items-set", "uniqueItems", "demands unique items now")
            }
            (true, false) => {
                self.emit_at(pair, "unique-items-unset", "uniqueItems", "no longer has unique items")
            }
            _ => Ok(()),
        }
    }

    fn compare_pattern(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        let read = |schema: &SchemaView<'a>| schema.text("pattern").unwrap_or("");
        let (old, new) = (read(&pair.old), read(&pair.new));
        let (edit, predicate) = match (old, new) {
            (old, new) if old == new => return Ok(()),
            ("", new) => ("pattern-added", format!("has the pattern `{}` now", clip_text(new))),
            (old, "") => ("pattern-removed", format!("lost the pattern `{}`", clip_text(old))),
            (old, new) => {
                let is_general = new == ".*" && self.site.is_request();
                let edit = if is_general { "pattern-generalized" } else { "pattern-changed" };
                (edit, format!("changed its pattern from `{}` to `{}`", clip_text(old), clip_text(new)))
            }
        };
        self.emit_at(pair, edit, "pattern", &predicate)
    }

    fn compare_default(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        // A required parameter is never filled in from its default.
        if self.site.kind == SiteKind::Parameter && !self.site.is_optional_parameter {
            return Ok(());
        }
        let (old, new) = (pair.old.get("default"), pair.new.get("default"));
        let (edit, predicate) = match (old, new) {
            (None, Some(new)) => ("default-value-added", format!("has the default {} now", show_value(new))),
            (Some(old), None) => ("default-value-removed", format!("lost the default {}", show_value(old))),
            (Some(old_value), Some(new_value)) if !same_values(old, new) => {
                let (old, new) = (show_value(old_value), show_value(new_value));
                ("default-value-changed", format!("changed its default from {old} to {new}"))
            }
            _ => return Ok(()),
        };
        self.emit_at(pair, edit, "default", &predicate)
    }

    fn compare_content(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        let keywords = [
            ("contentMediaType", "content-media-type-changed"),
            ("contentEncoding", "content-encoding-changed"),
        ];
        for (keyword, edit) in keywords {
            let read = |schema: &SchemaView<'a>| schema.text(keyword).unwrap_or("");
            let (old, new) = (read(&pair.old), read(&pair.new));
            if old != new {
                let predicate =
                    format!("changed `{keyword}` from `{}` to `{}`", clip_text(old), clip_text(new));
                self.emit_at(pair, edit, keyword, &predicate)?;
            }
        }
        Ok(())
    }

    fn compare_constraints(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        for (keyword, edit) in CONSTRAINT_KEYWORDS {
            let old = self.engine.old.sub_schema(&pair.old, keyword);
            let new = self.engine.new.sub_schema(&pair.new, keyword);
            // `true` and `{}` restrict nothing, so adding them is no change.
            let is_set = |schema: &Option<SchemaView<'_>>| {
                schema.as_ref().is_some_and(|s| s.value != &Value::Bool(true))
            };
            self.compare_presence(pair, keyword, edit, is_set(&old), is_set(&new))?;
        }
        for (keyword, edit) in
            [("patternProperties", "pattern-property"), ("dependentSchemas", "dependent-schema")]
        {
            let old = self.engine.old.schema_map(&pair.old, keyword);
            let new = self.engine.new.schema_map(&pair.new, keyword);
            let names = |map: Vec<(&'a str, SchemaView<'a>)>| map.into_iter().map(|(name, _)| name).collect();
            let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (names(old), names(new));
            for name in old.symmetric_difference(&new) {
                let label = format!("{keyword}: {}", clip_text(name));
                self.compare_presence_as(
                    pair,
                    keyword,
                    edit,
                    &label,
                    old.contains(name),
                    new.contains(name),
                )?;
            }
        }
        self.compare_prefix_items(pair)?;
        self.compare_additional_properties(pair)
    }

    fn compare_prefix_items(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        let old = self.engine.old.schema_list(&pair.old, "prefixItems");
        let new = self.engine.new.schema_list(&pair.new, "prefixItems");
        let (is_longer, is_shorter) = (new.len() > old.len(), new.len() < old.len());
        self.compare_presence(pair, "prefixItems", "prefix-items", !is_longer, !is_shorter)?;
        for (index, (old, new)) in old.into_iter().zip(new).enumerate() {
            self.visit(pair.descend(&format!("prefixItems[{index}]"), old, new));
        }
        Ok(())
    }

    fn compare_presence(
        &mut self,
        pair: &SchemaPair<'a>,
        keyword: &str,
        edit: &str,
        is_in_old: bool,
        is_in_new: bool,
    ) -> Result<(), DiffLimit> {
        self.compare_presence_as(pair, keyword, edit, keyword, is_in_old, is_in_new)
    }

    fn compare_presence_as(
        &mut self,
        pair: &SchemaPair<'a>,
        keyword: &str,
        edit: &str,
        label: &str,
        is_in_old: bool,
        is_in_new: bool,
    ) -> Result<(), DiffLimit> {
        match (is_in_old, is_in_new) {
            (false, true) => self.emit_at(
                pair,
                &format!("{edit}-added"),
                keyword,
                &format!("has the constraint `{label}` now"),
            ),
            (true, false) => self.emit_at(
                pair,
                &format!("{edit}-removed"),
                keyword,
                &format!("lost the constraint `{label}`"),
            ),
            _ => Ok(()),
        }
    }

    /// Compares whether undeclared properties are accepted. oasdiff has no rules for it; these are warnings.
    fn compare_additional_properties(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        let is_closed =
            |schema: &SchemaView<'_>| schema.get("additionalProperties") == Some(&Value::Bool(false));
        match (is_closed(&pair.old), is_closed(&pair.new)) {
            (false, true) => {
                let predicate = "no longer accepts undeclared properties";
                self.emit_at(pair, "additional-properties-disallowed", "additionalProperties", predicate)
            }
            (true, false) => {
                let predicate = "may have undeclared properties now";
                self.emit_at(pair, "additional-properties-allowed", "additionalProperties", predicate)
            }
            _ => Ok(()),
        }
    }

    fn compare_dependent_required(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        const KEYWORD: &str = "dependentRequired";
        let read = |schema: &SchemaView<'a>| schema.get(KEYWORD).and_then(Value::as_object);
        let (old, new) = (read(&pair.old), read(&pair.new));
        let names = old.into_iter().chain(new).flat_map(|map| map.keys());
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let read = |map: Option<&'a serde_json::Map<String, Value>>| -> BTreeSet<&'a str> {
                string_items(map.and_then(|map| map.get(name))).into_iter().collect()
            };
            let (old, new) = (read(old), read(new));
            let label = format!("{KEYWORD}: {}", clip_text(name));
            if old == new {
                continue;
            }
            if old.is_empty() || new.is_empty() {
                let (is_in_old, is_in_new) = (!old.is_empty(), !new.is_empty());
                self.compare_presence_as(pair, KEYWORD, "dependent-required", &label, is_in_old, is_in_new)?;
            } else {
                self.emit_at(pair, "dependent-required-changed", KEYWORD, &format!("changed `{label}`"))?;
            }
        }
        Ok(())
    }
}
