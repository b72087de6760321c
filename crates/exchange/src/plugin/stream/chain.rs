//! A compiled chain of layer 4: instances sorted once and split by phase, as [`crate::plugin::chain`] is for
//! HTTP. It knows the order of plugins and nothing of where they were written.

use std::sync::Arc;

use router::vars::Expression;

use crate::plugin::ordered::{ByPhase, Ordered};

use super::{SessionEnd, StreamFlow, StreamPhase, StreamPlugin, StreamSession};

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

/// The outcome of the preread phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preread {
    /// The session goes on.
    Done,
    /// An instance needs more first bytes.
    More,
    /// This plugin has refused the session, which has the reason.
    Rejected(&'static str),
}

/// The instances of one stream route, in running order and by phase.
#[derive(Default)]
pub struct StreamChain {
    instances: ByPhase<StreamInstance, { StreamPhase::COUNT }>,
    uses_worker: bool,
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
        let uses_worker = instances.iter().any(|instance| instance.plugin.uses_worker());
        StreamChain { instances: ByPhase::new(instances), uses_worker }
    }

    /// Whether an instance needs the services of the worker.
    pub fn uses_worker(&self) -> bool {
        self.uses_worker
    }

    /// All instances in running order.
    pub fn instances(&self) -> &[StreamInstance] {
        self.instances.all()
    }

    /// Whether no instance takes part in the preread phase.
    pub fn reads_nothing(&self) -> bool {
        !self.instances.has(StreamPhase::Preread as usize)
    }

    /// Runs the preread phase from the instance number `position` on, until one refuses the session, or needs
    /// more first bytes: `position` is that instance then.
    pub async fn preread(&self, session: &mut StreamSession, position: &mut usize) -> Preread {
        while let Some(instance) = self.instances.of(StreamPhase::Preread as usize).nth(*position) {
            if instance.applies(session) {
                let refused = {
                    let mut flow = instance.plugin.preread(session);
                    while let StreamFlow::Wait(decision) = flow {
                        flow = decision.await;
                    }
                    match flow {
                        StreamFlow::Continue | StreamFlow::Wait(_) => None,
                        StreamFlow::More => return Preread::More,
                        StreamFlow::Reject(reason) => Some((SessionEnd::Rejected, reason)),
                        StreamFlow::Failed(reason) => Some((SessionEnd::PluginFailed, reason)),
                    }
                };
                if let Some((end, reason)) = refused {
                    (session.end, session.reason) = (Some(end), Some(reason));
                    return Preread::Rejected(instance.name);
                }
            }
            *position += 1;
        }
        Preread::Done
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
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::*;

    /// Writes down when it is called, and decides by its name.
    struct Scripted {
        name: &'static str,
        lines: Arc<Mutex<Vec<String>>>,
    }

    impl StreamPlugin for Scripted {
        fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
            self.lines.lock().unwrap().push(format!("{} preread {}", self.name, session.client_address));
            match self.name {
                "refuser" => StreamFlow::Reject("the script says so".into()),
                "waiter" => {
                    StreamFlow::Wait(Box::pin(async { StreamFlow::Reject("it took too long".into()) }))
                }
                "broken" => StreamFlow::Failed("it is broken".into()),
                "reader" if session.first_bytes.len() < 3 => StreamFlow::More,
                _ => StreamFlow::Continue,
            }
        }

        fn log(&self, session: &StreamSession) {
            let (received, sent, took) = (session.received_bytes, session.sent_bytes, session.duration_ns());
            self.lines.lock().unwrap().push(format!("{} log {received}/{sent} {took}", self.name));
        }

        fn stop(&self) {
            self.lines.lock().unwrap().push(format!("{} stop", self.name));
        }
    }

    fn instance(
        lines: &Arc<Mutex<Vec<String>>>,
        name: &'static str,
        priority: i64,
        phases: &'static [StreamPhase],
    ) -> StreamInstance {
        let plugin = Arc::new(Scripted { name, lines: lines.clone() });
        StreamInstance { name, priority, phases, filter: None, plugin }
    }

    /// No instance of these tests waits for anything.
    fn preread(chain: &StreamChain, session: &mut StreamSession, position: &mut usize) -> Preread {
        let mut running = std::pin::pin!(chain.preread(session, position));
        match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("it waits"),
        }
    }

    /// A session as a data plane would carry it: preread, bytes, end, log.
    fn serve(chain: &StreamChain, client: &str) -> StreamSession {
        let mut session =
            StreamSession::new(client.parse().unwrap(), "127.0.0.1:9100".parse().unwrap(), 1_000);
        let mut position = 0;
        while preread(chain, &mut session, &mut position) == Preread::More {
            session.first_bytes.push(b'x');
        }
        if session.end.is_none() {
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
        let lines = Arc::default();
        let mut filtered = instance(&lines, "filtered", 5, BOTH);
        filtered.filter = Some(Expression::compile(&json!([["remote_addr", "==", "10.0.0.2"]])).unwrap());
        let chain = StreamChain::new(vec![
            instance(&lines, "low", 1, BOTH),
            filtered,
            instance(&lines, "logger", 3, &[StreamPhase::Log]),
            instance(&lines, "high", 9, &[StreamPhase::Preread]),
        ]);
        let session = serve(&chain, "10.0.0.1:4000");
        assert_eq!(session.end, None);
        let expected =
            ["high preread 10.0.0.1", "low preread 10.0.0.1", "logger log 10/20 500", "low log 10/20 500"];
        assert_eq!(*lines.lock().unwrap(), expected);
        lines.lock().unwrap().clear();
        serve(&chain, "10.0.0.2:4000");
        assert!(lines.lock().unwrap().contains(&"filtered preread 10.0.0.2".to_owned()));
        drop(chain);
        assert!(lines.lock().unwrap().contains(&"low stop".to_owned()));
    }

    #[test]
    fn refused_session_stops_and_is_logged() {
        let lines = Arc::default();
        let chain =
            StreamChain::new(vec![instance(&lines, "after", 1, BOTH), instance(&lines, "refuser", 2, BOTH)]);
        let session = serve(&chain, "[::ffff:10.0.0.1]:4000");
        assert_eq!((session.end, session.status()), (Some(SessionEnd::Rejected), 403));
        assert_eq!(session.reason.as_deref(), Some("the script says so"));
        assert_eq!(
            *lines.lock().unwrap(),
            ["refuser preread 10.0.0.1", "refuser log 0/0 500", "after log 0/0 500"]
        );
    }

    #[test]
    fn plugin_gets_more_bytes_and_is_called_again() {
        let lines = Arc::default();
        let chain =
            StreamChain::new(vec![instance(&lines, "first", 3, BOTH), instance(&lines, "reader", 2, BOTH)]);
        let session = serve(&chain, "10.0.0.1:4000");
        assert_eq!((session.first_bytes.len(), session.end), (3, None));
        let calls = |name: &str| {
            lines.lock().unwrap().iter().filter(|line| line.starts_with(&format!("{name} preread"))).count()
        };
        assert_eq!((calls("first"), calls("reader")), (1, 4), "those before it are not called again");
    }

    #[test]
    fn awaited_decision_refuses_a_session() {
        let lines = Arc::default();
        let chain = StreamChain::new(vec![instance(&lines, "waiter", 1, BOTH)]);
        assert_eq!(serve(&chain, "10.0.0.1:4000").reason.as_deref(), Some("it took too long"));
    }

    #[test]
    fn failed_plugin_closes_the_session() {
        let lines = Arc::default();
        let chain = StreamChain::new(vec![instance(&lines, "broken", 1, BOTH)]);
        let session = serve(&chain, "10.0.0.1:4000");
        assert_eq!((session.end, session.status()), (Some(SessionEnd::PluginFailed), 500));
        assert_eq!(session.reason.as_deref(), Some("it is broken"));
    }
}
