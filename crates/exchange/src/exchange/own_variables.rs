//! Variables that scripts set for one request (`ctx.var.NAME = value`): every template, condition, key and
//! log of the request reads them like those of the gateway. They hold values and know no script.

use router::vars::{Value, Variable};

/// The most variables of one request: each look-up compares with all of them.
pub const OWN_VARIABLES_MAX: usize = 256;
/// Bytes of all values of one request: they are held until it ends.
pub const OWN_VARIABLES_MAX_BYTES: usize = 1024 * 1024;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct OwnVariables(Vec<(Variable, Value<'static>)>);

/// A request has [`OWN_VARIABLES_MAX`] variables, or [`OWN_VARIABLES_MAX_BYTES`] of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyVariables;

impl OwnVariables {
    /// The value of `variable`, if a script has set it.
    #[inline]
    pub fn get(&self, variable: &Variable) -> Option<Value<'_>> {
        // Requests without scripts pay for this comparison and no more.
        if self.0.is_empty() { None } else { self.find(variable) }
    }

    fn find(&self, variable: &Variable) -> Option<Value<'_>> {
        let (_, value) = self.0.iter().find(|(own, _)| own == variable)?;
        Some(match value {
            Value::Bytes(bytes) => Value::borrowed(bytes),
            other => other.clone(),
        })
    }

    /// Sets `variable`; none takes it away.
    ///
    /// # Errors
    /// There are too many; then nothing is changed.
    pub fn set(
        &mut self,
        variable: &Variable,
        value: Option<Value<'static>>,
    ) -> Result<(), TooManyVariables> {
        let known = self.0.iter().position(|(own, _)| own == variable);
        let Some(value) = value else {
            if let Some(at) = known {
                self.0.swap_remove(at);
            }
            return Ok(());
        };
        let others = self.0.iter().enumerate().filter(|(at, _)| Some(*at) != known);
        let bytes: usize = others.map(|(_, (_, value))| size_of_value(value)).sum();
        let is_full = known.is_none() && self.0.len() >= OWN_VARIABLES_MAX;
        if is_full || bytes + size_of_value(&value) > OWN_VARIABLES_MAX_BYTES {
            return Err(TooManyVariables);
        }
        match known {
            Some(at) => self.0[at].1 = value,
            None => self.0.push((variable.clone(), value)),
        }
        Ok(())
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

fn size_of_value(value: &Value<'_>) -> usize {
    match value {
        Value::Bytes(bytes) => bytes.len(),
        _ => size_of::<f64>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Variable {
        Variable::parse(name).unwrap()
    }

    fn text(length: usize) -> Value<'static> {
        Value::owned(vec![b'x'; length])
    }

    #[test]
    fn values_are_set_replaced_and_taken_away() {
        let mut own = OwnVariables::default();
        assert_eq!(own.get(&named("tier")), None);
        own.set(&named("tier"), Some(text(3))).unwrap();
        own.set(&named("tier"), Some(Value::from("gold"))).unwrap();
        own.set(&named("flag"), Some(Value::Boolean(true))).unwrap();
        assert_eq!(own.get(&named("tier")), Some(Value::from("gold")));
        assert_eq!(own.get(&named("flag")), Some(Value::Boolean(true)));
        own.set(&named("tier"), None).unwrap();
        own.set(&named("none"), None).unwrap();
        assert_eq!((own.get(&named("tier")), own.get(&named("flag")).is_some()), (None, true));
        own.clear();
        assert_eq!(own.get(&named("flag")), None);
    }

    #[test]
    fn number_and_bytes_are_limited() {
        let mut own = OwnVariables::default();
        assert_eq!(own.set(&named("a"), Some(text(OWN_VARIABLES_MAX_BYTES + 1))), Err(TooManyVariables));
        own.set(&named("a"), Some(text(OWN_VARIABLES_MAX_BYTES))).unwrap();
        own.set(&named("a"), Some(text(OWN_VARIABLES_MAX_BYTES))).unwrap();
        assert_eq!(own.set(&named("b"), Some(text(1))), Err(TooManyVariables));
        own.set(&named("a"), None).unwrap();
        for number in 0..OWN_VARIABLES_MAX {
            own.set(&named(&format!("v{number}")), Some(text(1))).unwrap();
        }
        assert_eq!(own.set(&named("b"), Some(text(1))), Err(TooManyVariables));
        own.set(&named("v0"), Some(text(2))).unwrap();
    }
}
