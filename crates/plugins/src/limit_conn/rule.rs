//! One compiled limit of a configuration: the numbers of requests and the key. It counts nothing itself.

use super::{LimitConnConfig, LimitConnRuleConfig};
use crate::shared::limits::amount::Amount;
use crate::shared::limits::key::LimitKey;

/// A limit.
pub(super) struct LimitConnRule {
    /// Requests in progress without delay.
    pub(super) conn: Amount,
    /// Requests above that which are delayed.
    pub(super) burst: Amount,
    /// The key; requests with the same value are counted together.
    pub(super) key: LimitKey,
}

/// Compiles the limits of a configuration.
///
/// # Errors
/// The fault of one of them.
pub(super) fn compile_conn_rules(config: &LimitConnConfig) -> Result<Box<[LimitConnRule]>, String> {
    let Some(rules) = &config.rules else {
        let (Some(conn), Some(burst), Some(key)) = (&config.conn, &config.burst, &config.key) else {
            return Err("conn, burst and key are needed".to_owned());
        };
        let key = config.key_type.compile_key(key)?;
        return Ok(Box::new([LimitConnRule {
            conn: conn.compile("conn")?,
            burst: burst.compile("burst")?,
            key,
        }]));
    };
    let compile = |rule: &LimitConnRuleConfig| {
        Ok(LimitConnRule {
            conn: rule.conn.compile("conn")?,
            burst: rule.burst.compile("burst")?,
            key: LimitKey::of_rule(&rule.key)?,
        })
    };
    rules.iter().map(compile).collect()
}
