//! Weights that clients give to representations: the parameter `q` (RFC 9110 section 12.4.2), and the choice
//! between media types by `Accept` (section 12.5.1). It knows no response.

use crate::{FieldId, Headers};

/// The weight of an entry without a `q`, in thousandths.
pub const FULL_WEIGHT: u16 = 1_000;

/// The weight in a parameter `q=0.5`, in thousandths; 0 for one that is malformed, and nothing for another
/// parameter.
pub fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    Some(thousandths(value.trim_ascii()).unwrap_or(0))
}

/// A number from 0 to 1 with at most three digits behind the point.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, digits) = match value {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0') * FULL_WEIGHT;
    let mut unit = 100;
    for digit in digits {
        thousandths += u16::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * unit;
        unit /= 10;
    }
    (thousandths <= FULL_WEIGHT).then_some(thousandths)
}

/// Whether the client of a request with these fields wants HTML more than JSON. Equal weights, a request
/// without `Accept`, and one that takes neither mean JSON. Parameters of media types other than `q` are
/// ignored.
pub fn prefers_html(request: &Headers) -> bool {
    let mut html = Range::default();
    let mut json = Range::default();
    for line in request.get_all_known(FieldId::Accept) {
        for entry in line.split(|byte| *byte == b',') {
            let mut parts = entry.split(|byte| *byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let Some(slash) = name.iter().position(|byte| *byte == b'/') else { continue };
            let (kind, subtype) = (&name[..slash], &name[slash + 1..]);
            let given = parts.find_map(|part| weight(part.trim_ascii())).unwrap_or(FULL_WEIGHT);
            html.note((kind, subtype), (b"text", b"html"), given);
            json.note((kind, subtype), (b"application", b"json"), given);
        }
    }
    html.weight > json.weight
}

/// The weight of one media type by the most specific entry that covers it; of two that are equally specific,
/// the greater.
#[derive(Default)]
struct Range {
    specificity: u8,
    weight: u16,
}

impl Range {
    fn note(&mut self, entry: (&[u8], &[u8]), of: (&[u8], &[u8]), weight: u16) {
        let is_kind = entry.0.eq_ignore_ascii_case(of.0);
        let specificity = match (entry.0, entry.1) {
            (b"*", b"*") => 1,
            (_, b"*") if is_kind => 2,
            (_, subtype) if is_kind && subtype.eq_ignore_ascii_case(of.1) => 3,
            _ => return,
        };
        if specificity > self.specificity {
            *self = Range { specificity, weight };
        } else if specificity == self.specificity {
            self.weight = self.weight.max(weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_chosen_only_if_it_weighs_more() {
        let check = |lines: &[&str], expected: bool| {
            let mut headers = Headers::new();
            lines.iter().for_each(|line| headers.append("Accept", line.as_bytes()).unwrap());
            assert_eq!(prefers_html(&headers), expected, "{lines:?}");
        };
        // Browsers.
        check(&["text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"], true);
        check(&["text/html"], true);
        check(&["Text/HTML; charset=utf-8"], true);
        check(&["text/*"], true);
        check(&["application/json;q=0.5", "text/html;q=0.501"], true);
        check(&["text/html;level=1;q=0.4, */*;q=0.3"], true);
        // Programs.
        check(&[], false);
        check(&[""], false);
        check(&["*/*"], false);
        check(&["application/json"], false);
        check(&["application/json, text/html"], false);
        check(&["text/html;q=0.5, application/json;q=0.5"], false);
        check(&["text/html;q=0.3, application/*;q=0.4"], false);
        check(&["text/html;q=0, */*;q=0.1"], false);
        check(&["image/png"], false);
        // A more specific entry holds, whatever its place; a malformed weight is 0.
        check(&["text/*;q=0.9, text/html;q=0.1, */*;q=0.5"], false);
        check(&["text/html;q=2, */*;q=0.1"], false);
        check(&["html"], false);
        check(&["text/htmlx, */x"], false);
    }

    #[test]
    fn weight_has_three_digits_at_most() {
        for (text, expected) in [
            ("q=1", Some(1_000)),
            ("Q=0.5", Some(500)),
            ("q=0.001", Some(1)),
            ("q=1.000", Some(1_000)),
            ("q=1.001", Some(0)),
            ("q=0.0001", Some(0)),
            ("q=a", Some(0)),
            ("level=1", None),
        ] {
            assert_eq!(weight(text.as_bytes()), expected, "{text}");
        }
    }
}
