//! The parts that the plugins which limit requests share: the key that a request is counted under, numbers
//! with variables, the table of keys, the place of the counts, the wait of a delayed request, and requests
//! that cannot be counted. It is no plugin and knows none.

pub(crate) mod amount;
pub(crate) mod delay;
pub(crate) mod failures;
pub(crate) mod key;
pub(crate) mod store;
pub(crate) mod table;
