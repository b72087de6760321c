//! The reference page of the objects, made from their JSON Schemas; the committed page is compared with it.
#![allow(clippy::unwrap_used)]

#[path = "reference/schema_table.rs"]
mod schema_table;

use std::fmt::Write;

use model::{ObjectKind, schema, unsupported};

#[test]
fn the_page_of_the_objects_is_up_to_date() {
    schema_table::check_page("objects.md", "model", &objects_page());
}

fn objects_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for kind in ObjectKind::ALL {
        let schema = schema::find_object_schema(kind);
        let _ = write!(page, "\n## {}\n\nWritten at `{}`.", kind.in_words(), place(kind));
        if let Some(description) = schema["description"].as_str() {
            let _ = write!(page, " {description}");
        }
        page.push('\n');
        let refused = unsupported::of_kind(kind);
        let marks = |path: &str| {
            let field = refused.iter().find(|field| field.path == path)?;
            let text = format!("**Refused**: {}.", field.reason);
            Some(schema_table::Mark { text, hides_inner: field.is_whole })
        };
        if kind == ObjectKind::Secret {
            for manager in schema::secret_managers() {
                let _ = write!(page, "\nManager `{manager}`:\n");
                let (schema, _) = schema::secret_manager(manager).unwrap();
                schema_table::write_table(&mut page, schema, &marks);
            }
        } else {
            schema_table::write_table(&mut page, schema, &marks);
        }
    }
    page
}

/// Where the Admin API keeps objects of the kind.
fn place(kind: ObjectKind) -> String {
    match kind {
        ObjectKind::Credential => "/apisix/admin/consumers/USERNAME/credentials/ID".to_owned(),
        ObjectKind::Consumer => "/apisix/admin/consumers/USERNAME".to_owned(),
        ObjectKind::PluginMetadata => "/apisix/admin/plugin_metadata/PLUGIN".to_owned(),
        ObjectKind::Secret => "/apisix/admin/secrets/MANAGER/ID".to_owned(),
        _ => format!("/apisix/admin/{}/ID", kind.collection()),
    }
}

const INTRODUCTION: &str = "\
# Objects

<!-- Made from crates/model/src/schema by `UPDATE=1 cargo test -p model --test reference`; edit it there. -->

Every kind of object with the fields its JSON Schema knows; an unknown field is refused, except in plugins, metadata and
secrets ([unknown fields](../guide/plugins.md#unknown-fields)). `a.b` is a field inside `a`,
`a[]` an item of the list `a`. A default is what holds where nothing is written; it is not written back. The schema
itself, with patterns and alternatives, is at `GET /apisix/admin/schema/KIND`. **Refused** marks what this version cannot
do: an object that has it is refused with the reason. [Migrating from APISIX](../guide/migrating-from-apisix.md) says what
to write instead.
";
