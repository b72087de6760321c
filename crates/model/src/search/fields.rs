//! The fields that filters may name: of objects of the configuration, and of requests.

/// The type of a field, which says what its values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Texts, compared whole, with `*`.
    Text,
    /// A number, with comparisons; `%`, and `k`, `M`, `G` (thousands) or `Ki`, `Mi`, `Gi` (1,024) may follow.
    Number,
    /// A status: a number, or a class (`5xx`).
    Status,
    /// A time with its unit: us, ms, s, m, h, d, w.
    Duration,
}

/// One field.
#[derive(Debug, PartialEq, Eq)]
pub struct FilterField {
    /// Its name before the colon.
    pub name: &'static str,
    /// Its type.
    pub of: FieldType,
    /// The only values of a text; empty: any.
    pub values: &'static [&'static str],
}

/// The fields that a filter may name.
#[derive(Clone, Copy, Debug)]
pub struct FilterFields(pub &'static [FilterField]);

impl FilterFields {
    /// The field of that name, written in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static FilterField> {
        self.0.iter().find(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// All names, in the order of the list.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|field| field.name).collect()
    }
}

const fn field(name: &'static str, of: FieldType) -> FilterField {
    FilterField { name, of, values: &[] }
}

const fn one_of(name: &'static str, values: &'static [&'static str]) -> FilterField {
    FilterField { name, of: FieldType::Text, values }
}

/// The fields of objects of the configuration.
pub const OBJECT_FIELDS: FilterFields = FilterFields(&[
    field("id", FieldType::Text),
    field("name", FieldType::Text),
    field("host", FieldType::Text),
    field("path", FieldType::Text),
    field("uri", FieldType::Text),
    field("method", FieldType::Text),
    field("plugin", FieldType::Text),
    field("service", FieldType::Text),
    field("upstream", FieldType::Text),
    field("label", FieldType::Text),
    one_of("state", &["in_force", "last_good", "out", "off"]),
    field("priority", FieldType::Number),
    field("changed", FieldType::Duration),
    field("rps", FieldType::Number),
    field("p5xx", FieldType::Number),
    field("p99", FieldType::Duration),
    field("group", FieldType::Text),
    field("names", FieldType::Text),
    field("type", FieldType::Text),
]);

/// The fields of certificates.
pub const CERTIFICATE_FIELDS: FilterFields = FilterFields(&[
    field("id", FieldType::Text),
    field("name", FieldType::Text),
    one_of("kind", &["ssls", "file", "acme"]),
    one_of("state", &["in_force", "soon", "expired", "not_yet", "out", "off"]),
    field("issuer", FieldType::Text),
    field("subject", FieldType::Text),
    field("type", FieldType::Text),
    field("ends", FieldType::Duration),
]);

/// The fields of requests.
pub const TRAFFIC_FIELDS: FilterFields = FilterFields(&[
    field("status", FieldType::Status),
    field("method", FieldType::Text),
    field("host", FieldType::Text),
    field("path", FieldType::Text),
    field("route", FieldType::Text),
    field("service", FieldType::Text),
    field("consumer", FieldType::Text),
    field("upstream", FieldType::Text),
    field("endpoint", FieldType::Text),
    field("cause", FieldType::Text),
    field("client", FieldType::Text),
    field("took", FieldType::Duration),
    field("total", FieldType::Duration),
    field("bytes", FieldType::Number),
    field("protocol", FieldType::Text),
    field("worker", FieldType::Number),
]);
