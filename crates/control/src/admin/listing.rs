//! Filters and pages of a listing (contract 2.1). Callers hand in the entries.

use std::borrow::Cow;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::serve::query::Query;

/// One object as the API shows it.
#[derive(Debug, Serialize)]
pub(super) struct ListingEntry<'a> {
    /// `/apisix/routes/1`.
    pub key: String,
    /// The JSON as stored.
    pub value: Cow<'a, RawValue>,
    /// Revision that created it.
    #[serde(rename = "createdIndex")]
    pub created_index: u64,
    /// Revision that changed it last.
    #[serde(rename = "modifiedIndex")]
    pub modified_index: u64,
}

/// The key of the object at `path`, as etcd users know it (contract 2.2).
pub(crate) fn shown_key(path: &str) -> String {
    format!("/apisix{path}")
}

/// The answer to a listing.
#[derive(Debug, Serialize)]
pub(super) struct ObjectListing<'a> {
    pub list: Vec<ListingEntry<'a>>,
    /// How many entries passed the filters, on all pages.
    pub total: usize,
}

/// The text of a 400 for a page size that is out of bounds or not a whole number.
pub(super) const PAGE_SIZE_FAULT: &str = "page_size must be between 10 and 500";
/// The text of a 400 for a page that is not a whole number from 1.
pub(super) const PAGE_FAULT: &str = "page must be a whole number from 1";

/// Filters `entries` by the arguments of the query, and keeps the requested page.
///
/// # Errors
/// [`PAGE_SIZE_FAULT`] and [`PAGE_FAULT`], also if only one of the two arguments is given and all entries are
/// kept.
pub(super) fn list_entries<'a>(
    entries: Vec<ListingEntry<'a>>,
    query: &Query,
    by_reference: bool,
) -> Result<ObjectListing<'a>, &'static str> {
    let filter = ListingFilter::new(query, by_reference);
    let mut list: Vec<ListingEntry<'a>> = match &filter {
        Some(filter) => entries.into_iter().filter(|entry| filter.keeps(&entry.value)).collect(),
        None => entries,
    };
    let total = list.len();
    let page = whole_number(query, "page", f64::MAX).map_err(|()| PAGE_FAULT)?;
    let size = whole_number(query, "page_size", MAX_PAGE_SIZE).map_err(|()| PAGE_SIZE_FAULT)?;
    if size.is_some_and(|size| size < MIN_PAGE_SIZE) {
        return Err(PAGE_SIZE_FAULT);
    }
    if let (Some(page), Some(size)) = (page, size) {
        list.sort_by_key(|entry| entry.created_index);
        list = list.into_iter().skip((page - 1).saturating_mul(size)).take(size).collect();
    }
    Ok(ObjectListing { list, total })
}

/// An argument that is a whole number from 1 to `max`, in any notation that Lua reads (`1e1`); none if it is
/// missing.
fn whole_number(query: &Query, name: &str, max: f64) -> Result<Option<usize>, ()> {
    if query.get(name).is_none() {
        return Ok(None);
    }
    match query.number(name) {
        // A page beyond `u32::MAX` is empty, as is page `u32::MAX` itself.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(number) if number >= 1.0 && number <= max && number.fract() == 0.0 => {
            Ok(Some(number.min(f64::from(u32::MAX)) as usize))
        }
        _ => Err(()),
    }
}

/// Conditions of a query; an entry is kept if all of them hold.
struct ListingFilter {
    name: Option<ListingPattern>,
    uri: Option<ListingPattern>,
    label: Option<String>,
    service_id: Option<String>,
    upstream_id: Option<String>,
}

/// A regular expression; an expression that does not compile matches nothing.
struct ListingPattern(Option<Regex>);

/// The fields of an object that filters read.
#[derive(Deserialize)]
struct Visible<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    uris: Vec<Cow<'a, str>>,
    #[serde(default)]
    labels: HashMap<String, serde::de::IgnoredAny>,
    service_id: Option<TextOrNumber>,
    upstream_id: Option<TextOrNumber>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(serde_json::Number),
}

impl ListingFilter {
    fn new(query: &Query, by_reference: bool) -> Option<ListingFilter> {
        let nested = match query.get("filter") {
            Some(nested) if by_reference => Query::parse(nested),
            _ => Query::default(),
        };
        let text = |query: &Query, name: &str| query.get(name).map(str::to_owned);
        let filter = ListingFilter {
            name: query.get("name").map(ListingPattern::new),
            uri: query.get("uri").map(ListingPattern::new),
            label: text(query, "label"),
            service_id: text(&nested, "service_id"),
            upstream_id: text(&nested, "upstream_id"),
        };
        let asks = filter.name.is_some()
            || filter.uri.is_some()
            || filter.label.is_some()
            || filter.service_id.is_some()
            || filter.upstream_id.is_some();
        asks.then_some(filter)
    }

