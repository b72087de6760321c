//! The schema of an upstream, as far as costs need it: the types of fields and the defaults of arguments. It
//! is fetched by an introspection query, once for all workers, and kept until it is an hour old.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use exchange::local::WorkerLocal;
use exchange::plugin::outbound::{
    CopiedLine, DestinationOpener, OutboundDestination, OutboundLimits, OutboundRequest, OutboundTls,
};
use jsonx::Bounds;
use message::{Headers, Method};
use net::endpoint::KeepAlive;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::shared::fetched::Fetched;

/// Milliseconds that a schema is kept.
const KEPT_MS: u64 = 3_600_000;
/// Milliseconds of the whole call, as APISIX allows them in three steps.
const CALL_MS: u64 = 9_000;
const CONNECT_MS: u64 = 2_000;
/// The longest answer in bytes: the schema of a large API has a few megabytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Types of a schema, and fields of a type: beyond these it is refused.
const TYPES_MAX: usize = 20_000;
/// Values of the answer, those inside lists and objects included. The schemas of large services have some
/// 200,000.
const VALUES_MAX: usize = 1_000_000;
const FIELDS_MAX: usize = 5_000;
/// Endpoints of a service that are known to have failed, until one has given the schema.
const TRIED_MAX: usize = 64;
/// Levels of lists and of not-null around a type.
const WRAPPERS_MAX: usize = 8;

/// The query; a type inside more wrappers than it asks for has no name in the answer.
const QUERY: &str = "query{__schema{queryType{name}mutationType{name}types{name fields{name args{name defaultValue}type{...W}}}}}\
    fragment W on __Type{name ofType{name ofType{name ofType{name ofType{name ofType{name ofType{name ofType{name}}}}}}}}";

/// A schema.
#[derive(Debug)]
pub(super) struct SchemaIndex {
    pub(super) query_type: Box<str>,
    pub(super) mutation_type: Box<str>,
    types: HashMap<Box<str>, HashMap<Box<str>, FieldType>>,
}

/// A field of a type.
#[derive(Debug, PartialEq)]
pub(super) struct FieldType {
    /// The type of its values, without lists around it.
    pub(super) returns: Option<Box<str>>,
    /// The arguments that have a number as default.
    pub(super) defaults: Vec<(Box<str>, f64)>,
}

impl SchemaIndex {
    /// Reads the answer to the introspection query.
    ///
    /// # Errors
    /// It is none, or beyond a limit; a sentence for the log.
    pub(super) fn read(answer: &[u8]) -> Result<SchemaIndex, String> {
        let answer: Value = jsonx::read(answer, Bounds::DEFAULT.with_values(VALUES_MAX))
            .map_err(|error| format!("failed to decode the introspection response: {error}"))?;
        let data = answer.get("data").filter(|data| !data.is_null());
        let schema = &data.ok_or("introspection response has no data field")?["__schema"];
        let written = schema["types"].as_array().ok_or("introspection response has no __schema.types")?;
        if written.len() > TYPES_MAX {
            return Err(format!("the schema has more than {TYPES_MAX} types"));
        }
        let mut types = HashMap::new();
        for of_type in written {
            let (Some(name), Some(fields)) = (of_type["name"].as_str(), of_type["fields"].as_array()) else {
                continue;
            };
            if fields.len() > FIELDS_MAX {
                return Err(format!("the type {name} has more than {FIELDS_MAX} fields"));
            }
            types.insert(name.into(), fields.iter().filter_map(field).collect());
        }
        let root = |field: &str, default: &str| schema[field]["name"].as_str().unwrap_or(default).into();
        Ok(SchemaIndex {
            query_type: root("queryType", "Query"),
            mutation_type: root("mutationType", "Mutation"),
            types,
        })
    }

    /// The field `name` of the type `on`.
    pub(super) fn field(&self, on: &str, name: &str) -> Option<&FieldType> {
        self.types.get(on)?.get(name)
    }

    /// Whether the schema has a type of this name, with fields.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.types.contains_key(name)
    }
}

