//! The configuration and the arguments of the chart's pods, with the real program: it accepts the files,
//! answers the probes, reads a changed ConfigMap, and drains within the time that the pod has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Signal, Step, Weir, wait_until};

use crate::support::{BINARY, object, rendered, run};

/// The chart's objects with these values.
fn objects(values: &Value) -> Vec<Value> {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    fs::write(file.path(), values.to_string()).unwrap();
    rendered(&["weir", file.path().to_str().unwrap()])
}

fn settings(objects: &[Value]) -> String {
    object(objects, "ConfigMap", "settings")["data"]["weir.yaml"].as_str().unwrap().to_owned()
}

fn resources(objects: &[Value]) -> String {
    object(objects, "ConfigMap", "objects")["data"]["resources.yaml"].as_str().unwrap().to_owned()
}

/// Places the text as the kubelet does: in a folder with a time in its name, to which a link points that is
/// replaced.
fn mount(folder: &Path, version: u32, text: &str) {
    let made = folder.join(format!("..2026_{version}"));
    fs::create_dir_all(&made).unwrap();
    fs::write(made.join("resources.yaml"), text).unwrap();
    symlink(made.file_name().unwrap(), folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    let shown = folder.join("resources.yaml");
    if !shown.exists() {
        symlink("..data/resources.yaml", shown).unwrap();
    }
}

#[test]
fn program_accepts_the_settings_of_all_sources() {
    let all = [
        json!({"objects": {"routes": [{"id": "a", "uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}}}]}}),
        json!({"source": "store", "replicas": 1}),
        json!({"source": "etcd", "etcd": {"endpoints": ["http://etcd-0:2379", "http://etcd-1:2379"], "prefix": "/weir"}}),
        json!({"service": {"http3": true}, "discovery": {"kubernetes": {"enabled": true}}, "admin": {"service": {"enabled": true}}}),
        json!({"admin": {"enabled": false}, "listenAddress": "[::]", "service": {"httpsPort": 0}}),
    ];
    for values in all {
        let (objects, folder) = (objects(&values), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let text = settings(&objects);
        if text.contains("source: file") {
            fs::write(at("resources.yaml"), resources(&objects)).unwrap();
            run(BINARY, &["check", "--strict", &at("resources.yaml")], ".").text();
        }
        fs::write(at("weir.yaml"), text.replace("/etc/weir/objects", folder.path().to_str().unwrap()))
            .unwrap();
        let checked = run(BINARY, &["check", &at("weir.yaml")], ".");
        assert!(
            checked.is_good && checked.stdout.contains("ok"),
            "{values}: {}{}",
            checked.stdout,
            checked.stderr
        );
    }
}

#[test]
fn pod_answers_probes_reloads_and_drains_in_time() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = Origin::start({
        let (asked, go) = (asked.clone(), go.clone());
        move |request| match request.path() {
            "/slow" => Reply::new()
                .then(Step::Set(asked.clone()))
                .wait(&go)
                .send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"),
            _ => Reply::ok("hello"),
        }
    });
    let values = |uri: &str| {
        let upstream = json!({"nodes": {origin.address().to_string(): 1}});
        json!({
            "objects": {"routes": [{"id": "all", "uri": uri, "upstream": upstream}]},
            "drain": {"delaySeconds": 1, "graceSeconds": 10}
        })
    };
    let objects = objects(&values("/*"));
    let pod = &object(&objects, "Deployment", "weir")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["args"], json!(["run", "--config", "/etc/weir/weir.yaml"]));
    let mounted = tempfile::tempdir().unwrap();
    mount(mounted.path(), 1, &resources(&objects));
    // The addresses and folders of the pod are replaced by those of this test; the rest is the chart's.
    let text = settings(&objects)
        .replace("/etc/weir/objects", mounted.path().to_str().unwrap())
        .replace("proxy_tls: 0.0.0.0:9443", "proxy_tls: off")
        .lines()
        .map(|line| match line.split_once(": ") {
            Some((name, address)) if address.contains(".0.0") => format!("{name}: 127.0.0.1:0\n"),
            _ => format!("{line}\n"),
        })
        .collect::<String>();
    let mut weir = Weir::builder(BINARY).settings(&text).start();
    for path in ["/status", "/status/ready"] {
        assert_eq!(Client::connect(weir.address("status")).get(path).status, 200, "{path}");
    }
    assert_eq!(Client::connect(weir.address("metrics")).get("/metrics").status, 200);
    assert_eq!(weir.get("/hello").status, 200);

    mount(mounted.path(), 2, &resources(&crate::chart_run::objects(&values("/slow"))));
    wait_until("the changed ConfigMap is read", || weir.get("/hello").status == 404);

    let mut slow = weir.client();
    slow.send(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    asked.wait();
    let begin = Instant::now();
    weir.terminate();
    wait_until("the pod is not ready and still serves", || {
        Client::connect(weir.address("status")).get("/status/ready").status == 503
    });
    assert_eq!(weir.get("/none").status, 404, "new connections are served during the delay");
    go.set();
    assert_eq!(slow.read_response(false).unwrap().text(), "done");
    drop(slow);
    assert!(weir.wait_for_exit().success());
    let granted = Duration::from_secs(pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    assert!(begin.elapsed() < granted, "{:?} of {granted:?}", begin.elapsed());
}
