//! Generates data from a JSON Schema, also as XML. It knows the few keywords of JSON Schema that describe a
//! value, and no HTTP.

use router::vars::{Template, VariableSource};
use serde_json::{Map, Number, Value};

/// Levels of nesting, limited because generation recurses; more than an API has.
const DEPTH_MAX: usize = 32;
/// Values in one body; beyond that arrays have a single item, because nested arrays grow by powers of three.
const VALUES_MAX: usize = 10_000;

/// A compiled schema of an object.
pub(super) struct Generator {
    properties: Vec<(Box<str>, GeneratorKind)>,
}

enum GeneratorKind {
    Example(Value),
    /// An example with variables.
    Rendered(Template),
    Text,
    Number,
    Integer,
    Boolean,
    Array(Option<Box<GeneratorKind>>),
    Object(Generator),
}

impl Generator {
    /// Compiles the schema of an object.
    ///
    /// # Errors
    /// A property without a known type, or nesting beyond `DEPTH_MAX`.
    pub(super) fn compile(schema: &Value) -> Result<Generator, String> {
        object(schema, 0)
    }

    /// Generates an object.
    pub(super) fn generate<S: VariableSource + ?Sized>(&self, source: &S) -> Value {
        let mut left = VALUES_MAX;
        self.make(source, &mut left)
    }

    fn make<S: VariableSource + ?Sized>(&self, source: &S, left: &mut usize) -> Value {
        let mut object = Map::new();
        for (name, kind) in &self.properties {
            object.insert(String::from(&**name), kind.make(source, left));
        }
        Value::Object(object)
    }
}

