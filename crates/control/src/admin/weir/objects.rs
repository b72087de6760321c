//! `weir/objects/KIND`: the objects of a kind in short form, filtered and ordered here, so that a page never
//! holds all of them.

mod describe;
mod facets;
mod order;

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::ObjectKind;
use model::search::{OBJECT_FIELDS, SearchFilter};
use serde_json::{Value, json};

use crate::admin::call::{AdminParts, Call};
use crate::serve::list_query::{collection, limit, now_ms, parse_filter, whole_number};
use crate::serve::query::Query;
use crate::serve::{RefusalResponse, respond};
use crate::summary::{Rates, SummaryRow};

use describe::Details;
use order::ListOrder;

/// A question about a list.
struct ObjectListQuery {
    kind: ObjectKind,
    /// The start of the ids: the consumer of credentials.
    prefix: Option<String>,
    filter: SearchFilter,
    order: ListOrder,
    offset: usize,
    limit: usize,
}

/// Answers `weir/objects/KIND` and `weir/objects/consumers/USERNAME/credentials`.
pub(super) async fn answer_objects(parts: &Arc<AdminParts>, path: &[String], call: &Call) -> Response<Bytes> {
    let asked = question(path, &call.query);
    let listed = match asked {
        Ok(question) => {
            let parts = Arc::clone(parts);
            respond::blocking(move || list(&parts, &question)).await
        }
        Err(refusal) => Err(refusal),
    };
    match listed {
        Ok(body) => respond::json(StatusCode::OK, &body),
        Err(refusal) => *refusal,
    }
}

fn question(path: &[String], query: &Query) -> Result<ObjectListQuery, RefusalResponse> {
    let (kind, consumer) = collection(path)?;
    let offset = whole_number(query, "offset")?.unwrap_or_default();
    Ok(ObjectListQuery {
        kind,
        prefix: consumer.map(|consumer| format!("{consumer}/")),
        filter: parse_filter(query, &OBJECT_FIELDS)?,
        order: ListOrder::parse(query.get("sort").unwrap_or("id"))?,
        offset: usize::try_from(offset).unwrap_or(usize::MAX),
        limit: limit(query, LIMIT_DEFAULT, LIMIT_MAX)?,
    })
}

fn list(parts: &AdminParts, question: &ObjectListQuery) -> Value {
    let (view, summaries) = parts.summaries.newest(&parts.view, question.kind);
    let rates = Rates::of(parts.reports.traffic.as_deref(), &view, question.kind);
    let now_ms = now_ms();
    let mut total = 0;
    let mut rows: Vec<SummaryRow<'_>> = Vec::new();
    for summary in summaries.iter() {
        let is_here = question.prefix.as_ref().is_none_or(|prefix| summary.key.id.starts_with(&**prefix));
        total += usize::from(is_here);
        let row = SummaryRow { summary, figures: rates.get(&summary.key.id), now_ms };
        if is_here && question.filter.matches(&row) {
            rows.push(row);
        }
    }
    let matched = rows.len();
    let facets = facets::count_facets(&rows);
    let details = Details::new(&parts.reports, &view, question.kind);
    question.order.sort(&mut rows, &details);
    let page = rows.iter().skip(question.offset).take(question.limit);
    json!({
        "revision": view.revision(),
        "total": total,
        "matched": matched,
        "offset": question.offset,
        "facets": facets,
        "list": page.map(|row| details.describe(row)).collect::<Vec<Value>>(),
    })
}

/// Default number of objects in an answer: a window that a page scrolls through.
const LIMIT_DEFAULT: usize = 200;
/// Largest number of objects in an answer; about 200 KB.
const LIMIT_MAX: usize = 500;
