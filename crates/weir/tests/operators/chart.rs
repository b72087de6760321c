//! The Helm chart: Helm's own library lints and renders it, and each object has only fields of Kubernetes'
//! own types and refers only to objects that exist. Wrong values are refused with the reason.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::support::{object, read, rendered, repository, run, weirchart};

/// Objects that the examples expect to be made by hand.
const BY_HAND: [&str; 10] = [
    "-exists",
    "Secret/weir-admin",
    "-exists",
    "Secret/weir-etcd",
    "-exists",
    "Secret/weir-etcd-tls",
    "-exists",
    "Secret/weir-keyring",
    "-exists",
    "Secret/weir-certificates",
];

/// The objects of one of the chart's examples.
fn example(name: &str) -> Vec<Value> {
    rendered(&[&BY_HAND[..], &["weir", &format!("examples/{name}.yaml")]].concat())
}

/// The objects of the chart with these values.
fn with_values(values: &Value) -> Vec<Value> {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    fs::write(file.path(), values.to_string()).unwrap();
    rendered(&[&BY_HAND[..], &["weir", file.path().to_str().unwrap()]].concat())
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    kinds
}

fn pod(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]
}

#[test]
fn file_source_gives_a_deployment() {
    let objects = example("file");
    let expected = [
        "ConfigMap",
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Secret",
        "Service",
        "Service",
        "ServiceAccount",
    ];
    assert_eq!(kinds(&objects), expected);
    let deployment = object(&objects, "Deployment", "weir");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = pod(deployment);
    // 5 seconds of delay, 30 of grace, 5 for registries, and 5 to spare.
    assert_eq!(pod["terminationGracePeriodSeconds"], 45);
    assert_eq!(pod["automountServiceAccountToken"], false);
    let container = &pod["containers"][0];
    assert_eq!(container["args"], json!(["run", "--config", "/etc/weir/weir.yaml"]));
    assert_eq!(container["livenessProbe"]["httpGet"], json!({"path": "/status", "port": "status"}));
    assert_eq!(container["readinessProbe"]["httpGet"], json!({"path": "/status/ready", "port": "status"}));
    assert_eq!(container["lifecycle"], Value::Null);
    let service = object(&objects, "Service", "weir");
    assert_eq!(service["spec"]["type"], "ClusterIP");
}

#[test]
fn store_source_gives_one_pod_with_a_volume() {
    let objects = example("store");
    let set = object(&objects, "StatefulSet", "weir");
    assert_eq!(set["spec"]["replicas"], 1);
    let claim = &set["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi");
    // It would block the drain of the machine for ever.
    assert!(!kinds(&objects).contains(&"PodDisruptionBudget"));
}

#[test]
fn etcd_source_takes_secrets_by_reference() {
    let objects = example("etcd");
    assert!(!kinds(&objects).contains(&"Secret"), "the key is that of a Secret made by hand");
    let settings = object(&objects, "ConfigMap", "settings")["data"]["weir.yaml"].as_str().unwrap();
    for line in [
        "source: etcd",
        "etcd_ca: /etc/weir/etcd/ca.crt",
        "etcd_key: /etc/weir/etcd/tls.key",
        "admin: 0.0.0.0:9180",
    ] {
        assert!(settings.lines().any(|found| found == line), "{line} in\n{settings}");
    }
    assert!(!settings.contains("password"), "{settings}");
    assert_eq!(object(&objects, "Service", "admin")["spec"]["type"], "ClusterIP");
}

