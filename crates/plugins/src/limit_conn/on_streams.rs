//! `limit-conn` on stream routes: a session takes its places before it has a node, and they are given back
//! when it ends, however it ends. Keys, numbers and waits are those of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use exchange::plugin::Build;
use exchange::plugin::stream::{StreamFlow, StreamPlugin, StreamSession};
use serde_json::Value;

use super::LimitConnConfig;
use super::counts::LocalCounts;
use super::rule::{LimitConnRule, compile_conn_rules};
use crate::shared::config;
use crate::shared::limits::delay;
use crate::shared::limits::store::{CountPolicy, read_counted};

/// The compiled plugin.
struct SessionLimit {
    rules: Box<[LimitConnRule]>,
    /// Whether a rule without numbers is left out instead of failing the session.
    skips_rules: bool,
    unit_delay_ms: f64,
    /// Whether a session passes for which no limit has a number.
    lets_uncounted_pass: bool,
    counts: Arc<LocalCounts>,
    rejected: Arc<AtomicU64>,
}

/// Refuses what stream routes cannot have.
pub(super) fn check(config: &Value) -> Result<(), String> {
    parsed(config).map(drop)
}

/// The configuration of a stream route: the schema that APISIX has for them knows no `policy`, and counts in
/// this process.
fn parsed(config: &Value) -> Result<LimitConnConfig, String> {
    let (parsed, _) = read_counted(config, |own: &LimitConnConfig| own.policy)?;
    if parsed.policy != CountPolicy::Local {
        return Err("policy: sessions are counted by this process alone (`local`)".to_owned());
    }
    Ok(parsed)
}

/// Compiles a configuration of a stream route.
///
/// # Errors
/// Sessions are not counted in Redis.
pub(super) fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
    let parsed = parsed(config)?;
    let identity = config::identity(config);
    let key = format!("limit-conn/{}/{identity}", build.owner);
    Ok(Arc::new(SessionLimit {
        rules: compile_conn_rules(&parsed)?,
        skips_rules: parsed.rules.is_some(),
        unit_delay_ms: parsed.default_conn_delay * 1_000.0,
        lets_uncounted_pass: parsed.allow_degradation,
        counts: build.states.keep(&key, LocalCounts::default),
        rejected: build.services.event_counter("limit-conn", "rejected_session"),
    }))
}

impl SessionLimit {
    /// Takes a place under each rule that applies; gives the wait in milliseconds, or the reason of a
    /// refusal.
    fn enter(&self, session: &mut StreamSession) -> Result<u64, &'static str> {
        let (mut delay_ms, mut applies) = (0_u64, false);
        for (index, rule) in self.rules.iter().enumerate() {
            let (Some(conn), Some(burst)) = (rule.conn.of(session), rule.burst.of(session)) else {
                if self.skips_rules {
                    continue;
                }
                break;
            };
            let mut key = Vec::new();
            if !rule.key.write_of(index, session, session.client_address, &mut key) {
                continue;
            }
            applies = true;
            let Some((place, number)) = self.counts.enter(&key, conn.saturating_add(burst)) else {
                self.rejected.fetch_add(1, Ordering::Relaxed);
                return Err("too many sessions at the same time");
            };
            // A cast of a float stops at the largest number.
            delay_ms = delay_ms.saturating_add((self.unit_delay_ms * ((number - 1) / conn) as f64) as u64);
            session.hold(place);
        }
        if applies || self.lets_uncounted_pass {
            Ok(delay_ms)
        } else {
            Err("no limit of sessions has a number and a key")
        }
    }
}

impl StreamPlugin for SessionLimit {
    fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
        match self.enter(session) {
            Ok(0) => StreamFlow::Continue,
            Ok(delay_ms) => StreamFlow::Wait(Box::pin(async move {
                delay::wait(delay_ms).await;
                StreamFlow::Continue
            })),
            Err(reason) => StreamFlow::Reject(reason.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use exchange::plugin::state::StateRegistry;
    use serde_json::json;

    use super::*;
    use crate::limit_conn::KIND;

    fn plugin(config: Value) -> Result<Arc<dyn StreamPlugin>, String> {
        let (states, services) = (StateRegistry::default(), exchange::testing::services());
        let build = exchange::testing::build("/stream_routes/1", None, &states, &services);
        (KIND.stream.as_ref().unwrap().build)(&build, &config)
    }

    fn session(client: &str) -> StreamSession {
        StreamSession::new(client.parse().unwrap(), "127.0.0.1:9100".parse().unwrap(), 1)
    }

    /// How a session goes on: `Ok` with whether it waits, or the reason of its refusal.
    fn enter(plugin: &dyn StreamPlugin, session: &mut StreamSession) -> Result<bool, String> {
        match plugin.preread(session) {
            StreamFlow::Continue => Ok(false),
            StreamFlow::Wait(_) => Ok(true),
            StreamFlow::Reject(reason) => Err(reason.into_owned()),
            StreamFlow::More | StreamFlow::Failed(_) => panic!("it reads no bytes and cannot fail"),
        }
    }

    #[test]
    fn sessions_wait_then_are_refused_until_one_ends() {
        let config = json!({"conn": 1, "burst": 1, "default_conn_delay": 0.1, "key": "remote_addr"});
        let plugin = plugin(config).unwrap();
        let busy = || Err("too many sessions at the same time".to_owned());
        let mut sessions: Vec<_> = (0..3).map(|_| session("10.0.0.1:4000")).collect();
        let got: Vec<_> = sessions.iter_mut().map(|session| enter(&*plugin, session)).collect();
        assert_eq!(got, [Ok(false), Ok(true), busy()]);
        assert_eq!(enter(&*plugin, &mut session("10.0.0.2:4000")), Ok(false), "another client");
        sessions.remove(0);
        let mut late = session("10.0.0.1:4001");
        assert_eq!(enter(&*plugin, &mut late), Ok(true));
        assert_eq!(enter(&*plugin, &mut session("10.0.0.1:4002")), busy());
        drop((late, sessions));
        assert_eq!(enter(&*plugin, &mut session("10.0.0.1:4003")), Ok(false));
    }

    #[test]
    fn rules_count_by_variables_of_sessions() {
        let rules = json!([{"conn": 1, "burst": 0, "key": "${ssl_server_name}"}]);
        let plugin = plugin(json!({"default_conn_delay": 1, "rules": rules})).unwrap();
        let mut first = session("10.0.0.1:4000");
        first.sni = Some("a.example".into());
        let mut second = first.clone();
        assert_eq!(enter(&*plugin, &mut first), Ok(false));
        assert!(enter(&*plugin, &mut second).unwrap_err().contains("too many"));
        assert!(enter(&*plugin, &mut session("10.0.0.1:4001")).unwrap_err().contains("no limit"));
    }

    #[test]
    fn redis_is_refused_for_sessions() {
        let mut config = json!({"conn": 1, "burst": 0, "default_conn_delay": 1, "key": "remote_addr"});
        config["policy"] = "redis".into();
        config["redis_host"] = "127.0.0.1".into();
        assert!((KIND.check_stream)(&config).unwrap_err().contains("by this process alone"));
        assert!((KIND.check)(&config).is_ok(), "requests are counted in Redis");
        assert!(plugin(config).err().unwrap().contains("by this process alone"));
    }
}
