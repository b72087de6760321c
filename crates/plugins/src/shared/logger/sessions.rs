//! Log plugins on stream routes: the same fields and the same queue, with an entry for each session that has
//! ended.

use std::sync::Arc;

use exchange::plugin::Build;
use exchange::plugin::stream::{StreamKind, StreamPhase, StreamPlugin, StreamSession};
use serde_json::Value;

use super::{LogPlugin, Logger, logger};

/// The layer-4 part of the log plugin `P`.
pub(crate) const fn build_log_stream_kind<P: LogPlugin>() -> StreamKind {
    StreamKind { phases: &[StreamPhase::Log], build: build::<P> }
}

fn build<P: LogPlugin>(build: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
    let logger = logger::<P>(build, config)?;
    logger.plugin.check_sessions()?;
    Ok(Arc::new(logger))
}

impl<P: LogPlugin> StreamPlugin for Logger<P> {
    fn log(&self, session: &StreamSession) {
        if let Ok(queue) = &*self.queue {
            // The queue counts and reports a dropped entry.
            let entry = self.plugin.session_entry(session, &self.contents);
            queue.push_from(session.local.ip(), entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use exchange::plugin::PluginKind;
    use exchange::plugin::state::StateRegistry;
    use exchange::plugin::stream::SessionEnd;
    use serde_json::json;

    use super::*;

    fn plugin(kind: &PluginKind, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
        let (states, services) = (StateRegistry::default(), exchange::testing::services());
        let build = exchange::testing::build("/stream_routes/1", None, &states, &services);
        let plugin = (kind.stream.as_ref().unwrap().build)(&build, config);
        // The services own the thread that delivers batches.
        std::mem::forget(services);
        plugin
    }

    fn session() -> StreamSession {
        let (peer, local) = ("10.0.0.1:4000".parse().unwrap(), "127.0.0.1:9100".parse().unwrap());
        let mut session = StreamSession::new(peer, local, 1);
        session.route_id = Some("1".into());
        session.end = Some(SessionEnd::Closed);
        session
    }

    /// The datagram that the plugin sends for a session.
    fn sent(kind: &PluginKind, mut config: Value) -> String {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        config["host"] = "127.0.0.1".into();
        config["port"] = server.local_addr().unwrap().port().into();
        config["batch_max_size"] = 1.into();
        plugin(kind, &config).unwrap().log(&session());
        let mut room = [0; 4_096];
        let length = server.recv(&mut room).unwrap();
        String::from_utf8(room[..length].to_vec()).unwrap()
    }

    #[test]
    fn ended_session_reaches_a_log_server() {
        let format = json!({"ip": "$remote_addr", "end": "$weir_cause"});
        let expected = r#"{"ip":"10.0.0.1","end":"closed","route_id":"1"}"#;
        assert_eq!(sent(&crate::udp_logger::KIND, json!({"log_format": format})), expected);
        let line = sent(&crate::syslog::KIND, json!({"sock_type": "udp", "log_format": format}));
        let pid = std::process::id();
        assert!(line.ends_with(&format!("Z - apisix {pid} - - {expected}")), "{line}");
    }

    #[test]
    fn kafka_logger_has_no_origin_of_a_session() {
        let config = |form: &str| json!({"brokers": [{"host": "127.0.0.1", "port": 1}], "kafka_topic": "t", "meta_format": form});
        assert_eq!(plugin(&crate::kafka_logger::KIND, &config("default")).map(drop), Ok(()));
        let refused = plugin(&crate::kafka_logger::KIND, &config("origin")).map(drop).unwrap_err();
        assert!(refused.contains("meta_format"), "{refused}");
    }
}
