//! Calls of plugins over https.

use serde_json::{Value, json};
use testkit::{Authority, Origin, Reply, TlsFront, wait_until};

use super::gateway;

#[test]
fn forward_auth_verifies_unless_told_otherwise() {
    let authority = Authority::new("trusted");
    let server = Origin::start(|_| Reply::status(401, "who are you?"));
    let front = TlsFront::to(server.address(), &authority.pair(&["localhost"]));
    let stranger = TlsFront::to(server.address(), &testkit::self_signed(&["localhost"]));
    let origin = Origin::answering("ok");
    let weir = gateway(&authority, &[]);
    let status = |front: &TlsFront, host: &str, more: Value| {
        let mut auth =
            json!({"uri": format!("https://{host}:{}/auth", front.port()), "status_on_error": 503});
        let (Value::Object(fields), Value::Object(more)) = (&mut auth, more) else { panic!("no objects") };
        fields.extend(more);
        let nodes = json!({origin.address().to_string(): 1});
        weir.put(
            "routes/1",
            json!({"uri": "/*", "plugins": {"forward-auth": auth}, "upstream": {"nodes": nodes}}),
        );
        weir.get("/").status
    };
    assert_eq!(status(&front, "localhost", json!({})), 401);
    assert_eq!(status(&front, "127.0.0.1", json!({})), 503, "the certificate is not valid for the address");
    assert_eq!(status(&front, "127.0.0.1", json!({"ssl_verify": false})), 401);
    assert_eq!(status(&stranger, "localhost", json!({})), 503);
    assert_eq!(status(&stranger, "localhost", json!({"ssl_verify": false})), 401);
    wait_until("the log names the cause", || {
        weir.stderr().iter().any(|line| line.contains("outbound_certificate_refused"))
    });
    let names = front.server_names();
    assert_eq!(names, ["localhost", ""], "an address is not sent as a name");
    assert_eq!(weir.get("/").status, 401);
    assert_eq!(stranger.handshakes().len(), 1, "the connection is kept");
}

#[test]
fn http_logger_sends_over_https() {
    let authority = Authority::new("trusted");
    let server = Origin::answering("");
    let front = TlsFront::to(server.address(), &authority.pair(&["localhost"]));
    let stranger = TlsFront::to(server.address(), &testkit::self_signed(&["localhost"]));
    let origin = Origin::answering("ok");
    let weir = gateway(&authority, &[]);
    let log_to = |id: &str, front: &TlsFront, verify: bool| {
        let uri = format!("https://localhost:{}/{id}", front.port());
        let logger = json!({"uri": uri, "ssl_verify": verify, "batch_max_size": 1, "max_retry_count": 0});
        let nodes = json!({origin.address().to_string(): 1});
        let route = json!({"uri": format!("/{id}"), "plugins": {"http-logger": logger}, "upstream": {"nodes": nodes}});
        weir.put(&format!("routes/{id}"), route);
        assert_eq!(weir.get(&format!("/{id}")).status, 200);
    };
    log_to("verified", &front, true);
    log_to("unverified", &stranger, false);
    server.wait_for_requests(2);
    log_to("refused", &stranger, true);
    wait_until("the refusal is in the log", || {
        weir.stderr().iter().any(|line| line.contains("outbound_certificate_refused"))
    });
    let mut targets: Vec<String> = server.requests().into_iter().map(|request| request.target).collect();
    targets.sort();
    assert_eq!(targets, ["/unverified", "/verified"]);
}
