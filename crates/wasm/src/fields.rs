//! The fields of a request and a response as maps of proxy-wasm: method, target, authority and status are
//! fields with a colon in front of their names, as in HTTP/2. Fields that frame a message belong to the
//! gateway; writing them has no effect.

use exchange::Exchange;
use message::{FieldId, Headers};

use crate::abi::{AbiStatus, Pairs, serialize};
use crate::limits::FIELDS_MAX;

/// The maps that live in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Request,
    Response,
}

/// The statuses that a guest may give a response.
pub(crate) const STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

const METHOD: &str = ":method";
const PATH: &str = ":path";
const AUTHORITY: &str = ":authority";
const SCHEME: &str = ":scheme";
const STATUS: &str = ":status";

impl MessageKind {
    fn headers(self, exchange: &Exchange) -> &Headers {
        match self {
            MessageKind::Request => &exchange.request.headers,
            MessageKind::Response => &exchange.response.headers,
        }
    }

    fn headers_mut(self, exchange: &mut Exchange) -> &mut Headers {
        match self {
            MessageKind::Request => &mut exchange.request.headers,
            MessageKind::Response => &mut exchange.response.headers,
        }
    }

    /// Whether the map is there: a response has none before it arrives.
    pub(crate) fn exists(self, exchange: &Exchange) -> bool {
        self == MessageKind::Request || exchange.response.status != 0
    }

    /// The first value of `name`.
    pub(crate) fn get(self, exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
        if let Some(name) = name.strip_prefix(':') {
            return self
                .pseudo(exchange)
                .into_iter()
                .find_map(|(known, value)| (known[1..] == *name).then_some(value));
        }
        if self == MessageKind::Request && name.eq_ignore_ascii_case("host") {
            return Some(authority(exchange));
        }
        self.headers(exchange).get(name).map(<[u8]>::to_vec)
    }

    /// How many pairs there are.
    pub(crate) fn count(self, exchange: &Exchange) -> usize {
        let hosts = if self == MessageKind::Request {
            self.headers(exchange).get_all_known(FieldId::Host).count()
        } else {
            0
        };
        self.pseudo_count() + self.headers(exchange).len() - hosts
    }

    fn pseudo_count(self) -> usize {
        if self == MessageKind::Request { 4 } else { 1 }
    }

    fn pseudo(self, exchange: &Exchange) -> Vec<(&'static str, Vec<u8>)> {
        match self {
            MessageKind::Request => vec![
                (AUTHORITY, authority(exchange)),
                (PATH, path(exchange)),
                (METHOD, exchange.request.method_text().to_vec()),
                (SCHEME, exchange.connection.scheme.as_str().into()),
            ],
            MessageKind::Response => vec![(STATUS, exchange.response.status.to_string().into_bytes())],
        }
    }

    /// All pairs, serialised, with names in lower case.
    pub(crate) fn serialized(self, exchange: &Exchange) -> Vec<u8> {
        let mut pairs: Pairs =
            self.pseudo(exchange).into_iter().map(|(name, value)| (name.into(), value)).collect();
        for field in self.headers(exchange).iter() {
            // The request's Host is `:authority`.
            if self == MessageKind::Response || !field.name.eq_ignore_ascii_case(b"host") {
                pairs.push((field.name.to_ascii_lowercase(), field.value.to_vec()));
            }
        }
        serialize(pairs.iter().map(|(name, value)| (&name[..], &value[..])))
    }

    /// Replaces all pairs. Pseudo fields that are not among the new ones keep their values.
    pub(crate) fn replace_all(self, exchange: &mut Exchange, pairs: &Pairs) -> Result<(), AbiStatus> {
        let names: Vec<String> = self
            .headers(exchange)
            .iter()
            .filter(|field| !self.is_kept(field.name))
            .map(|field| String::from_utf8_lossy(field.name).into_owned())
            .collect();
        for name in names {
            self.headers_mut(exchange).remove(&name);
        }
        for (name, value) in pairs {
            let name = str::from_utf8(name).map_err(|_| AbiStatus::BadArgument)?;
            self.write(exchange, name, value, Write::Add)?;
        }
        Ok(())
    }

