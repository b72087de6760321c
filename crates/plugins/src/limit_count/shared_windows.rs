//! Windows of requests that are kept in Redis, under the keys and in the form of APISIX: a number for each
//! key and window, which lives as long as it counts.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use exchange::local::WorkerLocal;

use super::window::{Quota, Taken, WindowType};
use crate::shared::redis::RedisClient;
use crate::shared::redis::error::RedisError;
use crate::shared::redis::resp::RedisValue;
use crate::shared::redis::script::RedisScript;

/// Adds a number to the count of a window that ends a time after it began. Takes the milliseconds of the
/// window and the number; gives the count and the milliseconds that are left.
static ADD: LazyLock<RedisScript> = LazyLock::new(|| {
    RedisScript::new(
        "local left = redis.call('PTTL', KEYS[1]) \
         if left < 0 then \
           redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1]) \
           return {tonumber(ARGV[2]), tonumber(ARGV[1])} \
         end \
         return {redis.call('INCRBY', KEYS[1], ARGV[2]), left}",
    )
});

/// Adds a request to a window of the clock, if it and the part of the last window that still counts allow it.
/// Takes the milliseconds that the count is kept, the limit, that part, and the cost of the request; gives
/// whether it passes, and the count.
static SLIDE: LazyLock<RedisScript> = LazyLock::new(|| {
    RedisScript::new(
        "local used = tonumber(redis.call('GET', KEYS[1]) or 0) \
         local limit = tonumber(ARGV[2]) \
         if used >= limit or used + ARGV[3] + ARGV[4] - 1 >= limit then return {0, used} end \
         used = redis.call('INCRBY', KEYS[1], ARGV[4]) \
         if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end \
         return {1, used}",
    )
});

/// See the module.
pub(super) struct SharedWindows {
    redis: Arc<RedisClient>,
    /// The begin of all keys: `plugin-limit-count`, or the name of another plugin.
    family: String,
    /// The group with a colon, or the object and its version: what keys begin with behind the plugin's name.
    prefix: String,
    window_type: WindowType,
}

/// A count in Redis, and how long it stays in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowCount {
    pub(super) used: u64,
    pub(super) reset_ms: u64,
}

impl SharedWindows {
    pub(super) fn new(
        redis: Arc<RedisClient>,
        plugin: &str,
        prefix: String,
        window_type: WindowType,
    ) -> SharedWindows {
        SharedWindows { redis, family: format!("plugin-{plugin}"), prefix, window_type }
    }

    /// Writes what keys begin with.
    pub(super) fn begin_key(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(self.prefix.as_bytes());
    }

    /// A short key in place of `key`: its digest behind what keys begin with.
    pub(super) fn shortened(&self, key: &[u8]) -> Vec<u8> {
        let digest = HEXLOWER.encode(digest(&SHA256, key).as_ref());
        [self.prefix.as_bytes(), b"sha256:", digest.as_bytes()].concat()
    }

    /// Counts one request under `key`, which begins with [`SharedWindows::begin_key`].
    pub(super) async fn take(
        &self,
        worker: &Rc<WorkerLocal>,
        key: &[u8],
        quota: Quota,
    ) -> Result<Taken, RedisError> {
        match self.window_type {
            WindowType::Fixed => {
                let counted = self.add_fixed(worker, key, quota.cost, quota.window_ms).await?;
                let allowed = counted.used <= quota.limit;
                let remaining = quota.limit.saturating_sub(counted.used);
                Ok(Taken { allowed, remaining, reset_ms: counted.reset_ms })
            }
            WindowType::Sliding => self.slide(worker, key, quota).await,
        }
    }

    /// Adds requests that were let through already, and gives what is used of the limit by now.
    pub(super) async fn add(
        &self,
        worker: &Rc<WorkerLocal>,
        key: &[u8],
        requests: u64,
        quota: Quota,
    ) -> Result<WindowCount, RedisError> {
        match self.window_type {
            WindowType::Fixed => self.add_fixed(worker, key, requests, quota.window_ms).await,
            WindowType::Sliding => {
                let clock = Clock::now(worker, &self.family, quota.window_ms);
                let current = clock.key(key, 0);
                let kept_ms = quota.window_ms.saturating_mul(2);
                let counted = self.add_to(worker, &current, requests, kept_ms).await?;
                let last = self.last(worker, &clock, key, quota).await?;
                let used = counted.used.saturating_add(clock.weigh(last).ceil() as u64);
                Ok(WindowCount { used, reset_ms: clock.left_ms })
            }
        }
    }

    async fn add_fixed(
        &self,
        worker: &Rc<WorkerLocal>,
        key: &[u8],
        requests: u64,
        window_ms: u64,
    ) -> Result<WindowCount, RedisError> {
        let key = [self.family.as_bytes(), b":v1:", key].concat();
        self.add_to(worker, &key, requests, window_ms).await
    }

