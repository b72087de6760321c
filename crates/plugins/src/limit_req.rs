//! # limit-req
//!
//! Limits the rate of requests with a leaky bucket: requests that come faster than `rate` are delayed to that
//! rate, and refused when more than `burst` of them are ahead. Requests are counted separately for each value
//! of a key.
//!
//! ```json
//! {
//!   "rate": 10,
//!   "burst": 20,
//!   "key_type": "var",
//!   "key": "remote_addr",
//!   "rejected_code": 429,
//!   "nodelay": true
//! }
//! ```
//!
//! **Rate.** `rate` is in requests per second and may be a fraction. A request that comes while the bucket is
//! above its rate waits until its turn; with `nodelay` it passes at once, as long as it is within `burst`. A
//! request beyond `burst` is refused with `rejected_code` and, with `rejected_msg`, the body
//! `{"error_msg": "…"}`. The first request of a key is never refused. A request waits for at most 59 seconds:
//! without `nodelay` a burst that would need a longer wait is refused as if `burst` were smaller.
//!
//! **Key.** With `key_type` `var`, `key` is a variable's name; with `var_combination` a text with variables
//! (`$remote_addr $http_x_id`). If the variables have no value, the client's address is the key.
//!
//! **Buckets.** With `policy` `local` they are kept by this process, shared by all its workers, and survive
//! configuration changes that do not concern them. At most 1,048,576 keys are kept; beyond that the fullest
//! stay. With `redis` or `redis-cluster` they are kept in Redis and shared by all gateways with this
//! configuration, with the fields `redis_…` that [the guide](../../guide/redis.md) explains. A request that
//! Redis cannot count is answered 500, or passes with `allow_degradation`.

mod bucket;
mod shared_bucket;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use serde_json::Value;

use crate::shared::attributes::attributes;
use crate::shared::config;
use crate::shared::limits::delay::{self, DELAY_MAX_MS};
use crate::shared::limits::failures::Failures;
use crate::shared::limits::key::LimitKey;
use crate::shared::limits::store::{CountKeyType, CountPolicy, counted_schema, read_counted, refusal_reply};
use bucket::{Bucket, Buckets, Pour};
use shared_bucket::SharedBuckets;

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("limit-req", 1001, &[PluginPhase::Access], counted_schema::<LimitReqConfig>, build)
        .checked(check)
        .documented(include_str!("limit_req.rs"));

attributes! {
    struct LimitReqConfig {
        /// How many requests per second are let through.
        rate: f64, { "exclusiveMinimum": 0 };
        /// How many requests above the rate may wait; further ones are refused.
        burst: f64, { "minimum": 0 };
        /// The key: a variable's name or a text with variables. Each of its values is counted separately.
        key: String;
        /// How the key is to be read.
        key_type: CountKeyType = CountKeyType::Var;
        /// Where the buckets are kept.
        policy: CountPolicy = CountPolicy::Local;
        /// The status of a refusal.
        rejected_code: u16 = 503, { "minimum": 200, "maximum": 599 };
        /// The message of a refusal.
        rejected_msg: Option<String>, { "minLength": 1 };
        /// Lets requests within the burst pass at once.
        nodelay: bool = false;
        /// Lets requests pass that cannot be counted.
        allow_degradation: bool = false;
    }
}

/// The compiled plugin.
struct LimitReq {
    bucket: Bucket,
    key: LimitKey,
    store: LimitReqStore,
    is_delaying: bool,
    rejected: BufferedReply,
    failures: Failures,
}

/// Where the buckets are.
enum LimitReqStore {
    Local(Arc<Buckets>),
    Redis(SharedBuckets),
}

fn check(config: &Value) -> Result<(), String> {
    let (config, _) = read_counted(config, |own: &LimitReqConfig| own.policy)?;
    config.key_type.compile_key(&config.key).map(drop)
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let (parsed, settings) = read_counted(config, |own: &LimitReqConfig| own.policy)?;
    let longest_wait_s = if parsed.nodelay { f64::INFINITY } else { DELAY_MAX_MS as f64 / 1_000.0 };
    let bucket = Bucket::new(parsed.rate, parsed.burst.min(parsed.rate * longest_wait_s));
    let store = match settings {
        Some(settings) => LimitReqStore::Redis(SharedBuckets::new(build, &settings, config, bucket)?),
        None => {
            let identity = config::identity(config);
            LimitReqStore::Local(
                build.states.keep(&format!("limit-req/{}/{identity}", build.owner), Buckets::new),
            )
        }
    };
    Ok(Arc::new(LimitReq {
        bucket,
        key: parsed.key_type.compile_key(&parsed.key)?,
        store,
        is_delaying: !parsed.nodelay,
        rejected: refusal_reply(parsed.rejected_code, parsed.rejected_msg.as_deref()),
        failures: Failures::new(build, "limit-req", parsed.allow_degradation, BufferedReply::status(500)),
    }))
}

impl LimitReq {
    fn pour(&self, buckets: &Buckets, exchange: &Exchange) -> Pour {
        let local = exchange.local();
        let mut key = local.take_bytes();
        self.key.write_local(0, exchange, &mut key);
        let poured = buckets.pour(&key, &self.bucket, local.now_ms());
        local.give_bytes(key);
        poured
    }

    async fn pour_shared(&self, buckets: &SharedBuckets, exchange: &Exchange) -> PhaseDecision {
        let worker = exchange.local().clone();
        let began_ms = worker.now_ms();
        let mut key = Vec::new();
        buckets.begin_key(&mut key);
        self.key.write_shared(0, exchange, &mut key);
        match buckets.pour(&worker, &key).await {
            Ok(Pour::Overflows) => PhaseDecision::Reply(Box::new(self.rejected.clone())),
            Ok(Pour::After { delay_ms }) => {
                if self.is_delaying {
                    delay::wait_in_phase(&worker, began_ms, delay_ms).await;
                }
                PhaseDecision::Continue
            }
            Err(error) => self.failures.decide(&error, worker.now_ms()),
        }
    }
}

impl Plugin for LimitReq {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let buckets = match &self.store {
            LimitReqStore::Local(buckets) => buckets,
            LimitReqStore::Redis(buckets) => {
                return Flow::Wait(Box::pin(self.pour_shared(buckets, exchange)));
            }
        };
        match self.pour(buckets, exchange) {
            Pour::Overflows => Flow::reply(self.rejected.clone()),
            Pour::After { delay_ms } if self.is_delaying => delay::continue_after(delay_ms),
            Pour::After { .. } => Flow::Continue,
        }
    }

    fn explain(&self, _: &mut Exchange, _: PluginPhase) -> Explained {
        let Bucket { rate, burst } = self.bucket;
        let excess = if self.is_delaying { "delayed" } else { "let through at once" };
        Explained::counts(format!("{rate} requests a second, and {burst} more that are {excess}"))
    }
}

#[cfg(test)]
mod tests;
