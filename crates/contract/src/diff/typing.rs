//! Types, formats and null of schemas. `nullable: true` of OpenAPI 3.0 and `type: [..., "null"]` of 3.1 are
//! read into the same form, so that documents of both versions can be compared.

use serde_json::Value;

use super::reference::SchemaView;

/// Most types of one schema that are read; JSON has seven.
const MAX_TYPES: usize = 16;

/// The types of a schema without null, and whether and how null is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SchemaTypes<'a> {
    /// Names without `null`, except that a schema of null alone keeps it. Empty: any type.
    pub(super) names: Vec<&'a str>,
    pub(super) null: NullAcceptance,
}

/// How a schema says that it accepts null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NullAcceptance {
    No,
    /// `nullable: true` of OpenAPI 3.0.
    Keyword,
    /// `null` in the list of types.
    TypeList,
}

impl NullAcceptance {
    pub(super) fn is_accepted(self) -> bool {
        self != Self::No
    }
}

impl SchemaTypes<'_> {
    pub(super) fn is_untyped(&self) -> bool {
        self.names.is_empty()
    }
}

pub(super) fn schema_types<'a>(schema: &SchemaView<'a>) -> SchemaTypes<'a> {
    let mut names: Vec<&'a str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).take(MAX_TYPES).collect(),
        _ => Vec::new(),
    };
    let has_null = names.contains(&"null");
    if has_null && names.iter().any(|name| *name != "null") {
        names.retain(|name| *name != "null");
    }
    let null = match (schema.is_true("nullable"), has_null) {
        (true, _) => NullAcceptance::Keyword,
        (false, true) => NullAcceptance::TypeList,
        (false, false) => NullAcceptance::No,
    };
    SchemaTypes { names, null }
}

/// Whether null became accepted (`Some(true)`), stopped being accepted (`Some(false)`), or neither.
pub(super) fn null_transition(old: &SchemaTypes<'_>, new: &SchemaTypes<'_>) -> Option<bool> {
    match (old.null, new.null) {
        (NullAcceptance::No, NullAcceptance::No) => None,
        // A schema without a type accepted null already, or accepts it still.
        (NullAcceptance::No, NullAcceptance::TypeList) if old.is_untyped() => None,
        (NullAcceptance::TypeList, NullAcceptance::No) if new.is_untyped() => None,
        (NullAcceptance::No, _) => Some(true),
        (_, NullAcceptance::No) => Some(false),
        _ => None,
    }
}

/// A change of type, format or both.
pub(super) struct TypeChange<'a> {
    pub(super) old: SchemaTypes<'a>,
    pub(super) new: SchemaTypes<'a>,
    old_format: &'a str,
    new_format: &'a str,
}

/// Compares types and formats; `None` if both are equal, or differ in null alone.
pub(super) fn type_change<'a>(old: &SchemaView<'a>, new: &SchemaView<'a>) -> Option<TypeChange<'a>> {
    let change = TypeChange {
        old: schema_types(old),
        new: schema_types(new),
        old_format: old.text("format").unwrap_or(""),
        new_format: new.text("format").unwrap_or(""),
    };
    let is_same = same_names(&change.old.names, &change.new.names) && change.old_format == change.new_format;
    (!is_same).then_some(change)
}

fn same_names(old: &[&str], new: &[&str]) -> bool {
    old.iter().all(|name| new.contains(name)) && new.iter().all(|name| old.contains(name))
}

impl TypeChange<'_> {
    pub(super) fn has_new_types(&self) -> bool {
        !same_names(&self.old.names, &self.new.names)
    }

    /// Whether both documents name types, so that one type was exchanged for another.
    pub(super) fn has_types_on_both_sides(&self) -> bool {
        !self.old.is_untyped() && !self.new.is_untyped()
    }

    /// Whether each old type is covered by a new one.
    pub(super) fn is_widening(&self) -> bool {
        self.has_types_on_both_sides() && covers(&self.new.names, &self.old.names)
    }

    /// Whether each new type is covered by an old one.
    pub(super) fn is_narrowing(&self) -> bool {
        self.has_types_on_both_sides() && covers(&self.old.names, &self.new.names)
    }

    /// Whether some value of the old schema is not one of the new schema.
    ///
    /// `is_strict` is false where values are text on the wire (parameters, headers, forms): there every value
    /// can be read as a string.
    pub(super) fn breaks_requests(&self, is_strict: bool) -> bool {
        breaks_types(&self.old, &self.new, is_strict)
            || breaks_format(&self.new.names, self.old_format, self.new_format)
    }

    /// Whether some value of the new schema is not one of the old schema.
    pub(super) fn breaks_responses(&self, is_strict: bool) -> bool {
        breaks_types(&self.new, &self.old, is_strict)
            || breaks_format(&self.old.names, self.new_format, self.old_format)
    }

    /// The part of a sentence that names the old and the new type.
    pub(super) fn describe(&self) -> String {
        let old = describe_type(&self.old.names, self.old_format);
        let new = describe_type(&self.new.names, self.new_format);
        format!("changed its type from {old} to {new}")
    }
}

fn describe_type(names: &[&str], format: &str) -> String {
    let types = if names.is_empty() { "any".to_owned() } else { names.join(" or ") };
    if format.is_empty() { format!("`{types}`") } else { format!("`{types}` with format `{format}`") }
}

/// Whether `target` has no place for some value of `source`.
fn breaks_types(source: &SchemaTypes<'_>, target: &SchemaTypes<'_>, is_strict: bool) -> bool {
    if target.is_untyped() || same_names(&source.names, &target.names) {
        return false;
    }
    if !is_strict && target.names.contains(&"string") {
        return false;
    }
    source.is_untyped() || !covers(&target.names, &source.names)
}

/// Whether every type of `inner` is one of `outer`. Integers are numbers.
pub(super) fn covers(outer: &[&str], inner: &[&str]) -> bool {
    inner.iter().all(|name| outer.contains(name) || (*name == "integer" && outer.contains(&"number")))
}

/// Whether values of the format `from` may not have the format `to`, for a schema of the types `names`.
fn breaks_format(names: &[&str], from: &str, to: &str) -> bool {
    if from == to || to.is_empty() {
        return false;
    }
    match names {
        ["number"] => !(to == "double" && from == "float"),
        ["integer"] => !matches!((from, to), ("int32", "int64" | "bigint") | ("int64", "bigint")),
        _ => true,
    }
}
