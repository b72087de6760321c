//! The OpenAPI 3.1 document of the Admin API, made from the same JSON Schemas that check what is written, so that
//! neither can say what the other does not know. It refuses to know the content of any schema.
//!
//! `GET /apisix/admin/openapi.json` answers it; with the key, as everything below the Admin API's prefix.

mod components;
mod convert;
mod examples;
mod objects;
mod operation;
mod others;
mod whole;

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::{Catalog, Kind};
use serde_json::{Map, Value, json};

use super::respond;
use super::server::AdminParts;

/// Answers the document. It is made when it is asked for: half a megabyte that nobody reads need not be held.
pub(super) async fn answer(parts: &Arc<AdminParts>) -> Response<Bytes> {
    let catalog = Arc::clone(&parts.catalog);
    let made = tokio::task::spawn_blocking(move || respond::json(StatusCode::OK, &document(&catalog)));
    made.await.unwrap_or_else(|_| respond::empty(StatusCode::INTERNAL_SERVER_ERROR))
}

/// The document for a gateway with these plugins.
pub fn document(catalog: &Catalog) -> Value {
    let mut paths = Map::new();
    for kind in Kind::ALL {
        objects::add(kind, &mut paths);
    }
    others::add(&mut paths);
    whole::add(&mut paths);
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Weir Admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "The Admin API of Apache APISIX 3.18, and what Weir adds below `weir`.",
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/apisix/admin", "description": "The node that answered this." }],
        "security": [{ "KeyInHeader": [] }, { "KeyInQuery": [] }, { "KeyInCookie": [] }],
        "tags": tags(),
        "paths": paths,
        "components": components::all(catalog),
    })
}

fn tags() -> Value {
    let mut tags: Vec<Value> = Kind::ALL
        .into_iter()
        .map(|kind| {
            let description = model::schema::of(kind)["description"].clone();
            json!({ "name": kind.collection(), "description": description })
        })
        .collect();
    tags.push(
        json!({ "name": "schemas", "description": "Plugins, schemas, and checks that store nothing." }),
    );
    tags.push(json!({ "name": "weir", "description": "What APISIX does not have." }));
    Value::Array(tags)
}

const DESCRIPTION: &str = "Paths, bodies and answers are those of Apache APISIX 3.18, so that its tools and clients \
work unchanged.\n\nEvery answer is JSON that ends with a line end, and carries `Server` and, once the key was checked, \
`X-API-VERSION` and `X-Weir-Revision`. A verb that a kind does not have is answered 405 where APISIX switches it off \
(POST for consumers, credentials, consumer groups, plugin configs, global rules, plugin metadata and secrets; PATCH for \
consumers, credentials, plugin metadata, protos and stream routes), any other 404. OPTIONS is answered 200 on every \
path, without the key. A body may have 1.5 MiB. Where the configuration comes from a file, every write is answered \
405.\n\nWhat is written obeys the schemas below. What they cannot say is checked too (references, expressions, plugins \
that exclude each other), and refused with 400 and the reason.";

#[cfg(test)]
mod tests;
