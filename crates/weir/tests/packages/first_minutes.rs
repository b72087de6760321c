//! The first minutes of a user with the package: from its file to an answered request, and to a route that
//! was made in the dashboard. The steps are those of `docs/guide/install.md`.

use std::process::Command;
use std::time::{Duration, Instant};

use testkit::Client;

use crate::clean_root::CleanRoot;
use crate::host;
use crate::installed::{ADMIN, ORIGIN, PROXY};

/// From the package to an answered request.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// From the package to a route of the dashboard.
const DASHBOARD_LIMIT: Duration = Duration::from_secs(180);

#[test]
fn package_answers_a_request_within_a_minute() {
    let Some(root) = CleanRoot::boot() else { return };
    let package = root.take(host::older_package());
    let begin = Instant::now();
    root.must(&format!("apt-get install --yes {package}"));
    let installed = begin.elapsed();
    assert_eq!(root.must("systemctl is-active weir").trim(), "active");
    root.must("systemd-run --quiet --unit=origin /usr/bin/weir origin --listen 127.0.0.1:8080");
    root.must(
        r#"key=$(cat /var/lib/weir/admin.key)
        curl --fail --silent --show-error --retry 20 --retry-connrefused --retry-delay 0 http://127.0.0.1:8080/ >/dev/null
        curl --fail --silent --show-error -X PUT http://127.0.0.1:9180/apisix/admin/routes/hello -H "X-API-KEY: $key" \
            -d '{"uri": "/hello", "upstream": {"nodes": {"127.0.0.1:8080": 1}}}'"#,
    );
    let answer = root.must("curl --fail --silent --show-error --include http://127.0.0.1:9080/hello");
    let took = begin.elapsed();
    println!("installed after {installed:.1?}, first answer after {took:.1?}");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(took < REQUEST_LIMIT, "{took:?}");

    let owner = root.must("stat --format='%U' /proc/$(systemctl show --value --property=MainPID weir)");
    assert_eq!(owner.trim(), "weir");
    let modes = root.must(
        "stat --format='%a %U:%G %n' /var/lib/weir /var/lib/weir/admin.key /var/log/weir /etc/weir/weir.env",
    );
    let expected = "700 weir:weir /var/lib/weir\n600 weir:weir /var/lib/weir/admin.key\n750 weir:weir /var/log/weir\n\
                    640 root:weir /etc/weir/weir.env\n";
    assert_eq!(modes, expected);
    assert_eq!(root.must("systemctl is-enabled weir").trim(), "enabled");
    let page = root.in_network(|| Client::connect(ADMIN).get("/ui/"));
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<title>"), "{}", page.text());
}

#[test]
fn dashboard_makes_a_route_within_three_minutes() {
    let node = host::target().join("test-node/node");
    let Some(root) = CleanRoot::boot() else { return };
    let package = root.take(host::older_package());
    let begin = Instant::now();
    root.must(&format!("apt-get install --yes {package}"));
    root.start_origin();
    // Chromium runs on this machine, in the network of the root.
    let mut walk = Command::new("nsenter");
    walk.arg(format!("--net={}", root.network())).arg(node);
    walk.args(["--test", "tests/real/newcomer.test.mjs"]).current_dir(host::root().join("web"));
    walk.env("WEIR_URL", format!("http://{ADMIN}")).env("WEIR_KEY", root.admin_key());
    walk.env("WEIR_PROXY", PROXY.to_string()).env("WEIR_ORIGIN", ORIGIN);
    let report = host::run(&mut walk);
    let took = begin.elapsed();
    println!("a route of the dashboard answers {took:.1?} after the package");
    assert!(report.contains(" pass 1\n") && report.contains(" skipped 0\n"), "{report}");
    assert!(took < DASHBOARD_LIMIT, "{took:?}");
}