#[test]
fn full_example_has_every_optional_object() {
    let objects = example("full");
    let found: BTreeSet<&str> = kinds(&objects).into_iter().collect();
    for kind in [
        "ClusterRole",
        "ClusterRoleBinding",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PrometheusRule",
        "ServiceMonitor",
    ] {
        assert!(found.contains(kind), "{kind} in {found:?}");
    }
    let deployment = object(&objects, "Deployment", "weir");
    assert_eq!(deployment["spec"]["replicas"], Value::Null, "the autoscaler has the number");
    assert_eq!(pod(deployment)["terminationGracePeriodSeconds"], 5 + 10 + 60 + 10);
    assert_eq!(pod(deployment)["automountServiceAccountToken"], true);
    let settings = object(&objects, "ConfigMap", "settings")["data"]["weir.yaml"].as_str().unwrap();
    // A large number is written with its digits and not as 1.048576e+08.
    for line in
        ["max_body_bytes: 104857600", "http3_alt_svc: h3=\":443\"; ma=86400", "proxy_tls_http3: 0.0.0.0:9443"]
    {
        assert!(settings.contains(line), "{line} in\n{settings}");
    }
    let dashboards = object(&objects, "ConfigMap", "dashboards");
    for (name, text) in dashboards["data"].as_object().unwrap() {
        let packed: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        let written: Value = serde_json::from_str(&read(&format!("packaging/grafana/{name}"))).unwrap();
        assert_eq!(packed, written, "{name}");
    }
    let rules = object(&objects, "PrometheusRule", "weir").to_string();
    assert!(rules.contains("WeirInstanceDown") && rules.contains("{{ $labels.instance }}"));
}

#[test]
fn change_of_settings_restarts_and_of_routes_not() {
    let pods =
        |values: Value| object(&with_values(&values), "Deployment", "weir")["spec"]["template"].clone();
    let routes = json!({"objects": {"routes": [{"id": "a", "uri": "/a"}]}});
    assert_eq!(pods(json!({})), pods(routes));
    assert_ne!(pods(json!({})), pods(json!({"settings": {"log_level": "warn"}})));
}

#[test]
fn admin_key_is_made_once_and_kept() {
    let key = |arguments: &[&str]| {
        let objects = rendered(&[arguments, &["weir"]].concat());
        object(&objects, "Secret", "admin")["data"]["admin-key"].as_str().unwrap().to_owned()
    };
    let (first, second) = (key(&[]), key(&[]));
    assert!(first != second && first.len() > 40, "{first} {second}");
    // The Secret of the installation before is in the cluster; `a2VwdA==` is its value as the API shows it.
    assert_eq!(key(&["-secret", "weir-admin:admin-key=kept"]), "a2VwdA==");
}

#[test]
fn wrong_values_are_refused_with_the_reason() {
    let refused = [
        (json!({"replicas": -1}), "replicas"),
        (json!({"replicaCount": 3}), "replicaCount"),
        (json!({"replicas": "two"}), "replicas"),
        (json!({"source": "database"}), "source"),
        (json!({"service": {"type": "Ingress"}}), "type"),
        (json!({"service": {"httpPort": 70000}}), "httpPort"),
        (json!({"objects": {"rotues": []}}), "rotues"),
        (json!({"admin": {"key": "short"}}), "key"),
        (json!({"image": {"digest": "latest"}}), "digest"),
        (json!({"resources": {"limits": {"memory": "lots"}}}), "memory"),
        (
            json!({"source": "store"}),
            "replicas: 2 pods with source: store would each have a configuration of their own",
        ),
        (
            json!({"source": "store", "replicas": 1, "autoscaling": {"enabled": true}}),
            "autoscaling.enabled: ",
        ),
        (json!({"source": "store", "replicas": 1, "admin": {"enabled": false}}), "admin.enabled: "),
        (json!({"source": "etcd"}), "etcd.endpoints: source: etcd needs at least one URL"),
        (
            json!({"source": "etcd", "etcd": {"endpoints": ["http://e:2379"]}, "objects": {"routes": [{}]}}),
            "objects: they are used with source: file only, and source is etcd",
        ),
        (
            json!({"existingObjects": "a", "objects": {"routes": [{}]}}),
            "existingObjects: objects are given as well",
        ),
        (json!({"etcd": {"username": "weir"}}), "etcd.passwordSecret.name: "),
        (json!({"admin": {"enabled": false, "service": {"enabled": true}}}), "admin.service.enabled: "),
        (json!({"service": {"httpPort": 0, "httpsPort": 0}}), "service.httpPort: "),
        (
            json!({"settings": {"proxy": "0.0.0.0:80"}}),
            "settings.proxy: the chart sets it itself; the value for it is service",
        ),
        (
            json!({"autoscaling": {"enabled": true, "minReplicas": 5, "maxReplicas": 2}}),
            "autoscaling.minReplicas: 5 is more",
        ),
        (
            json!({"autoscaling": {"enabled": true}, "resources": {"requests": {"cpu": null}}}),
            "resources.requests.cpu",
        ),
    ];
    for (values, reason) in refused {
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        fs::write(file.path(), values.to_string()).unwrap();
        let ended = weirchart(&["weir", file.path().to_str().unwrap()]);
        assert!(!ended.is_good && ended.stderr.contains(reason), "{values}: {}", ended.stderr);
    }
}

