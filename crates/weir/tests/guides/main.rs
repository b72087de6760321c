//! Runs every command of the README and the guides as a reader does: in the order of the page, in one shell,
//! against the real binary. Each page has namespaces of its own, so that the ports and folders that it names
//! are free.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod output;
mod page;
mod place;
mod site;
mod table;

use std::collections::BTreeSet;
use std::fs;

use page::{Use, blocks};
use place::{Place, repository};
use table::{GUIDES, Guide};

/// The pages without a row in the table: their own tests run the commands, and the reason names them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("contracts", "it/openapi_contracts.rs does the same with a contract and on the command line"),
    ("install", "packages/guide.rs runs it on a booted machine"),
];

/// A test for each page: its name, and the page.
macro_rules! pages {
    ($($name:ident: $page:literal),+ $(,)?) => {
        /// The pages that have a test here.
        const TESTED: &[&str] = &[$($page),+];
        $(#[test]
        fn $name() {
            run($page);
        })+
    };
}

pages! {
    readme_runs: "README.md",
    acme_runs: "acme",
    admin_api_runs: "admin-api",
    alerts_runs: "alerts",
    caching_runs: "caching",
    canaries_runs: "canaries",
    changing_configuration_runs: "changing-configuration",
    coming_from_kong_runs: "coming-from-kong",
    coming_from_nginx_runs: "coming-from-nginx",
    coming_from_nginx_stream_runs: "coming-from-nginx-stream",
    coming_from_spring_cloud_gateway_runs: "coming-from-spring-cloud-gateway",
    coming_from_traefik_runs: "coming-from-traefik",
    coming_from_zuul_runs: "coming-from-zuul",
    compression_runs: "compression",
    configuration_sources_runs: "configuration-sources",
    consumers_and_authentication_runs: "consumers-and-authentication",
    cors_runs: "cors",
    dashboard_runs: "dashboard",
    debugging_a_502_runs: "debugging-a-502",
    discovery_runs: "discovery",
    discovery_registries_runs: "discovery-registries",
    errors_runs: "errors",
    external_plugins_runs: "external-plugins",
    extensions_runs: "extensions",
    fixed_responses_runs: "fixed-responses",
    getting_started_runs: "getting-started",
    grafana_runs: "grafana",
    graphql_runs: "graphql",
    grpc_runs: "grpc",
    health_checks_runs: "health-checks",
    http2_runs: "http2",
    http3_runs: "http3",
    json_web_tokens_runs: "json-web-tokens",
    layer_4_runs: "layer-4",
    kubernetes_runs: "kubernetes",
    laboratory_runs: "laboratory",
    load_balancing_runs: "load-balancing",
    log_shipping_runs: "log-shipping",
    logging_runs: "logging",
    lua_plugins_runs: "lua-plugins",
    migrating_from_apisix_runs: "migrating-from-apisix",
    mqtt_and_redis_runs: "mqtt-and-redis",
    observability_runs: "observability",
    openid_connect_runs: "openid-connect",
    operations_runs: "operations",
    overload_runs: "overload",
    plugins_runs: "plugins",
    protecting_upstreams_runs: "protecting-upstreams",
    rate_limits_runs: "rate-limits",
    reading_measurements_runs: "reading-measurements",
    redis_runs: "redis",
    registration_runs: "registration",
    retries_runs: "retries",
    routing_runs: "routing",
    secrets_runs: "secrets",
    tls_runs: "tls",
    tracing_runs: "tracing",
    transformation_runs: "transformation",
    transparent_proxy_runs: "transparent-proxy",
    udp_runs: "udp",
    upstreams_runs: "upstreams",
    websocket_runs: "websocket",
    wasm_plugins_runs: "wasm-plugins",
    writing_a_plugin_runs: "writing-a-plugin",
}

/// The row of a page.
fn row(page: &str) -> &'static Guide {
    GUIDES.iter().find(|guide| guide.page == page).unwrap_or_else(|| panic!("no row for {page}"))
}

/// Runs the commands of a page, and compares what they print with what the page shows.
#[allow(clippy::print_stderr, reason = "a skipped test says what was skipped")]
fn run(page: &str) {
    let guide = row(page);
    let blocks = blocks(&guide.path(), &guide.text());
    if !blocks.iter().any(|block| !matches!(block.purpose, Use::Shown | Use::NotRun)) {
        return;
    }
    let Some(place) = Place::new(guide) else {
        eprintln!(
            "skipped: the commands of {page} were not run, because unshare makes no namespaces here (it needs root)"
        );
        return;
    };
    let faults = place.run(&blocks);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_page_has_a_test_and_a_row() {
    let folder = repository().join("docs/guide");
    let mut pages: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
        .collect();
    pages.insert("README.md".to_owned());
    let elsewhere: BTreeSet<String> = ELSEWHERE.iter().map(|(page, _)| (*page).to_owned()).collect();
    let tested: BTreeSet<String> = TESTED.iter().map(|page| (*page).to_owned()).collect();
    let rows: BTreeSet<String> = GUIDES.iter().map(|guide| guide.page.to_owned()).collect();
    assert_eq!(tested, rows, "a test for each row, and a row for each test");
    let known: BTreeSet<String> = tested.union(&elsewhere).cloned().collect();
    assert_eq!(known, pages, "a row for each page");
}

#[test]
fn every_block_has_a_use_or_a_reason() {
    let (mut run, mut checked, mut not_run) = (0, 0, 0);
    for guide in GUIDES {
        let mut reasons: Vec<&str> = guide.not_run.iter().map(|(beginning, _)| *beginning).collect();
        for block in blocks(&guide.path(), &guide.text()) {
            match &block.purpose {
                Use::Commands => run += 1,
                Use::File(..) | Use::Object(_) => checked += 1,
                Use::Shown => {}
                Use::NotRun => {
                    not_run += 1;
                    let at = reasons.iter().position(|beginning| block.text.starts_with(beginning));
                    let at = at.unwrap_or_else(|| panic!("{}: not-run without a reason", block.place()));
                    reasons.remove(at);
                }
            }
        }
        assert!(reasons.is_empty(), "{}: reasons without a block: {reasons:?}", guide.page);
        for (beginning, reason) in guide.not_run {
            assert!(reason.len() > 20, "{}: no reason for {beginning}", guide.page);
        }
    }
    assert!(run > 70 && checked > 50, "{run} blocks are run, {checked} checked, {not_run} not run");
}

#[test]
fn readme_has_at_most_900_words() {
    let words = fs::read_to_string(repository().join("README.md")).unwrap().split_whitespace().count();
    assert!(words <= 900, "{words} words");
}
