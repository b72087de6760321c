//! The OpenAPI 3.1 document of the Admin API: the templates `document.json` and `objects.json`, and the JSON
//! Schemas that check what is written. It knows the content of no schema.
//!
//! `GET /apisix/admin/openapi.json` answers it, with the key, as everything below the Admin API's prefix.

mod components;
mod convert;
mod objects;
mod template;

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::{ObjectKind, PluginCatalog};
use serde_json::{Value, json};

use super::call::AdminParts;
use crate::serve::respond;

/// Answers the document. It is made for each request, because half a megabyte for a rare request is not worth
/// keeping.
pub(super) async fn answer_openapi(parts: &Arc<AdminParts>) -> Response<Bytes> {
    let catalog = parts.catalog();
    let made = respond::blocking(move || respond::json(StatusCode::OK, &document(&catalog))).await;
    made.unwrap_or_else(|refusal| *refusal)
}

/// The document for a gateway with these plugins.
pub fn document(catalog: &PluginCatalog) -> Value {
    let mut document = template::parse_template(include_str!("openapi/document.json"));
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    add_tags(&mut document["tags"]);
    objects::add_object_paths(&mut document);
    let lists = lists(catalog);
    document["components"]["parameters"]["PluginName"]["example"] = lists["plugins"][0].clone();
    template::expand_short_forms(&mut document, &lists);
    components::add_component_schemas(catalog, &mut document["components"]["schemas"]);
    document
}

/// Puts a tag for each kind in front of those of the template.
fn add_tags(tags: &mut Value) {
    let own = tags.as_array_mut().map(std::mem::take).unwrap_or_default();
    let of_kind = |kind: ObjectKind| {
        let description = &model::schema::find_object_schema(kind)["description"];
        json!({ "name": kind.collection(), "description": description })
    };
    *tags = ObjectKind::ALL.into_iter().map(of_kind).chain(own).collect();
}

/// The lists of values that the templates name.
fn lists(catalog: &PluginCatalog) -> Value {
    // Objects of the other two kinds are named by more than one segment of a path.
    let plain = ObjectKind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, ObjectKind::Credential | ObjectKind::Secret));
    json!({
        "kinds": ObjectKind::ALL.map(ObjectKind::singular),
        "collections": ObjectKind::ALL.map(ObjectKind::collection),
        "plain_collections": plain.map(ObjectKind::collection).collect::<Vec<_>>(),
        "plugins": catalog.iter().map(|plugin| plugin.info().name.to_string()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
