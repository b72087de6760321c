//! The project's hardening list, sent in raw bytes: each check judges both the responses to the client and
//! the requests at the origin. Each test is named after its check; `docs/reference/hardening.md` lists both.

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
