//! The texts of a request that was refused, as far as they were read, so that a log can say what was asked.
//! They are cut and unchecked: nothing but a log may use them. It does not know where they come from.

use crate::{FieldId, Headers, Method, RequestHead, RequestSpans, Span, Version};

/// Longest method that is kept; the longest registered one has 17 characters.
const METHOD_BYTES: usize = 32;
/// Longest target that is kept: it shows the link, and a log of refused requests stays small.
const TARGET_BYTES: usize = 2_048;
/// Longest value of a field that is kept: more than names of hosts and programs have.
const VALUE_BYTES: usize = 512;

impl RequestHead {
    /// Makes this the head of a refused request with this method and target, which may be any bytes.
    pub fn set_refused(&mut self, version: Version, method: &[u8], target: &[u8]) {
        self.clear();
        self.version = version;
        let (method, spans) = RefusedTexts { method, target }.keep(&mut self.headers);
        (self.method, self.spans) = (method, spans);
    }

    /// Adds a field of a refused request, if a log wants it: the first Host, which is its authority,
    /// User-Agent and Referer.
    pub fn add_refused_field(&mut self, name: &[u8], value: &[u8]) {
        if let Some(authority) = keep_field(&mut self.headers, name, value) {
            self.spans.authority = authority;
        }
    }
}

/// The method and the target of a refused request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RefusedTexts<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The target.
    pub target: &'a [u8],
}

impl RefusedTexts<'_> {
    /// Keeps the texts in `headers`; the method, and where they lie.
    pub fn keep(self, headers: &mut Headers) -> (Method, RequestSpans) {
        let RefusedTexts { method, target } = self;
        let (method, target) = (cut(method, METHOD_BYTES), cut(target, TARGET_BYTES));
        let (method_span, target_span) = (headers.keep_text(method), headers.keep_text(target));
        let (start, end) = (target_span.start as usize, target_span.end as usize);
        let mark = target.iter().position(|&byte| byte == b'?');
        let spans = RequestSpans {
            method: method_span,
            target: target_span,
            path: Span::new(start, mark.map_or(end, |mark| start + mark)),
            query: mark.map(|mark| Span::new(start + mark + 1, end)),
            ..RequestSpans::default()
        };
        (Method::of(method), spans)
    }
}

/// Keeps a field of a refused request in `headers`, if a log wants it and there is none of its name; where a
/// Host lies.
pub fn keep_field(headers: &mut Headers, name: &[u8], value: &[u8]) -> Option<Span> {
    let id = FieldId::of(name);
    let is_wanted = id == FieldId::Host || LOGGED.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(name));
    let text = std::str::from_utf8(name).ok().filter(|_| is_wanted)?;
    if headers.contains(text) {
        return None;
    }
    headers.push_identified(name, cut(value, VALUE_BYTES), id);
    (id == FieldId::Host).then(|| headers.span_of(FieldId::Host)).flatten()
}

/// Fields besides Host that are kept: those of the usual formats of access logs.
const LOGGED: [&str; 2] = ["user-agent", "referer"];

fn cut(text: &[u8], most: usize) -> &[u8] {
    &text[..text.len().min(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_and_cut() {
        let mut head = RequestHead::new();
        head.set_refused(Version::Http11, b"POST", b"/caf\xc3\xa9 x?a=\x01");
        for (name, value) in
            [("Host", "a"), ("host", "b"), ("User-Agent", "curl/8\u{7}"), ("Cookie", "secret"), ("X", "y")]
        {
            head.add_refused_field(name.as_bytes(), value.as_bytes());
        }
        assert_eq!((head.method, head.method_text()), (Method::Post, &b"POST"[..]));
        assert_eq!((head.path(), head.query()), (&b"/caf\xc3\xa9 x"[..], Some(&b"a=\x01"[..])));
        assert_eq!((head.authority(), head.headers.get("user-agent")), (&b"a"[..], Some(&b"curl/8\x07"[..])));
        assert_eq!(head.headers.iter().count(), 2, "nothing else is kept");
        let long = vec![b'a'; 100_000];
        head.set_refused(Version::Http10, &long, &long);
        head.add_refused_field(b"host", &long);
        assert_eq!((head.method_text().len(), head.target_text().len()), (METHOD_BYTES, TARGET_BYTES));
        assert_eq!(head.authority().len(), VALUE_BYTES);
    }

    #[test]
    fn request_without_texts_is_empty() {
        let mut head = RequestHead::new();
        head.set_refused(Version::Http11, b"", b"");
        assert_eq!(
            (head.method_text(), head.target_text(), head.authority()),
            (&b""[..], &b""[..], &b""[..])
        );
    }
}
