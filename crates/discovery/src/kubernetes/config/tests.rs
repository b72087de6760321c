//! Tests of the block: defaults, ids, selectors and tokens.

use serde_json::json;

use super::*;

fn pod(name: &str) -> Option<String> {
    match name {
        "KUBERNETES_SERVICE_HOST" => Some("10.0.0.1".to_owned()),
        "KUBERNETES_SERVICE_PORT" => Some("443".to_owned()),
        "TOKEN" => Some("abc".to_owned()),
        _ => None,
    }
}

#[test]
fn empty_block_is_that_of_a_pod() {
    let clusters = clusters(&json!({}), &pod).unwrap();
    assert_eq!(clusters[0].base, "https://10.0.0.1:443");
    assert_eq!(clusters[0].target, "/apis/discovery.k8s.io/v1/endpointslices?");
    assert!(matches!(&clusters[0].token, TokenSource::File(path) if path == Path::new(POD_TOKEN)));
    assert_eq!((clusters[0].weight, clusters[0].tls.verify), (50, true));
    let error = super::clusters(&json!({}), &|_| None).unwrap_err();
    assert_eq!(error, "service.host: the environment variable KUBERNETES_SERVICE_HOST is not set");
}

#[test]
fn clusters_of_a_list_have_ids() {
    let one = json!({"id": "a", "service": {"schema": "http", "host": "::1", "port": "80"},
        "client": {"token": "${TOKEN}"}});
    let found = clusters(&json!([one]), &pod).unwrap();
    assert_eq!((found[0].id.as_deref(), found[0].base.as_str()), (Some("a"), "http://[::1]:80"));
    assert_eq!(found[0].token.read(), Ok("abc".to_owned()));
    assert_eq!(clusters(&json!([one, one]), &pod).unwrap_err(), "two clusters have the id `a`");
}

#[test]
fn client_certificate_stands_in_for_the_token() {
    let client = json!({"cert_file": "/a.pem", "key_file": "/a.key", "ssl_verify": false});
    let block = json!({"client": client});
    assert!(model::validate::Validator::new(build_kubernetes_schema()).faults(&block).is_empty());
    let found = clusters(&block, &pod).unwrap().remove(0);
    assert_eq!((found.token.read(), found.tls.verify), (Ok(String::new()), false));
    assert_eq!(found.tls.cert.as_deref(), Some(Path::new("/a.pem")));
    assert_eq!(found.tls.key.as_deref(), Some(Path::new("/a.key")));
    let lone = json!({"client": {"cert_file": "/a.pem"}});
    assert!(!model::validate::Validator::new(build_kubernetes_schema()).faults(&lone).is_empty());
    let both = json!({"service": {"ssl_verify": true}, "client": client});
    assert!(clusters(&both, &pod).unwrap_err().contains("differ; write one of them"));
}

#[test]
fn selectors_become_queries_or_filters() {
    let with = |selector: Value| {
        let block = json!({"namespace_selector": selector, "label_selector": "a=b,c", "watch_endpoint_slices": false});
        clusters(&block, &pod).map(|mut clusters| clusters.remove(0))
    };
    assert_eq!(
        with(json!({"equal": "shop"})).unwrap().target,
        "/api/v1/namespaces/shop/endpoints?labelSelector=a%3Db%2Cc&"
    );
    assert_eq!(
        with(json!({"not_equal": "shop"})).unwrap().target,
        "/api/v1/endpoints?fieldSelector=metadata.namespace%21%3Dshop&labelSelector=a%3Db%2Cc&"
    );
    let matching = with(json!({"match": ["default", "my-.*"]})).unwrap().namespaces;
    assert!(matching.has("default") && matching.has("my-a") && !matching.has("default2"));
    let others = with(json!({"not_match": ["my-.*"]})).unwrap().namespaces;
    assert!(others.has("default") && !others.has("my-a"));
    assert!(with(json!({"match": ["("]})).unwrap_err().contains("is no pattern"));
}

#[test]
fn token_files_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let source = TokenSource::File(file.clone());
    assert!(source.read().unwrap_err().contains("cannot be read"));
    for token in ["one", "two"] {
        std::fs::write(&file, format!("{token}\n")).unwrap();
        assert_eq!(source.read(), Ok(token.to_owned()));
    }
    std::fs::write(&file, "a\r\nb").unwrap();
    assert!(source.read().is_err());
}

#[test]
fn schema_takes_one_cluster_or_a_list() {
    let validator = model::validate::Validator::new(build_kubernetes_schema());
    let cluster = json!({"id": "a", "service": {"host": "h", "port": "80"}, "client": {"token": "t"}});
    for good in [json!({}), json!({"default_weight": 1}), json!([cluster])] {
        assert!(validator.faults(&good).is_empty(), "{good}");
    }
    for bad in [json!([]), json!("x"), json!([{}]), json!({"id": "a"}), json!({"service": {"port": 80}})] {
        assert!(!validator.faults(&bad).is_empty(), "{bad}");
    }
}
