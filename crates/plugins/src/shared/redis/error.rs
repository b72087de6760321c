//! Why a command has no result. The words are for the log, not for clients.

use std::fmt;

use exchange::plugin::outbound::{OutboundCause, OutboundError};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedisError {
    /// The server was not reached; the command was not sent.
    NotSent(OutboundError),
    /// The connection broke, or no reply came in time; the command may have been carried out.
    Lost(OutboundError),
    /// The server refused the command, the login or the database, in its own words.
    Refused {
        /// `HOST:PORT`.
        place: Box<str>,
        /// The reply, shortened.
        reason: Box<str>,
    },
    /// The reply is none that this command can have.
    Malformed {
        /// `HOST:PORT`.
        place: Box<str>,
        /// The fault in it.
        reason: &'static str,
    },
    /// More commands wait for the server than a worker keeps.
    Busy,
    /// No node of the cluster, or no sentinel, names a server for the command.
    NoServer(&'static str),
}

/// The longest part of a server's own words in a message.
const REASON_MAX: usize = 200;

impl RedisError {
    /// The reply of a script that returns something else: another program answers.
    pub(crate) const UNEXPECTED: RedisError =
        RedisError::NoServer("the reply of Redis is not the one expected");

    /// The server's refusal.
    pub(crate) fn refused(place: &str, reason: &str) -> RedisError {
        let end = reason.char_indices().nth(REASON_MAX).map_or(reason.len(), |(index, _)| index);
        RedisError::Refused { place: place.into(), reason: reason[..end].into() }
    }

    /// The failure of opening a connection.
    pub(super) fn of_connect(error: OutboundError) -> RedisError {
        RedisError::NotSent(error)
    }

    /// Whether the command was certainly not carried out, so that another server may be asked.
    pub(crate) fn is_not_sent(&self) -> bool {
        matches!(self, RedisError::NotSent(_))
    }

    /// Whether the server may be another one by now: it is gone, or it no longer takes writes.
    pub(crate) fn is_of_wrong_server(&self) -> bool {
        match self {
            RedisError::NotSent(_) | RedisError::Lost(_) | RedisError::Malformed { .. } => true,
            RedisError::Refused { reason, .. } => {
                ["READONLY", "MASTERDOWN", "LOADING", "NOTMASTER"].iter().any(|word| reason.starts_with(word))
            }
            RedisError::Busy | RedisError::NoServer(_) => false,
        }
    }

    /// Whether no reply came in time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, RedisError::Lost(error) if error.cause == OutboundCause::Timeout)
    }
}

impl fmt::Display for RedisError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisError::NotSent(error) | RedisError::Lost(error) => error.fmt(formatter),
            RedisError::Refused { place, reason } => write!(formatter, "{place}: Redis answered {reason}"),
            RedisError::Malformed { place, reason } => write!(formatter, "{place}: {reason}"),
            RedisError::Busy => formatter.write_str("too many commands wait for Redis"),
            RedisError::NoServer(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for RedisError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_server_are_shortened() {
        let error = RedisError::refused("h:1", &"ä".repeat(1_000));
        assert_eq!(error.to_string(), format!("h:1: Redis answered {}", "ä".repeat(REASON_MAX)));
        assert!(RedisError::refused("h:1", "READONLY You can't write").is_of_wrong_server());
        assert!(!RedisError::refused("h:1", "NOPERM no").is_of_wrong_server());
    }
}
