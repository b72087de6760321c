//! JSON as the schema library reads it: each access to a value counts against the budget of the check in
//! progress, and the check ends when the budget is spent. Knows no schema.
//!
//! The library has no limit of its own. It can only be stopped from inside, so that a spent budget unwinds
//! it, as `router::vars::BacktrackingRegex` does with its engine.

mod unique;

use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, cmp};
use serde_json::{Map, Value};

/// The most stack that one check uses. The smallest threads that check values have 2 MiB.
const STACK_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a text that count as one step: a search on the linear engine takes about a nanosecond for a byte.
const TEXT_BYTES_A_STEP: usize = 16;
/// Steps of an error: it holds its places in the value and in the schema, and is put into words.
const ERROR_STEPS: u64 = 500;
/// Bytes of stack that add one step to the visit of a reference, because the library looks through all open
/// ones.
const STACK_BYTES_A_STEP: usize = 2048;

/// The budget of one check. A step takes about 10 ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckBudget {
    /// Steps in all.
    pub(super) steps: u64,
    /// Steps for each byte of the name of a property, beside the walk over it: what its patterns cost.
    pub(super) steps_a_name_byte: u64,
    /// Steps for each name of a property, whatever its length.
    pub(super) steps_a_name: u64,
    /// The longest name of a property.
    pub(super) name_bytes_max: usize,
}

impl Default for CheckBudget {
    /// Without steps, and without patterns in names.
    fn default() -> CheckBudget {
        CheckBudget { steps: 0, steps_a_name_byte: 0, steps_a_name: 0, name_bytes_max: usize::MAX }
    }
}

/// The budget was spent before the check came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BudgetSpent;

/// The rest of the budget of the check in progress on this thread.
#[derive(Clone, Copy)]
struct Left {
    steps: u64,
    steps_a_name_byte: u64,
    steps_a_name: u64,
    name_bytes_max: usize,
    /// The lowest address that the stack may reach.
    stack_end: usize,
}

/// Without a check: schemas of ours check values of users, and have no budget.
const UNLIMITED: Left =
    Left { steps: u64::MAX, steps_a_name_byte: 0, steps_a_name: 0, name_bytes_max: usize::MAX, stack_end: 0 };

thread_local! {
    static LEFT: Cell<Left> = const { Cell::new(UNLIMITED) };
}

/// Does the work within the budget. The second value is the number of steps that it took.
pub(super) fn within<R>(budget: CheckBudget, work: impl FnOnce() -> R) -> (Result<R, BudgetSpent>, u64) {
    let before = LEFT.get();
    LEFT.set(Left {
        steps: budget.steps,
        steps_a_name_byte: budget.steps_a_name_byte,
        steps_a_name: budget.steps_a_name,
        name_bytes_max: budget.name_bytes_max,
        stack_end: stack_address().saturating_sub(STACK_BYTES_MAX),
    });
    // The state of the library belongs to one call, so that nothing half-done outlives the unwinding.
    let done = catch_unwind(AssertUnwindSafe(work));
    let used = budget.steps.saturating_sub(LEFT.get().steps);
    LEFT.set(before);
    match done {
        Ok(result) => (Ok(result), used),
        Err(payload) if payload.is::<BudgetSpent>() => (Err(BudgetSpent), used),
        Err(payload) => resume_unwind(payload),
    }
}

/// Counts steps against the budget of the check in progress, and ends it when the budget is spent.
pub(super) fn charge(steps: u64) {
    let mut left = LEFT.get();
    match left.steps.checked_sub(steps) {
        Some(rest) if stack_address() >= left.stack_end => {
            left.steps = rest;
            LEFT.set(left);
        }
        _ => spend(),
    }
}

/// Ends the check in progress.
#[cold]
pub(super) fn spend() -> ! {
    let mut left = LEFT.get();
    left.steps = 0;
    LEFT.set(left);
    // No message is printed, because no fault of the program is at hand.
    resume_unwind(Box::new(BudgetSpent))
}

/// Charges for the walk over a text.
fn charge_text(text: &str) {
    charge(1 + (text.len() / TEXT_BYTES_A_STEP) as u64);
}

/// Charges for the name of a property, which patterns may be searched in.
fn charge_name(name: &str) {
    let left = LEFT.get();
    if name.len() > left.name_bytes_max {
        spend();
    }
    let patterns = left.steps_a_name + left.steps_a_name_byte * name.len() as u64;
    charge(1 + (name.len() / TEXT_BYTES_A_STEP) as u64 + patterns);
}

/// Charges for all values inside of `value`, as a comparison visits them.
fn charge_tree(value: &Value) {
    match value {
        Value::String(text) => charge_text(text),
        Value::Array(items) => {
            charge(1);
            items.iter().for_each(charge_tree);
        }
        Value::Object(fields) => {
            charge(1);
            for (name, value) in fields {
                charge_text(name);
                charge_tree(value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => charge(1),
    }
}

/// Roughly the address to which the stack has grown.
#[inline]
fn stack_address() -> usize {
    let marker = 0_u8;
    std::hint::black_box(&raw const marker).addr()
}

/// The representation of JSON of which each access is counted.
pub(super) struct MeteredJson;

/// A value of [`MeteredJson`].
#[derive(Clone, Copy)]
pub(super) struct MeteredNode<'a>(pub(super) &'a Value);

/// An object of [`MeteredJson`].
pub(super) struct MeteredObject<'a>(&'a Map<String, Value>);

/// A list of [`MeteredJson`].
pub(super) struct MeteredArray<'a>(&'a [Value]);

