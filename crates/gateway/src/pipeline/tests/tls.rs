//! TLS that plugins reach from a configuration: a byte stream to a server of another protocol, and an
//! upstream in the plugin's configuration with a certificate object that changes.

use super::control::Control;
use super::*;
use exchange::plugin::outbound::{OutboundError, OutboundTls, StreamDestination};
use exchange::plugin::{BufferedReply as PluginReply, PhaseDecision, UpstreamRef};
use testkit::{Step, TlsFront, self_signed};

/// Asks a line-based server whether the request may pass, as Redis answers `PING`.
struct Pinger {
    server: StreamDestination,
}

impl Pinger {
    async fn ask(&self) -> Result<Vec<u8>, OutboundError> {
        let mut stream = self.server.connect(TIMEOUT_MS).await?;
        let broken = |error: io::Error| self.server.broken(&error);
        stream.write_all(b"PING\r\n", TIMEOUT_MS).await.map_err(broken)?;
        let (mut answer, mut room) = (Vec::new(), [0; 3]);
        while !answer.ends_with(b"\r\n") {
            let count = stream.read(&mut room, TIMEOUT_MS).await.map_err(broken)?;
            if count == 0 {
                return Err(self.server.broken(&io::ErrorKind::UnexpectedEof.into()));
            }
            answer.extend_from_slice(&room[..count]);
        }
        stream.shutdown(1_000).await.map_err(broken)?;
        Ok(answer)
    }
}

/// A server on this machine answers much sooner, unless the test waits for the timeout.
const TIMEOUT_MS: u64 = 2_000;

impl Plugin for Pinger {
    fn access<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
        Flow::Wait(Box::pin(async {
            let reply = match self.ask().await {
                Ok(answer) => PluginReply::status(200).with_body(answer),
                Err(error) => PluginReply::status(503).with_body(error.to_string().into_bytes()),
            };
            PhaseDecision::Reply(Box::new(reply))
        }))
    }
}

pub(super) const PINGER: PluginKind = PluginKind {
    name: "pinger",
    phases: &[PluginPhase::Access],
    build: |build, config| {
        let tls = config["tls"].as_bool().map(OutboundTls::verifying);
        let place = config["server"].as_str().unwrap_or_default();
        let server = build.services.stream_destination(place, tls.as_ref())?;
        build.services.resolver().settle();
        Ok(Arc::new(Pinger { server }))
    },
    ..TRAILER_MARK
};

#[test]
fn plugin_speaks_another_protocol_over_a_stream() {
    let server = Origin::on_accept(|_| {
        Reply::new().then(Step::ReadBytes(6)).send("+PO").send("NG\r\n").then(Step::AwaitClose).close()
    });
    let front = TlsFront::to(server.address(), &self_signed(&["localhost"]));
    let closing = Origin::on_accept(|_| Reply::new().then(Step::ReadBytes(6)).close());
    let origin = Origin::answering("unused");
    let check = |config: Value, status: &str, answer: &str| {
        let plugins = json!({"pinger": config});
        let (calls, body) = exchange_through(plugins, &origin, "GET /here", scripted(&[], BodyLength::None));
        assert!(calls.starts_with(status) && body.contains(answer), "{calls} {body}");
    };
    let at = |address: SocketAddr| address.to_string();
    check(json!({"server": at(server.address())}), "start:200", "+PONG");
    check(json!({"server": at(front.address()), "tls": false}), "start:200", "+PONG");
    assert_eq!(front.handshakes()[0].alpn, None);
    check(json!({"server": at(closing.address())}), "start:503", "outbound_broken");
    check(json!({"server": at(Origin::nowhere())}), "start:503", "outbound_connect_failed");
    check(json!({"server": at(server.address()), "tls": false}), "start:503", "outbound_");
    check(json!({"server": "169.254.169.254:6379"}), "start:503", "outbound_forbidden");
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn upstream_of_a_plugin_shows_the_changed_certificate() {
    let mut control = Control::new();
    let mut apply = |revision: u64, kind: ObjectKind, value: Value| control.apply(revision, kind, &value);
    let ssl = |kind: &str| {
        let pair = self_signed(&["client.example"]);
        json!({"type": kind, "sni": "client.example", "cert": pair.certificate, "key": pair.key})
    };
    let own = json!({"scheme": "https", "nodes": {"127.0.0.1:2": 1}, "tls": {"client_cert_id": "1"}});
    let plugins = json!({"chooser": {"upstream": own}});
    let route = json!({"uri": "/here", "upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": plugins});
    apply(1, ObjectKind::Ssl, ssl("server"));
    let (_, faults) = apply(2, ObjectKind::Route, route);
    assert!(faults[0].reason.contains("ssl 1 is not of type client"), "{faults:?}");
    let identity = |runtime: &crate::runtime::Runtime| {
        let slot = *runtime.upstream_slots.get("/routes/1#upstream").unwrap();
        let nodes = runtime.upstreams.get(slot).unwrap().nodes.load();
        nodes.nodes[0].endpoint.tls.as_ref().unwrap().id()
    };
    let (runtime, faults) = apply(3, ObjectKind::Ssl, ssl("client"));
    assert_eq!(faults, Vec::new(), "the plugin is built now");
    let first = identity(&runtime);
    let (runtime, faults) = apply(4, ObjectKind::Ssl, ssl("client"));
    assert_eq!(faults, Vec::new());
    assert_ne!(identity(&runtime), first);
    assert!(runtime.upstream_slots.get(UpstreamRef::by_id("1").identity()).is_none());
}
