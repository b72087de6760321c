//! Requests and responses by an OpenAPI document: parameters, bodies and their schemas. Shared by the
//! plugins that check by one.

pub(crate) mod body;
pub(crate) mod operation;
pub(crate) mod parameters;
pub(crate) mod schemas;
