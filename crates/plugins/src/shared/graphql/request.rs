//! A GraphQL request over HTTP: the document, its variables and the operation that is to run, out of a body
//! or a query. The errors are the texts that clients get, those of APISIX.

use exchange::Exchange;
use exchange::plugin::BufferedReply;
use jsonx::Bounds;
use message::Method;
use serde_json::{Map, Value};

use super::{DocumentFault, GraphqlDocument};
use message::query::{arguments, decode};

/// A request without a body, or with one that is too long.
pub(crate) const NO_BODY: &str = "Invalid graphql request: can't get graphql request body";
/// A document that cannot be parsed.
const MALFORMED: &str = "Invalid graphql request: failed to parse graphql query";
/// A document without an operation.
const EMPTY: &str = "Invalid graphql request: empty graphql query";
/// Variables that are no object.
const NO_VARIABLES: &str = "invalid graphql request, json body[variables] is no object";
/// Parts of the request in the query string besides the body.
const IN_BOTH: &str = "invalid graphql request, the query string of a POST has a part of it";
/// The members of a body.
const MEMBERS: [&str; 3] = ["query", "variables", "operationName"];
/// The arguments of a query string that servers read a request from.
const ARGUMENTS: [&[u8]; 4] = [b"query", b"variables", b"operationname", b"extensions"];
/// The limit of bodies where the setting `max_matched_body_bytes` is 0, which is about variables.
const BODY_BYTES_DEFAULT: usize = 1024 * 1024;

/// The parts of a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct GraphqlRequest {
    /// The document.
    pub(crate) query: String,
    /// The values of variables.
    pub(crate) variables: Option<Map<String, Value>>,
    /// The name of the operation that is to run.
    pub(crate) operation_name: Option<String>,
}

/// The longest body, or query, of a GraphQL request in bytes.
pub(crate) fn bytes_max(exchange: &Exchange) -> usize {
    match exchange.local().options.limits.max_matched_body_bytes {
        0 => BODY_BYTES_DEFAULT,
        bytes => bytes,
    }
}

/// The body or the query that holds the request; none if there is none, or it is too long.
pub(crate) fn find_graphql_source(exchange: &Exchange) -> Option<&[u8]> {
    let source = match exchange.request.method {
        Method::Get => exchange.request.query(),
        _ => exchange.request_body(),
    };
    source.filter(|source| !source.is_empty() && source.len() <= bytes_max(exchange))
}

/// Whether a server may read a part of a GraphQL request from this argument, which is `name=value` as sent.
/// Many servers prefer such an argument to the same member of the body.
pub(crate) fn is_part_of_request(argument: &[u8]) -> bool {
    // Some servers also split at semicolons, trim names, or read `variables[n]` as a member of an object.
    argument.split(|byte| *byte == b';').any(|pair| {
        let name = decode(pair.split(|byte| *byte == b'=').next().unwrap_or_default());
        let name = name.split(|byte| matches!(byte, b'[' | b'.')).next().unwrap_or_default().trim_ascii();
        ARGUMENTS.iter().any(|known| name.eq_ignore_ascii_case(known))
    })
}

impl GraphqlRequest {
    /// The request in the body or, for GET, in the query.
    ///
    /// # Errors
    /// The text for the client.
    pub(crate) fn of(exchange: &Exchange) -> Result<GraphqlRequest, String> {
        let source = find_graphql_source(exchange).ok_or(NO_BODY)?;
        if exchange.request.method == Method::Get {
            return GraphqlRequest::in_query(source);
        }
        let query = exchange.forward_query().unwrap_or_default();
        if arguments(query).any(|(argument, _, _)| is_part_of_request(argument)) {
            // The upstream may run what is there instead of what is counted here.
            return Err(IN_BOTH.to_owned());
        }
        let mut types = exchange.request.headers.get_all("content-type");
        let content_type = types.next().unwrap_or_default();
        if types.next().is_some() {
            // The upstream may read the body by the other one.
            return Err("invalid graphql request, error content-type: duplicated".to_owned());
        }
        GraphqlRequest::in_body(content_type, source)
    }

