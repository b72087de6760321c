//! Attributes of plugins, written once: one entry of `attributes!` is the property of the JSON Schema, the
//! field of the configuration and its default. It knows no plugin; the schema has checked values before they
//! are read here.
//!
//! An entry is `/// description`, `name: Type`, then perhaps `= default` and
//! `{ further keywords of the property }`. Without a default it is required, unless its type is an `Option`.

use serde_json::{Map, Value, json};
use stdx::nearest::nearest;

/// A type of values that users write.
pub(crate) trait Attribute: Sized {
    /// Its JSON Schema.
    fn schema() -> Value;

    /// Reads a written value.
    ///
    /// # Errors
    /// The misfit, as a sentence.
    fn read(written: Value) -> Result<Self, String>;

    /// The value as a user would write it.
    fn write(&self) -> Value;

    /// The value of an attribute that is not written; none: it is required.
    fn absent() -> Option<Self> {
        None
    }
}

/// Attributes that may stand beside others in one object.
pub(crate) trait FieldSet: Attribute {
    /// The names of the attributes.
    const NAMES: &'static [&'static str];

    /// Takes the attributes out of `fields` and leaves the rest.
    ///
    /// # Errors
    /// The misfit, as a sentence.
    fn take(fields: &mut AttributeFields) -> Result<Self, String>;
}

/// Defines the configuration of a plugin, or an object inside one. Keywords of the whole object follow the
/// struct.
macro_rules! attributes {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $(
                $(#[doc = $description:literal])+
                $field:ident: $type:ty $(= $default:expr)? $(, { $($keywords:tt)* })?;
            )*
        }
        $({ $($object_keywords:tt)* })?
    ) => {
        $(#[$meta])*
        $visibility struct $name {
            $($(#[doc = $description])+ $visibility $field: $type,)*
        }

        impl $name {
            /// The names of the attributes.
            $visibility const NAMES: &'static [&'static str] = &[$($crate::shared::attributes::attribute_name(stringify!($field))),*];

            /// Takes the attributes out of `fields` and leaves the rest.
            ///
            /// # Errors
            /// The misfit, as a sentence.
            $visibility fn take(fields: &mut $crate::shared::attributes::AttributeFields) -> Result<Self, String> {
                Ok($name {
                    $($field: fields.take(
                        $crate::shared::attributes::attribute_name(stringify!($field)),
                        $crate::shared::attributes::attributes!(@value $type $(, $default)?),
                    )?,)*
                })
            }
        }

        impl $crate::shared::attributes::FieldSet for $name {
            const NAMES: &'static [&'static str] = $name::NAMES;

            fn take(fields: &mut $crate::shared::attributes::AttributeFields) -> Result<Self, String> {
                $name::take(fields)
            }
        }

        impl $crate::shared::attributes::Attribute for $name {
            fn schema() -> serde_json::Value {
                let mut object = $crate::shared::attributes::ObjectSchema::default();
                $(object.add::<$type>(
                    $crate::shared::attributes::attribute_name(stringify!($field)),
                    concat!($($description),+),
                    $crate::shared::attributes::attributes!(@default $type $(, $default)?),
                    serde_json::json!({ $($($keywords)*)? }),
                );)*
                object.finish(serde_json::json!({ $($($object_keywords)*)? }))
            }

            fn read(written: serde_json::Value) -> Result<Self, String> {
                let mut fields = $crate::shared::attributes::AttributeFields::of(written)?;
                let read = Self::take(&mut fields)?;
                fields.finish(&[Self::NAMES])?;
                Ok(read)
            }

            fn write(&self) -> serde_json::Value {
                use $crate::shared::attributes::Attribute;
                let mut written = serde_json::Map::new();
                $(written.insert(
                    $crate::shared::attributes::attribute_name(stringify!($field)).to_owned(),
                    Attribute::write(&self.$field),
                );)*
                written.into()
            }
        }
    };
    (@value $type:ty) => { <$type as $crate::shared::attributes::Attribute>::absent() };
    (@value $type:ty, $default:expr) => { Some::<$type>($default) };
    (@default $type:ty) => { None::<$type> };
    (@default $type:ty, $default:expr) => { Some::<$type>($default) };
}
pub(crate) use attributes;

