//! Tests of `acl`: configurations, and the requests it admits and refuses.

use exchange::testing::{Scene, configuration_check, consumer, decide, with_fields};

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(json!({"allow_labels": {"team": ["a"]}, "rejected_code": 404, "rejected_msg": "no"}), None);
    check(json!({"deny_labels": {"team": ["a", "b"]}, "external_user_label_field": "$.orgs..team"}), None);
    let parser = |parser: &str, more: Value| {
        with_fields(
            json!({"allow_labels": {"team": ["a"]}, "external_user_label_field_parser": parser}),
            &more,
        )
    };
    check(parser("table", json!({"external_user_label_field_key": "team"})), None);
    check(parser("segmented_text", json!({"external_user_label_field_separator": r"\|"})), None);
    check(parser("segmented_text", json!({})), Some("then clause did not match"));
    let malformed = json!({"external_user_label_field_separator": "(invalid(pattern"});
    check(parser("segmented_text", malformed), Some("external_user_label_field_separator"));
    check(parser("an-invalid-parser", json!({})), Some("external_user_label_field_parser"));
    check(json!({}), Some(""));
    check(json!({"allow_labels": {}}), Some("allow_labels"));
    check(json!({"allow_labels": {"team": []}}), Some("allow_labels"));
    check(json!({"allow_labels": {"team": "a"}}), Some("allow_labels"));
    let path = json!({"allow_labels": {"team": ["a"]}, "external_user_label_field": "a["});
    check(path, Some("invalid external_user_label_field: at byte 1 of the JSON path"));
}

/// The answer to a request of a consumer with these labels, or of an external user.
fn answer(config: &Value, labels: Option<&[(&str, &str)]>, user: Option<Value>) -> Option<(u16, String)> {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, config);
    let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    if let Some(labels) = labels {
        let mut jack = consumer("jack");
        jack.labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        exchange.authenticate(Arc::new(jack));
    }
    exchange.decision.external_user = user.map(Arc::new);
    let reply = decide(plugin.access(&mut exchange))?;
    Some((reply.status, String::from_utf8_lossy(&reply.body).trim_end().to_owned()))
}

#[test]
fn labels_of_consumers_decide() {
    let check = |config: Value, labels: &[(&str, &str)], refused: Option<(u16, &str)>| {
        let expected = refused.map(|(status, message)| (status, format!("{{\"message\":\"{message}\"}}")));
        assert_eq!(answer(&config, Some(labels), None), expected, "{config} {labels:?}");
    };
    let stock = Some((403, "The consumer is forbidden."));
    let allow = json!({"allow_labels": {"org": ["apache", "api7"], "team": ["infra"]}});
    check(allow.clone(), &[("org", "apache")], None);
    check(allow.clone(), &[("org", "other"), ("team", "infra")], None);
    check(allow.clone(), &[("org", "other, api7")], None);
    check(allow.clone(), &[("org", "[\"api7\"]")], None);
    check(allow.clone(), &[("org", "infra")], stock);
    check(allow.clone(), &[], stock);
    let deny = json!({"deny_labels": {"org": ["apache"]}, "rejected_msg": "no", "rejected_code": 406});
    check(deny.clone(), &[("org", "x,apache")], Some((406, "no")));
    check(deny.clone(), &[("team", "apache")], None);
    check(deny, &[], None);
    let both = json!({"deny_labels": {"org": ["a"]}, "allow_labels": {"team": ["b"]}});
    check(both.clone(), &[("org", "a"), ("team", "b")], stock);
    check(both.clone(), &[("org", "x"), ("team", "b")], None);
    check(both, &[("org", "x")], stock);
    let missing = Some((401, "{\"message\":\"Missing authentication.\"}".to_owned()));
    assert_eq!(answer(&allow, None, None), missing);
}

#[test]
fn labels_of_external_users_decide() {
    let user =
        json!({"groups": ["staff"], "orgs": {"api7": {"team": "cloud|infra"}, "x": {"team": ["dev"]}}});
    let check = |more: Value, passes: bool| {
        let mut config = more;
        config["rejected_msg"] = "no".into();
        let refused = Some((403, "{\"message\":\"no\"}".to_owned()));
        let expected = if passes { None } else { refused };
        assert_eq!(answer(&config, None, Some(user.clone())), expected, "{config}");
    };
    check(json!({"allow_labels": {"groups": ["staff"]}}), true);
    check(json!({"deny_labels": {"groups": ["staff"]}}), false);
    check(json!({"allow_labels": {"team": ["staff"]}}), false);
    let split = |list: &str, value: &str| {
        json!({
            list: {"team": [value]}, "external_user_label_field": "$.orgs..team",
            "external_user_label_field_key": "team",
            "external_user_label_field_parser": "segmented_text",
            "external_user_label_field_separator": r"\|",
        })
    };
    check(split("allow_labels", "infra"), true);
    check(split("allow_labels", "dev"), true);
    check(split("allow_labels", "cloud|infra"), false);
    check(split("deny_labels", "cloud"), false);
    check(json!({"allow_labels": {"team": ["x"]}, "external_user_label_field": "none"}), false);
}
