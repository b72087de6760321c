//! Paths into a JSON body: `a.b`, `a[0].b`, `a[*].b`, `a.*`, `['odd key']`, optionally behind `$`.
//!
//! Filters and slices are refused, because their cost depends on the whole body; so is recursive descent
//! (`a..b`), unless the caller says that the value is small. A path leads through any tree that implements
//! [`JsonTree`].

/// A tree of JSON that paths lead through.
pub trait JsonTree {
    /// The value of a member of an object.
    fn member(&self, name: &str) -> Option<&Self>;
    /// The element of a list with this index.
    fn element(&self, index: usize) -> Option<&Self>;
    /// Calls `visit` with each element of a list, or each value of an object.
    fn for_each_child<'j>(&'j self, visit: &mut dyn FnMut(&'j Self));
}

impl JsonTree for serde_json::Value {
    fn member(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }

    fn element(&self, index: usize) -> Option<&Self> {
        self.as_array()?.get(index)
    }

    fn for_each_child<'j>(&'j self, visit: &mut dyn FnMut(&'j Self)) {
        match self {
            serde_json::Value::Array(items) => items.iter().for_each(visit),
            serde_json::Value::Object(fields) => fields.values().for_each(visit),
            _ => {}
        }
    }
}

impl JsonTree for jsonx::Value {
    fn member(&self, name: &str) -> Option<&Self> {
        self.get(name)
    }

    fn element(&self, index: usize) -> Option<&Self> {
        if let jsonx::Value::List(items) = self { items.get(index) } else { None }
    }

    fn for_each_child<'j>(&'j self, visit: &mut dyn FnMut(&'j Self)) {
        match self {
            jsonx::Value::List(items) => items.iter().for_each(visit),
            jsonx::Value::Object(object) => object.iter().for_each(|(_, value)| visit(value)),
            _ => {}
        }
    }
}

/// A path, parsed.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct JsonPath {
    steps: Box<[Step]>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Step {
    All,
    /// Any number of levels.
    Descend,
    Index(usize),
    Key(Box<str>),
}

/// Why a path cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("at byte {offset} of the JSON path: {reason}")]
pub struct JsonPathError {
    /// Byte offset of the fault, from 0.
    pub offset: usize,
    /// The fault.
    pub reason: &'static str,
}

impl JsonPath {
    /// Parses a path.
    ///
    /// # Errors
    /// The place and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        Self::parse_with(text, false)
    }

    /// Parses a path that may hold `..`, which leads through any number of levels; for values that no client
    /// chooses.
    ///
    /// # Errors
    /// The place and what is wrong there.
    pub fn parse_recursive(text: &str) -> Result<Self, JsonPathError> {
        Self::parse_with(text, true)
    }

    fn parse_with(text: &str, may_descend: bool) -> Result<Self, JsonPathError> {
        let mut steps = Vec::new();
        let mut offset = usize::from(text.starts_with('$'));
        while offset < text.len() {
            if may_descend && text[offset..].starts_with("..") {
                steps.push(Step::Descend);
                offset += if text[offset..].starts_with("..[") { 2 } else { 1 };
            }
            let error = |reason| JsonPathError { offset, reason };
            if steps.len() >= STEPS_MAX {
                return Err(error("the path has more than 32 steps"));
            }
            let rest = &text[offset..];
            let (step, length) = if rest.starts_with('[') {
                let close = rest.find(']').ok_or_else(|| error("the bracket is not closed"))?;
                (bracketed(&rest[1..close]).map_err(error)?, close + 1)
            } else {
                let dot = usize::from(rest.starts_with('.'));
                if dot == 0 && offset > 0 {
                    return Err(error("a `.` or `[` is missing"));
                }
                let name = &rest[dot..];
                let length = name.find(['.', '[']).unwrap_or(name.len());
                let step = match &name[..length] {
                    "" => return Err(error("a name is missing (`..` is not supported)")),
                    "*" => Step::All,
                    key => Step::Key(key.into()),
                };
                (step, dot + length)
            };
            steps.push(step);
            offset += length;
        }
        if steps.is_empty() {
            return Err(JsonPathError { offset, reason: "the path is empty" });
        }
        Ok(Self { steps: steps.into_boxed_slice() })
    }

