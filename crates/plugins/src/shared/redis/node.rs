//! One server: where it is, how to log in, and a connection to it. Connections are kept by the lanes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use exchange::plugin::outbound::{OutboundCause, OutboundError, OutboundStream, StreamDestination};
use net::env;

use super::error::RedisError;
use super::resp::{RedisValue, parse_redis_reply, write_command};

/// How a connection begins.
#[derive(Clone, Default)]
pub(super) struct RedisLogin {
    pub(super) username: Option<Box<str>>,
    pub(super) password: Option<Box<str>>,
    pub(super) database: u64,
    /// Require that the server is a master: a sentinel may name one that was demoted a moment ago.
    pub(super) requires_master: bool,
}

/// Times and sizes of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) connect_timeout_ms: u64,
    pub(super) reply_timeout_ms: u64,
    /// How long a connection is kept without use.
    pub(super) idle_timeout_ms: u64,
    /// Connections of each worker.
    pub(super) lanes: usize,
}

/// See the module.
pub(super) struct RedisNode {
    /// Tells nodes apart in the tables of workers.
    pub(super) id: u64,
    /// `HOST:PORT`.
    pub(super) place: Box<str>,
    destination: StreamDestination,
    login: Arc<RedisLogin>,
    pub(super) timing: Timing,
}

/// A connection that is logged in.
pub(super) struct RedisConnection {
    stream: OutboundStream,
    /// Bytes that were read and belong to later replies.
    received: Vec<u8>,
}

/// Bytes read at once: replies of scripts are short.
const READ_BYTES: usize = 4 * 1024;
/// Milliseconds between looks at a name that was not looked up yet.
const NAME_PAUSE_MS: u64 = 5;

impl RedisNode {
    pub(super) fn new(
        place: &str,
        destination: StreamDestination,
        login: Arc<RedisLogin>,
        timing: Timing,
    ) -> Arc<RedisNode> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(RedisNode { id, place: place.into(), destination, login, timing })
    }

    /// Opens a connection and logs in.
    pub(super) async fn open(&self) -> Result<RedisConnection, RedisError> {
        let stream = self.open_stream().await.map_err(RedisError::of_connect)?;
        let mut connection = RedisConnection { stream, received: Vec::new() };
        let mut greeting = Vec::new();
        let database = self.login.database.to_string();
        let mut steps = 0;
        let mut say = |arguments: &[&[u8]]| {
            write_command(arguments, &mut greeting);
            steps += 1;
        };
        match (&self.login.username, &self.login.password) {
            (Some(username), Some(password)) => say(&[b"AUTH", username.as_bytes(), password.as_bytes()]),
            (None, Some(password)) => say(&[b"AUTH", password.as_bytes()]),
            (_, None) => {}
        }
        if self.login.database != 0 {
            say(&[b"SELECT", database.as_bytes()]);
        }
        if self.login.requires_master {
            say(&[b"ROLE"]);
        }
        if steps > 0 {
            self.greet(&mut connection, &greeting, steps).await?;
        }
        Ok(connection)
    }

    async fn greet(
        &self,
        connection: &mut RedisConnection,
        greeting: &[u8],
        steps: usize,
    ) -> Result<(), RedisError> {
        // Nothing that counts was sent yet, so a connection that breaks here was never open.
        let not_open = |error: RedisError| match error {
            RedisError::Lost(error) => RedisError::NotSent(error),
            other => other,
        };
        connection.send(self, greeting).await.map_err(not_open)?;
        for _ in 0..steps {
            match connection.reply(self).await.map_err(not_open)? {
                RedisValue::Error(reason) => return Err(RedisError::refused(&self.place, &reason)),
                // The reply to ROLE: its first value is the role.
                RedisValue::Array(role) if role.first().and_then(RedisValue::as_text) != Some("master") => {
                    return Err(RedisError::NotSent(
                        self.error(OutboundCause::Connect, "the server is not a master"),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A name that another server has just named may not be looked up yet.
    async fn open_stream(&self) -> Result<OutboundStream, OutboundError> {
        let timeout_ms = self.timing.connect_timeout_ms;
        let deadline_ns = env::monotonic_ns() + timeout_ms * 1_000_000;
        loop {
            match self.destination.connect(timeout_ms).await {
                Err(error)
                    if error.cause == OutboundCause::NoAddress && env::monotonic_ns() < deadline_ns =>
                {
                    env::sleep_ms(NAME_PAUSE_MS).await;
                }
                outcome => return outcome,
            }
        }
    }

    pub(super) fn error(&self, cause: OutboundCause, detail: impl Into<String>) -> OutboundError {
        OutboundError { cause, place: self.place.clone(), detail: detail.into() }
    }

    fn lost(&self, error: &io::Error) -> RedisError {
        RedisError::Lost(match error.kind() {
            io::ErrorKind::TimedOut => {
                let detail = format!("no reply within {} ms", self.timing.reply_timeout_ms);
                self.error(OutboundCause::Timeout, detail)
            }
            _ => self.destination.broken(error),
        })
    }
}

impl RedisConnection {
    /// Sends whole commands.
    pub(super) async fn send(&mut self, node: &RedisNode, commands: &[u8]) -> Result<(), RedisError> {
        let sent = self.stream.write_all(commands, node.timing.reply_timeout_ms).await;
        sent.map_err(|error| node.lost(&error))
    }

    /// The next reply.
    pub(super) async fn reply(&mut self, node: &RedisNode) -> Result<RedisValue, RedisError> {
        let malformed = |reason| RedisError::Malformed { place: node.place.clone(), reason };
        let deadline_ns = env::monotonic_ns() + node.timing.reply_timeout_ms * 1_000_000;
        loop {
            if let Some((value, length)) =
                parse_redis_reply(&self.received).map_err(|reason| malformed(reason.0))?
            {
                self.received.drain(..length);
                return Ok(value);
            }
            let left_ms = deadline_ns.saturating_sub(env::monotonic_ns()).div_ceil(1_000_000);
            let begin = self.received.len();
            self.received.resize(begin + READ_BYTES, 0);
            let read = match left_ms {
                0 => Err(io::ErrorKind::TimedOut.into()),
                left_ms => self.stream.read(&mut self.received[begin..], left_ms).await,
            };
            self.received.truncate(begin + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => {
                    return Err(node.lost(&io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server closed the connection",
                    )));
                }
                Ok(_) => {}
                Err(error) => return Err(node.lost(&error)),
            }
        }
    }

    /// Whether bytes came that no command asked for, or the server has closed the connection. Replies have no
    /// number, so that such bytes would be read as the reply to the next command.
    pub(super) fn has_surplus(&mut self) -> bool {
        !self.received.is_empty() || !self.stream.is_quiet()
    }
}
