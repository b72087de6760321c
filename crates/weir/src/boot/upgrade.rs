//! Replaces the running binary: an instance starts its successor, hands it the listening sockets and the data
//! folder, and ends once the successor serves. Until then the instance serves as before. Knows nothing of the
//! traffic.
//!
//! The two processes talk over a socket that is the successor's standard input. In order:
//!
//! | sender | message | state after it |
//! |---|---|---|
//! | old | `Sockets`, as often as needed | both hold every listening socket: no connection in a kernel queue is lost |
//! | new | `Prepared` | its settings are good; it has bound the addresses in them that were not inherited |
//! | old | `Data` with the folder's lock | the store is closed; writes wait, requests go on |
//! | new | `Ready` | the configuration is loaded, the workers run and accept nothing |
//! | old | `Commit` | from here on the successor decides about writes |
//! | new | `Serving` | both accept; the old process stops accepting and drains |
//! | new | `Hurry`, if a write comes | the old process tells all kept connections to close |
//! | old | closes the socket | the old process begins no further request; the new one does the writes that wait |
//!
//! Before `Serving` the old process can take everything back by killing the new one, which dies with the
//! go-between process. Data that the new process may have written by then is read from the store.

mod changeover;
mod channel;
mod executable;
mod go_between;
mod outcome;
mod predecessor;
mod request;
mod successor;

pub(super) use changeover::OldSide;
pub(super) use executable::Executable;
pub(super) use go_between::stand_if_asked;
pub(super) use outcome::{UpgradeOutcome, write_upgrade_outcome as write_outcome};
pub(super) use predecessor::{InheritedSocket, Predecessor, QUIC_LINE};
pub(crate) use request::request;
pub(super) use successor::{Offer, Successor, launch_successor as start_successor};
