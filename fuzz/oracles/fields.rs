//! Oracle of a list of header fields: after any edits it equals a plain list, and no edit can inject a field.

use http1::{HeadStatus, RequestWire, encode, parse_request};
use message::{FieldId, FieldSet, HeadLimits, Headers, RequestHead};

use super::naive_head;

/// A field of the plain list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain {
    name: Vec<u8>,
    value: Vec<u8>,
    hop_by_hop: bool,
}

/// The input is lines: `+name: value` appends, `=name: value` sets, `-name` removes. Lines before the first
/// of these are the initial fields, if they are a valid head.
pub fn check(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let is_edit = |line: &&[u8]| matches!(line.first(), Some(b'+' | b'=' | b'-'));
    let first_edit = lines.iter().position(is_edit).unwrap_or(lines.len());
    let mut headers = parsed(&lines[..first_edit]);
    let mut plain: Vec<Plain> = headers.iter().map(owned).collect();
    for line in lines[first_edit..].iter().take(EDITS_MAX) {
        let Some((kind, rest)) = line.split_first() else { continue };
        let colon = rest.iter().position(|byte| *byte == b':').unwrap_or(rest.len());
        let Ok(name) = std::str::from_utf8(&rest[..colon]) else { continue };
        let value = rest.get(colon + 1..).unwrap_or_default();
        match kind {
            b'+' => {
                let good = is_good(name, value);
                assert_eq!(append(&mut headers, name, value), good, "append {name:?}");
                if good {
                    plain.push(Plain::new(name, value));
                }
            }
            b'=' => {
                let good = is_good(name, value);
                assert_eq!(set(&mut headers, name, value), good, "set {name:?}");
                if good {
                    set_plain(&mut plain, Plain::new(name, value));
                }
            }
            // Only tokens are removed, because the comparison of names is defined for tokens only.
            b'-' if is_good(name, b"") => {
                let there = plain.iter().any(|field| field.is_named(name));
                assert_eq!(remove(&mut headers, name), there, "remove {name:?}");
                plain.retain(|field| !field.is_named(name));
            }
            _ => continue,
        }
        assert_same(&headers, &plain, name);
    }
    assert_encoded(&headers, &plain);
    headers.clear();
    assert_same(&headers, &[], "Host");
}

/// The fields of a head with Host and these lines; an empty list if the head is invalid.
fn parsed(lines: &[&[u8]]) -> Headers {
    let mut input = b"GET / HTTP/1.1\r\nHost: h\r\n".to_vec();
    for line in lines {
        input.extend_from_slice(line);
        input.extend_from_slice(b"\r\n");
    }
    input.extend_from_slice(b"\r\n");
    let mut head = RequestHead::new();
    match parse_request(&input, &mut head, &mut RequestWire::default(), &HeadLimits::default()) {
        Ok(HeadStatus::Complete { .. }) => head.headers,
        _ => Headers::new(),
    }
}

/// Calls the functions by field id for known names, so that both kinds of calls are tested.
fn append(headers: &mut Headers, name: &str, value: &[u8]) -> bool {
    match FieldId::of(name.as_bytes()) {
        id if id.name() == name && id != FieldId::Other => headers.append_known(id, value).is_ok(),
        _ => headers.append(name, value).is_ok(),
    }
}

fn set(headers: &mut Headers, name: &str, value: &[u8]) -> bool {
    match FieldId::of(name.as_bytes()) {
        id if id.name() == name && id != FieldId::Other => headers.set_known(id, value).is_ok(),
        _ => headers.set(name, value).is_ok(),
    }
}

fn remove(headers: &mut Headers, name: &str) -> bool {
    match FieldId::of(name.as_bytes()) {
        id if id.name() == name && id != FieldId::Other => headers.remove_known(id),
        _ => headers.remove(name),
    }
}

fn set_plain(plain: &mut Vec<Plain>, field: Plain) {
    let is_named = |other: &Plain| other.name.eq_ignore_ascii_case(&field.name);
    let Some(first) = plain.iter().position(is_named) else {
        plain.push(field);
        return;
    };
    let mut index = 0;
    plain.retain(|other| {
        index += 1;
        index - 1 == first || !is_named(other)
    });
    plain[first] = field;
}

/// Asserts that the list equals the plain list and finds the same fields.
fn assert_same(headers: &Headers, plain: &[Plain], name: &str) {
    assert_eq!(headers.iter().map(owned).collect::<Vec<_>>(), plain);
    assert_eq!((headers.len(), headers.is_empty()), (plain.len(), plain.is_empty()));
    if !is_good(name, b"") {
        return;
    }
    let named: Vec<&[u8]> =
        plain.iter().filter(|field| field.is_named(name)).map(|field| &*field.value).collect();
    assert_eq!(headers.get_all(name).collect::<Vec<_>>(), named);
    assert_eq!(headers.get(name), named.first().copied());
    assert_eq!(headers.contains(name), !named.is_empty());
    let id = FieldId::of(name.as_bytes());
    if id != FieldId::Other {
        assert_eq!(headers.get_all_known(id).collect::<Vec<_>>(), named);
        assert_eq!(headers.get_known(id), named.first().copied());
        assert_eq!(headers.contains_known(id), !named.is_empty());
        let mut elements =
            named.iter().flat_map(|value| value.split(|byte| *byte == b',')).map(naive_head::trim);
        let lists = elements.any(|element| element.eq_ignore_ascii_case(b"close"));
        assert_eq!(headers.contains_token(id, "close"), lists);
    }
}

/// Asserts that encoding writes exactly the fields that may be sent, in order.
fn assert_encoded(headers: &Headers, plain: &[Plain]) {
    for skipped in [&[][..], &[FieldId::Host], &[FieldId::Date, FieldId::Host, FieldId::Via, FieldId::Cookie]]
    {
        let mut out = Vec::new();
        encode::fields_except(&mut out, headers, FieldSet::of(skipped));
        let sent = |field: &&Plain| !field.hop_by_hop && !skipped.contains(&FieldId::of(&field.name));
        let expected: Vec<(&[u8], &[u8])> =
            plain.iter().filter(sent).map(|field| (&*field.name, &*field.value)).collect();
        assert_eq!(naive_head::fields(&out), expected, "written: {}", out.escape_ascii());
    }
}

impl Plain {
    fn new(name: &str, value: &[u8]) -> Self {
        let hop_by_hop = FieldId::of(name.as_bytes()).is_hop_by_hop();
        Self { name: name.as_bytes().to_vec(), value: naive_head::trim(value).to_vec(), hop_by_hop }
    }

    fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

fn owned(field: message::FieldRef<'_>) -> Plain {
    Plain { name: field.name.to_vec(), value: field.value.to_vec(), hop_by_hop: field.hop_by_hop }
}

/// Whether a field of this name and value may be added (RFC 9110 sections 5.1 and 5.5).
fn is_good(name: &str, value: &[u8]) -> bool {
    let separators = b"\"(),/:;<=>?@[\\]{} ";
    let is_token = |byte: u8| byte.is_ascii_graphic() && !separators.contains(&byte);
    let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    !name.is_empty() && name.bytes().all(is_token) && value.iter().all(is_text)
}

/// Limit of edits. Each edit compares the whole list, so the work is quadratic.
const EDITS_MAX: usize = 48;
