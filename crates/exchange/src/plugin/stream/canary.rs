//! Two versions of an extension behind one instance of layer 4: each session is served by one of them from
//! its beginning to its end, as [`crate::plugin::canary`] does it for requests. It knows no language.

use super::{StreamFlow, StreamPhase, StreamPlugin, StreamSession};
use crate::plugin::canary::Canary;

/// Two versions of a plugin of layer 4.
pub type CanaryStreamPlugin = Canary<dyn StreamPlugin, StreamPhase>;

/// The choice that a session keeps.
struct Drawn {
    choice: u32,
    is_canary: bool,
}

impl CanaryStreamPlugin {
    fn drawn(&self, session: &StreamSession) -> Option<bool> {
        let drawn = session.held.iter().filter_map(|held| held.downcast_ref::<Drawn>());
        drawn.filter(|drawn| drawn.choice == self.share.choice).map(|drawn| drawn.is_canary).next()
    }
}

impl StreamPlugin for CanaryStreamPlugin {
    fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
        let is_canary = self.drawn(session).unwrap_or_else(|| {
            let is_canary = self.share.draws(session);
            session.hold(Drawn { choice: self.share.choice, is_canary });
            is_canary
        });
        match self.version(is_canary, &[StreamPhase::Preread]) {
            Some(plugin) => plugin.preread(session),
            None => StreamFlow::Continue,
        }
    }

    /// A session that another plugin has refused before has drawn no version: the active one logs it.
    fn log(&self, session: &StreamSession) {
        let is_canary = self.drawn(session).unwrap_or(false);
        if let Some(plugin) = self.version(is_canary, &[StreamPhase::Log]) {
            plugin.log(session);
        }
    }

    fn uses_worker(&self) -> bool {
        self.both().iter().any(|plugin| plugin.uses_worker())
    }

    fn start(&self) {
        self.both().into_iter().for_each(|plugin| plugin.start());
    }

    fn stop(&self) {
        self.both().into_iter().for_each(|plugin| plugin.stop());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use router::vars::Expression;
    use serde_json::json;

    use super::*;
    use crate::plugin::canary::{CanaryShare, CanaryVersion};

    /// Refuses with its name, and counts what it logs.
    #[derive(Default)]
    struct Named(&'static str, AtomicUsize);

    impl StreamPlugin for Named {
        fn preread<'a>(&'a self, _: &'a mut StreamSession) -> StreamFlow<'a> {
            StreamFlow::Reject(self.0.into())
        }

        fn log(&self, _: &StreamSession) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn session_keeps_the_version_that_it_drew() {
        let both: &[StreamPhase] = &[StreamPhase::Preread, StreamPhase::Log];
        let [active, canary] = ["active", "canary"].map(|name| Arc::new(Named(name, AtomicUsize::new(0))));
        let version = |plugin: &Arc<Named>| CanaryVersion {
            plugin: plugin.clone() as Arc<dyn StreamPlugin>,
            phases: both,
        };
        let vars = Some(Expression::compile(&json!([["remote_addr", "==", "10.0.0.2"]])).unwrap());
        let share = CanaryShare { percent: 100.0, vars, choice: 7 };
        let plugin = CanaryStreamPlugin::new(version(&active), version(&canary), share);
        for (client, expected) in [("10.0.0.1:4000", "active"), ("10.0.0.2:4000", "canary")] {
            let local = "127.0.0.1:9100".parse().unwrap();
            let mut session = StreamSession::new(client.parse().unwrap(), local, 1);
            for _ in 0..2 {
                let StreamFlow::Reject(name) = plugin.preread(&mut session) else { panic!("it goes on") };
                assert_eq!(name, expected);
            }
            assert_eq!(session.held.len(), 1);
            plugin.log(&session);
        }
        assert_eq!([&active, &canary].map(|named| named.1.load(Ordering::Relaxed)), [1, 1]);
    }
}