/// The name that users write for a field: one that is a word of Rust, `r#type`, loses its prefix.
pub(crate) const fn attribute_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// Defines an attribute that is one of a few words.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident { $($(#[doc = $doc:literal])* $variant:ident = $word:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name { $($(#[doc = $doc])* $variant,)* }

        impl $name {
            /// The word as users write it.
            $visibility fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl $crate::shared::attributes::Attribute for $name {
            fn schema() -> serde_json::Value {
                serde_json::json!({ "type": "string", "enum": [$($word),*] })
            }

            fn read(written: serde_json::Value) -> Result<Self, String> {
                match written.as_str() {
                    $(Some($word) => Ok($name::$variant),)*
                    _ => Err(format!("{written} is none of {}", [$($word),*].join(", "))),
                }
            }

            fn write(&self) -> serde_json::Value {
                self.word().into()
            }
        }
    };
}
pub(crate) use words;

/// The types that serde reads and JSON Schema knows by a name.
macro_rules! plain {
    ($($type:ty: $schema:tt,)*) => {$(
        impl Attribute for $type {
            fn schema() -> Value {
                json!($schema)
            }

            fn read(written: Value) -> Result<Self, String> {
                serde_json::from_value(written).map_err(|error| error.to_string())
            }

            fn write(&self) -> Value {
                json!(self)
            }
        }
    )*};
}

