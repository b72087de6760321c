//! JSON of clients, nodes, providers and registries: read within bounds, and with all digits of its numbers.
//!
//! [`read`] counts values and levels before anything is allocated, so that `serde` may build any type of the
//! text afterwards. [`Value`] is a tree in which numbers keep their text, [`Exact`] a value of `serde_json`
//! beside its text, and [`Decimal`] compares numbers by their digits. The crate knows no request and does no
//! I/O.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bounds;
mod decimal;
mod exact;
mod number;
mod reader;
mod value;

pub use bounds::{Bounds, ReadError, measure, read};
pub use decimal::Decimal;
pub use exact::Exact;
pub use number::Number;
pub use reader::{Parsed, parse};
pub use value::{Object, Value};
