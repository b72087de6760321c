//! W3C Trace Context (<https://www.w3.org/TR/trace-context/>): the fields `traceparent` and `tracestate` of a
//! request, read strictly. A `traceparent` that is not valid is ignored, and its `tracestate` with it.

use message::{FieldId, Headers};

use super::ids::{read_hexadecimal, read_id};

/// The most bytes of a `tracestate` that are passed on and reported; the specification asks for 512 at least.
const STATE_MAX_BYTES: usize = 1_024;
/// The most members of a `tracestate` (section 3.3.1.1).
const STATE_MEMBERS_MAX: usize = 32;
/// The longest key and the longest value of a member (sections 3.3.1.3.1 and 3.3.1.3.2).
const STATE_PART_MAX_BYTES: usize = 256;
/// The length of a `traceparent` of version 00.
const PARENT_BYTES: usize = 55;

/// The span of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct W3cParent {
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
    pub(crate) is_sampled: bool,
}

/// The caller's span, if the request names one.
pub(crate) fn parent(headers: &Headers) -> Option<W3cParent> {
    let mut fields = headers.get_all_known(FieldId::Traceparent);
    let only = fields.next()?;
    // Of two contexts it is not known which one is meant.
    if fields.next().is_some() { None } else { parse_parent(only) }
}

fn parse_parent(text: &[u8]) -> Option<W3cParent> {
    let version: [u8; 1] = read_hexadecimal(text.get(..2)?)?;
    let is_known_length = match version[0] {
        0 => text.len() == PARENT_BYTES,
        0xff => false,
        // A later version may have more behind the parts of this one.
        _ => text.len() == PARENT_BYTES || text.get(PARENT_BYTES) == Some(&b'-'),
    };
    let known = text.get(..PARENT_BYTES).filter(|_| is_known_length)?;
    let has_dashes = [2, 35, 52].iter().all(|place| known[*place] == b'-');
    if !has_dashes || known.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let flags: [u8; 1] = read_hexadecimal(&known[53..])?;
    Some(W3cParent {
        trace_id: read_id(&known[3..35])?,
        span_id: read_id(&known[36..52])?,
        is_sampled: flags[0] & 1 == 1,
    })
}

/// The `tracestate` of the request; none if there is none, or it is not valid.
pub(crate) fn state(headers: &Headers) -> Option<Vec<u8>> {
    let mut fields = headers.get_all_known(FieldId::Tracestate);
    let mut state = fields.next()?.to_vec();
    for field in fields {
        state.push(b',');
        state.extend_from_slice(field);
    }
    is_valid_state(&state).then_some(state)
}

fn is_valid_state(state: &[u8]) -> bool {
    let mut members = 0;
    state.len() <= STATE_MAX_BYTES
        && state.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).all(|member| {
            members += usize::from(!member.is_empty());
            member.is_empty() || is_valid_member(member)
        })
        && (1..=STATE_MEMBERS_MAX).contains(&members)
}

fn is_valid_member(member: &[u8]) -> bool {
    let Some(end) = member.iter().position(|byte| *byte == b'=') else { return false };
    let (key, value) = (&member[..end], &member[end + 1..]);
    let is_key_byte = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@')
    };
    let begins_well = key.first().is_some_and(|first| first.is_ascii_lowercase() || first.is_ascii_digit());
    begins_well
        && key.len() <= STATE_PART_MAX_BYTES
        && key.iter().all(is_key_byte)
        && key.iter().filter(|byte| **byte == b'@').count() <= 1
        && (1..=STATE_PART_MAX_BYTES).contains(&value.len())
        && value.iter().all(|byte| (0x20..0x7f).contains(byte) && *byte != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn parents_are_read_strictly() {
        let good = parse_parent(GOOD.as_bytes()).unwrap();
        assert_eq!((good.trace_id[0], good.span_id[7], good.is_sampled), (0x0a, 0x31, true));
        let edit = |place: usize, with: &str| {
            let mut text = GOOD.to_owned();
            text.replace_range(place..place + with.len(), with);
            text
        };
        let zeros = "0".repeat(32);
        #[rustfmt::skip]
        let cases = [
            (edit(53, "00"), Some(false)),
            (edit(53, "03"), Some(true)),
            (edit(53, "fe"), Some(false)),
            (edit(53, "0g"), None),
            (edit(0, "01"), Some(true)),
            (edit(0, "01") + "-more", Some(true)),
            (edit(0, "01") + "more", None),
            (edit(0, "ff"), None),
            (edit(0, "0x"), None),
            (GOOD.to_owned() + "-more", None),
            (GOOD.to_owned() + " ", None),
            (edit(3, "0AF7"), None),
            (edit(3, &zeros), None),
            (edit(36, &zeros[..16]), None),
            (edit(35, "_"), None),
            (GOOD[..54].to_owned(), None),
            (String::new(), None),
            ("garbage".to_owned(), None),
            ("\u{e4}".repeat(40), None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_parent(text.as_bytes()).map(|parent| parent.is_sampled), expected, "{text}");
        }
    }

    #[test]
    fn two_parents_are_none() {
        let mut headers = Headers::new();
        assert_eq!(parent(&headers), None);
        headers.append("Traceparent", GOOD.as_bytes()).unwrap();
        assert!(parent(&headers).is_some());
        headers.append("traceparent", GOOD.as_bytes()).unwrap();
        assert_eq!(parent(&headers), None);
    }

    #[test]
    fn states_are_passed_on_or_dropped() {
        let many =
            |count: usize| (0..count).map(|number| format!("k{number}=v")).collect::<Vec<_>>().join(",");
        let long = format!("a={}", "v".repeat(257));
        #[rustfmt::skip]
        let cases: [(&[&str], bool); 15] = [
            (&["rojo=00f067aa0ba902b7, congo=t61rcWkgMzE"], true),
            (&["a=1", "b=2"], true),
            (&["a=1,,b=2,"], true),
            (&["fw529a3039@dt=x y"], true),
            (&[&many(32)], true),
            (&[&many(33)], false),
            (&[&long], false),
            (&[""], false),
            (&["a"], false),
            (&["=1"], false),
            (&["a="], false),
            (&["A=1"], false),
            (&["a=b=c"], false),
            (&["a@b@c=1"], false),
            (&["a=\u{e4}"], false),
        ];
        for (fields, is_kept) in cases {
            let mut headers = Headers::new();
            fields.iter().for_each(|field| headers.append("tracestate", field.as_bytes()).unwrap());
            let expected = is_kept.then(|| fields.join(",").into_bytes());
            assert_eq!(state(&headers), expected, "{fields:?}");
        }
    }
}
