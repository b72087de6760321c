//! A compiled chain of layer 4: instances sorted once and split by phase, as [`crate::plugin::chain`] is for HTTP. It
//! knows the order of plugins and nothing of where they were written.

use std::sync::Arc;

use router::vars::Expression;

use crate::plugin::ordered::{ByPhase, Ordered};

use super::{StreamFlow, StreamPhase, StreamPlugin, StreamSession};

/// An instance with what `_meta` says of it (contract section 2.3).
pub struct StreamInstance {
    /// The kind's name.
    pub name: &'static str,
    /// The order: the kind's, or `_meta.priority`.
    pub priority: i64,
    /// The phases of its kind.
    pub phases: &'static [StreamPhase],
    /// `_meta.filter`: it runs only where this holds.
    pub filter: Option<Expression>,
    /// The compiled plugin.
    pub plugin: Arc<dyn StreamPlugin>,
}

impl StreamInstance {
    fn applies(&self, session: &StreamSession) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.verdict(session) != Ok(false))
    }
}

impl Drop for StreamInstance {
    fn drop(&mut self) {
        self.plugin.stop();
    }
}

/// The instances of one stream route, in running order and by phase.
#[derive(Default)]
pub struct StreamChain {
    instances: ByPhase<StreamInstance, { StreamPhase::COUNT }>,
}

impl Ordered for StreamInstance {
    fn priority(&self) -> i64 {
        self.priority
    }

    fn name(&self) -> &str {
        self.name
    }

    fn takes_part(&self, phase: usize) -> bool {
        self.phases.iter().any(|own| *own as usize == phase)
    }
}

impl StreamChain {
    /// Sorts `instances` and splits them by phase.
    pub fn new(instances: Vec<StreamInstance>) -> StreamChain {
        StreamChain { instances: ByPhase::new(instances) }
    }

    /// All instances in running order.
    pub fn instances(&self) -> &[StreamInstance] {
        self.instances.all()
    }

    /// Runs the preread phase until one instance refuses the session, which then says why.
    pub fn preread(&self, session: &mut StreamSession) -> StreamFlow {
        for instance in self.instances.of(StreamPhase::Preread as usize) {
            if instance.applies(session)
                && let StreamFlow::Reject(reason) = instance.plugin.preread(session)
            {
                session.rejected = Some(reason.clone());
                return StreamFlow::Reject(reason);
            }
        }
        StreamFlow::Continue
    }

    /// Runs the log phase, of refused sessions too.
    pub fn log(&self, session: &StreamSession) {
        for instance in
            self.instances.of(StreamPhase::Log as usize).filter(|instance| instance.applies(session))
        {
            instance.plugin.log(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    /// Writes down when it is called, and refuses where it is told to.
    struct Scripted {
        name: &'static str,
        rejects: bool,
        told: Arc<Mutex<Vec<String>>>,
    }

    impl StreamPlugin for Scripted {
        fn preread(&self, session: &mut StreamSession) -> StreamFlow {
            self.told.lock().unwrap().push(format!("{} preread {}", self.name, session.client_address));
            if self.rejects { StreamFlow::Reject("the script says so".into()) } else { StreamFlow::Continue }
        }

        fn log(&self, session: &StreamSession) {
            let (received, sent, took) = (session.received_bytes, session.sent_bytes, session.duration_ns());
            self.told.lock().unwrap().push(format!("{} log {received}/{sent} {took}", self.name));
        }

        fn stop(&self) {
            self.told.lock().unwrap().push(format!("{} stop", self.name));
        }
    }

    fn instance(
        told: &Arc<Mutex<Vec<String>>>,
        name: &'static str,
        priority: i64,
        phases: &'static [StreamPhase],
    ) -> StreamInstance {
        let plugin = Arc::new(Scripted { name, rejects: name == "refuser", told: told.clone() });
        StreamInstance { name, priority, phases, filter: None, plugin }
    }

    /// A session as a data plane would carry it: preread, bytes, end, log.
    fn serve(chain: &StreamChain, client: &str) -> StreamSession {
        let mut session =
            StreamSession::new(client.parse().unwrap(), "127.0.0.1:9100".parse().unwrap(), 1_000);
        if chain.preread(&mut session) == StreamFlow::Continue {
            session.received_bytes = 10;
            session.sent_bytes = 20;
        }
        session.ended_ns = 1_500;
        chain.log(&session);
        session
    }

    const BOTH: &[StreamPhase] = &[StreamPhase::Preread, StreamPhase::Log];

    #[test]
    fn a_session_passes_its_chain_in_order_and_is_logged() {
        let told = Arc::default();
        let mut filtered = instance(&told, "filtered", 5, BOTH);
        filtered.filter = Some(Expression::compile(&json!([["remote_addr", "==", "10.0.0.2"]])).unwrap());
        let chain = StreamChain::new(vec![
            instance(&told, "low", 1, BOTH),
            filtered,
            instance(&told, "logger", 3, &[StreamPhase::Log]),
            instance(&told, "high", 9, &[StreamPhase::Preread]),
        ]);
        let session = serve(&chain, "10.0.0.1:4000");
        assert_eq!(session.rejected, None);
        let expected =
            ["high preread 10.0.0.1", "low preread 10.0.0.1", "logger log 10/20 500", "low log 10/20 500"];
        assert_eq!(*told.lock().unwrap(), expected);
        told.lock().unwrap().clear();
        serve(&chain, "10.0.0.2:4000");
        assert!(told.lock().unwrap().contains(&"filtered preread 10.0.0.2".to_owned()));
        drop(chain);
        assert!(told.lock().unwrap().contains(&"low stop".to_owned()));
    }

    #[test]
    fn refused_session_stops_and_is_logged() {
        let told = Arc::default();
        let chain =
            StreamChain::new(vec![instance(&told, "after", 1, BOTH), instance(&told, "refuser", 2, BOTH)]);
        let session = serve(&chain, "[::ffff:10.0.0.1]:4000");
        assert_eq!(session.rejected.as_deref(), Some("the script says so"));
        assert_eq!(
            *told.lock().unwrap(),
            ["refuser preread 10.0.0.1", "refuser log 0/0 500", "after log 0/0 500"]
        );
    }
}
