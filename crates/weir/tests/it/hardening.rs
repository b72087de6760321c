//! The project's hardening list, spoken in raw bytes: what the client gets and what reaches the origin are judged
//! together. Each test is named after the check it covers; `docs/reference/hardening.md` is the list of both.

mod chunks;
mod corpus;
mod differences;
mod expectations;
mod fields;
mod framing;
mod hosts;
mod lies;
mod oracle;
pub(crate) mod pages;
mod paths;
mod secrets;
mod sizes;
mod stand;
mod switching;
