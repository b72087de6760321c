//! A place in the source document: a chain of steps on the call stack, which becomes a JSON pointer in a
//! fault.

use crate::document::pointer_step;
use serde_json::Value;

use super::SwaggerObject;

/// A place; it allocates nothing until a fault names it.
pub(super) struct SwaggerPlace<'p> {
    step: SwaggerStep<'p>,
}

enum SwaggerStep<'p> {
    Root,
    Field(&'p SwaggerPlace<'p>, &'p str),
    Item(&'p SwaggerPlace<'p>, usize),
}

impl<'p> SwaggerPlace<'p> {
    pub(super) fn root() -> SwaggerPlace<'static> {
        SwaggerPlace { step: SwaggerStep::Root }
    }

    pub(super) fn field(&'p self, name: &'p str) -> SwaggerPlace<'p> {
        SwaggerPlace { step: SwaggerStep::Field(self, name) }
    }

    pub(super) fn item(&'p self, index: usize) -> SwaggerPlace<'p> {
        SwaggerPlace { step: SwaggerStep::Item(self, index) }
    }

    /// The JSON pointer (RFC 6901); empty for the root.
    pub(super) fn pointer(&self) -> String {
        let mut steps = Vec::new();
        let mut place = self;
        loop {
            place = match &place.step {
                SwaggerStep::Root => break,
                SwaggerStep::Field(parent, name) => {
                    steps.push(pointer_step(name));
                    parent
                }
                SwaggerStep::Item(parent, index) => {
                    steps.push(index.to_string());
                    parent
                }
            };
        }
        steps.iter().rev().map(|step| format!("/{step}")).collect()
    }

    /// A sentence with the place in front.
    pub(super) fn fault(&self, reason: &str) -> String {
        match self.pointer() {
            pointer if pointer.is_empty() => reason.to_owned(),
            pointer => format!("{pointer}: {reason}"),
        }
    }

    pub(super) fn object<'v>(&self, value: &'v Value) -> Result<&'v SwaggerObject, String> {
        value.as_object().ok_or_else(|| self.fault("an object is expected here"))
    }

    pub(super) fn array<'v>(&self, value: &'v Value) -> Result<&'v Vec<Value>, String> {
        value.as_array().ok_or_else(|| self.fault("a list is expected here"))
    }

    /// A field that must be a text.
    pub(super) fn text<'v>(&self, object: &'v SwaggerObject, field: &str) -> Result<&'v str, String> {
        let value =
            object.get(field).ok_or_else(|| self.fault(&format!("the field `{field}` is missing")))?;
        value.as_str().ok_or_else(|| self.field(field).fault("a text is expected here"))
    }
}
