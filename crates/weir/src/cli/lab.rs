//! `weir lab`: measures Weir beside other gateways. All of it is in the crate `lab`, which shares nothing
//! with the gateway.

pub(super) use lab::command::{LabArguments, execute_lab};