    /// Whether the gateway alone writes the field.
    fn is_kept(self, name: &[u8]) -> bool {
        let id = FieldId::of(name);
        id.is_hop_by_hop()
            || id == FieldId::ContentLength
            || (self == MessageKind::Request && id == FieldId::Host)
    }

    /// Adds, replaces or removes a field.
    pub(crate) fn write(
        self,
        exchange: &mut Exchange,
        name: &str,
        value: &[u8],
        write: Write,
    ) -> Result<(), AbiStatus> {
        if name.starts_with(':') || (self == MessageKind::Request && name.eq_ignore_ascii_case("host")) {
            return if write == Write::Remove { Ok(()) } else { self.write_pseudo(exchange, name, value) };
        }
        if self.is_kept(name.as_bytes()) {
            return Ok(());
        }
        if self == MessageKind::Request && FieldId::of(name.as_bytes()) == FieldId::XRealIp {
            exchange.keep_real_ip_field();
        }
        if write != Write::Remove && self.headers(exchange).len() >= FIELDS_MAX {
            return Err(AbiStatus::InternalFailure);
        }
        let written = match write {
            Write::Add => self.headers_mut(exchange).append(name, value),
            Write::Replace => self.headers_mut(exchange).set(name, value),
            Write::Remove if self == MessageKind::Request => {
                exchange.remove_request_field(name);
                Ok(())
            }
            Write::Remove => {
                exchange.response.headers.remove(name);
                Ok(())
            }
        };
        written.map_err(|_| AbiStatus::BadArgument)
    }

    fn write_pseudo(self, exchange: &mut Exchange, name: &str, value: &[u8]) -> Result<(), AbiStatus> {
        let text = str::from_utf8(value).map_err(|_| AbiStatus::BadArgument)?;
        let written = match (self, name) {
            (MessageKind::Request, METHOD) => exchange.request.set_method(text),
            (MessageKind::Request, PATH) => {
                let (path, query) = text.split_once('?').unwrap_or((text, ""));
                if !path.starts_with('/') {
                    return Err(AbiStatus::BadArgument);
                }
                exchange
                    .set_canonical_forward_path(path.as_bytes())
                    .and_then(|()| exchange.set_forward_query(query.as_bytes()))
            }
            // The scheme of a connection is a fact.
            (MessageKind::Request, SCHEME) => Ok(()),
            (MessageKind::Request, _) => exchange.set_forward_host(text),
            (MessageKind::Response, STATUS) => {
                let status = text.parse().ok().filter(|status| STATUSES.contains(status));
                exchange.response.status = status.ok_or(AbiStatus::BadArgument)?;
                Ok(())
            }
            (MessageKind::Response, _) => return Err(AbiStatus::BadArgument),
        };
        written.map_err(|_| AbiStatus::BadArgument)
    }
}

/// How a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Add,
    Replace,
    Remove,
}

fn authority(exchange: &Exchange) -> Vec<u8> {
    match &exchange.target.forward_host {
        Some(host) => host.clone(),
        None => exchange.request.authority().to_vec(),
    }
}

