//! Tests of the requests that a server of Nacos sends, and of the address that they come from.

use super::*;
use crate::BuildContext;
use crate::blocks::RegistryTimeouts;
use crate::http::TlsSettings;
use crate::nacos::answer::NacosRules;

/// A push connection to these servers that follows these services, with the sender of further ones and the
/// receiver of changes.
pub(super) fn pushing(
    servers: Vec<String>,
    wanted: Vec<ServiceKey>,
) -> (NacosPush, watch::Sender<Vec<ServiceKey>>, mpsc::Receiver<ServiceKey>) {
    let http = vec!["http://127.0.0.1:1".to_owned()];
    let client = RegistryTimeouts::default()
        .client(http, TlsSettings::default(), 1024, &BuildContext::default())
        .unwrap();
    let rules = NacosRules { default_weight: 1, is_grpc: false };
    let asker = Arc::new(NacosClient::new(client, "/nacos/v1/", None, None, rules));
    let (changes, receiver) = mpsc::channel(8);
    let (sender, wanted) = watch::channel(wanted);
    (NacosPush::new(servers, OutboundPolicy::default(), asker, wanted, changes), sender, receiver)
}

/// A push connection without a server.
fn push(wanted: Vec<ServiceKey>) -> (NacosPush, mpsc::Receiver<ServiceKey>) {
    let (push, _, changed) = pushing(Vec::new(), wanted);
    (push, changed)
}

pub(super) fn key(group: &str, service: &str) -> ServiceKey {
    ServiceKey { group: group.into(), ..ServiceKey::new("nacos", service) }
}

#[test]
fn port_of_grpc_lies_above_that_of_http() {
    assert_eq!(address("http://h:8848", 1000).as_deref(), Some("h:9848"));
    assert_eq!(address("http://[::1]:8848", 1).as_deref(), Some("[::1]:8849"));
    for url in ["https://h:8848", "http://h:65000", "h"] {
        assert_eq!(address(url, 1000), None, "{url}");
    }
}

#[test]
fn notice_names_the_services_to_ask_for() {
    let (push, mut changed) = push(vec![key("", "a"), key("other", "a"), key("", "b")]);
    let (sender, mut answers) = mpsc::channel(8);
    let body =
        json!({"requestId": "7", "serviceInfo": {"name": "DEFAULT_GROUP@@a", "groupName": "DEFAULT_GROUP"}});
    push.take(&NacosPayload::new("NotifySubscriberRequest", &body, None), &sender).unwrap();
    assert_eq!(changed.try_recv(), Ok(key("", "a")));
    assert!(changed.try_recv().is_err());
    let answer = answers.try_recv().unwrap();
    let expected = json!({"requestId": "7", "resultCode": 200, "success": true});
    assert_eq!(answer.read(), Ok(("NotifySubscriberResponse", expected)));
}

#[test]
fn reset_ends_the_connection() {
    let (push, _changed) = push(Vec::new());
    let (sender, mut answers) = mpsc::channel(1);
    for _ in 0..3 {
        // More requests than answers fit: the connection stays.
        push.take(&NacosPayload::new("ClientDetectionRequest", &json!({}), None), &sender).unwrap();
    }
    assert_eq!(answers.try_recv().unwrap().read().unwrap().0, "ClientDetectionResponse");
    assert!(push.take(&NacosPayload::new("ConnectResetRequest", &json!({}), None), &sender).is_err());
}

#[tokio::test]
async fn forbidden_address_is_not_connected_to() {
    let (mut push, _changed) = push(Vec::new());
    let Err(reason) = push.session("169.254.169.254:9848").await;
    assert!(reason.contains("where metadata services are"), "{reason}");
}