fn field(written: &Value) -> Option<(Box<str>, FieldType)> {
    let mut of_type = &written["type"];
    for _ in 0..WRAPPERS_MAX {
        if of_type["name"].is_string() {
            break;
        }
        of_type = &of_type["ofType"];
    }
    let default = |argument: &Value| {
        // The default is written as in a document, a text in quotes.
        let number = argument["defaultValue"].as_str()?.trim().trim_matches('"').parse().ok()?;
        Some((argument["name"].as_str()?.into(), number))
    };
    let defaults = written["args"].as_array().into_iter().flatten().filter_map(default).collect();
    let returns = of_type["name"].as_str().map(Into::into);
    Some((written["name"].as_str()?.into(), FieldType { returns, defaults }))
}

/// The server that is asked for its schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SchemaServer {
    /// Scheme, host and port, or a whole URL.
    pub(super) origin: String,
    /// The path of the request; empty with a whole URL.
    pub(super) path: String,
    /// The Host field, where it is not that of the URL.
    pub(super) host: Option<Vec<u8>>,
    /// Whether the Host field is that of the request.
    pub(super) is_host_of_client: bool,
}

impl SchemaServer {
    fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// The endpoint with the parts that clients choose as they are in `known`.
    fn as_in(&self, known: &SchemaServer) -> SchemaServer {
        let host = if self.is_host_of_client { &known.host } else { &self.host };
        SchemaServer { path: known.path.clone(), host: host.clone(), ..self.clone() }
    }
}

/// The schema of one service, and how it is fetched. Outlives configuration changes.
pub(super) struct SchemaSource {
    opener: DestinationOpener,
    /// The endpoint that has given the schema. The schema is renewed from there only, because clients choose
    /// the paths of their requests, and must not choose by which schema others are counted.
    found: Mutex<Option<(SchemaServer, Arc<Fetched<SchemaIndex>>)>>,
    /// The endpoints without a schema yet, so that the failure of one is not that of another.
    tried: Mutex<Vec<(SchemaServer, Arc<Fetched<SchemaIndex>>)>>,
    /// The server of the last call: a new one has a new pool of connections.
    opened: Mutex<Option<(String, Arc<OutboundDestination>)>>,
}

impl SchemaSource {
    pub(super) fn new(opener: DestinationOpener) -> SchemaSource {
        SchemaSource { opener, found: Mutex::default(), tried: Mutex::default(), opened: Mutex::default() }
    }

    /// The schema; `headers` are sent along when it is fetched.
    ///
    /// # Errors
    /// It cannot be fetched, a sentence for the log.
    pub(super) async fn get(
        self: &Arc<SchemaSource>,
        local: &Rc<WorkerLocal>,
        endpoint: &SchemaServer,
        headers: &Arc<[(String, String)]>,
    ) -> Result<Arc<SchemaIndex>, String> {
        let found = self.found.lock().clone();
        let is_new = found.is_none();
        let (endpoint, schema) = match found {
            Some((known, schema)) => (endpoint.as_in(&known), schema),
            None => (endpoint.clone(), self.tried(endpoint)),
        };
        let fetch = || {
            let (this, local, headers) = (self.clone(), local.clone(), headers.clone());
            let endpoint = endpoint.clone();
            async move { this.fetch(&local, &endpoint, &headers).await }
        };
        let index = schema.get_or_stale(KEPT_MS, fetch).await.map_err(|reason| reason.to_string())?;
        if is_new {
            self.found.lock().get_or_insert((endpoint, schema));
            self.tried.lock().clear();
        }
        Ok(index)
    }

    /// The schema of an endpoint that has not given it yet.
    fn tried(&self, endpoint: &SchemaServer) -> Arc<Fetched<SchemaIndex>> {
        let mut tried = self.tried.lock();
        if let Some((_, schema)) = tried.iter().find(|(of, _)| of == endpoint) {
            return schema.clone();
        }
        if tried.len() >= TRIED_MAX {
            tried.clear();
        }
        let schema = Arc::<Fetched<SchemaIndex>>::default();
        tried.push((endpoint.clone(), schema.clone()));
        schema
    }

