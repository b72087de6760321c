//! What is made from a [`Report`](crate::result::Report): medians, ratios, verdicts, and the forms people read them in.
//! It measures nothing and changes nothing that was measured.

pub mod figure;
pub mod json;
pub mod number;
#[cfg(test)]
pub(crate) mod sample;
pub mod statistics;
pub mod summary;