    fn in_query(query: &[u8]) -> Result<GraphqlRequest, String> {
        let text = |wanted: &[u8]| {
            let found = arguments(query).find(|(_, name, _)| decode(name) == wanted);
            found.map(|(_, _, value)| String::from_utf8_lossy(&decode(value)).into_owned())
        };
        let query = text(b"query").ok_or("invalid graphql request, args[query] is nil")?;
        let variables = text(b"variables").and_then(|text| jsonx::read(text.as_bytes(), Bounds::BODY).ok());
        Ok(GraphqlRequest { query, variables, operation_name: text(b"operationName") })
    }

    fn in_body(content_type: &[u8], body: &[u8]) -> Result<GraphqlRequest, String> {
        if is_of_type(content_type, b"application/json") {
            return GraphqlRequest::in_json(body);
        }
        if is_of_type(content_type, b"application/graphql") {
            let query = String::from_utf8(body.to_vec()).map_err(|_| MALFORMED)?;
            return Ok(GraphqlRequest { query, ..GraphqlRequest::default() });
        }
        let content_type = String::from_utf8_lossy(content_type);
        Err(format!("invalid graphql request, error content-type: {content_type}"))
    }

    fn in_json(body: &[u8]) -> Result<GraphqlRequest, String> {
        let parsed = jsonx::parse(body, Bounds::BODY)
            .map_err(|error| format!("invalid graphql request, Expected JSON: {error}"))?;
        if parsed.repeats_names {
            // Some servers take the first of two members with one name, and would run what was not counted.
            return Err("invalid graphql request, json body has two members with one name".to_owned());
        }
        let mut body = match parsed.value.to_serde() {
            Value::Object(body) => body,
            // A list of requests has no `query`: what cannot be counted does not pass.
            _ => Map::new(),
        };
        // Some servers do not tell upper from lower case, and would run what was not counted.
        let is_doubtful =
            |name: &str| MEMBERS.iter().any(|member| name != *member && name.eq_ignore_ascii_case(member));
        if let Some(name) = body.keys().find(|name| is_doubtful(name)) {
            let name: String = name.chars().take(16).collect();
            return Err(format!("invalid graphql request, json body[{name}] is written in another case"));
        }
        let query = match body.shift_remove("query") {
            None | Some(Value::Null) => {
                return Err("invalid graphql request, json body[query] is nil".to_owned());
            }
            Some(Value::String(query)) => query,
            Some(_) => return Err(MALFORMED.to_owned()),
        };
        let variables = match body.shift_remove("variables") {
            Some(Value::Object(variables)) => Some(variables),
            None | Some(Value::Null) => None,
            // Some servers read a text as JSON, and would run values that were not counted.
            Some(_) => return Err(NO_VARIABLES.to_owned()),
        };
        let operation_name = match body.shift_remove("operationName") {
            Some(Value::String(name)) => Some(name),
            _ => None,
        };
        Ok(GraphqlRequest { query, variables, operation_name })
    }

    /// The document, which has an operation.
    ///
    /// # Errors
    /// The text for the client.
    pub(crate) fn document(&self) -> Result<GraphqlDocument, String> {
        match GraphqlDocument::parse(&self.query) {
            Ok(document) if document.operations.is_empty() => Err(EMPTY.to_owned()),
            Ok(document) => Ok(document),
            Err(DocumentFault::TooLarge | DocumentFault::Syntax(_)) => Err(MALFORMED.to_owned()),
        }
    }
}

/// The reply to a request that is none of GraphQL.
pub(crate) fn refuse_graphql_request(text: &str) -> BufferedReply {
    BufferedReply::message(400, text)
}

