//! A second, independent parser of a client's bytes, which judges the gateway: RFC 9112 taken strictly, and
//! the project's policy for paths, which is in `oracle/target.rs`. Slow and simple on purpose; shares no code
//! with the gateway and has no limits.

// With a path, because the gateway's simulation includes this file from another folder.
#[path = "oracle/target.rs"]
pub(super) mod target;

use super::stand::account_text;
use target::{is_authority, target_of};

/// A request in the form that has to reach the origin.
#[derive(Debug)]
pub(super) struct Message {
    method: String,
    target: String,
    host: String,
    body: Vec<u8>,
}

/// The end of a client's bytes, after the valid requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The last request asked for the close, or its version implies it.
    Closed,
    /// The next bytes are no valid request.
    Refused,
    /// The next bytes have a valid request line of an unsupported version (RFC 9110 section 15.6.6).
    Unspoken,
    /// Part of a message is missing, or another request may come.
    Waiting,
}

/// The requests in the bytes of one connection, and their end.
pub(super) fn read(bytes: &[u8]) -> (Vec<Message>, End) {
    let mut reader = Reader { rest: bytes };
    let mut messages = Vec::new();
    loop {
        match reader.message() {
            Ok((message, goes_on)) => {
                messages.push(message);
                if !goes_on {
                    return (messages, End::Closed);
                }
            }
            Err(end) => return (messages, end),
        }
    }
}

impl Message {
    /// The text of the origin about this request.
    pub(super) fn account(&self) -> String {
        account_text(&self.method, &self.target, &self.host, &String::from_utf8_lossy(&self.body))
    }
}

/// Reads lines, fields and bodies from the front of the remaining bytes.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

/// The fields of a head that the oracle uses.
#[derive(Default)]
struct Fields {
    hosts: Vec<String>,
    lengths: Vec<String>,
    codings: Vec<String>,
    expectations: Vec<String>,
    options: Vec<String>,
}

/// The framing of a body.
pub(super) enum Body {
    None,
    Length(u64),
    Chunked,
}

impl<'a> Reader<'a> {
    /// A whole request, and whether another may follow on its connection.
    pub(super) fn message(&mut self) -> Result<(Message, bool), End> {
        if let Some(rest) = self.rest.strip_prefix(b"\r\n") {
            self.rest = rest;
            if matches!(rest.first(), Some(b'\r' | b'\n')) {
                return Err(End::Refused);
            }
        }
        let start = self.line()?;
        let words: Vec<&[u8]> = start.split(|&byte| byte == b' ').collect();
        let &[method, target, version] = words.as_slice() else { return Err(End::Refused) };
        let is_new = version == b"HTTP/1.1";
        let is_version = matches!(version, [b'H', b'T', b'T', b'P', b'/', b'1'..=b'9', b'.', b'0'..=b'9']);
        if !is_token(method) || !is_version {
            return Err(End::Refused);
        }
        if !is_new && version != b"HTTP/1.0" {
            let is_target = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
            let is_good = !target.is_empty() && target.iter().all(is_target);
            return Err(if is_good { End::Unspoken } else { End::Refused });
        }
        let fields = self.fields()?;
        let (target, authority) = target_of(method, target).ok_or(End::Refused)?;
        let host = fields.host(authority, is_new).ok_or(End::Refused)?;
        if !fields.expects_what_is_known() {
            return Err(End::Refused);
        }
        let goes_on = fields.persists(is_new).ok_or(End::Refused)?;
        let body = self.body(&framing(&fields.lengths, &fields.codings, is_new).ok_or(End::Refused)?)?;
        Ok((Message { method: text(method), target, host, body }, goes_on))
    }

