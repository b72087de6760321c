//! Whether the items of a list differ, in a time that no list makes quadratic: the hash has a key of its own,
//! and each comparison counts against the budget.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use jsonschema::json::cmp;
use serde_json::Value;

use super::{charge, charge_tree};

/// Whether every item differs from all others, numbers by their value (`1` and `1.0` are equal).
pub(super) fn is_unique(items: &[Value]) -> bool {
    let keys = RandomState::new();
    let mut seen = HashSet::with_capacity(items.len().min(CAPACITY_MAX));
    items.iter().all(|value| {
        charge_tree(value);
        seen.insert(HashedItem { hash: hash_of(value, &keys), value })
    })
}

/// An item of the list with its hash.
struct HashedItem<'a> {
    hash: u64,
    value: &'a Value,
}

impl PartialEq for HashedItem<'_> {
    fn eq(&self, other: &Self) -> bool {
        // Large integers share a hash where they are the same floating-point number.
        if self.hash != other.hash {
            return false;
        }
        charge(1);
        charge_tree(self.value);
        cmp::equal(self.value, other.value)
    }
}

impl Eq for HashedItem<'_> {}

impl Hash for HashedItem<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The hash of a value; equal values have the same.
fn hash_of(value: &Value, keys: &RandomState) -> u64 {
    let mut state = keys.build_hasher();
    match value {
        Value::Null => state.write_u8(0),
        Value::Bool(value) => (1_u8, value).hash(&mut state),
        // Zero has two signs, and they are equal.
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| *number != 0.0).unwrap_or_default();
            (2_u8, number.to_bits()).hash(&mut state);
        }
        Value::String(text) => (3_u8, text).hash(&mut state),
        Value::Array(items) => {
            (4_u8, items.len()).hash(&mut state);
            for item in items {
                state.write_u64(hash_of(item, keys));
            }
        }
        // The order of properties does not count.
        Value::Object(fields) => {
            let sum = fields.iter().fold(0_u64, |sum, (name, value)| {
                sum.wrapping_add(keys.hash_one((name, hash_of(value, keys))))
            });
            (5_u8, fields.len(), sum).hash(&mut state);
        }
    }
    state.finish()
}

/// Items that room is made for at once.
const CAPACITY_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{BudgetSpent, CheckBudget, within};
    use super::*;

    #[test]
    fn equal_items_are_found_whatever_their_form() {
        let check = |list: Value, expected: bool| {
            assert_eq!(is_unique(list.as_array().unwrap()), expected, "{list}");
        };
        check(json!([]), true);
        check(json!([1, 2, "1", true, null, [], {}, [[]], [1], {"a": 1}]), true);
        check(json!([1, 1.0]), false);
        check(json!([0, -0.0]), false);
        check(json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]), false);
        check(json!([{"a": 1, "b": 2}, {"a": 2, "b": 1}]), true);
        check(json!([[1, [2]], [[1], 2]]), true);
        check(json!([9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64]), true);
        check(json!(["é", "e\u{301}"]), true);
    }

    #[test]
    fn nested_empty_lists_do_not_collide() {
        // All of them have one hash where the length of a list is not part of it.
        let mut lists = vec![json!([])];
        for size in 1..40 {
            for inner in 0..size {
                lists.push(json!([lists[inner].clone(), lists[size - 1 - inner].clone()]));
            }
        }
        let keys = RandomState::new();
        let hashes: HashSet<u64> = lists.iter().map(|list| hash_of(list, &keys)).collect();
        let texts: HashSet<String> = lists.iter().map(Value::to_string).collect();
        assert_eq!(hashes.len(), texts.len());
    }

    #[test]
    fn integers_of_one_float_spend_the_budget() {
        let list: Vec<Value> = (0..1_000).map(|index| json!(u64::MAX - index)).collect();
        let budget = CheckBudget { steps: 100_000, ..CheckBudget::default() };
        assert_eq!(within(budget, || is_unique(&list)).0, Err(BudgetSpent));
    }
}
