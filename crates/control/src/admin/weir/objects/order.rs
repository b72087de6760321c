//! The order of a list: by one column, up or down; objects without a value come last either way.

use std::cmp::Ordering;

use super::describe::Details;
use crate::serve::RefusalResponse;
use crate::serve::respond::refuse_request;
use crate::summary::SummaryRow;

/// A column and its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListOrder {
    column: &'static str,
    is_descending: bool,
}

/// The value of one object in a column.
enum SortValue<'a> {
    Text(&'a str),
    Number(f64),
    Missing,
}

impl ListOrder {
    /// Reads `name` or `-name`.
    ///
    /// # Errors
    /// 400 with the columns that there are.
    pub(super) fn parse(text: &str) -> Result<ListOrder, RefusalResponse> {
        let (is_descending, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, text),
        };
        match COLUMNS.into_iter().find(|column| *column == name) {
            Some(column) => Ok(ListOrder { column, is_descending }),
            None => Err(refuse_request(format!(
                "the argument sort must be one of {}, with - before it for the highest first",
                COLUMNS.join(", ")
            ))),
        }
    }

    /// Orders rows that are in the order of their ids; equal ones stay in it.
    pub(super) fn sort(self, rows: &mut Vec<SummaryRow<'_>>, details: &Details<'_>) {
        let mut keyed: Vec<(SortValue<'_>, SummaryRow<'_>)> =
            rows.drain(..).map(|row| (self.value(&row, details), row)).collect();
        keyed.sort_by(|(left, _), (right, _)| self.compare(left, right));
        rows.extend(keyed.into_iter().map(|(_, row)| row));
    }

    fn compare(self, left: &SortValue<'_>, right: &SortValue<'_>) -> Ordering {
        let order = match (left, right) {
            (SortValue::Missing, SortValue::Missing) => return Ordering::Equal,
            (SortValue::Missing, _) => return Ordering::Greater,
            (_, SortValue::Missing) => return Ordering::Less,
            (SortValue::Text(left), SortValue::Text(right)) => caseless(left, right),
            (SortValue::Number(left), SortValue::Number(right)) => left.total_cmp(right),
            // A column has values of one type.
            (SortValue::Text(_), SortValue::Number(_)) => Ordering::Less,
            (SortValue::Number(_), SortValue::Text(_)) => Ordering::Greater,
        };
        if self.is_descending { order.reverse() } else { order }
    }

    #[allow(clippy::cast_precision_loss)] // Times and counts are far below 2^53.
    fn value<'a>(self, row: &SummaryRow<'a>, details: &Details<'_>) -> SortValue<'a> {
        let facts = &row.summary.facts;
        let number = |number: Option<f64>| number.map_or(SortValue::Missing, SortValue::Number);
        match self.column {
            "id" => SortValue::Text(&row.summary.key.id),
            "name" => SortValue::Text(facts.name.as_deref().unwrap_or(&row.summary.key.id)),
            "state" => SortValue::Number(f64::from(row.summary.state as u8)),
            "priority" => SortValue::Number(facts.priority as f64),
            "updated_ms" => number(facts.updated_ms.map(|ms| ms as f64)),
            "created_ms" => number(facts.created_ms.map(|ms| ms as f64)),
            "rps" => number(row.figures.map(|figures| figures.rps)),
            "p5xx" => number(row.figures.and_then(|figures| figures.p5xx)),
            "p99_us" => number(row.figures.and_then(|figures| figures.p99_us).map(|us| us as f64)),
            "not_after_ms" => number(details.not_after_ms(row.summary).map(|ms| ms as f64)),
            "nodes" => number(details.nodes(row.summary).map(|(nodes, _)| nodes as f64)),
            "used_by" => SortValue::Number(details.used_by(row.summary) as f64),
            _ => SortValue::Missing,
        }
    }
}

/// Compares texts as people order names: without case first.
fn caseless(left: &str, right: &str) -> Ordering {
    let lower = |byte: u8| byte.to_ascii_lowercase();
    left.bytes().map(lower).cmp(right.bytes().map(lower)).then_with(|| left.cmp(right))
}

/// The columns that order a list.
const COLUMNS: [&str; 12] = [
    "id",
    "name",
    "state",
    "priority",
    "updated_ms",
    "created_ms",
    "rps",
    "p5xx",
    "p99_us",
    "not_after_ms",
    "nodes",
    "used_by",
];
