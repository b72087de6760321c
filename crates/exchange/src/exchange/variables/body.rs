//! Variables that lie in the request body: arguments of forms, paths into JSON and forms, parts of a GraphQL
//! request. It notes where a variable would have needed an unread body, and does not read it itself.

use jsonx::{Bounds, Object, Value as Json};
use message::{FieldId, Method};
use router::vars::{GraphqlVariable, JsonPath, Value};

use super::graphql::GraphqlSummary;
use super::{forms, multipart};
use crate::exchange::Exchange;

/// Fields of a form that are looked at: more than any form has.
const FIELDS_MAX: usize = 1_000;

/// `request_body`.
pub(super) fn whole(exchange: &Exchange) -> Option<Value<'_>> {
    read(exchange).map(Value::borrowed)
}

/// `post_arg_x`: the first argument of that name in an urlencoded form.
pub(super) fn form_argument<'a>(exchange: &'a Exchange, name: &str) -> Option<Value<'a>> {
    if !is_of_type(exchange, FORM) {
        return None;
    }
    forms::argument(read(exchange)?, name)
}

/// `post_arg.a.b[*]`: a path into a JSON body, or into a form as if it were an object.
pub(super) fn path_argument<'a>(exchange: &'a Exchange, path: &JsonPath) -> Option<Value<'a>> {
    let boundary = multipart::boundary(content_type(exchange));
    if boundary.is_none() && !is_of_type(exchange, FORM) && !is_of_type(exchange, JSON) {
        return None;
    }
    let body = read(exchange)?;
    let json = exchange.body.parsed().json.get_or_init(|| match boundary {
        Some(boundary) => Some(object(multipart::fields(body, boundary).into_iter().map(|(name, value)| {
            (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned())
        }))),
        None if is_of_type(exchange, FORM) => Some(object(forms::arguments(body))),
        // A body with more values counts as one that is too long for its variables.
        None => jsonx::parse(body, Bounds::BODY).ok().map(|parsed| parsed.value),
    });
    path.value(json.as_ref()?)
}

/// `graphql_name`, `graphql_operation`, `graphql_root_fields`: of the `query` argument of a GET, or of a POST
/// with a body that is JSON with a `query`, or the document itself.
pub(super) fn graphql(exchange: &Exchange, part: GraphqlVariable) -> Option<Value<'_>> {
    let call = match exchange.request.method {
        Method::Get => exchange.body.parsed().graphql.get_or_init(|| in_query(exchange.request.query()?)),
        Method::Post => {
            let body = read(exchange)?;
            let is_json = is_of_type(exchange, JSON);
            exchange.body.parsed().graphql.get_or_init(|| if is_json { in_json(body) } else { in_text(body) })
        }
        _ => return None,
    };
    let call = call.as_ref()?;
    Some(match part {
        GraphqlVariable::Name => Value::from(call.name.as_str()),
        GraphqlVariable::Operation => Value::from(call.operation),
        GraphqlVariable::RootFields => {
            Value::List(call.root_fields.iter().map(|name| Value::from(name.as_str())).collect())
        }
    })
}

fn in_query(query: &[u8]) -> Option<GraphqlSummary> {
    let text = |name: &str| String::from_utf8(forms::argument(query, name)?.text().into_owned()).ok();
    GraphqlSummary::parse(&text("query")?, text("operationName").as_deref())
}

fn in_json(body: &[u8]) -> Option<GraphqlSummary> {
    let request = jsonx::parse(body, Bounds::BODY).ok()?.value;
    GraphqlSummary::parse(
        request.get("query")?.as_str()?,
        request.get("operationName").and_then(Json::as_str),
    )
}

fn in_text(body: &[u8]) -> Option<GraphqlSummary> {
    GraphqlSummary::parse(str::from_utf8(body).ok()?, None)
}

/// The body, if it was read; if not, that it was wanted is noted.
fn read(exchange: &Exchange) -> Option<&[u8]> {
    if exchange.body.is_unread() {
        exchange.body.miss();
    }
    exchange.body.whole()
}

/// A form as a JSON object; of a name written more than once, the list of its values.
fn object(fields: impl Iterator<Item = (String, String)>) -> Json {
    let mut object = Object::default();
    for (name, value) in fields.take(FIELDS_MAX) {
        object.append(&name, Json::Text(value.into()));
    }
    Json::Object(object)
}

fn content_type(exchange: &Exchange) -> &[u8] {
    exchange.request.headers.get_known(FieldId::ContentType).unwrap_or_default()
}

