//! The context that requests carry in `sw8` and `sw8-correlation` (SkyWalking's cross process propagation,
//! version 3).

use data_encoding::BASE64;

/// The longest `sw8` that is read. Its parts are names of services and paths.
const CARRIER_MAX_BYTES: usize = 4_096;
/// The most elements of a correlation, and the longest value of one.
const CORRELATION_MAX: usize = 3;
const CORRELATION_VALUE_MAX_BYTES: usize = 128;
/// The peer of the span to the upstream.
pub(super) const PEER: &str = "upstream service";

/// The names of the service and of its instance, as they are sent and encoded.
pub(super) struct Names {
    pub(super) service: Box<str>,
    pub(super) instance: Box<str>,
    encoded: String,
}

/// The span of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) trace_id: String,
    pub(super) segment_id: String,
    /// At least 0. SkyWalking reads 32 bits with a sign, and refuses a segment with a larger number.
    pub(super) span_id: i32,
    pub(super) service: String,
    pub(super) instance: String,
    pub(super) endpoint: String,
    pub(super) peer: String,
}

impl Names {
    pub(super) fn new(service: &str, instance: &str) -> Names {
        let encoded = format!("{}-{}", encode(service), encode(instance));
        Names { service: service.into(), instance: instance.into(), encoded }
    }
}

/// The value of `sw8` for the upstream, which is below the span 1 of the segment.
pub(super) fn carrier(trace_id: &str, segment_id: &str, names: &Names, endpoint: &str) -> String {
    let (trace_id, segment_id) = (encode(trace_id), encode(segment_id));
    format!("1-{trace_id}-{segment_id}-1-{}-{}-{}", names.encoded, encode(endpoint), encode(PEER))
}

/// Reads a `sw8`: eight parts, of which the first says whether the trace is reported.
pub(super) fn reference(carrier: &[u8]) -> Option<Reference> {
    let text = str::from_utf8(carrier).ok().filter(|text| text.len() <= CARRIER_MAX_BYTES)?;
    let parts: Vec<&str> = text.split('-').collect();
    let [_, trace_id, segment_id, span_id, service, instance, endpoint, peer] = parts[..] else {
        return None;
    };
    let trace_id = decode(trace_id).filter(|id| !id.is_empty())?;
    Some(Reference {
        trace_id,
        segment_id: decode(segment_id)?,
        span_id: span_id.parse().ok().filter(|id| *id >= 0)?,
        service: decode(service)?,
        instance: decode(instance)?,
        endpoint: decode(endpoint)?,
        peer: decode(peer)?,
    })
}

/// Whether a `sw8-correlation` may be passed on.
pub(super) fn is_valid_correlation(text: &[u8]) -> bool {
    let element = |element: &[u8]| {
        let Some(colon) = element.iter().position(|byte| *byte == b':') else { return false };
        let (key, value) = (BASE64.decode(&element[..colon]), BASE64.decode(&element[colon + 1..]));
        key.is_ok_and(|key| !key.is_empty())
            && value.is_ok_and(|value| value.len() <= CORRELATION_VALUE_MAX_BYTES)
    };
    text.split(|byte| *byte == b',').count() <= CORRELATION_MAX
        && text.split(|byte| *byte == b',').all(element)
}

fn encode(text: &str) -> String {
    BASE64.encode(text.as_bytes())
}

fn decode(text: &str) -> Option<String> {
    String::from_utf8(BASE64.decode(text.as_bytes()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carrier_is_read_as_it_was_written() {
        let names = Names::new("gate-way", "host 1");
        let text = carrier("trace-1", "segment", &names, "/a-b");
        let expected = Reference {
            trace_id: "trace-1".into(),
            segment_id: "segment".into(),
            span_id: 1,
            service: "gate-way".into(),
            instance: "host 1".into(),
            endpoint: "/a-b".into(),
            peer: PEER.into(),
        };
        assert_eq!(reference(text.as_bytes()), Some(expected));
        let long = format!("{text}{}", "A".repeat(CARRIER_MAX_BYTES));
        for bad in
            ["", "1", "garbage", &text[2..], &text.replace("-1-", "-x-"), &text.replace('=', "!"), &long]
        {
            assert_eq!(reference(bad.as_bytes()), None, "{bad}");
        }
        for (span_id, is_read) in
            [("0", true), ("2147483647", true), ("2147483648", false), ("4294967295", false)]
        {
            let text = text.replace("-1-", &format!("-{span_id}-"));
            assert_eq!(reference(text.as_bytes()).is_some(), is_read, "{span_id}");
        }
        assert_eq!(reference(b"1--MQ==-1-MQ==-MQ==-MQ==-MQ=="), None, "a trace has an id");
    }

    #[test]
    fn correlations_are_bounded() {
        let long = format!("a2V5:{}", BASE64.encode(&[b'v'; 129]));
        for (text, expected) in [
            ("a2V5:dmFsdWU=", true),
            ("YQ==:Yg==,Yw==:ZA==,ZQ==:", true),
            ("YQ==:Yg==,Yw==:ZA==,ZQ==:Zg==,Zw==:aA==", false),
            ("", false),
            ("a2V5", false),
            (":dmFsdWU=", false),
            ("a:b", false),
            (&long, false),
        ] {
            assert_eq!(is_valid_correlation(text.as_bytes()), expected, "{text}");
        }
    }
}
