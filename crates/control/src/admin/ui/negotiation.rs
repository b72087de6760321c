//! The content codings of a file by `Accept-Encoding` (RFC 9110 section 12.5.3).

use http::{HeaderMap, header};

/// A coding of a file beside its plain form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Brotli,
    Gzip,
}

impl Coding {
    /// The name in `Content-Encoding`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }
}

/// The codings that a client accepts, the smallest form first. Weights other than 0 are not compared, because
/// every client that accepts a coding is served faster with it.
pub(super) fn accepted(headers: &HeaderMap) -> Vec<Coding> {
    let lists = headers.get_all(header::ACCEPT_ENCODING);
    let accepted: Vec<&str> = lists
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .take(CODINGS_MAX)
        .filter(|item| !is_refused(item))
        .map(|item| item.split(';').next().unwrap_or_default().trim())
        .collect();
    let accepts = |coding: &Coding| accepted.iter().any(|name| name.eq_ignore_ascii_case(coding.name()));
    [Coding::Brotli, Coding::Gzip].into_iter().filter(accepts).collect()
}

/// Whether the weight of an item is 0.
fn is_refused(item: &str) -> bool {
    item.split(';').skip(1).any(|parameter| {
        let weight = parameter.trim().strip_prefix("q=").or_else(|| parameter.trim().strip_prefix("Q="));
        weight.and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
    })
}

/// Limit of the codings that are read; browsers send five.
const CODINGS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn codings_are_read_from_the_field() {
        let check = |values: &[&'static str], expected: &[Coding]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            }
            assert_eq!(accepted(&headers), expected, "{values:?}");
        };
        check(&[], &[]);
        check(&["gzip, deflate, br, zstd"], &[Coding::Brotli, Coding::Gzip]);
        check(&["gzip;q=1.0, br;q=0"], &[Coding::Gzip]);
        check(&["BR"], &[Coding::Brotli]);
        check(&["gzip;q=0.000, identity"], &[]);
        check(&["gzip", "br;q=0.5"], &[Coding::Brotli, Coding::Gzip]);
        check(&["*;q=0.1", "x-gzip"], &[]);
    }
}
