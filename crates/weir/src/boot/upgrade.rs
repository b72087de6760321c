//! Replacing the running binary: a node starts its successor, hands it the listening sockets and the data folder, and
//! ends once the successor serves; until then it goes on as if nothing were happening. Refuses to know what is served.
//!
//! The two talk over a socket that is the successor's standard input. In order:
//!
//! | who | says | by then |
//! |---|---|---|
//! | old | `Sockets`, as often as needed | every listening socket is shared: who is queued by the kernel is lost by neither |
//! | new | `Prepared` | its settings are good, and what they ask for and was not inherited is bound |
//! | old | `Data` with the folder's lock | the store is closed; writes wait, requests go on |
//! | new | `Ready` | the configuration is loaded, the workers run and accept nothing |
//! | old | `Commit` | from here on the successor decides about writes |
//! | new | `Serving` | both accept; the old one stops to and drains |
//! | new | `Hurry`, if a write comes | the old one tells all kept connections to close |
//! | old | the end of the line | it begins no request any more; the new one does the writes that wait |
//!
//! Before `Serving` the old node can take everything back by killing the new one, which dies with the process between
//! the two. What the new one may have written by then is read from the store.

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
pub(super) use outcome::{Outcome, write as write_outcome};
pub(super) use predecessor::{Predecessor, Socket};
pub(crate) use request::request;
pub(super) use successor::{Offer, Successor, start as start_successor};
