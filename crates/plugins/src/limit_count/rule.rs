//! One compiled limit of a configuration: the number of requests, the window and the key. It counts nothing
//! itself.

use super::{LimitCountConfig, LimitCountKeyType, LimitCountRuleConfig};
use crate::shared::fields::is_token;
use crate::shared::limits::amount::Amount;
use crate::shared::limits::key::LimitKey;

/// A limit.
pub(super) struct LimitCountRule {
    /// Requests in one window.
    pub(super) count: Amount,
    /// Its length in seconds.
    pub(super) time_window: Amount,
    /// The key; requests with the same value are counted together.
    pub(super) key: LimitKey,
    /// The response fields for limit, remaining, reset.
    pub(super) names: [Box<str>; 3],
}

/// Compiles the limits of a configuration; `names` are those of the response fields.
///
/// # Errors
/// The fault of one of them.
pub(super) fn compile_count_rules(
    config: &LimitCountConfig,
    names: [String; 3],
) -> Result<Box<[LimitCountRule]>, String> {
    let Some(rules) = &config.rules else {
        let (Some(count), Some(time_window)) = (&config.count, &config.time_window) else {
            return Err("count and time_window are needed".to_owned());
        };
        return Ok(Box::new([LimitCountRule {
            count: count.compile("count")?,
            time_window: time_window.compile("time_window")?,
            key: key(config)?,
            names: names.map(Into::into),
        }]));
    };
    let compile = |(index, rule): (usize, &LimitCountRuleConfig)| {
        let prefix = rule.header_prefix.clone().unwrap_or_else(|| (index + 1).to_string());
        if !is_token(&prefix) {
            return Err(format!("header_prefix `{prefix}` cannot stand in a field's name"));
        }
        Ok(LimitCountRule {
            count: rule.count.compile("count")?,
            time_window: rule.time_window.compile("time_window")?,
            key: LimitKey::of_rule(&rule.key)?,
            names: names
                .clone()
                .map(|name| name.replacen("RateLimit-", &format!("{prefix}-RateLimit-"), 1).into()),
        })
    };
    rules.iter().enumerate().map(compile).collect()
}

fn key(config: &LimitCountConfig) -> Result<LimitKey, String> {
    match config.key_type {
        LimitCountKeyType::Constant => Ok(LimitKey::Constant(config.key.as_bytes().into())),
        LimitCountKeyType::Var => LimitKey::variable(&config.key),
        LimitCountKeyType::VarCombination => LimitKey::combination(&config.key),
    }
}
