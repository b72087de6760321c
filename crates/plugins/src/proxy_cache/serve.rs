//! Answers a request from an entry: whole, in part, or by the news that the client has it already.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use exchange::Exchange;
use exchange::plugin::{StoredBody, StoredReply};
use message::{FieldId, Method};

use super::conditions::{Conditions, Portion, portion};
use super::disk::{DiskBody, PIECE_BYTES};
use super::entry::{CacheEntry, CachedBody};

/// Makes the response of `entry` that of the exchange. `conditions` are those of the request where they were
/// taken out of it. None where the file of the body has to be opened first, unless it `opens_late`: then a
/// file that cannot be read cuts the response.
pub(super) fn serve_cache_entry(
    exchange: &mut Exchange,
    entry: &Arc<CacheEntry>,
    conditions: Option<&Conditions>,
    opens_late: bool,
    now_s: u64,
) -> Option<Box<StoredReply>> {
    let length = entry.length();
    let portion = match (exchange.request.method, conditions) {
        (Method::Get | Method::Head, Some(conditions)) if entry.status == 200 => {
            if conditions.hold(&entry.headers) { Portion::NotModified } else { Portion::Whole }
        }
        (Method::Get, None) => portion(&exchange.request.headers, entry.status, &entry.headers, length),
        // RFC 9110 section 14.2: a range counts for GET only.
        (Method::Head, None) => {
            match portion(&exchange.request.headers, entry.status, &entry.headers, length) {
                Portion::NotModified => Portion::NotModified,
                _ => Portion::Whole,
            }
        }
        _ => Portion::Whole,
    };
    let part = match &portion {
        Portion::Whole => 0..length,
        Portion::Part(part) => part.clone(),
        Portion::NotModified | Portion::Unsatisfiable => 0..0,
    };
    let has_body = !part.is_empty() && exchange.request.method != Method::Head;
    let body =
        if has_body { body_of(entry, part.clone(), opens_late)? } else { StoredBody::Whole(Bytes::new()) };
    set_head(exchange, entry, &portion, now_s);
    let length = part.end - part.start;
    Some(Box::new(StoredReply { length, body }))
}

/// The bytes `part` of the body; none where its file has to be opened first.
fn body_of(entry: &CacheEntry, part: Range<u64>, opens_late: bool) -> Option<StoredBody> {
    let file = match &entry.body {
        CachedBody::Memory(bytes) => {
            return Some(StoredBody::Whole(bytes.slice(part.start as usize..part.end as usize)));
        }
        CachedBody::Disk(file) => file,
    };
    let open = file.opened();
    let length = part.end - part.start;
    if open.is_none() && !opens_late {
        return None;
    }
    if let Some(body) = open.as_ref().and_then(|open| open.body.as_ref()) {
        return Some(StoredBody::Whole(body.slice(part.start as usize..part.end as usize)));
    }
    if let Some(open) = &open
        && length <= PIECE_BYTES as u64
    {
        let mut bytes = vec![0; length as usize];
        if let Some(Ok(count)) = file.read_cached(&open.file, part.start, &mut bytes)
            && count == bytes.len()
        {
            let bytes = Bytes::from(bytes);
            if length == file.length() {
                file.keep_body(&bytes);
            }
            return Some(StoredBody::Whole(bytes));
        }
    }
    let open = open.map(|open| open.file);
    Some(StoredBody::Stream(Box::new(DiskBody::new(file.clone(), open, part))))
}

fn set_head(exchange: &mut Exchange, entry: &CacheEntry, portion: &Portion, now_s: u64) {
    exchange.begin_response();
    let response = &mut exchange.response;
    response.status = entry.status;
    response.headers.copy_from(&entry.headers);
    let mut digits = itoa::Buffer::new();
    response.headers.push_identified(
        b"Age",
        digits.format(entry.times.age_s(now_s)).as_bytes(),
        FieldId::Age,
    );
    match portion {
        Portion::Whole => {}
        Portion::NotModified => response.status = 304,
        Portion::Part(part) => {
            response.status = 206;
            let range = format!("bytes {}-{}/{}", part.start, part.end - 1, entry.length());
            response.headers.push_raw(b"Content-Range", range.as_bytes());
        }
        Portion::Unsatisfiable => {
            response.status = 416;
            response.headers.remove_known(FieldId::ContentType);
            response.headers.remove_known(FieldId::ContentEncoding);
            response.headers.push_raw(b"Content-Range", format!("bytes */{}", entry.length()).as_bytes());
        }
    }
}