    fn keeps(&self, value: &RawValue) -> bool {
        let Ok(object) = serde_json::from_str::<Visible<'_>>(value.get()) else { return false };
        let name = self.name.as_ref().is_none_or(|name| object.name.iter().any(|text| name.finds(text)));
        let uri = self
            .uri
            .as_ref()
            .is_none_or(|uri| object.uri.iter().chain(&object.uris).any(|text| uri.finds(text)));
        let label = self.label.as_ref().is_none_or(|label| object.labels.contains_key(label));
        name && uri
            && label
            && refers(self.service_id.as_deref(), object.service_id.as_ref())
            && refers(self.upstream_id.as_deref(), object.upstream_id.as_ref())
    }
}

impl ListingPattern {
    fn new(text: &str) -> ListingPattern {
        ListingPattern(RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).build().ok())
    }

    fn finds(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

fn refers(wanted: Option<&str>, found: Option<&TextOrNumber>) -> bool {
    wanted.is_none_or(|wanted| match found {
        Some(TextOrNumber::Text(id)) => id == wanted,
        Some(TextOrNumber::Number(id)) => id.to_string() == wanted,
        None => false,
    })
}

/// Smallest and largest page (APISIX's bounds).
const MIN_PAGE_SIZE: usize = 10;
const MAX_PAGE_SIZE: f64 = 500.0;
/// Limit of a compiled expression, so that a request cannot take much memory; a name needs a few kilobytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn objects(values: &[Value]) -> Vec<ListingEntry<'static>> {
        let entry = |(index, value): (usize, &Value)| ListingEntry {
            key: format!("/apisix/routes/{index}"),
            value: Cow::Owned(RawValue::from_string(value.to_string()).unwrap()),
            // Later entries were created earlier.
            created_index: 1000 - index as u64,
            modified_index: 0,
        };
        values.iter().enumerate().map(entry).collect()
    }

    fn check(values: &[Value], query: &str, expected: Result<(&[usize], usize), &'static str>) {
        let found = list_entries(objects(values), &Query::parse(query), true).map(|listing| {
            let indexes: Vec<usize> =
                listing.list.iter().map(|entry| 1000 - entry.created_index as usize).collect();
            (indexes, listing.total)
        });
        assert_eq!(found, expected.map(|(indexes, total)| (indexes.to_vec(), total)), "{query}");
    }

    #[test]
    fn every_filter_must_match() {
        let values = [
            json!({"name": "web-1", "uri": "/a", "labels": {"env": "prod"}, "service_id": 7}),
            json!({"name": "web-11", "uris": ["/b", "/a1"], "labels": {"env2": "env"}, "upstream_id": "u"}),
            json!({"desc": "nameless", "uri": "/c"}),
        ];
        check(&values, "", Ok((&[0, 1, 2], 3)));
        check(&values, "name=web", Ok((&[0, 1], 2)));
        check(&values, "name=1$", Ok((&[0, 1], 2)));
        check(&values, "name=-1$", Ok((&[0], 1)));
        check(&values, "name=(", Ok((&[], 0)));
        check(&values, "uri=^/a", Ok((&[0, 1], 2)));
        check(&values, "label=env", Ok((&[0], 1)));
        check(&values, "label=prod", Ok((&[], 0)));
        check(&values, "name=web&uri=/b", Ok((&[1], 1)));
        check(&values, "filter=service_id%3D7", Ok((&[0], 1)));
        check(&values, "filter=upstream_id%3Du", Ok((&[1], 1)));
        check(&values, "filter=service_id%3D7%26upstream_id%3Du", Ok((&[], 0)));
    }

    #[test]
    fn page_is_cut_from_entries_by_creation() {
        let values: Vec<Value> = (0..11).map(|index| json!({"name": format!("n{index}")})).collect();
        check(&values, "page=1&page_size=10", Ok((&[10, 9, 8, 7, 6, 5, 4, 3, 2, 1], 11)));
        check(&values, "page=2&page_size=10", Ok((&[0], 11)));
        check(&values, "page=3&page_size=10", Ok((&[], 11)));
        check(&values, "page=1.0&page_size=1e1", Ok((&[10, 9, 8, 7, 6, 5, 4, 3, 2, 1], 11)));
        check(&values, "page=99999999999999999999&page_size=10", Ok((&[], 11)));
        check(&values, "page_size=10&name=n1", Ok((&[1, 10], 2)));
        check(&values, "page=1&page_size=10&name=n1", Ok((&[10, 1], 2)));
        for size in ["9", "501", "-1", "0", "", "ten", "10.5"] {
            check(&values, &format!("page=1&page_size={size}"), Err(PAGE_SIZE_FAULT));
            check(&values, &format!("page_size={size}"), Err(PAGE_SIZE_FAULT));
        }
        for page in ["0", "-1", "", "one", "1.5", "1e999"] {
            check(&values, &format!("page={page}&page_size=10"), Err(PAGE_FAULT));
            check(&values, &format!("page={page}"), Err(PAGE_FAULT));
        }
    }
}
