//! A JSON Schema as a Markdown table, one row a property, nested ones by their path; and the comparison of a
//! made page with the committed one. Shared by the tests that keep the pages of `docs/reference`. It knows
//! nothing of what the schemas describe.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

/// Compares the page `docs/reference/<name>` with `expected`, or writes it when `UPDATE=1` is set.
pub(crate) fn check_page(name: &str, package: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, expected).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == expected,
        "docs/reference/{name} is out of date: `UPDATE=1 cargo test -p {package} --test reference` writes it"
    );
}

/// The mark before the description of a field that cannot be used, by its path.
pub(crate) type Marks<'m> = &'m dyn Fn(&str) -> Option<Mark>;

/// A mark, and whether the fields inside the field are left out.
#[allow(dead_code, reason = "the page of the plugins marks no field")]
pub(crate) struct Mark {
    pub(crate) text: String,
    pub(crate) hides_inner: bool,
}

/// Appends the properties of `schema`; nothing where it has none.
pub(crate) fn write_table(page: &mut String, schema: &Value, marks: Marks<'_>) {
    let mut rows = String::new();
    write_rows(&mut rows, "", schema, marks);
    if !rows.is_empty() {
        page.push_str("\n| field | type | default | what it is |\n|---|---|---|---|\n");
        page.push_str(&rows);
    }
}

fn write_rows(rows: &mut String, path: &str, schema: &Value, marks: Marks<'_>) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let must = if required.contains(&name.as_str()) { "**required** " } else { "" };
        let default = property.get("default").map(|default| format!("`{}`", cell(&default.to_string())));
        let description = property["description"].as_str().unwrap_or_default();
        let limits = limits(property);
        let limits = if limits.is_empty() { limits } else { format!(" ({limits})") };
        let mark = marks(&path);
        let marked = mark.as_ref().map_or_else(String::new, |mark| format!("{} ", mark.text));
        let _ = writeln!(
            rows,
            "| `{path}` | {} | {} | {must}{marked}{}{limits} |",
            kind(property),
            default.unwrap_or_default(),
            cell(description)
        );
        if mark.is_some_and(|mark| mark.hides_inner) {
            continue;
        }
        write_rows(rows, &path, property, marks);
        write_rows(rows, &format!("{path}[]"), &property["items"], marks);
    }
}

/// The type in a word or two; where several are allowed, each once.
fn kind(schema: &Value) -> String {
    match &schema["type"] {
        Value::String(name) if name == "array" && schema["items"]["type"].is_string() => {
            format!("array of {}", kind(&schema["items"]))
        }
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => alternatives(schema),
    }
}

fn alternatives(schema: &Value) -> String {
    let mut kinds: Vec<String> = ["oneOf", "anyOf"]
        .into_iter()
        .flat_map(|word| schema[word].as_array().into_iter().flatten())
        .map(kind)
        .filter(|kind| !kind.is_empty())
        .collect();
    kinds.dedup();
    let by_values = schema["enum"].as_array().and_then(|values| values.first()).map(|value| match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        _ => "",
    });
    if kinds.is_empty() { by_values.unwrap_or_default().to_owned() } else { kinds.join(" or ") }
}

/// The limits of a value, in words. Patterns are left to the schema, because they say little to a reader.
fn limits(schema: &Value) -> String {
    let mut limits = Vec::new();
    let values = schema.get("enum").or_else(|| schema["items"].get("enum")).and_then(Value::as_array);
    if let Some(values) = values {
        let values: Vec<String> =
            values.iter().map(|value| format!("`{}`", cell(&value.to_string()))).collect();
        limits.push(format!("one of {}", values.join(", ")));
    }
    for (word, text) in LIMITS {
        if let Some(limit) = schema.get(word).filter(|limit| limit.is_number()) {
            limits.push(format!("{text} {limit}"));
        }
    }
    limits.join("; ")
}

/// The words of a schema that limit a value, and how a reader is told.
const LIMITS: [(&str, &str); 8] = [
    ("minimum", "at least"),
    ("exclusiveMinimum", "more than"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "less than"),
    ("minLength", "characters at least"),
    ("maxLength", "characters at most"),
    ("minItems", "items at least"),
    ("maxItems", "items at most"),
];

/// A text that does not end a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