    async fn add_to(
        &self,
        worker: &Rc<WorkerLocal>,
        key: &[u8],
        requests: u64,
        kept_ms: u64,
    ) -> Result<WindowCount, RedisError> {
        let (kept, requests) = (kept_ms.to_string(), requests.to_string());
        let reply = self.redis.script(worker, &ADD, key, &[kept.as_bytes(), requests.as_bytes()]).await?;
        match reply.as_array().unwrap_or_default() {
            [used, left] => match (number(used), number(left)) {
                (Some(used), Some(reset_ms)) => Ok(WindowCount { used, reset_ms }),
                _ => Err(RedisError::UNEXPECTED),
            },
            _ => Err(RedisError::UNEXPECTED),
        }
    }

    async fn slide(&self, worker: &Rc<WorkerLocal>, key: &[u8], quota: Quota) -> Result<Taken, RedisError> {
        let clock = Clock::now(worker, &self.family, quota.window_ms);
        let last = self.last(worker, &clock, key, quota).await?;
        let weighs = clock.weigh(last);
        let arguments = [
            quota.window_ms.saturating_mul(2).to_string(),
            quota.limit.to_string(),
            format!("{weighs:.6}"),
            quota.cost.to_string(),
        ];
        let arguments = [0, 1, 2, 3].map(|index: usize| arguments[index].as_bytes());
        let reply = self.redis.script(worker, &SLIDE, &clock.key(key, 0), &arguments).await?;
        let [allowed, used] = reply.as_array().unwrap_or_default() else {
            return Err(RedisError::UNEXPECTED);
        };
        let (Some(allowed), Some(used)) = (allowed.as_integer(), number(used)) else {
            return Err(RedisError::UNEXPECTED);
        };
        if allowed != 0 {
            let remaining = (quota.limit as f64 - used as f64 - weighs).max(0.0) as u64;
            return Ok(Taken { allowed: true, remaining, reset_ms: clock.left_ms });
        }
        let reset_ms = if used >= quota.limit || last == 0 {
            clock.left_ms
        } else {
            // The time until enough of the last window has slid out for the request.
            let room = (quota.limit - used).saturating_sub(quota.cost.saturating_sub(1));
            let room = room as f64 * clock.window_ms as f64 / last as f64;
            clock.left_ms.saturating_sub(room as u64)
        };
        Ok(Taken { allowed: false, remaining: 0, reset_ms })
    }

    /// The count of the window before, which no longer changes; at most the limit, as in APISIX.
    async fn last(
        &self,
        worker: &Rc<WorkerLocal>,
        clock: &Clock<'_>,
        key: &[u8],
        quota: Quota,
    ) -> Result<u64, RedisError> {
        let key = clock.key(key, 1);
        match self.redis.command(worker, &key, &[b"GET", &key]).await? {
            RedisValue::Nil => Ok(0),
            value => number(&value).map(|count| count.min(quota.limit)).ok_or(RedisError::UNEXPECTED),
        }
    }
}

fn number(value: &RedisValue) -> Option<u64> {
    value.as_integer().and_then(|number| u64::try_from(number).ok())
}

/// The windows of the clock of the wall, which all gateways share.
struct Clock<'a> {
    /// The begin of all keys.
    family: &'a str,
    window_ms: u64,
    /// The number of the current window.
    number: u64,
    left_ms: u64,
}

impl<'a> Clock<'a> {
    fn now(worker: &WorkerLocal, family: &'a str, window_ms: u64) -> Clock<'a> {
        let (seconds, nanoseconds) = worker.wall_at(worker.clock_ns());
        Clock::at(seconds * 1_000 + u64::from(nanoseconds / 1_000_000), family, window_ms)
    }

    fn at(now_ms: u64, family: &'a str, window_ms: u64) -> Clock<'a> {
        Clock { family, window_ms, number: now_ms / window_ms, left_ms: window_ms - now_ms % window_ms }
    }

    /// The key of the current window, or of one before it.
    fn key(&self, key: &[u8], before: u64) -> Vec<u8> {
        let number = self.number.saturating_sub(before).to_string();
        [self.family.as_bytes(), b":", key, b".", number.as_bytes(), b".counter"].concat()
    }

    /// The part of the count of the last window that still counts.
    fn weigh(&self, last: u64) -> f64 {
        last as f64 * self.left_ms as f64 / self.window_ms as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_clock_are_those_of_apisix() {
        let clock = Clock::at(1_700_000_015_250, "plugin-limit-count", 10_000);
        assert_eq!(clock.key(b"g:1.2.3.4", 0), b"plugin-limit-count:g:1.2.3.4.170000001.counter");
        assert_eq!(clock.key(b"g:1.2.3.4", 1), b"plugin-limit-count:g:1.2.3.4.170000000.counter");
        assert_eq!(clock.left_ms, 4_750);
        assert!((clock.weigh(8) - 3.8).abs() < 1e-9);
    }
}
