//! The rules that delay commands (`faults`): by command, and by one of its keys. It waits for nothing.

use std::collections::BTreeMap;

use exchange::plugin::PHASE_WAIT_MS;
use serde::Deserialize;
use serde_json::Value;

use super::commands::{Keys, keys_of};

/// Most rules, and most commands of one: all are compiled into one table.
const RULES_MAX: usize = 1_000;
/// Longest key of a rule, in bytes. Longer keys of commands match none, so that no more of them is kept.
pub(super) const KEY_MAX_BYTES: usize = 1_024;
/// Longest delay: that of a phase.
const DELAY_MAX_S: f64 = (PHASE_WAIT_MS - 1_000) as f64 / 1_000.0;

/// The rules as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RedisFaultsConfig {
    faults: Option<Vec<WrittenFault>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFault {
    commands: Vec<String>,
    key: Option<String>,
    delay: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Faults {
    by_command: BTreeMap<Box<str>, CommandFaults>,
}

/// The rules of one command, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct CommandFaults {
    keys: Option<Keys>,
    by_key: BTreeMap<Box<[u8]>, u64>,
    /// For commands of which no key has a rule.
    always_ms: Option<u64>,
}

impl Faults {
    /// Compiles the configuration of a stream route. Of two rules for the same command and key the later one
    /// counts.
    ///
    /// # Errors
    /// The misfit, with the place of the rule.
    pub(super) fn compile(conf: Option<&Value>) -> Result<Faults, String> {
        let Some(conf) = conf else { return Ok(Faults::default()) };
        let written = RedisFaultsConfig::deserialize(conf).map_err(|error| error.to_string())?;
        let mut faults = Faults::default();
        let Some(rules) = written.faults else { return Ok(faults) };
        if rules.is_empty() || rules.len() > RULES_MAX {
            return Err(format!("faults: 1 to {RULES_MAX} rules"));
        }
        for (index, rule) in rules.iter().enumerate() {
            let fault = |reason: String| format!("faults[{index}]: {reason}");
            if rule.commands.is_empty() || rule.commands.len() > RULES_MAX {
                return Err(fault(format!("commands: 1 to {RULES_MAX} names")));
            }
            if !(0.0..=DELAY_MAX_S).contains(&rule.delay) {
                return Err(fault(format!("delay: 0 to {DELAY_MAX_S} seconds")));
            }
            let key = rule.key.as_deref().map(str::as_bytes);
            if key.is_some_and(|key| key.is_empty() || key.len() > KEY_MAX_BYTES) {
                return Err(fault(format!("key: 1 to {KEY_MAX_BYTES} bytes")));
            }
            let delay_ms = (rule.delay * 1_000.0).round() as u64;
            for command in &rule.commands {
                let name = command.to_ascii_lowercase();
                let keys = keys_of(&name);
                let of_command = faults.by_command.entry(name.into()).or_default();
                of_command.keys = Some(keys);
                match key {
                    // As in APISIX, the key of a rule has no effect for a command without keys.
                    Some(key) if keys != Keys::None => drop(of_command.by_key.insert(key.into(), delay_ms)),
                    _ => of_command.always_ms = Some(delay_ms),
                }
            }
        }
        Ok(faults)
    }

    /// The rules of the command with this name in lower case.
    pub(super) fn of(&self, command: &str) -> Option<&CommandFaults> {
        self.by_command.get(command)
    }
}

impl CommandFaults {
    /// The delay for an argument, if it is a key that has one.
    pub(super) fn of_argument(&self, index: usize, count: usize, argument: &[u8]) -> Option<u64> {
        let is_key = !self.by_key.is_empty() && self.keys.is_some_and(|keys| keys.contains(index, count));
        if is_key { self.by_key.get(argument).copied() } else { None }
    }

    /// The delay for a command without such a key.
    pub(super) fn otherwise(&self) -> u64 {
        self.always_ms.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_counts_more_than_the_command_alone() {
        let conf = json!({"faults": [
            {"delay": 5, "key": "x", "commands": ["GET", "mget"]},
            {"delay": 0.25, "commands": ["get", "PING"]},
            {"delay": 1, "key": "y", "commands": ["ping"]},
        ]});
        let faults = Faults::compile(Some(&conf)).unwrap();
        let get = faults.of("get").unwrap();
        assert_eq!((get.of_argument(1, 2, b"x"), get.of_argument(1, 2, b"y")), (Some(5_000), None));
        assert_eq!(get.otherwise(), 250);
        let mget = faults.of("mget").unwrap();
        assert_eq!((mget.of_argument(2, 3, b"x"), mget.otherwise()), (Some(5_000), 0));
        assert_eq!(faults.of("ping").unwrap().otherwise(), 1_000, "the later rule counts");
        assert!(faults.of("set").is_none());
    }

    #[test]
    fn faulty_rules_are_refused_with_their_place() {
        for (conf, reason) in [
            (json!({"faults": []}), "faults: 1 to"),
            (json!({"faults": [{"commands": [], "delay": 1}]}), "faults[0]: commands"),
            (json!({"faults": [{"commands": ["get"]}]}), "missing field `delay`"),
            (json!({"faults": [{"delay": 1}]}), "missing field `commands`"),
            (json!({"faults": [{"commands": ["get"], "delay": -1}]}), "faults[0]: delay"),
            (json!({"faults": [{"commands": ["get"], "delay": 1e9}]}), "faults[0]: delay"),
            (json!({"faults": [{"commands": ["get"], "delay": 1, "key": ""}]}), "faults[0]: key"),
            (json!({"fault": []}), "unknown field"),
        ] {
            let message = Faults::compile(Some(&conf)).unwrap_err();
            assert!(message.contains(reason), "{message}");
        }
        assert!(Faults::compile(None).unwrap().of("get").is_none());
    }
}