    /// The values that the path leads to: at most 256, found by visiting at most 65,536 values.
    #[must_use]
    pub fn select<'j, J: JsonTree>(&self, root: &'j J) -> Vec<&'j J> {
        let mut found = Vec::new();
        let mut budget = VISITED_MAX;
        follow(root, &self.steps, &mut found, &mut budget);
        found
    }

    /// The value of a variable with this path: the only value, or a list of several.
    #[must_use]
    pub fn value<'j>(&self, root: &'j jsonx::Value) -> Option<super::Value<'j>> {
        let found = self.select(root);
        match found.as_slice() {
            [] => None,
            [only] => super::Value::from_json(only),
            several => Some(super::Value::List(
                several.iter().filter_map(|json| super::Value::from_json(json)).collect(),
            )),
        }
    }
}

fn bracketed(inside: &str) -> Result<Step, &'static str> {
    let quoted = |quote: char| inside.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if inside == "*" {
        return Ok(Step::All);
    }
    if let Some(key) = quoted('\'').or_else(|| quoted('"')) {
        return Ok(Step::Key(key.into()));
    }
    inside.parse().map(Step::Index).map_err(|_| "a bracket holds a number, `*` or a quoted name")
}

fn follow<'j, J: JsonTree>(value: &'j J, steps: &[Step], found: &mut Vec<&'j J>, budget: &mut usize) {
    if *budget == 0 || found.len() == FOUND_MAX {
        return;
    }
    *budget -= 1;
    let Some((step, rest)) = steps.split_first() else {
        found.push(value);
        return;
    };
    match step {
        Step::Descend => {
            follow(value, rest, found, budget);
            value.for_each_child(&mut |child| follow(child, steps, found, budget));
        }
        Step::All => value.for_each_child(&mut |child| follow(child, rest, found, budget)),
        Step::Index(index) => {
            if let Some(element) = value.element(*index) {
                follow(element, rest, found, budget);
            }
        }
        Step::Key(name) => {
            if let Some(member) = value.member(name) {
                follow(member, rest, found, budget);
            }
        }
    }
}

/// Most steps of a path, because selection recurses; deeper than usual bodies.
const STEPS_MAX: usize = 32;
/// Values one variable may have.
const FOUND_MAX: usize = 256;
/// Values visited, limited because with several `[*]` the work would grow with their product.
const VISITED_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(path: &str, expected: &[serde_json::Value]) {
        let body = json!({"a": {"b": [{"c": 1}, {"c": 2}, 3]}, "odd.key": true, "list": [[1], [2]]});
        let got: Vec<_> = JsonPath::parse(path).unwrap().select(&body).into_iter().cloned().collect();
        assert_eq!(got, expected, "{path}");
    }

    #[test]
    fn paths() {
        check("a.b[0].c", &[json!(1)]);
        check("$.a.b[*].c", &[json!(1), json!(2)]);
        check("a.b[7]", &[]);
        check("a.x.y", &[]);
        check("['odd.key']", &[json!(true)]);
        check("$[\"odd.key\"]", &[json!(true)]);
        check("list[*][0]", &[json!(1), json!(2)]);
        check("list.*[0]", &[json!(1), json!(2)]);
    }

    #[test]
    fn descent_leads_through_all_levels() {
        let value = json!({"a": {"t": 1, "b": [{"t": 2}, {"c": {"t": [3]}}]}, "t": 4});
        let check = |path: &str, expected: &[serde_json::Value]| {
            let path = JsonPath::parse_recursive(path).unwrap();
            let got: Vec<_> = path.select(&value).into_iter().cloned().collect();
            assert_eq!(got, expected, "{path:?}");
        };
        check("$..t", &[json!(4), json!(1), json!(2), json!([3])]);
        check("a.b..t", &[json!(2), json!([3])]);
        check("$..['t'][0]", &[json!(3)]);
        check("a.t", &[json!(1)]);
        for path in ["$..", "a...b", "..", ""] {
            assert!(JsonPath::parse_recursive(path).is_err(), "{path}");
        }
    }

    #[test]
    fn refused() {
        for path in ["", "$", "a..b", "a[", "a[x]", "a[-1]", "a.", "a[0]b", &"a.".repeat(40)] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
