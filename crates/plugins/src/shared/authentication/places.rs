//! The parts of a request where credentials are: fields, arguments of the query, cookies. Each is read and
//! removed here. A part that is there twice is no credential, because the gateway and a server behind it
//! could each read another one.

use std::borrow::Cow;

use exchange::Exchange;
use message::FieldId;

use message::query::{arguments, decode};

/// A part of the request is there more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubled;

/// The value of a field.
pub(crate) fn read_single_field<'e>(exchange: &'e Exchange, name: &str) -> Result<Option<&'e [u8]>, Doubled> {
    single(exchange.request.headers.get_all(name))
}

/// The decoded value of an argument of the query.
pub(crate) fn argument<'e>(exchange: &'e Exchange, name: &str) -> Result<Option<Cow<'e, [u8]>>, Doubled> {
    let Some(query) = exchange.forward_query() else { return Ok(None) };
    let values = arguments(query).filter(|(_, own, _)| is_named(own, name)).map(|(.., value)| value);
    single(values).map(|value| value.map(decode))
}

/// The value of a cookie. HTTP/2 and HTTP/3 may divide cookies among several fields.
pub(crate) fn cookie<'e>(exchange: &'e Exchange, name: &str) -> Result<Option<&'e [u8]>, Doubled> {
    let fields = exchange.request.headers.get_all_known(FieldId::Cookie);
    single(fields.flat_map(cookies).filter_map(|cookie| value_of(cookie, name)))
}

/// Removes all fields of a name.
pub(crate) fn hide_field(exchange: &mut Exchange, name: &str) {
    exchange.request.headers.remove(name);
}

/// Removes an argument; the rest of the query stays as it was sent.
pub(crate) fn hide_argument(exchange: &mut Exchange, name: &str) {
    let Some(query) = exchange.forward_query() else { return };
    if !arguments(query).any(|(_, own, _)| is_named(own, name)) {
        return;
    }
    let kept = arguments(query).filter(|(_, own, _)| !is_named(own, name));
    let kept: Vec<&[u8]> = kept.map(|(whole, ..)| whole).collect();
    let kept = kept.join(&b'&');
    exchange.set_forward_query(&kept).expect("parts of a query can stand in a query");
}

/// Removes a cookie; the others are then in one field.
pub(crate) fn hide_cookie(exchange: &mut Exchange, name: &str) {
    let fields = || exchange.request.headers.get_all_known(FieldId::Cookie).flat_map(cookies);
    if !fields().any(|cookie| value_of(cookie, name).is_some()) {
        return;
    }
    let kept: Vec<&[u8]> = fields().filter(|cookie| value_of(cookie, name).is_none()).collect();
    let kept = kept.join(&b"; "[..]);
    let headers = &mut exchange.request.headers;
    headers.remove("Cookie");
    if !kept.is_empty() {
        headers.set("Cookie", &kept).expect("parts of a field can stand in a field");
    }
}

fn single<T>(mut values: impl Iterator<Item = T>) -> Result<Option<T>, Doubled> {
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Doubled),
    }
}

fn is_named(written: &[u8], name: &str) -> bool {
    *decode(written) == *name.as_bytes()
}

/// The cookies of a field (RFC 6265 section 4.2.1).
fn cookies(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|cookie| !cookie.is_empty())
}

fn value_of<'c>(cookie: &'c [u8], name: &str) -> Option<&'c [u8]> {
    cookie.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, lines};

    use super::*;

    const REQUEST: &[u8] = b"GET /?a=1&b=2+%41&b%32=&a=3 HTTP/1.1\r\nHost: h\r\nX: 1\r\nY: 1\r\ny: 2\r\n\
        Cookie: c=1; d=x=y;e=;;c=2\r\nCookie: f=7\r\n\r\n";

    #[test]
    fn single_parts_are_found_and_doubled_ones_refused() {
        let mut scene = Scene::new();
        let exchange = scene.exchange(REQUEST);
        assert_eq!(read_single_field(&exchange, "x"), Ok(Some(&b"1"[..])));
        assert_eq!(
            (read_single_field(&exchange, "Y"), read_single_field(&exchange, "z")),
            (Err(Doubled), Ok(None))
        );
        assert_eq!(argument(&exchange, "b"), Ok(Some(Cow::from(&b"2 A"[..]))));
        assert_eq!(argument(&exchange, "b2"), Ok(Some(Cow::from(&b""[..]))));
        assert_eq!((argument(&exchange, "a"), argument(&exchange, "A")), (Err(Doubled), Ok(None)));
        for (name, value) in [("d", "x=y"), ("e", ""), ("f", "7")] {
            assert_eq!(cookie(&exchange, name), Ok(Some(value.as_bytes())), "{name}");
        }
        assert_eq!((cookie(&exchange, "c"), cookie(&exchange, "C")), (Err(Doubled), Ok(None)));
        let empty = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((argument(&empty, "a"), cookie(&empty, "c")), (Ok(None), Ok(None)));
    }

    #[test]
    fn hidden_parts_leave_the_others_as_sent() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(REQUEST);
        hide_field(&mut exchange, "y");
        hide_argument(&mut exchange, "a");
        hide_cookie(&mut exchange, "c");
        assert_eq!(exchange.forward_query(), Some(&b"b=2+%41&b%32="[..]));
        let fields = ["Host: h", "X: 1", "Cookie: d=x=y; e=; f=7"];
        assert_eq!(lines(&exchange.request.headers), fields);
        hide_argument(&mut exchange, "none");
        for name in ["d", "e", "f", "f"] {
            hide_cookie(&mut exchange, name);
        }
        assert_eq!(lines(&exchange.request.headers), fields[..2]);
    }
}
