//! Leaky buckets that are kept in Redis: a hash of `excess` and `last` for each key, as APISIX keeps them.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use exchange::local::WorkerLocal;
use exchange::plugin::Build;
use serde_json::Value as Json;

use super::bucket::{Bucket, Pour, REQUEST};
use crate::shared::limits::key::shared_prefix;
use crate::shared::redis::RedisClient;
use crate::shared::redis::error::RedisError;
use crate::shared::redis::script::RedisScript;
use crate::shared::redis::settings::RedisSettings;

/// Takes the rate and the burst in thousandths, the time in milliseconds and the life of the key in seconds;
/// gives 1 and the level if the request passes. The level is a text, because Redis cuts the fraction of a
/// number off.
static POUR: LazyLock<RedisScript> = LazyLock::new(|| {
    RedisScript::new(
        "local kept = redis.call('HMGET', KEYS[1], 'excess', 'last') \
         local level = 0 \
         if kept[1] and kept[2] then \
           local leaked = math.abs(ARGV[3] - kept[2]) * ARGV[1] / 1000 \
           level = math.max(0, kept[1] - leaked + 1000) \
         end \
         if kept[1] and kept[2] and level > tonumber(ARGV[2]) then return {0, tostring(level)} end \
         redis.call('HSET', KEYS[1], 'excess', tostring(level), 'last', ARGV[3]) \
         redis.call('EXPIRE', KEYS[1], ARGV[4]) \
         return {1, tostring(level)}",
    )
});

/// The longest life of a key: a hundred years.
const LIFE_MAX_S: u64 = 3_155_760_000;

/// See the module.
pub(super) struct SharedBuckets {
    redis: Arc<RedisClient>,
    prefix: String,
    bucket: Bucket,
    /// The rate, the burst and the life of a key, as arguments of the script.
    arguments: [String; 3],
}

impl SharedBuckets {
    pub(super) fn new(
        build: &Build<'_>,
        settings: &RedisSettings,
        config: &Json,
        bucket: Bucket,
    ) -> Result<SharedBuckets, String> {
        let life_s = life_s(&bucket);
        Ok(SharedBuckets {
            redis: RedisClient::new(build, settings)?,
            prefix: format!("limit_req:{}", shared_prefix(build.owner, config)),
            bucket,
            arguments: [bucket.rate.to_string(), bucket.burst.to_string(), life_s.to_string()],
        })
    }

    /// Writes what keys begin with.
    pub(super) fn begin_key(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(self.prefix.as_bytes());
    }

    /// Pours one request into the bucket of `key`.
    pub(super) async fn pour(&self, worker: &Rc<WorkerLocal>, key: &[u8]) -> Result<Pour, RedisError> {
        // The clock of the wall, because other gateways read the time as well.
        let (seconds, nanoseconds) = worker.wall_at(worker.clock_ns());
        let now_ms = (seconds * 1_000 + u64::from(nanoseconds / 1_000_000)).to_string();
        let [rate, burst, life] = &self.arguments;
        let arguments = [rate.as_bytes(), burst.as_bytes(), now_ms.as_bytes(), life.as_bytes()];
        let reply = self.redis.script(worker, &POUR, key, &arguments).await?;
        let [allowed, level] = reply.as_array().unwrap_or_default() else {
            return Err(RedisError::UNEXPECTED);
        };
        match (allowed.as_integer(), level.as_number()) {
            (Some(0), _) => Ok(Pour::Overflows),
            (Some(1), Some(level)) => Ok(Pour::After { delay_ms: self.bucket.delay_ms(level) }),
            _ => Err(RedisError::UNEXPECTED),
        }
    }
}

/// How long a key is kept: until a bucket that was full before its last request is empty. APISIX leaves the
/// last request out and forgets a bucket of less than a request per second before it has leaked.
fn life_s(bucket: &Bucket) -> u64 {
    // A cast of a float stops at the largest number, which Redis refuses.
    (((bucket.burst + REQUEST) / bucket.rate).ceil() as u64).saturating_add(1).min(LIFE_MAX_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_lives_until_its_bucket_is_empty() {
        let check = |rate: f64, burst: f64, expected: u64| {
            assert_eq!(life_s(&Bucket::new(rate, burst)), expected, "{rate} {burst}");
        };
        check(1.0, 0.0, 2);
        check(0.1, 0.0, 11);
        check(0.1, 2.0, 31);
        check(10.0, 5.0, 2);
        check(1e-300, 1.0, LIFE_MAX_S);
    }
}
