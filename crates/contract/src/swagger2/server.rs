//! `schemes`, `host` and `basePath` as a list of servers.

use serde_json::{Value, json};

use super::SwaggerObject;
use super::place::SwaggerPlace;

/// The values of `schemes` by the specification.
const SCHEMES: [&str; 4] = ["http", "https", "ws", "wss"];
/// The scheme where a document has a host and no scheme, because Swagger leaves it to the URL from which the
/// document was loaded, and a gateway has no such URL.
const SCHEME_DEFAULT: &str = "https";

/// The servers of the document; nothing where it names neither a host nor a path.
pub(super) fn of_root(root: &SwaggerObject, place: &SwaggerPlace<'_>) -> Result<Option<Value>, String> {
    servers(root, root.get("schemes"), place)
}

/// The servers of an operation with schemes of its own. They differ from those of the root only with a host.
pub(super) fn of_operation(
    root: &SwaggerObject,
    operation: &SwaggerObject,
    place: &SwaggerPlace<'_>,
) -> Result<Option<Value>, String> {
    match operation.get("schemes") {
        Some(schemes) if root.contains_key("host") => servers(root, Some(schemes), place),
        _ => Ok(None),
    }
}

fn servers(
    root: &SwaggerObject,
    schemes: Option<&Value>,
    place: &SwaggerPlace<'_>,
) -> Result<Option<Value>, String> {
    let text = |field: &str| root.contains_key(field).then(|| place.text(root, field)).transpose();
    let base = text("basePath")?.unwrap_or_default().trim_end_matches('/');
    let slash = if base.is_empty() || base.starts_with('/') { "" } else { "/" };
    let Some(host) = text("host")?.filter(|host| !host.is_empty()) else {
        return Ok((!base.is_empty()).then(|| json!([{ "url": format!("{slash}{base}") }])));
    };
    let mut names = Vec::new();
    if let Some(schemes) = schemes {
        let place = place.field("schemes");
        for (index, scheme) in place.array(schemes)?.iter().enumerate() {
            let known = scheme.as_str().filter(|scheme| SCHEMES.contains(scheme));
            names.push(known.ok_or_else(|| {
                place.item(index).fault("a scheme must be one of `http`, `https`, `ws`, `wss`")
            })?);
        }
    }
    if names.is_empty() {
        names.push(SCHEME_DEFAULT);
    }
    let url = |scheme| json!({ "url": format!("{scheme}://{host}{slash}{base}") });
    Ok(Some(names.into_iter().map(url).collect()))
}