plain! {
    bool: { "type": "boolean" },
    u16: { "type": "integer" },
    u32: { "type": "integer" },
    u64: { "type": "integer" },
    usize: { "type": "integer" },
    i64: { "type": "integer" },
    f64: { "type": "number" },
    String: { "type": "string" },
    Box<str>: { "type": "string" },
    [String; 2]: { "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "string" } },
    Map<String, Value>: { "type": "object" },
    Value: {},
}

impl<T: Attribute> Attribute for Option<T> {
    fn schema() -> Value {
        T::schema()
    }

    fn read(written: Value) -> Result<Self, String> {
        if written.is_null() { Ok(None) } else { T::read(written).map(Some) }
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::write)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Attribute> Attribute for Vec<T> {
    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }

    fn read(written: Value) -> Result<Self, String> {
        let Value::Array(items) = written else { return Err(format!("{written} is no array")) };
        let read = |(index, item)| T::read(item).map_err(|reason| format!("[{index}]: {reason}"));
        items.into_iter().enumerate().map(read).collect()
    }

    fn write(&self) -> Value {
        self.iter().map(T::write).collect()
    }
}

/// A configuration as it was written, while its attributes are taken out.
pub(crate) struct AttributeFields(Map<String, Value>);

impl AttributeFields {
    /// All fields of `config`, without what every plugin may have (`_meta`).
    ///
    /// # Errors
    /// It is no object.
    pub(crate) fn of(config: Value) -> Result<AttributeFields, String> {
        let Value::Object(mut fields) = config else { return Err(format!("{config} is no object")) };
        fields.shift_remove("_meta");
        Ok(AttributeFields(fields))
    }

    /// Takes the attribute `name`; `absent` where it is not written.
    ///
    /// # Errors
    /// The misfit, as a sentence.
    pub(crate) fn take<T: Attribute>(&mut self, name: &str, absent: Option<T>) -> Result<T, String> {
        match self.0.shift_remove(name) {
            Some(written) => T::read(written).map_err(|reason| format!("{name}: {reason}")),
            None => absent.ok_or_else(|| format!("missing field `{name}`")),
        }
    }

    /// Refuses fields that were not taken; `known` are the names of all attributes.
    ///
    /// # Errors
    /// The first unknown field, with the name that was probably meant.
    pub(crate) fn finish(self, known: &[&[&str]]) -> Result<(), String> {
        let Some((name, _)) = self.0.iter().next() else { return Ok(()) };
        let known = known.iter().copied().flatten().copied();
        let near = nearest(name, known.chain(["_meta"]));
        Err(match near {
            Some(near) => format!("unknown field `{name}`; did you mean `{near}`?"),
            None => format!("unknown field `{name}`"),
        })
    }
}

/// The JSON Schema of an object while its properties are added.
#[derive(Default)]
pub(crate) struct ObjectSchema {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

impl ObjectSchema {
    pub(crate) fn add<T: Attribute>(
        &mut self,
        name: &'static str,
        description: &str,
        default: Option<T>,
        keywords: Value,
    ) {
        let mut property = T::schema();
        property["description"] = description.trim().into();
        extend(&mut property, keywords);
        match default {
            Some(default) if property.get("default").is_none() => property["default"] = default.write(),
            None if T::absent().is_none() => self.required.push(name),
            _ => {}
        }
        self.properties.insert(name.to_owned(), property);
    }

    pub(crate) fn finish(self, keywords: Value) -> Value {
        let mut schema = json!({ "type": "object", "properties": self.properties });
        if !self.required.is_empty() {
            schema["required"] = self.required.into();
        }
        extend(&mut schema, keywords);
        schema
    }
}

fn extend(schema: &mut Value, keywords: Value) {
    if let (Some(schema), Value::Object(keywords)) = (schema.as_object_mut(), keywords) {
        schema.extend(keywords);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        enum Mode { Fast = "fast", Slow = "slow", }
    }

    attributes! {
        struct Inner {
            /// How much.
            amount: u64, {"minimum": 1};
        }
    }

    attributes! {
        struct Config {
            /// The name of
            /// the part.
            name: Box<str> = "x".into(), {"minLength": 1};
            /// How it runs.
            mode: Mode = Mode::Fast;
            /// The parts.
            parts: Option<Vec<Inner>>;
            /// A keyword.
            r#match: Option<bool>;
        }
        {"title": "A test"}
    }

    #[test]
    fn entry_becomes_property_field_and_default() {
        let inner = json!({
            "type": "object",
            "properties": {"amount": {"type": "integer", "description": "How much.", "minimum": 1}},
            "required": ["amount"],
        });
        let expected = json!({
            "type": "object",
            "title": "A test",
            "properties": {
                "name": {"type": "string", "description": "The name of the part.", "minLength": 1, "default": "x"},
                "mode": {
                    "type": "string", "enum": ["fast", "slow"], "description": "How it runs.", "default": "fast",
                },
                "parts": {"type": "array", "items": inner, "description": "The parts."},
                "match": {"type": "boolean", "description": "A keyword."},
            },
        });
        assert_eq!(Config::schema(), expected);
        let config = json!({"_meta": {}, "mode": "slow", "parts": [{"amount": 3}], "match": true});
        let config = Config::read(config).unwrap();
        assert_eq!((&*config.name, config.mode), ("x", Mode::Slow));
        let written = json!({"name": "x", "mode": "slow", "parts": [{"amount": 3}], "match": true});
        assert_eq!(config.write(), written);
        assert!(Config::read(json!({"parts": null})).unwrap().parts.is_none());
    }

    #[test]
    fn misfit_is_told_with_its_place() {
        let check = |config: Value, expected: &str| {
            assert_eq!(Config::read(config).err().as_deref(), Some(expected));
        };
        check(json!([]), "[] is no object");
        check(json!({"name": 1}), "name: invalid type: integer `1`, expected a string");
        check(json!({"mode": "fats"}), "mode: \"fats\" is none of fast, slow");
        check(json!({"parts": [{"amount": 1}, {}]}), "parts: [1]: missing field `amount`");
        check(
            json!({"parts": [{"amount": -1}]}),
            "parts: [0]: amount: invalid value: integer `-1`, expected u64",
        );
        check(json!({"naem": "a"}), "unknown field `naem`; did you mean `name`?");
        check(json!({"_mata": {}}), "unknown field `_mata`; did you mean `_meta`?");
        check(json!({"colour": 1}), "unknown field `colour`");
    }
}
