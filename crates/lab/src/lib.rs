//! The laboratory: measures Weir beside other gateways, on the user's own machine. It starts programs and
//! sends them requests over sockets as any client would; it knows nothing of the data plane and shares no
//! code with it, except for the framing of HTTP/3.
//!
//! A [`Scenario`](scenario::Scenario) describes the requests, a [`Definition`](contender::Definition) the
//! contender. A run makes a [`RunReport`](result::RunReport), from which every table, page and comparison is
//! made.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod certificate;
pub mod command;
pub mod contender;
pub mod echo;
pub mod faults;
pub mod files;
pub mod forwarder;
pub mod load;
mod machine;
mod placement;
mod ports;
pub mod process;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod terminal;
mod tools;
mod yaml;
