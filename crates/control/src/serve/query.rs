//! Paths and query strings as APISIX reads them: percent-decoded, `+` is a space, and the first of repeated
//! arguments counts.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The decoded arguments of a query string, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    arguments: Vec<(String, String)>,
}

impl Query {
    /// Reads `a=1&b=%202`; a name without `=` has the value "".
    pub(crate) fn parse(text: &str) -> Query {
        let arguments = text
            .split('&')
            .filter(|part| !part.is_empty())
            .take(MAX_ARGUMENTS)
            .map(|part| {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                (decode_form(name), decode_form(value))
            })
            .collect();
        Query { arguments }
    }

    /// The first value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.arguments.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value of `name`, if it is a finite number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.trim().parse::<f64>().ok().filter(|number| number.is_finite())
    }
}

/// The decoded, non-empty segments of a path.
pub(crate) fn segments(path: &str) -> Vec<String> {
    percent_decode_str(path)
        .decode_utf8_lossy()
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(str::to_owned)
        .collect()
}

fn decode_form(text: &str) -> String {
    let spaced: Cow<'_, str> = if text.contains('+') { text.replace('+', " ").into() } else { text.into() };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// The default limit of OpenResty's `get_uri_args`; later arguments are ignored.
const MAX_ARGUMENTS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_decoded_and_first_one_counts() {
        let query = Query::parse("a=1&b=%202+3&&a=9&flag&filter=service_id%3D1&n=1e999");
        let check = |name: &str, expected: Option<&str>| assert_eq!(query.get(name), expected, "{name}");
        check("a", Some("1"));
        check("b", Some(" 2 3"));
        check("flag", Some(""));
        check("filter", Some("service_id=1"));
        check("none", None);
        assert_eq!((query.number("a"), query.number("flag"), query.number("n")), (Some(1.0), None, None));
    }

    #[test]
    fn segments_are_decoded_and_not_empty() {
        let check = |path: &str, expected: &[&str]| assert_eq!(segments(path), expected, "{path}");
        check("/apisix/admin/routes/", &["apisix", "admin", "routes"]);
        check("//a//%62", &["a", "b"]);
        check("/nodes/127.0.0.1%3A80", &["nodes", "127.0.0.1:80"]);
        check("/", &[]);
    }
}