/// The target as it is forwarded.
pub(crate) fn path(exchange: &Exchange) -> Vec<u8> {
    let mut path = exchange.forward_path().to_vec();
    if let Some(query) = exchange.forward_query() {
        path.push(b'?');
        path.extend_from_slice(query);
    }
    path
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, WRITTEN_PATHS, lines, respond};

    use super::*;
    use crate::abi::deserialize;

    #[test]
    fn request_is_a_map_with_pseudo_fields() {
        let mut scene = Scene::new();
        let mut exchange =
            scene.exchange(b"POST /a%20b?c=d HTTP/1.1\r\nHost: shop.example:80\r\nX-A: 1\r\nX-A: 2\r\n\r\n");
        let get = |exchange: &Exchange, name| {
            MessageKind::Request.get(exchange, name).map(|value| String::from_utf8(value).unwrap())
        };
        for (name, value) in [
            (":method", "POST"),
            (":path", "/a%20b?c=d"),
            (":authority", "shop.example:80"),
            (":scheme", "http"),
            ("host", "shop.example:80"),
            ("x-a", "1"),
        ] {
            assert_eq!(get(&exchange, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!((get(&exchange, ":status"), get(&exchange, "x-b")), (None, None));
        let pairs = deserialize(&MessageKind::Request.serialized(&exchange)).unwrap();
        assert_eq!((pairs.len(), MessageKind::Request.count(&exchange)), (6, 6));
        let set = |exchange: &mut Exchange, name, value: &str| {
            MessageKind::Request.write(exchange, name, value.as_bytes(), Write::Replace)
        };
        assert_eq!(set(&mut exchange, ":path", "/x?y"), Ok(()));
        assert_eq!(set(&mut exchange, ":authority", "other"), Ok(()));
        assert_eq!(set(&mut exchange, ":path", "/../../admin"), Err(AbiStatus::BadArgument));
        assert_eq!(
            (get(&exchange, ":path").unwrap(), get(&exchange, ":authority").unwrap()),
            ("/x?y".into(), "other".into())
        );
        for (name, value) in
            [(":path", "x"), (":path", "/a b"), ("x y", ""), ("x-a", "a\nb"), (":method", "A B")]
        {
            assert_eq!(set(&mut exchange, name, value), Err(AbiStatus::BadArgument), "{name} {value}");
        }
        assert_eq!(set(&mut exchange, "content-length", "9"), Ok(()));
        assert_eq!(set(&mut exchange, "Transfer-Encoding", "chunked"), Ok(()));
        MessageKind::Request.replace_all(&mut exchange, &vec![(b"x-c".to_vec(), b"3".to_vec())]).unwrap();
        assert_eq!(lines(&exchange.request.headers), ["Host: shop.example:80", "x-c: 3"]);
    }

    #[test]
    fn new_path_has_the_form_of_a_client_path() {
        let mut scene = Scene::new();
        for (path, expected) in WRITTEN_PATHS.iter().chain(&[("/a/%2e%2E/b", Some("/b"))]) {
            let mut exchange = scene.exchange(b"GET /old HTTP/1.1\r\nHost: a\r\n\r\n");
            let set = MessageKind::Request.write(&mut exchange, ":path", path.as_bytes(), Write::Replace);
            assert_eq!(set.is_ok(), expected.is_some(), "{path}");
            let expected = expected.unwrap_or("/old");
            assert_eq!(String::from_utf8_lossy(exchange.forward_path()), expected, "{path}");
        }
    }

    #[test]
    fn fields_of_a_message_have_a_limit() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&mut exchange, 200, &[]);
        for head in [MessageKind::Request, MessageKind::Response] {
            let mut add = |write| head.write(&mut exchange, "x-a", b"1", write);
            let added = (0..2 * FIELDS_MAX).take_while(|_| add(Write::Add).is_ok()).count();
            assert!((FIELDS_MAX - 1..=FIELDS_MAX).contains(&added), "{added}");
            assert_eq!(add(Write::Remove), Ok(()));
            assert_eq!(add(Write::Add), Ok(()));
        }
    }

    #[test]
    fn response_has_its_status_as_a_field() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(!MessageKind::Response.exists(&exchange));
        respond(&mut exchange, 204, &[("X-A", "1"), ("Content-Length", "0")]);
        assert!(MessageKind::Response.exists(&exchange));
        assert_eq!(MessageKind::Response.get(&exchange, ":status").as_deref(), Some(&b"204"[..]));
        for (value, expected) in
            [("404", Ok(())), ("99", Err(AbiStatus::BadArgument)), ("x", Err(AbiStatus::BadArgument))]
        {
            assert_eq!(
                MessageKind::Response.write(&mut exchange, ":status", value.as_bytes(), Write::Replace),
                expected
            );
        }
        MessageKind::Response.write(&mut exchange, "x-a", b"", Write::Remove).unwrap();
        assert_eq!(
            (exchange.response.status, lines(&exchange.response.headers)),
            (404, vec!["Content-Length: 0".to_owned()])
        );
    }
}