fn is_of_type(exchange: &Exchange, media_type: &[u8]) -> bool {
    let value = content_type(exchange).split(|byte| *byte == b';').next().unwrap_or_default();
    value.trim_ascii().eq_ignore_ascii_case(media_type)
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";
const JSON: &[u8] = b"application/json";

#[cfg(test)]
mod tests {
    use router::vars::{Variable, VariableSource};

    use crate::testing::Scene;

    /// The value of `variable` for a POST with this type and body.
    fn check(content_type: &str, body: &str, variable: &str, expected: Option<&str>) {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: 9\r\n\r\n{body}"
        );
        let mut scene = Scene::new();
        let exchange = scene.exchange(head.as_bytes());
        let value = exchange.variable(&Variable::parse(variable).unwrap());
        let text = value.map(|value| String::from_utf8_lossy(&value.text()).into_owned());
        assert_eq!(text.as_deref(), expected, "{variable} of {content_type} {body}");
    }

    #[test]
    fn arguments_of_forms_and_json() {
        let (form, json) = ("application/x-www-form-urlencoded", "Application/JSON; charset=utf-8");
        let multipart = "multipart/form-data; boundary=XX";
        let parts = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--XX--\r\n";
        check(form, "a=1&b=%20x&a=2", "post_arg_a", Some("1"));
        check(form, "a=1&b=%20x&a=2", "post_arg.b", Some(" x"));
        check(form, "a=1&b=%20x&a=2", "post_arg.a[*]", Some("1,2"));
        check(form, "a=1", "post_arg.b", None);
        check(json, r#"{"a":{"b":[{"c":1},{"c":true}]}}"#, "post_arg.a.b[*].c", Some("1,true"));
        check(json, r#"{"a":"#, "post_arg.a", None);
        check(json, r#"{"a":1}"#, "post_arg_a", None);
        check(multipart, parts, "post_arg.a", Some("1"));
        check(multipart, parts, "post_arg_a", None);
        check("text/plain", "a=1", "post_arg_a", None);
        check("text/plain", "a=1", "post_arg.a", None);
        check("text/plain", "a=1", "request_body", Some("a=1"));
        check(json, &"[".repeat(100_000), "post_arg.a", None);
        check(json, &format!(r#"{{"a":1,"b":[{}0]}}"#, "0,".repeat(300_000)), "post_arg.a", None);
    }

    #[test]
    fn numbers_of_json_keep_their_digits() {
        let numbers = [
            ("5", "5"),
            ("5.0", "5"),
            ("1e2", "100"),
            ("-7", "-7"),
            ("-0", "-0"),
            ("9007199254740993", "9007199254740993"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "18446744073709551616"),
            ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
            ("1.10", "1.10"),
            ("1E400", "1E400"),
            ("[1,\"a\",9007199254740993]", "1,a,9007199254740993"),
        ];
        for (number, expected) in numbers {
            let body = format!("{{\"a\":{{\"b\":{number}}}}}");
            check("application/json", &body, "post_arg.a.b", Some(expected));
        }
    }

    #[test]
    fn graphql_in_json_and_alone() {
        let json = r#"{"operationName":"B","query":"query A { a } mutation B { b c }"}"#;
        check("application/json", json, "graphql_name", Some("B"));
        check("application/json", json, "graphql_operation", Some("mutation"));
        check("application/json", json, "graphql_root_fields", Some("b,c"));
        check("application/graphql", "{ a }", "graphql_operation", Some("query"));
        check("application/graphql", "{ a }", "graphql_name", Some(""));
        check("application/x-www-form-urlencoded", "query Q { a }", "graphql_name", Some("Q"));
        for body in ["[]", "{}", "{ a }", r#"{"query":1}"#, r#"{"query":"{"}"#] {
            check("application/json", body, "graphql_operation", None);
        }
    }

    #[test]
    fn graphql_in_a_query() {
        let mut scene = Scene::new();
        let mut check = |target: &str, expected: Option<&str>| {
            let exchange = scene.exchange(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
            let value = exchange.variable(&Variable::parse("graphql_name").unwrap());
            let text = value.map(|value| String::from_utf8_lossy(&value.text()).into_owned());
            assert_eq!(text.as_deref(), expected, "{target}");
        };
        check("/?query=query+Q%7Ba%7D", Some("Q"));
        check("/?query=query+Q%7Ba%7D+query+R%7Ba%7D&operationName=R", Some("R"));
        check("/?query=", None);
        check("/", None);
    }
}