#[test]
fn checks_find_planted_faults() {
    let text = weirchart(&["weir"]).text();
    let planted = [
        ("containerPort: 9091", "containerPrt: 9091", "containerPrt"),
        ("port: status", "port: stats", "a probe is missing or names no port"),
        ("mountPath: /tmp", "mountPath: /tmp, subPth: x", "subPth"),
        ("{name: tmp, mountPath", "{name: temp, mountPath", "the mount temp names no volume"),
        ("runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot"),
        ("targetPort: http\n", "targetPort: web\n", "no container has the port web"),
        ("name: weir-settings\n", "name: weir-setting\n", "it needs ConfigMap/weir-setting"),
    ];
    for (sound, faulty, reason) in planted {
        assert!(text.contains(sound), "{sound}");
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        // The last place, because the name of the object itself comes first.
        let at = text.rfind(sound).unwrap();
        fs::write(file.path(), format!("{}{faulty}{}", &text[..at], &text[at + sound.len()..])).unwrap();
        let ended = weirchart(&["-manifests", file.path().to_str().unwrap()]);
        assert!(!ended.is_good && ended.stderr.contains(reason), "{faulty}: {}", ended.stderr);
    }
}

#[test]
fn every_value_is_in_schema_and_readme() {
    run("/usr/bin/python3", &["packaging/helm/readme.py", "--check"], ".").text();
    let schema: Value = serde_json::from_str(&read("packaging/helm/weir/values.schema.json")).unwrap();
    let mut count = 0;
    for row in read("packaging/helm/weir/README.md").lines() {
        let Some(name) = row.strip_prefix("| `").and_then(|rest| rest.split('`').next()) else { continue };
        let place = name.split('.').fold(&schema, |place, part| &place["properties"][part]);
        assert!(
            place["description"].is_string(),
            "{name} is not in values.schema.json, or has no description"
        );
        count += 1;
    }
    assert!(count > 90, "{count} values");
}

#[test]
fn packed_chart_is_reproducible_and_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let pack = |place: &str| {
        let out = folder.path().join(place);
        let arguments = ["packaging/chart.py", out.to_str().unwrap(), "1.2.3"];
        let path = run("/usr/bin/python3", &arguments, ".").text();
        (fs::read(path.trim()).unwrap(), path.trim().to_owned())
    };
    let ((first, path), (second, _)) = (pack("a"), pack("b"));
    assert!(first == second, "two packs differ");
    assert!(path.ends_with("/weir-chart-1.2.3.tgz"), "{path}");
    let packed = rendered(&[&BY_HAND[..], &[&path, "examples/full.yaml"]].concat());
    assert_eq!(kinds(&packed), kinds(&example("full")));
    assert_eq!(pod(object(&packed, "Deployment", "weir"))["containers"][0]["image"], "weir:1.2.3");
    let refused =
        run("/usr/bin/python3", &["packaging/chart.py", folder.path().to_str().unwrap(), "1.2"], ".");
    assert!(
        !refused.is_good && refused.stderr.contains("1.2 is no version of a chart"),
        "{}",
        refused.stderr
    );
    assert!(repository().join("packaging/helm/weir/files/weir-alerts.yml").exists());
}
