//! Changes of types, formats and null of one pair of schemas.

use super::DiffLimit;
use super::schema_site::{SchemaPair, SiteKind};
use super::schema_walk::SchemaWalk;
use super::typing::{TypeChange, null_transition, schema_types, type_change};

impl<'a> SchemaWalk<'_, 'a> {
    pub(super) fn compare_null(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        match null_transition(&schema_types(&pair.old), &schema_types(&pair.new)) {
            Some(true) => self.emit(pair, "became-nullable", &pair.new.pointer, "accepts null now"),
            Some(false) => {
                self.emit(pair, "became-not-nullable", &pair.new.pointer, "no longer accepts null")
            }
            None => Ok(()),
        }
    }

    pub(super) fn compare_types(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        let Some(change) = type_change(&pair.old, &pair.new) else {
            return Ok(());
        };
        let edit = match self.site.kind {
            SiteKind::RequestBody => self.request_type_edit(&change),
            SiteKind::ResponseBody | SiteKind::ResponseHeader => self.response_type_edit(&change),
            SiteKind::Parameter if pair.is_root() => {
                let is_safe =
                    !change.breaks_requests(self.site.is_strict) || self.is_list_of_old(pair, &change)?;
                if is_safe { "type-generalized" } else { "type-changed" }
            }
            // An object in a parameter is text or JSON, depending on its serialization, so both are asked.
            SiteKind::Parameter => match (change.breaks_requests(true), change.breaks_requests(false)) {
                (true, true) => "type-specialized",
                (false, false) => "type-generalized",
                _ => "type-changed",
            },
        };
        self.emit(pair, edit, &pair.new.pointer, &change.describe())
    }

    fn request_type_edit(&self, change: &TypeChange<'_>) -> &'static str {
        let is_swap = change.has_new_types() && change.has_types_on_both_sides() && !change.is_widening();
        match (change.breaks_requests(self.site.is_strict), is_swap) {
            (true, _) => "type-changed",
            (false, true) => "type-compatible",
            (false, false) => "type-generalized",
        }
    }

    fn response_type_edit(&self, change: &TypeChange<'_>) -> &'static str {
        let is_swap = change.has_new_types() && change.has_types_on_both_sides() && !change.is_narrowing();
        match (change.breaks_responses(self.site.is_strict), is_swap) {
            (true, _) if change.has_new_types() && change.is_widening() => "type-generalized",
            (true, _) => "type-changed",
            (false, true) => "type-compatible",
            (false, false) => "type-specialized",
        }
    }
}
