//! B3, the context of Zipkin (<https://github.com/openzipkin/b3-propagation>): the field `b3`, and the fields
//! `X-B3-…`.

use message::Headers;

use super::ids::read_id;

/// The parts of a context as they were written; none of them is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct B3Headers<'h> {
    pub(crate) trace_id: Option<&'h [u8]>,
    pub(crate) span_id: Option<&'h [u8]>,
    pub(crate) parent_span_id: Option<&'h [u8]>,
    pub(crate) sampled: Option<&'h [u8]>,
    /// The caller asks for a report whatever the sampling says.
    pub(crate) is_debug: bool,
}

/// The caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct B3Parent {
    /// An id of 64 bits has zeros before it.
    pub(crate) trace_id: [u8; 16],
    /// Whether the id of the trace was written with 16 digits.
    pub(crate) is_short: bool,
    /// None if the caller named the trace only.
    pub(crate) span_id: Option<[u8; 8]>,
}

/// Reads the value of the field `b3`.
///
/// # Errors
/// The part that is missing, as APISIX says it.
pub(crate) fn parse_single(text: &[u8]) -> Result<B3Headers<'_>, &'static str> {
    if text == b"0" {
        return Ok(B3Headers { sampled: Some(text), ..B3Headers::default() });
    }
    let mut parts = text.splitn(4, |byte| *byte == b'-');
    let trace_id = parts.next().filter(|part| !part.is_empty()).ok_or("missing trace_id")?;
    let span_id = parts.next().ok_or("missing span_id")?;
    let (sampled, parent_span_id) = (parts.next(), parts.next());
    let is_debug = sampled == Some(b"d");
    let sampled = if is_debug { Some(&b"1"[..]) } else { sampled };
    Ok(B3Headers { trace_id: Some(trace_id), span_id: Some(span_id), parent_span_id, sampled, is_debug })
}

/// The fields `X-B3-…`.
pub(crate) fn of_fields(headers: &Headers) -> B3Headers<'_> {
    B3Headers {
        trace_id: headers.get("x-b3-traceid"),
        span_id: headers.get("x-b3-spanid"),
        parent_span_id: headers.get("x-b3-parentspanid"),
        sampled: headers.get("x-b3-sampled"),
        is_debug: headers.get("x-b3-flags") == Some(b"1"),
    }
}

impl B3Headers<'_> {
    /// The caller's span; none without a trace, or if one of the ids is not valid. An id of zeros is not
    /// valid: Zipkin refuses the whole batch that a span with such an id is in.
    pub(crate) fn parent(&self) -> Option<B3Parent> {
        let read = |id: Option<&[u8]>| match id {
            Some(digits) => read_id::<8>(digits).map(Some).ok_or(()),
            None => Ok(None),
        };
        let written = self.trace_id?;
        let is_short = written.len() == 16;
        let trace_id = if is_short {
            let mut trace_id = [0; 16];
            trace_id[8..].copy_from_slice(&read_id::<8>(written)?);
            trace_id
        } else {
            read_id(written)?
        };
        read(self.parent_span_id).ok()?;
        Some(B3Parent { trace_id, is_short, span_id: read(self.span_id).ok()? })
    }

    /// The caller's decision whether the request is reported, if it made one.
    pub(crate) fn decision(&self) -> Option<bool> {
        match self.sampled {
            Some(b"1" | b"true") => Some(true),
            Some(b"0" | b"false") => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "80f198ee56343ba864fe8b2a57d3eff7";
    const SPAN: &str = "e457b5a2e4d86bd1";

    #[test]
    fn single_field_has_all_parts_or_a_reason() {
        let check = |text: String, expected: Result<Option<bool>, &str>| {
            assert_eq!(parse_single(text.as_bytes()).map(|written| written.decision()), expected, "{text}");
        };
        check("0".into(), Ok(Some(false)));
        check(format!("{TRACE}-{SPAN}"), Ok(None));
        check(format!("{TRACE}-{SPAN}-1-05e3ac9a4f6e3b90"), Ok(Some(true)));
        check(format!("{TRACE}-{SPAN}-d"), Ok(Some(true)));
        check(format!("{TRACE}-{SPAN}-0-05e3ac9a4f6e3b90"), Ok(Some(false)));
        check(format!("{TRACE}-{SPAN}-x"), Ok(None));
        check(TRACE.into(), Err("missing span_id"));
        check("1".into(), Err("missing span_id"));
        check(String::new(), Err("missing trace_id"));
    }

    #[test]
    fn parent_needs_valid_ids() {
        let parent = |trace: &str, span: Option<&str>, parent: Option<&str>| {
            let written = B3Headers {
                trace_id: Some(trace.as_bytes()),
                span_id: span.map(str::as_bytes),
                parent_span_id: parent.map(str::as_bytes),
                ..B3Headers::default()
            };
            written.parent().map(|parent| (parent.is_short, parent.span_id.is_some()))
        };
        assert_eq!(parent(TRACE, Some(SPAN), None), Some((false, true)));
        assert_eq!(parent(&TRACE[16..], Some(SPAN), Some(SPAN)), Some((true, true)));
        assert_eq!(parent(TRACE, None, None), Some((false, false)));
        for (trace, span, above) in [
            ("abc", Some(SPAN), None),
            (TRACE, Some("xyz"), None),
            (TRACE, Some(SPAN), Some("1")),
            (&TRACE.replace('8', "g"), Some(SPAN), None),
            ("00000000000000000000000000000000", Some(SPAN), None),
            ("0000000000000000", Some(SPAN), None),
            (TRACE, Some("0000000000000000"), None),
            (TRACE, Some(SPAN), Some("0000000000000000")),
        ] {
            assert_eq!(parent(trace, span, above), None, "{trace} {span:?} {above:?}");
        }
        assert_eq!(B3Headers::default().parent(), None);
    }
}
