//! The wire format from outside: heads, framing and the chunked coding. Each module is one concern.

mod chunks;
mod corpora;
mod lenient;
mod refusals;
mod requests;
mod responses;
mod splits;
