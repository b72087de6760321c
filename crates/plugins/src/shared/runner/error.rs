//! The failures of calls to the runner, as sentences for the log. The words follow those of APISIX where it
//! has them.

use std::fmt;
use std::io;

use super::flat::MalformedMessage;

/// A call that failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// No runner listens, for this reason.
    NotRunning(String),
    /// The socket does not take a connection.
    Connect(String, io::Error),
    /// Too many calls wait for the runner.
    Busy,
    /// There was no answer in time.
    TimedOut(u64),
    /// The connection broke at this step.
    Broken(&'static str, io::Error),
    /// The runner closed the connection at this step.
    Ended(&'static str),
    /// The bytes of the runner are no message.
    Malformed(&'static str),
    /// A message is longer than a frame can be.
    TooLong(usize),
    /// A message of another type than the awaited one.
    Unexpected(u8),
    /// The answer is for another request.
    WrongId {
        /// The id of the request.
        asked: u32,
        /// The id in the answer.
        answered: u32,
    },
    /// The runner does not know the token of the configuration any more.
    TokenUnknown,
    /// An error that the runner tells by its number.
    Runner(u8),
    /// The method has no number in the protocol.
    Method(String),
    /// The request body cannot be had.
    Body(&'static str),
    /// Memory is short.
    Memory,
}

impl From<MalformedMessage> for CallError {
    fn from(MalformedMessage(reason): MalformedMessage) -> CallError {
        CallError::Malformed(reason)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NotRunning(reason) => write!(out, "there is no plugin runner: {reason}"),
            CallError::Connect(path, error) => {
                write!(out, "failed to connect to the unix socket {path}: {error}")
            }
            CallError::Busy => write!(out, "too many calls wait for the plugin runner"),
            CallError::TimedOut(limit_ms) => {
                write!(out, "the plugin runner has not answered within {limit_ms} ms")
            }
            CallError::Broken(step, error) => write!(out, "failed to {step}: {error}"),
            CallError::Ended(step) => {
                write!(out, "failed to {step}: the plugin runner has closed the connection")
            }
            CallError::Malformed(reason) => {
                write!(out, "the plugin runner has sent no valid message: {reason}")
            }
            CallError::TooLong(bytes) => {
                write!(out, "the max length of data is {} but got {bytes}", super::frame::MESSAGE_BYTES_MAX)
            }
            CallError::Unexpected(kind) => {
                write!(out, "the plugin runner answered with unexpected type {kind}")
            }
            CallError::WrongId { asked, answered } => {
                write!(out, "the plugin runner answered call {answered} in place of call {asked}")
            }
            CallError::TokenUnknown => write!(out, "conf token not found"),
            CallError::Runner(0) => write!(out, "bad request"),
            CallError::Runner(1) => write!(out, "service unavailable"),
            CallError::Runner(code) => write!(out, "unknown err {code}"),
            CallError::Method(method) => {
                write!(out, "the protocol of plugin runners has no number for the method {method}")
            }
            CallError::Body(reason) => write!(out, "the request body cannot be sent or replaced: {reason}"),
            CallError::Memory => write!(out, "memory is short; the message is not held"),
        }
    }
}
