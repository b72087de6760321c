//! The rules of HTTP/3 as a driver meets them: requests, responses, unidirectional streams, limits, cuts of
//! the input.
#![allow(clippy::unwrap_used)]

mod control;
mod corpora;
mod cuts;
mod limits;
mod oracle;
mod requests;
mod responses;
mod uni;
mod wire;
