//! Changes of the numeric bounds of one pair of schemas.

use serde_json::Value;

use super::DiffLimit;
use super::reference::SchemaView;
use super::schema_site::SchemaPair;
use super::schema_walk::SchemaWalk;

/// A bound that is one number: keyword, part of the rule name, whether it is a lower bound where zero says
/// nothing.
const COUNT_BOUNDS: [(&str, &str, bool); 8] = [
    ("maxLength", "max-length", false),
    ("minLength", "min-length", true),
    ("maxItems", "max-items", false),
    ("minItems", "min-items", true),
    ("maxProperties", "max-properties", false),
    ("minProperties", "min-properties", true),
    ("maxContains", "max-contains", false),
    ("minContains", "min-contains", false),
];

/// The effective limit of a range: the tighter one of the inclusive and the exclusive bound.
#[derive(Clone, Copy, PartialEq)]
struct RangeLimit {
    value: f64,
    is_exclusive: bool,
}

/// Reads `maximum` and `exclusiveMaximum` (or the minimum pair). OpenAPI 3.0 has a flag for the exclusive
/// bound, 3.1 a number.
fn range_limit(
    schema: &SchemaView<'_>,
    inclusive: &str,
    exclusive: &str,
    is_upper: bool,
) -> Option<RangeLimit> {
    let is_flagged = schema.is_true(exclusive);
    let closed = schema.get(inclusive).and_then(Value::as_f64);
    let closed = closed.map(|value| RangeLimit { value, is_exclusive: is_flagged });
    let open = schema.get(exclusive).and_then(Value::as_f64);
    let open = open.map(|value| RangeLimit { value, is_exclusive: true });
    match (closed, open) {
        (Some(closed), Some(open)) => {
            let is_open_tighter =
                if is_upper { open.value <= closed.value } else { open.value >= closed.value };
            Some(if is_open_tighter { open } else { closed })
        }
        (closed, open) => closed.or(open),
    }
}

impl<'a> SchemaWalk<'_, 'a> {
    pub(super) fn compare_bounds(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        self.compare_range(pair, "maximum", "exclusiveMaximum", true)?;
        self.compare_range(pair, "minimum", "exclusiveMinimum", false)?;
        for (keyword, edit, is_zero_absent) in COUNT_BOUNDS {
            let read = |schema: &SchemaView<'_>| schema.get(keyword).and_then(Value::as_f64);
            let is_set = |value: &f64| !(is_zero_absent && *value == 0.0);
            let (old, new) = (read(&pair.old).filter(is_set), read(&pair.new).filter(is_set));
            self.compare_bound(pair, keyword, edit, old, new)?;
        }
        self.compare_multiple(pair)
    }

    fn compare_range(
        &mut self,
        pair: &SchemaPair<'a>,
        inclusive: &str,
        exclusive: &str,
        is_upper: bool,
    ) -> Result<(), DiffLimit> {
        let old = range_limit(&pair.old, inclusive, exclusive, is_upper);
        let new = range_limit(&pair.new, inclusive, exclusive, is_upper);
        let name = |limit: &RangeLimit| match (limit.is_exclusive, is_upper) {
            (false, true) => "max",
            (false, false) => "min",
            (true, true) => "exclusive-max",
            (true, false) => "exclusive-min",
        };
        match (old, new) {
            (Some(old), Some(new)) if old.is_exclusive != new.is_exclusive => {
                // The same number moved between the keywords, or both changed: the tighter limit decides.
                let tighter = if is_upper { new.value < old.value } else { new.value > old.value };
                let is_tighter = tighter || (new.value == old.value && new.is_exclusive);
                let edit =
                    if is_tighter { format!("{}-set", name(&new)) } else { format!("{}-unset", name(&old)) };
                let predicate = format!("has the limit {} instead of {}", new.describe(), old.describe());
                self.emit_at(pair, &edit, if new.is_exclusive { exclusive } else { inclusive }, &predicate)
            }
            (old, new) => {
                let Some(limit) = new.as_ref().or(old.as_ref()) else {
                    return Ok(());
                };
                let keyword = if limit.is_exclusive { exclusive } else { inclusive };
                let edit = name(limit);
                self.compare_bound(pair, keyword, edit, old.map(|old| old.value), new.map(|new| new.value))
            }
        }
    }

    fn compare_bound(
        &mut self,
        pair: &SchemaPair<'a>,
        keyword: &str,
        edit: &str,
        old: Option<f64>,
        new: Option<f64>,
    ) -> Result<(), DiffLimit> {
        let (action, predicate) = match (old, new) {
            (None, Some(new)) => ("set", format!("has the limit `{keyword}: {new}` now")),
            (Some(old), None) => ("unset", format!("lost the limit `{keyword}: {old}`")),
            (Some(old), Some(new)) if old < new => {
                ("increased", format!("raised `{keyword}` from {old} to {new}"))
            }
            (Some(old), Some(new)) if old > new => {
                ("decreased", format!("lowered `{keyword}` from {old} to {new}"))
            }
            _ => return Ok(()),
        };
        self.emit_at(pair, &format!("{edit}-{action}"), keyword, &predicate)
    }

    fn compare_multiple(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        let read = |schema: &SchemaView<'_>| schema.get("multipleOf").and_then(Value::as_f64);
        let is_multiple =
            |value: f64, step: f64| step != 0.0 && ((value / step).round() * step - value).abs() < 1e-9;
        let (edit, predicate) = match (read(&pair.old), read(&pair.new)) {
            (None, Some(new)) => ("multiple-of-set", format!("accepts only multiples of {new} now")),
            (Some(old), None) => {
                ("multiple-of-unset", format!("accepts other values than multiples of {old}"))
            }
            (Some(old), Some(new)) if old != new => {
                let edit = match self.site.is_request() {
                    true if is_multiple(old, new) => "multiple-of-generalized",
                    false if is_multiple(new, old) => "multiple-of-specialized",
                    _ => "multiple-of-changed",
                };
                (edit, format!("changed `multipleOf` from {old} to {new}"))
            }
            _ => return Ok(()),
        };
        self.emit_at(pair, edit, "multipleOf", &predicate)
    }
}

impl RangeLimit {
    fn describe(self) -> String {
        format!("{}{}", self.value, if self.is_exclusive { " (exclusive)" } else { "" })
    }
}