    async fn fetch(
        &self,
        local: &WorkerLocal,
        endpoint: &SchemaServer,
        more: &[(String, String)],
    ) -> Result<SchemaIndex, String> {
        let url = endpoint.url();
        let destination = self.destination(&url).await?;
        let mut headers = Headers::new();
        let mut host = endpoint.host.clone();
        let own = ("Content-Type".to_owned(), "application/json".to_owned());
        for (name, value) in std::iter::once(&own).chain(more) {
            if name.eq_ignore_ascii_case("host") {
                host = Some(value.as_bytes().to_vec());
                continue;
            }
            let set = headers.set(name, value.as_bytes());
            set.map_err(|error| format!("the field {name} cannot be sent: {error}"))?;
        }
        let body = json!({ "query": QUERY }).to_string().into_bytes();
        let request = OutboundRequest { method: Method::Post, headers, body: body.into() };
        let limits = OutboundLimits {
            connect_timeout_ms: CONNECT_MS,
            total_timeout_ms: CALL_MS,
            max_body_bytes: ANSWER_BYTES_MAX,
        };
        let answer = match host {
            None => local.http.send(&destination, &request, &limits).await,
            Some(host) => {
                let target = destination.target().to_owned();
                let copy = CopiedLine { method: b"POST"[..].into(), target, host: host.into() };
                local.http.send_copy(&destination, &copy, &request, &limits).await
            }
        };
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != 200 {
            return Err(format!("unexpected status {} from {url}", answer.status));
        }
        SchemaIndex::read(&answer.body)
    }

    async fn destination(&self, url: &str) -> Result<Arc<OutboundDestination>, String> {
        let opened = self.opened.lock().clone();
        if let Some((of, destination)) = opened
            && of == url
        {
            return Ok(destination);
        }
        // As in APISIX the certificate is not verified, because requests to the upstream do not verify it by
        // default either.
        let tls = OutboundTls::verifying(false);
        let opening = self.opener.open(url, KeepAlive::default(), &tls, CONNECT_MS);
        let destination = Arc::new(opening.await?);
        *self.opened.lock() = Some((url.to_owned(), destination.clone()));
        Ok(destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lose_their_wrappers() {
        let wrapped = json!({"kind": "NON_NULL", "name": null, "ofType": {"name": null, "ofType": {"name": "Product"}}});
        let answer = json!({"data": {"__schema": {
            "queryType": {"name": "Root"}, "mutationType": null,
            "types": [
                {"name": "Root", "fields": [
                    {"name": "products", "type": wrapped, "args": [
                        {"name": "first", "defaultValue": "10"}, {"name": "by", "defaultValue": "NAME"},
                        {"name": "after", "defaultValue": null},
                    ]},
                ]},
                {"name": "String", "fields": null},
            ],
        }}});
        let index = SchemaIndex::read(answer.to_string().as_bytes()).unwrap();
        assert_eq!((&*index.query_type, &*index.mutation_type), ("Root", "Mutation"));
        let products = FieldType { returns: Some("Product".into()), defaults: vec![("first".into(), 10.0)] };
        assert_eq!(index.field("Root", "products"), Some(&products));
        assert!(index.knows("Root") && !index.knows("String"));
    }

    #[test]
    fn renewal_keeps_what_clients_choose() {
        let endpoint = |origin: &str, path: &str, host: &str, is_host_of_client| SchemaServer {
            origin: origin.to_owned(),
            path: path.to_owned(),
            host: Some(host.as_bytes().to_vec()),
            is_host_of_client,
        };
        let known = endpoint("http://a", "/graphql", "first", true);
        let renewed = endpoint("http://b", "/other", "second", true).as_in(&known);
        assert_eq!(renewed, endpoint("http://b", "/graphql", "first", true));
        let fixed = endpoint("http://b", "/other", "second", false).as_in(&known);
        assert_eq!(fixed, endpoint("http://b", "/graphql", "second", false));
    }

    #[test]
    fn answers_without_a_schema_are_reported() {
        let check = |answer: &str, expected: &str| {
            let got = SchemaIndex::read(answer.as_bytes()).unwrap_err();
            assert!(got.contains(expected), "{answer}: {got}");
        };
        check("<html>", "failed to decode the introspection response");
        check(r#"{"errors":[{"message":"introspection is off"}],"data":null}"#, "has no data field");
        check(r#"{"data":{"__schema":{}}}"#, "has no __schema.types");
        let types = vec![json!({}); TYPES_MAX + 1];
        check(&json!({"data": {"__schema": {"types": types}}}).to_string(), "more than 20000 types");
    }
}
