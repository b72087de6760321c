//! Counts of requests in progress that are kept in Redis: for each key a sorted set of the requests with the
//! second at which each is forgotten, as APISIX keeps them.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use exchange::local::WorkerLocal;
use exchange::plugin::Build;
use exchange::plugin::unfinished::UnfinishedWork;
use net::env;
use serde_json::Value as Json;

use crate::shared::limits::failures::Failures;
use crate::shared::limits::key::shared_prefix;
use crate::shared::redis::RedisClient;
use crate::shared::redis::error::RedisError;
use crate::shared::redis::script::RedisScript;
use crate::shared::redis::settings::RedisSettings;

/// Takes the limit, the life of an entry in seconds, the second now and the name of the request; gives 1 and
/// the number of requests in progress if the request may be one of them.
static ENTER: LazyLock<RedisScript> = LazyLock::new(|| {
    RedisScript::new(
        "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3]) \
         local taken = redis.call('ZCARD', KEYS[1]) \
         if taken >= tonumber(ARGV[1]) then return {0, taken} end \
         redis.call('ZADD', KEYS[1], ARGV[3] + ARGV[2], ARGV[4]) \
         redis.call('EXPIRE', KEYS[1], ARGV[2]) \
         return {1, taken + 1}",
    )
});

/// The waits before a place is given back again that Redis has not heard of: a slot that is lost counts for
/// its whole life.
const RETRIES_MS: [u64; 3] = [200, 1_000, 5_000];

/// See the module.
pub(super) struct SharedCounts {
    redis: Arc<RedisClient>,
    prefix: String,
    life_s: String,
    failures: Arc<Failures>,
    unfinished: UnfinishedWork,
}

/// How Redis knows a request in progress.
#[derive(Clone)]
pub(super) struct PlaceName {
    key: Vec<u8>,
    request: String,
}

/// The place of one request in progress. Dropping it gives the place back, however the request ends.
pub(super) struct SharedPlace {
    counts: Arc<SharedCounts>,
    worker: Rc<WorkerLocal>,
    /// None once it is not to be given back.
    name: Option<PlaceName>,
}

impl PlaceName {
    /// The key, to which the value that requests are counted by is appended.
    pub(super) fn key_mut(&mut self) -> &mut Vec<u8> {
        &mut self.key
    }
}

impl SharedPlace {
    /// Redis has refused the place, so that there is nothing to give back.
    pub(super) fn forget(mut self) {
        self.name = None;
    }
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.counts.leave(&self.worker, name);
        }
    }
}

impl SharedCounts {
    pub(super) fn new(
        build: &Build<'_>,
        settings: &RedisSettings,
        config: &Json,
        life_s: u64,
        failures: Arc<Failures>,
    ) -> Result<SharedCounts, String> {
        Ok(SharedCounts {
            redis: RedisClient::new(build, settings)?,
            prefix: format!("limit_conn:{}", shared_prefix(build.owner, config)),
            life_s: life_s.to_string(),
            failures,
            unfinished: build.services.unfinished_work().clone(),
        })
    }

    /// The name of a new request, of which the key is not complete.
    pub(super) fn name(&self) -> PlaceName {
        let request = format!("{:032x}", fastrand::u128(..));
        PlaceName { key: self.prefix.clone().into_bytes(), request }
    }

    /// A place that is about to be taken.
    pub(super) fn hold(self: &Arc<Self>, worker: &Rc<WorkerLocal>, name: PlaceName) -> SharedPlace {
        SharedPlace { counts: self.clone(), worker: worker.clone(), name: Some(name) }
    }

    /// Takes a place, if fewer than `limit` are taken; gives its number, from 1.
    pub(super) async fn enter(
        &self,
        worker: &Rc<WorkerLocal>,
        place: &PlaceName,
        limit: u64,
    ) -> Result<Option<u64>, RedisError> {
        let (now_s, _) = worker.wall_at(worker.clock_ns());
        let (limit, now_s) = (limit.to_string(), now_s.to_string());
        let arguments =
            [limit.as_bytes(), self.life_s.as_bytes(), now_s.as_bytes(), place.request.as_bytes()];
        let reply = self.redis.script(worker, &ENTER, &place.key, &arguments).await?;
        let [allowed, number] = reply.as_array().unwrap_or_default() else {
            return Err(RedisError::UNEXPECTED);
        };
        match (allowed.as_integer(), number.as_integer()) {
            (Some(0), _) => Ok(None),
            (Some(1), Some(number @ 1..)) => Ok(Some(number.unsigned_abs())),
            _ => Err(RedisError::UNEXPECTED),
        }
    }

    /// Gives a place back in the background; the end of the process waits for it. A place that Redis does not
    /// hear of is forgotten after its life.
    fn leave(self: &Arc<Self>, worker: &Rc<WorkerLocal>, place: PlaceName) {
        let (counts, worker, piece) = (self.clone(), worker.clone(), self.unfinished.begin());
        env::spawn(async move {
            let command: [&[u8]; 3] = [b"ZREM", &place.key, place.request.as_bytes()];
            let mut waits_ms = RETRIES_MS.iter();
            // Sent twice, the command does no harm.
            while let Err(error) = counts.redis.command(&worker, &place.key, &command).await {
                counts.failures.note(&error, worker.now_ms());
                match waits_ms.next() {
                    Some(wait_ms) if !counts.unfinished.is_ending() => env::sleep_ms(*wait_ms).await,
                    _ => break,
                }
            }
            drop(piece);
        });
    }
}