fn is_of_type(content_type: &[u8], wanted: &[u8]) -> bool {
    content_type.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use exchange::testing::Scene;
    use serde_json::json;

    use super::*;

    /// The request that is read, or the text for the client.
    fn read(request: &str) -> Result<GraphqlRequest, String> {
        let mut scene = Scene::new();
        let exchange = scene.exchange(request.as_bytes());
        let request = GraphqlRequest::of(&exchange)?;
        request.document().map(|_| request)
    }

    #[test]
    fn requests_without_a_document_are_reported() {
        let check = |method: &str, fields: &str, body: &str, expected: &str| {
            let got = read(&format!("{method} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")).unwrap_err();
            assert!(got.starts_with(expected), "{method} {body}: {got}");
        };
        let (json, graphql) = ("Content-Type: application/json\r\n", "Content-Type: application/graphql\r\n");
        check("POST /", json, "", NO_BODY);
        check("GET /", "", "", NO_BODY);
        check("GET /?test=1", "", "", "invalid graphql request, args[query] is nil");
        check("POST /", "", r#"{"query":"{a}"}"#, "invalid graphql request, error content-type: ");
        check(
            "POST /",
            "Content-Type: text/plain\r\n",
            "x",
            "invalid graphql request, error content-type: text/plain",
        );
        check("POST /", &format!("{json}{graphql}"), "{a}", "invalid graphql request, error content-type");
        check("POST /", json, r#"{"query":"{a}",}"#, "invalid graphql request, Expected");
        check("POST /", json, r#"{"test":"{a}"}"#, "invalid graphql request, json body[query] is nil");
        check("POST /", json, r#"[{"query":"{a}"}]"#, "invalid graphql request, json body[query] is nil");
        let doubtful = "invalid graphql request, json body[Query] is written in another case";
        check("POST /", json, r#"{"query":"{a}","Query":"{b}"}"#, doubtful);
        check("POST /", json, r#"{"query":1}"#, MALFORMED);
        let repeated = "invalid graphql request, json body has two members with one name";
        check("POST /", json, r#"{"query":"{a}","query":"{b}"}"#, repeated);
        check("POST /", json, r#"{"query":"{a}","variables":{"n":1,"\u006e":9}}"#, repeated);
        check("POST /", json, r#"{"query":"{a}","variables":"{\"n\":9}"}"#, NO_VARIABLES);
        check("POST /", json, r#"{"query":"{a}","variables":[]}"#, NO_VARIABLES);
        check("POST /?query=%7Bb%7D", json, r#"{"query":"{a}"}"#, IN_BOTH);
        check("POST /?a=1&variables=%7B%7D", graphql, "{a}", IN_BOTH);
        check("POST /?operationName=b", json, r#"{"query":"{a}"}"#, IN_BOTH);
        check("POST /", json, r#"{"query":"query{persons(filter){id}}"}"#, MALFORMED);
        check("POST /", json, r#"{"query":""}"#, EMPTY);
        check("POST /", graphql, "test { a }", MALFORMED);
        check("POST /", graphql, "fragment F on T { a }", EMPTY);
    }

    #[test]
    fn parts_of_a_request_are_read() {
        let expected = GraphqlRequest {
            query: "query Q { a }".to_owned(),
            variables: json!({"n": 1}).as_object().cloned(),
            operation_name: Some("Q".to_owned()),
        };
        let body = r#"{"query":"query Q { a }","variables":{"n":1},"operationName":"Q"}"#;
        let head =
            "POST /?key=query HTTP/1.1\r\nHost: a\r\nContent-Type: Application/JSON; charset=utf-8\r\n\r\n";
        assert_eq!(read(&format!("{head}{body}")), Ok(expected));
        let without = r#"{"query":"{a}","variables":null}"#;
        assert_eq!(read(&format!("{head}{without}")).unwrap().variables, None);
        let got = read("GET /?query=query+Q%7Ba%7D&operationName=Q&variables=%7B%22n%22%3A1%7D HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!((&*got.query, got.variables.unwrap().len()), ("query Q{a}", 1));
    }
}
