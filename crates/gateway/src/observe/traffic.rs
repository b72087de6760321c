//! Figures of the traffic: counters that each worker writes with plain loads and stores, and the history that
//! a thread of its own makes of them once a second. Workers wait for no reader.

pub(crate) mod cell;
pub(crate) mod counts;
pub mod history;
mod ledger;
mod process;
mod ring;
pub mod times;
pub(crate) mod worker;
