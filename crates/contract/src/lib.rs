//! Contracts of services: OpenAPI documents as a list of operations, what changed between two of them,
//! example values of their schemas and a page that shows them. It reads and compares; it does no I/O and
//! checks no request.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod diff;
pub mod document;
pub mod example;
pub mod operation;
pub mod page;
mod swagger2;

pub use document::{ContractDocument, DocumentFault};
pub use operation::ContractOperation;
