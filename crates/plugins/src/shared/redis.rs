//! A client for Redis: a single server, a cluster, or a master that sentinels watch. Plugins with the same
//! settings share one, and its commands share a few connections of each worker. It knows no plugin and no
//! key.
//!
//! ```text
//! command ──► topology: which server? ──► lane of this worker ──► connection
//!    ▲              ▲                                                 │
//!    │              └── MOVED, ASK, a server that is gone ◄───────────┤
//!    └───────────────────────── reply ◄───────────────────────────────┘
//! ```

pub(crate) mod error;
mod lane;
mod node;
pub(crate) mod resp;
pub(crate) mod script;
pub(crate) mod settings;
mod slots;
mod topology;

use std::rc::Rc;
use std::sync::Arc;

use exchange::local::WorkerLocal;
use exchange::plugin::Build;

use self::error::RedisError;
use self::resp::{RedisValue, write_command};
use self::script::RedisScript;
use self::settings::RedisSettings;
use self::slots::{Redirection, slot_of};
use self::topology::Topology;

/// Servers that one command is sent to at most: redirections, and others in place of one that is gone.
const HOPS_MAX: usize = 5;

/// Servers that are gone, before a command fails: each may cost the timeout of a connection.
const GONE_MAX: usize = 2;

/// See the module.
pub(crate) struct RedisClient {
    topology: Arc<Topology>,
}

impl RedisClient {
    /// The client with these settings: the one that other instances have, if there is one.
    ///
    /// # Errors
    /// A place that cannot be reached, as a sentence.
    pub(crate) fn new(build: &Build<'_>, settings: &RedisSettings) -> Result<Arc<RedisClient>, String> {
        let destinations = build.services.stream_destinations(settings.tls());
        let made = RedisClient { topology: Arc::new(Topology::new(settings, destinations)?) };
        Ok(build.states.keep(&format!("redis/{settings:?}"), || made))
    }

    /// Sends a command on `key`, its name first; the key is named in the arguments as well. An error of the
    /// server is [`RedisError::Refused`].
    ///
    /// # Errors
    /// Why there is no reply.
    pub(crate) async fn command(
        &self,
        worker: &Rc<WorkerLocal>,
        key: &[u8],
        arguments: &[&[u8]],
    ) -> Result<RedisValue, RedisError> {
        let mut bytes = Vec::new();
        write_command(arguments, &mut bytes);
        self.send(worker, key, &bytes).await
    }

    /// Runs a script on `key`, with further arguments. The server is sent the source only if it does not know
    /// the script.
    ///
    /// # Errors
    /// Why there is no reply.
    pub(crate) async fn script(
        &self,
        worker: &Rc<WorkerLocal>,
        script: &RedisScript,
        key: &[u8],
        arguments: &[&[u8]],
    ) -> Result<RedisValue, RedisError> {
        let with = |head: [&[u8]; 2]| {
            let mut bytes = Vec::new();
            let words: Vec<&[u8]> =
                head.into_iter().chain([b"1".as_slice(), key]).chain(arguments.iter().copied()).collect();
            write_command(&words, &mut bytes);
            bytes
        };
        match self.send(worker, key, &with([b"EVALSHA", script.digest.as_bytes()])).await {
            Err(RedisError::Refused { reason, .. }) if reason.starts_with("NOSCRIPT") => {
                self.send(worker, key, &with([b"EVAL", script.text.as_bytes()])).await
            }
            outcome => outcome,
        }
    }

    async fn send(
        &self,
        worker: &Rc<WorkerLocal>,
        key: &[u8],
        command: &[u8],
    ) -> Result<RedisValue, RedisError> {
        let topology = &self.topology;
        let slot = if topology.is_cluster() { slot_of(key) } else { 0 };
        let mut redirected = None;
        let mut is_asking = false;
        let mut gone = 0;
        let mut last = RedisError::NoServer("the cluster redirects a command too often");
        for _ in 0..HOPS_MAX {
            let node = match redirected.take() {
                Some(node) => node,
                None => topology.node(worker, slot).await?,
            };
            let mut bytes = Vec::new();
            if is_asking {
                write_command(&[b"ASKING"], &mut bytes);
            }
            bytes.extend_from_slice(command);
            let outcome = lane::send_redis_commands(worker, &node, bytes, 1 + usize::from(is_asking)).await;
            is_asking = false;
            let error = match outcome {
                Ok(RedisValue::Error(reason)) => match Redirection::parse(&reason, &node.place) {
                    Some(Redirection::Moved { slot, place }) => {
                        redirected = Some(topology.redirected(worker, &place, Some(slot))?);
                        continue;
                    }
                    Some(Redirection::Ask { place }) => {
                        is_asking = true;
                        redirected = Some(topology.redirected(worker, &place, None)?);
                        continue;
                    }
                    None => RedisError::refused(&node.place, &reason),
                },
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if error.is_of_wrong_server() {
                topology.forget(worker, slot, &node);
            }
            // A command that was refused by a replica was not carried out either.
            let may_ask_another = error.is_not_sent()
                || matches!(error, RedisError::Refused { .. }) && error.is_of_wrong_server();
            gone += 1;
            if !may_ask_another || !topology.has_others() || gone == GONE_MAX {
                return Err(error);
            }
            last = error;
        }
        Err(last)
    }
}