    /// One line without its CRLF.
    pub(super) fn line(&mut self) -> Result<&'a [u8], End> {
        let end = self.rest.iter().position(|&byte| byte == b'\n').ok_or(End::Waiting)?;
        let line = self.rest[..end].strip_suffix(b"\r").ok_or(End::Refused)?;
        self.rest = &self.rest[end + 1..];
        if line.contains(&b'\r') { Err(End::Refused) } else { Ok(line) }
    }

    /// One field, `None` at the empty line.
    pub(super) fn field(&mut self) -> Result<Option<(String, String)>, End> {
        let line = self.line()?;
        if line.is_empty() {
            return Ok(None);
        }
        let colon = line.iter().position(|&byte| byte == b':').ok_or(End::Refused)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // Only spaces and tabs may surround a value; `trim_ascii` also removes control characters, which fail
        // here.
        if !is_token(name) || !line[colon + 1..].iter().all(|&byte| is_value_byte(byte)) {
            return Err(End::Refused);
        }
        Ok(Some((text(name).to_ascii_lowercase(), text(value))))
    }

    fn fields(&mut self) -> Result<Fields, End> {
        let mut fields = Fields::default();
        while let Some((name, value)) = self.field()? {
            match name.as_str() {
                "host" => fields.hosts.push(value),
                "content-length" => fields.lengths.push(value),
                "transfer-encoding" => fields.codings.push(value),
                "expect" => fields.expectations.push(value.to_ascii_lowercase()),
                "connection" => {
                    let elements = value.split(',').map(|element| element.trim().to_ascii_lowercase());
                    fields.options.extend(elements.filter(|element| !element.is_empty()));
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    /// A whole body.
    pub(super) fn body(&mut self, framing: &Body) -> Result<Vec<u8>, End> {
        match framing {
            Body::None => Ok(Vec::new()),
            Body::Length(length) => Ok(self.bytes(*length)?.to_vec()),
            Body::Chunked => self.chunks(),
        }
    }

    fn chunks(&mut self) -> Result<Vec<u8>, End> {
        let mut data = Vec::new();
        loop {
            let line = self.line()?;
            let mut parts = line.splitn(2, |&byte| byte == b';');
            let digits = text(parts.next().unwrap_or_default());
            let is_size =
                (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_size || !parts.next().unwrap_or_default().iter().all(|&byte| is_value_byte(byte)) {
                return Err(End::Refused);
            }
            let size = u64::from_str_radix(&digits, 16).map_err(|_| End::Refused)?;
            if size == 0 {
                while self.field()?.is_some() {}
                return Ok(data);
            }
            data.extend_from_slice(self.bytes(size)?);
            match self.rest {
                [b'\r', b'\n', rest @ ..] => self.rest = rest,
                [] | [b'\r'] => return Err(End::Waiting),
                _ => return Err(End::Refused),
            }
        }
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], End> {
        let length = usize::try_from(length).ok().filter(|&length| length <= self.rest.len());
        let (bytes, rest) = self.rest.split_at(length.ok_or(End::Waiting)?);
        self.rest = rest;
        Ok(bytes)
    }
}

impl Fields {
    /// RFC 9112 section 3.2: one Host, which the authority of an absolute target overrides.
    fn host(&self, of_target: Option<String>, is_new: bool) -> Option<String> {
        match (self.hosts.as_slice(), of_target) {
            ([], target) => (!is_new).then(|| target.unwrap_or_default()),
            ([host], None) => (host.is_empty() || is_authority(host)).then(|| host.clone()),
            ([host], Some(target)) => is_authority(host).then_some(target),
            _ => None,
        }
    }

    fn expects_what_is_known(&self) -> bool {
        self.expectations.is_empty() || self.expectations == ["100-continue"]
    }

    fn persists(&self, is_new: bool) -> Option<bool> {
        let says = |option: &str| self.options.iter().any(|known| known == option);
        let are_tokens = self.options.iter().all(|option| is_token(option.as_bytes()));
        are_tokens.then(|| !says("close") && (is_new || says("keep-alive")))
    }
}

/// RFC 9112 section 6, without the lenient readings that it allows.
pub(super) fn framing(lengths: &[String], codings: &[String], is_new: bool) -> Option<Body> {
    match (lengths, codings) {
        ([], []) => Some(Body::None),
        ([length], []) if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            length.parse().ok().map(Body::Length)
        }
        ([], [coding]) if is_new && coding.eq_ignore_ascii_case("chunked") => Some(Body::Chunked),
        _ => None,
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &[u8]) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.iter().all(|&byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// RFC 9110 section 5.5.
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_oracle_reads_what_the_standard_says() {
    let check = |bytes: &str, accounts: &[&str], end: End| {
        let (messages, got) = read(bytes.as_bytes());
        let messages: Vec<String> = messages.iter().map(Message::account).collect();
        assert_eq!(
            (messages, got),
            (accounts.iter().map(|&text| text.to_owned()).collect(), end),
            "{bytes:?}"
        );
    };
    let one = "POST /a//b/../%7e?q HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
    check(one, &["POST /a/~?q h \"hi\""], End::Waiting);
    check(&format!("{one}\n"), &["POST /a/~?q h \"hi\""], End::Refused);
    check("GET / HTTP/1.0\r\n\r\nmore", &["GET /  \"\""], End::Closed);
    let chunked = "POST http://o/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(&format!("{chunked}2;x\r\nhi\r\n0\r\nA: b\r\n\r\n"), &["POST / o \"hi\""], End::Waiting);
    check(&format!("{chunked}2\r\nhix"), &[], End::Refused);
    check(&format!("{chunked}2\r\nh"), &[], End::Waiting);
    check("GET /..;/a HTTP/1.1\r\nHost: h\r\n\r\n", &[], End::Refused);
    check("PRI * HTTP/2.0\r\n\r\n", &[], End::Unspoken);
    check("GET /\0 HTTP/2.0\r\n\r\n", &[], End::Refused);
}