/// The properties of an object, one by one.
pub(super) struct MeteredMembers<'a>(serde_json::map::Iter<'a>);

/// The items of a list, one by one.
pub(super) struct MeteredElements<'a>(std::slice::Iter<'a, Value>);

impl Json for MeteredJson {
    type Node<'a> = MeteredNode<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut Value, string: &str, work: impl FnOnce(MeteredNode<'_>) -> T) -> T {
        *buffer = Value::String(string.to_owned());
        work(MeteredNode(buffer))
    }
}

impl<'a> Node<'a, MeteredJson> for MeteredNode<'a> {
    type Object = MeteredObject<'a>;
    type Array = MeteredArray<'a>;
    type Number = &'a serde_json::Number;

    fn as_object(&self) -> Option<MeteredObject<'a>> {
        charge(1);
        self.0.as_object().map(MeteredObject)
    }

    fn as_array(&self) -> Option<MeteredArray<'a>> {
        charge(1);
        self.0.as_array().map(|items| MeteredArray(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        charge_text(text.unwrap_or_default());
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a serde_json::Number> {
        charge(1);
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        charge(1);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        charge(1);
        self.0.is_null()
    }

    fn is_number(&self) -> bool {
        charge(1);
        self.0.is_number()
    }

    fn json_type(&self) -> JsonType {
        charge(1);
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn string_length(&self) -> Option<u64> {
        self.as_string().map(|text| text.chars().count() as u64)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        let is_alike = match (self.0, expected) {
            (Value::Array(items), Value::Array(expected)) => items.len() == expected.len(),
            (Value::Object(fields), Value::Object(expected)) => fields.len() == expected.len(),
            (Value::String(text), Value::String(expected)) => text.len() == expected.len(),
            _ => true,
        };
        if !is_alike {
            charge(1);
            return false;
        }
        charge_tree(expected);
        cmp::equal(self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        // The library asks for it where it makes an error.
        charge(ERROR_STEPS);
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        let used = (LEFT.get().stack_end + STACK_BYTES_MAX).saturating_sub(stack_address());
        charge(4 + (used.min(STACK_BYTES_MAX) / STACK_BYTES_A_STEP) as u64);
        Some(NodeIdentity::new(std::ptr::from_ref(self.0).addr()))
    }
}

impl<'a> Object<'a, MeteredJson> for MeteredObject<'a> {
    type Node = MeteredNode<'a>;
    type MemberName = &'a str;
    type MembersIter = MeteredMembers<'a>;

    fn len(&self) -> usize {
        charge(1);
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<MeteredNode<'a>> {
        charge(2);
        self.0.get(key).map(MeteredNode)
    }

    fn members(&self) -> MeteredMembers<'a> {
        MeteredMembers(self.0.iter())
    }
}

impl<'a> Iterator for MeteredMembers<'a> {
    type Item = (&'a str, MeteredNode<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        charge_name(name);
        Some((name, MeteredNode(value)))
    }
}

impl<'a> Array<'a, MeteredJson> for MeteredArray<'a> {
    type Node = MeteredNode<'a>;
    type ElementsIter = MeteredElements<'a>;

    fn len(&self) -> usize {
        charge(1);
        self.0.len()
    }

    fn elements(&self) -> MeteredElements<'a> {
        MeteredElements(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        unique::is_unique(self.0)
    }
}

impl<'a> Iterator for MeteredElements<'a> {
    type Item = MeteredNode<'a>;

    fn next(&mut self) -> Option<MeteredNode<'a>> {
        charge(1);
        self.0.next().map(MeteredNode)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn budget(steps: u64) -> CheckBudget {
        CheckBudget { steps, ..CheckBudget::default() }
    }

    #[test]
    fn spent_budget_ends_the_work_and_only_that() {
        let endless = || loop {
            charge(1);
        };
        assert_eq!(within::<()>(budget(1_000), endless), (Err(BudgetSpent), 1_000));
        let outer = within(budget(1_000), || {
            charge(10);
            let inner = within::<()>(budget(5), endless);
            charge(10);
            inner
        });
        assert_eq!(outer, (Ok((Err(BudgetSpent), 5)), 20));
        charge(u64::MAX / 2);
    }

    #[test]
    fn stack_is_part_of_the_budget() {
        fn descend(levels: u64) -> u64 {
            charge(0);
            let frame = std::hint::black_box([levels; 16]);
            if levels == 0 { 0 } else { descend(levels - 1) + frame[0] }
        }
        assert_eq!(within(budget(1_000_000), || descend(1_000_000)).0, Err(BudgetSpent));
        assert!(within(budget(1_000_000), || descend(100)).0.is_ok());
    }

    #[test]
    fn work_is_charged_by_its_size() {
        let steps = |value: &Value, work: fn(MeteredNode<'_>)| {
            within(budget(u64::MAX / 2), || work(MeteredNode(value))).1
        };
        let text = json!("a".repeat(16_000));
        assert_eq!(steps(&text, |node| drop(node.as_string())), 1_001);
        let list = json!(vec![1; 100]);
        assert_eq!(steps(&list, |node| node.as_array().unwrap().elements().for_each(drop)), 102);
        assert!(steps(&list, |node| assert!(node.equals_value(&json!(vec![1; 100])))) >= 100);
        assert!(steps(&list, |node| assert!(!node.equals_value(&json!([1])))) < 10);
    }
}