fn object(schema: &Value, depth: usize) -> Result<Generator, String> {
    if depth > DEPTH_MAX {
        return Err(format!("more than {DEPTH_MAX} levels"));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let compile = |(name, property): (&String, &Value)| {
        kind(property, depth)
            .map(|kind| (name.as_str().into(), kind))
            .map_err(|reason| format!("{name}: {reason}"))
    };
    let properties = properties.into_iter().flatten().map(compile).collect::<Result<_, _>>()?;
    Ok(Generator { properties })
}

fn kind(property: &Value, depth: usize) -> Result<GeneratorKind, String> {
    let named = property.get("type").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let example = property.get("example");
    match (&*named, example) {
        ("string", Some(Value::String(text))) => match text.contains('$') {
            true => Template::compile(text)
                .map(GeneratorKind::Rendered)
                .map_err(|error| format!("example: {error}")),
            false => Ok(GeneratorKind::Example(text.as_str().into())),
        },
        ("number", Some(number @ Value::Number(_))) => Ok(GeneratorKind::Example(number.clone())),
        ("integer", Some(Value::Number(number))) => Ok(GeneratorKind::Example(Value::Number(floor(number)))),
        ("boolean", Some(flag @ Value::Bool(_))) => Ok(GeneratorKind::Example(flag.clone())),
        ("string", _) => Ok(GeneratorKind::Text),
        ("number", _) => Ok(GeneratorKind::Number),
        ("integer", _) => Ok(GeneratorKind::Integer),
        ("boolean", _) => Ok(GeneratorKind::Boolean),
        ("array", _) if depth >= DEPTH_MAX => Err(format!("more than {DEPTH_MAX} levels")),
        ("array", _) => {
            let items = property.get("items").map(|items| kind(items, depth + 1).map(Box::new));
            items.transpose().map(GeneratorKind::Array).map_err(|reason| format!("items: {reason}"))
        }
        ("object", _) => object(property, depth + 1).map(GeneratorKind::Object),
        _ => Err("a type is needed: string, number, integer, boolean, array or object".to_owned()),
    }
}

fn floor(number: &Number) -> Number {
    let floored = number.as_f64().map(f64::floor).filter(|value| value.abs() < i64::MAX as f64);
    floored.map_or_else(|| number.clone(), |value| Number::from(value as i64))
}

impl GeneratorKind {
    fn make<S: VariableSource + ?Sized>(&self, source: &S, left: &mut usize) -> Value {
        *left = left.saturating_sub(1);
        match self {
            GeneratorKind::Example(value) => value.clone(),
            GeneratorKind::Rendered(template) => {
                let mut text = Vec::new();
                template.render(source, &mut text);
                String::from_utf8_lossy(&text).into_owned().into()
            }
            GeneratorKind::Text => {
                (0..fastrand::usize(1..=10)).map(|_| fastrand::lowercase()).collect::<String>().into()
            }
            GeneratorKind::Number => (fastrand::f64() * 10_000.0).into(),
            GeneratorKind::Integer => fastrand::u32(1..=10_000).into(),
            GeneratorKind::Boolean => fastrand::bool().into(),
            GeneratorKind::Array(None) => Value::Array(Vec::new()),
            GeneratorKind::Array(Some(items)) => {
                let count = if *left == 0 { 1 } else { fastrand::usize(1..=3) };
                (0..count).map(|_| items.make(source, left)).collect()
            }
            GeneratorKind::Object(generator) => generator.make(source, left),
        }
    }
}

/// An element `name` with the value's parts as elements; the items of an array are elements of its name.
pub(super) fn xml(name: &str, value: &Value) -> String {
    let mut out = String::new();
    element(name, value, &mut out);
    out.truncate(out.trim_end().len());
    out
}

fn element(name: &str, value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| element(name, item, out)),
        Value::Object(parts) => {
            out.push_str(&format!("<{name}>\n"));
            parts.iter().for_each(|(name, part)| element(name, part, out));
            out.push_str(&format!("</{name}>\n"));
        }
        Value::String(text) => {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            out.push_str(&format!("<{name}>{text}</{name}>\n"));
        }
        plain => out.push_str(&format!("<{name}>{plain}</{name}>\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use router::vars::{Value as VariableValue, Variable};
    use serde_json::json;

    struct Nothing;

    impl VariableSource for Nothing {
        fn variable<'a>(&'a self, _variable: &Variable) -> Option<VariableValue<'a>> {
            None
        }
    }

    fn generate(schema: Value) -> Value {
        Generator::compile(&schema).unwrap().generate(&Nothing)
    }

    #[test]
    fn examples_are_taken() {
        let value = generate(json!({ "properties": {
            "s": { "type": "string", "example": "a$none" }, "n": { "type": "Number", "example": 1.5 },
            "i": { "type": "integer", "example": 155.55 }, "b": { "type": "boolean", "example": false },
            "o": { "type": "object", "properties": { "x": { "type": "string", "example": "y" } } },
        } }));
        assert_eq!(value, json!({ "s": "a", "n": 1.5, "i": 155, "b": false, "o": { "x": "y" } }));
    }

    #[test]
    fn generated_values_have_their_type() {
        for _ in 0..50 {
            let value = generate(json!({ "type": "object", "properties": {
                "s": { "type": "string", "example": 7 }, "n": { "type": "number" }, "i": { "type": "integer" },
                "b": { "type": "boolean" }, "a": { "type": "array", "items": { "type": "string" } }, "e": { "type": "array" },
            } }));
            assert!(matches!(value["s"].as_str().unwrap().len(), 1..=10));
            assert!((0.0..10_000.0).contains(&value["n"].as_f64().unwrap()));
            assert!((1..=10_000).contains(&value["i"].as_i64().unwrap()));
            assert!(value["b"].is_boolean());
            assert!(matches!(value["a"].as_array().unwrap().len(), 1..=3));
            assert_eq!(value["e"], json!([]));
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| {
            let inner = (0..levels)
                .fold(json!({ "type": "string" }), |items, _| json!({ "type": "array", "items": items }));
            json!({ "properties": { "a": inner } })
        };
        assert!(Generator::compile(&nested(DEPTH_MAX + 1)).is_err());
        let text = generate(nested(DEPTH_MAX)).to_string();
        assert!(text.len() < 100 * VALUES_MAX, "{} bytes", text.len());
    }

    #[test]
    fn arrays_repeat_their_element_in_xml() {
        assert_eq!(xml("data", &json!({ "a": ["x&y", 1] })), "<data>\n<a>x&amp;y</a>\n<a>1</a>\n</data>");
    }
}
