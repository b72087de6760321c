//! The path parameters of a matched route.
//!
//! It keeps copies of names and values in one buffer, so that a reused `Params` allocates nothing once it has
//! grown to the largest set. It knows no routes.

/// Names and values in the order of the path.
#[derive(Clone, Debug, Default)]
pub struct Params {
    bytes: Vec<u8>,
    /// The ends of each name and value in `bytes`; each begins where the one before ends.
    ends: Vec<(usize, usize)>,
}

impl Params {
    /// No parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all parameters and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The value of the first parameter of this name; the text that a nameless `*` matched is called `:ext`.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// All parameters, in the order of the path.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, value_end)| {
            let pair = (&self.bytes[start..name_end], &self.bytes[name_end..value_end]);
            start = value_end;
            pair
        })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_forgets() {
        let mut params = Params::new();
        params.push(b"a", b"1");
        params.push(b"bb", b"");
        params.push(b"a", b"2");
        let all: Vec<_> = params.iter().collect();
        assert_eq!(all, [(&b"a"[..], &b"1"[..]), (b"bb", b""), (b"a", b"2")]);
        assert_eq!(params.get(b"a"), Some(&b"1"[..]));
        assert_eq!(params.get(b"c"), None);
        params.clear();
        assert!(params.is_empty());
    }
}
