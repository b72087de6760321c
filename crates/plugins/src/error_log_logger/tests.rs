//! Metadata, and which instance reads the log; tests of the binary send lines to servers.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use exchange::observe::error_tap::{Severity, offer};
use exchange::plugin::state::StateRegistry;
use exchange::testing::{accepts, services};
use model::catalog::SchemaType;
use testkit::wait_until;

use super::*;

#[test]
fn metadata_name_one_destination() {
    let check = |metadata: Value, fault: Option<&str>| {
        let got = accepts(&KIND, SchemaType::Metadata, &metadata);
        match (got, fault) {
            (Ok(()), None) => {}
            (Err(reason), Some(fault)) => assert!(reason.contains(fault), "{metadata}: {reason}"),
            (got, fault) => panic!("{metadata}: {got:?}, expected {fault:?}"),
        }
    };
    check(json!({"tcp": {"host": "test.com", "port": 9_200}}), None);
    check(json!({"tcp": {"host": "test.com", "port": 9_200, "tls": true, "tls_server_name": "a"}}), None);
    check(json!({"host": "test.com", "port": 9_200}), None);
    check(json!({"skywalking": {}}), None);
    check(json!({"skywalking": {"endpoint_addr": "http://127.0.0.1/v3/logs", "service_name": "a"}}), None);
    let mut clickhouse = json!({
        "endpoint_addr": "http://127.0.0.1:8123", "user": "default", "password": "a", "database": "b",
        "logtable": "c",
    });
    check(json!({"clickhouse": clickhouse}), None);
    clickhouse.as_object_mut().unwrap().remove("user");
    check(json!({"clickhouse": clickhouse}), Some("user"));
    let broker = json!([{"host": "127.0.0.1", "port": 9_092}]);
    check(json!({"kafka": {"brokers": broker, "kafka_topic": "t", "required_acks": 0}}), None);
    check(json!({"kafka": {"brokers": broker}}), Some("kafka_topic"));
    check(json!({"kafka": {"brokers": [{"host": "a b", "port": 1}], "kafka_topic": "t"}}), Some("HOST:PORT"));
    check(json!({}), Some("value should match only one schema, but matches none"));
    check(json!({"tcp": {"host": "a", "port": 1}, "skywalking": {}}), Some("matches both schemas"));
    check(json!({"skywalking": {}, "level": "LOUD"}), Some("level"));
    check(json!({"skywalking": {"endpoint_addr": "nowhere"}}), Some("skywalking.endpoint_addr"));
    check(json!({"skywalking": {}, "batch_max_size": 0, "inactive_timeout": 1}), None);
}

/// One test, because the reader of the log is that of the process.
#[test]
fn instance_of_the_metadata_reads_the_log() {
    let (services, states) = (services(), StateRegistry::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let metadata = json!({"tcp": {"host": "127.0.0.1", "port": port}, "batch_max_size": 1, "level": "WARN"});
    let built = |owner: &str, metadata: Option<&Value>| {
        (KIND.build)(&exchange::testing::build(owner, metadata, &states, &services), &json!({})).unwrap()
    };
    let inert = built("/routes/1", Some(&metadata));
    offer(Severity::Error, b"without a reader\n");
    let reading = built(OWNER, Some(&metadata));
    let again = built(OWNER, Some(&metadata));
    drop(reading);
    offer(Severity::Info, b"an event\n");
    offer(Severity::Warning, b"a warning\n");
    let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "a warning");
    // The server has the line before the queue knows that it was delivered.
    wait_until("the line is delivered", || services.queued_entries() == 0);
    drop((inert, again));
    offer(Severity::Error, b"after its end\n");
    assert_eq!(services.queued_entries(), 0);
}

#[test]
fn older_form_is_a_tcp_server() {
    let written = json!({"host": "h", "port": 1, "tls": true, "tls_server_name": "n"});
    let tcp = metadata::read_error_log_metadata(&written).unwrap().tcp.unwrap();
    assert_eq!((&*tcp.host, tcp.port, tcp.tls, tcp.tls_server_name.as_deref()), ("h", 1, true, Some("n")));
}
