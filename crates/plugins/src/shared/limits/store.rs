//! The attributes that `limit-conn` and `limit-req` read alike: where requests are counted, the kind of key,
//! and the reply of a refusal. It counts nothing.

use exchange::plugin::BufferedReply;
use serde_json::{Value, json};

use super::key::LimitKey;
use crate::shared::attributes::{AttributeFields, FieldSet, words};
use crate::shared::redis::settings::{RedisFields, RedisSettings, add_to_schema};

words! {
    /// Where requests are counted.
    pub(crate) enum CountPolicy {
        /// In one Redis.
        Redis = "redis",
        /// In a cluster of Redis.
        RedisCluster = "redis-cluster",
        /// In this process.
        Local = "local",
    }
}

words! {
    /// The kind of a key.
    pub(crate) enum CountKeyType {
        /// A variable's name.
        Var = "var",
        /// A text with variables.
        VarCombination = "var_combination",
    }
}

impl CountKeyType {
    /// Compiles `key`, which has this kind.
    ///
    /// # Errors
    /// The misfit, a sentence.
    pub(crate) fn compile_key(self, key: &str) -> Result<LimitKey, String> {
        match self {
            CountKeyType::Var => LimitKey::variable(key),
            CountKeyType::VarCombination => LimitKey::combination(key),
        }
    }
}

/// The schema of the attributes `C` and those of Redis.
pub(crate) fn counted_schema<C: FieldSet>() -> Value {
    let mut schema = C::schema();
    add_to_schema(&mut schema, false);
    schema
}

/// Reads `config`: the attributes `C`, and the Redis that counts, if the policy that `policy_of` gives names
/// one.
///
/// # Errors
/// The misfit, a sentence with the name of the attribute.
pub(crate) fn read_counted<C: FieldSet>(
    config: &Value,
    policy_of: fn(&C) -> CountPolicy,
) -> Result<(C, Option<RedisSettings>), String> {
    let mut fields = AttributeFields::of(config.clone())?;
    let (own, redis) = (C::take(&mut fields)?, RedisFields::take(&mut fields)?);
    fields.finish(&[C::NAMES, RedisFields::NAMES])?;
    let settings = match policy_of(&own) {
        CountPolicy::Local => None,
        CountPolicy::Redis => Some(redis.single()?),
        CountPolicy::RedisCluster => Some(redis.cluster()?),
    };
    Ok((own, settings))
}

/// The reply to a refused request: `status`, and `{"error_msg": message}` where there is a message.
pub(crate) fn refusal_reply(status: u16, message: Option<&str>) -> BufferedReply {
    match message {
        Some(message) => BufferedReply::json(status, &json!({ "error_msg": message })),
        None => BufferedReply::status(status),
    }
}
