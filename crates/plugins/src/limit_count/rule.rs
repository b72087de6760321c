//! One compiled limit of a configuration: the number of requests, the window and the key. It counts nothing itself.

use std::net::IpAddr;

use exchange::Exchange;
use router::vars::{BuiltinVariable, Template, to_number};
use serde::Deserialize;

use super::{Config, KeyType, WrittenRule};
use crate::shared::fields::is_token;

/// A limit.
pub(super) struct Rule {
    /// Requests in one window.
    pub(super) count: Amount,
    /// Its length in seconds.
    pub(super) time_window: Amount,
    /// The key; requests with the same value are counted together.
    pub(super) key: Key,
    /// The response fields for limit, remaining, reset.
    pub(super) names: [Box<str>; 3],
}

/// A number from 1 up.
pub(super) enum Amount {
    Fixed(u64),
    Rendered(Template),
}

/// The key that a request is counted under.
pub(super) enum Key {
    ClientAddress,
    Constant,
    /// Replaced by the client's address if no variable in it has a value.
    Rendered(Template),
    /// The key of one of several rules: the rule does not apply if no variable in it has a value.
    RenderedOrSkip(Template),
}

/// A number as written.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum WrittenAmount {
    Number(f64),
    Text(String),
}

/// Compiles the limits of a configuration; `names` are those of the response fields.
///
/// # Errors
/// The fault of one of them.
pub(super) fn rules_of(config: &Config, names: [String; 3]) -> Result<Box<[Rule]>, String> {
    let Some(rules) = &config.rules else {
        let (Some(count), Some(time_window)) = (&config.count, &config.time_window) else {
            return Err("count and time_window are needed".to_owned());
        };
        return Ok(Box::new([Rule {
            count: amount("count", count)?,
            time_window: amount("time_window", time_window)?,
            key: key(config)?,
            names: names.map(Into::into),
        }]));
    };
    let compile = |(index, rule): (usize, &WrittenRule)| {
        let prefix = rule.header_prefix.clone().unwrap_or_else(|| (index + 1).to_string());
        if !is_token(&prefix) {
            return Err(format!("header_prefix `{prefix}` cannot stand in a field's name"));
        }
        Ok(Rule {
            count: amount("count", &rule.count)?,
            time_window: amount("time_window", &rule.time_window)?,
            key: Key::RenderedOrSkip(template("key", &rule.key)?),
            names: names
                .clone()
                .map(|name| name.replacen("RateLimit-", &format!("{prefix}-RateLimit-"), 1).into()),
        })
    };
    rules.iter().enumerate().map(compile).collect()
}

fn key(config: &Config) -> Result<Key, String> {
    match config.key_type {
        KeyType::Constant => Ok(Key::Constant),
        KeyType::Var if config.key == BuiltinVariable::RemoteAddr.name() => Ok(Key::ClientAddress),
        KeyType::Var => template("key", &format!("${{{}}}", config.key)).map(Key::Rendered),
        KeyType::VarCombination => template("key", &config.key).map(Key::Rendered),
    }
}

fn amount(attribute: &str, written: &WrittenAmount) -> Result<Amount, String> {
    match written {
        WrittenAmount::Number(number) => whole(*number)
            .map(Amount::Fixed)
            .ok_or_else(|| format!("{attribute} must be a whole number from 1 to {NUMBER_MAX}")),
        WrittenAmount::Text(text) if !text.contains('$') => match text.parse().ok().and_then(whole) {
            Some(number) => Ok(Amount::Fixed(number)),
            None => Err(format!(
                "{attribute} must be a whole number from 1 to {NUMBER_MAX}, or a text with variables"
            )),
        },
        WrittenAmount::Text(text) => template(attribute, text).map(Amount::Rendered),
    }
}

fn template(attribute: &str, text: &str) -> Result<Template, String> {
    Template::compile(text).map_err(|error| format!("{attribute}: {error}"))
}

fn whole(number: f64) -> Option<u64> {
    (number >= 1.0 && number <= NUMBER_MAX as f64 && number.fract() == 0.0).then_some(number as u64)
}

impl Amount {
    /// The number for this exchange; `None` if the text yields no number.
    pub(super) fn of(&self, exchange: &Exchange) -> Option<u64> {
        match self {
            Amount::Fixed(number) => Some(*number),
            Amount::Rendered(template) => {
                let mut text = Vec::new();
                template.render(exchange, &mut text);
                whole(to_number(&text)?)
            }
        }
    }
}

/// The address as a key, tagged so that it is no prefix of another key.
pub(super) fn octets(address: IpAddr, room: &mut [u8; 17]) -> &[u8] {
    match address {
        IpAddr::V4(address) => {
            room[1..5].copy_from_slice(&address.octets());
            &room[..5]
        }
        IpAddr::V6(address) => {
            room[1..].copy_from_slice(&address.octets());
            room
        }
    }
}

/// The largest limit and window: numbers up to here are exact in every JSON reader (2^53 - 1).
const NUMBER_MAX: u64 = 9_007_199_254_740_991;
