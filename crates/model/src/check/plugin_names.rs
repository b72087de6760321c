//! The words for a plugin that cannot be used: misspelt, switched off, of another subsystem, or one that APISIX has and
//! this gateway has not. Knows names only.

use stdx::nearest::misspelt;

use crate::catalog::{Catalog, Subsystem};

/// Why there is no plugin of that name for `subsystem`, with what to do. It begins with the contract's line.
pub(super) fn unknown(catalog: &Catalog, subsystem: Subsystem, name: &str) -> String {
    let line = format!("unknown plugin [{name}]");
    if catalog.get(name).is_some() {
        let served = if subsystem == Subsystem::Stream { "HTTP only, not layer 4" } else { "layer 4 only" };
        return format!("{line}: it serves {served}");
    }
    if catalog.options().switched_off.contains(name) {
        return format!("{line}: it is built in and switched off; add it to the setting `plugins`");
    }
    if OF_APISIX.binary_search(&name).is_ok() {
        return format!("{line}: APISIX has it, this version of Weir has not");
    }
    let usable = || catalog.iter().filter(|plugin| plugin.info().serves(subsystem));
    if let Some(near) = misspelt(name, usable().map(|plugin| &*plugin.info().name)) {
        return format!("{line}; did you mean `{near}`?");
    }
    if let Some(near) = misspelt(name, OF_APISIX) {
        return format!(
            "{line}; did you mean `{near}`? APISIX has that plugin, this version of Weir has not"
        );
    }
    let names: Vec<&str> = usable().map(|plugin| &*plugin.info().name).collect();
    format!(
        "{line}: neither Weir nor APISIX has a plugin of this name; this gateway has {}",
        names.join(", ")
    )
}

/// The plugins of APISIX 3.18, sorted.
const OF_APISIX: [&str; 121] = [
    "acl",
    "ai",
    "ai-aliyun-content-moderation",
    "ai-aws-content-moderation",
    "ai-cache",
    "ai-lakera-guard",
    "ai-prompt-decorator",
    "ai-prompt-guard",
    "ai-prompt-template",
    "ai-proxy",
    "ai-proxy-multi",
    "ai-rag",
    "ai-rate-limiting",
    "ai-request-rewrite",
    "api-breaker",
    "attach-consumer-label",
    "authz-casbin",
    "authz-casdoor",
    "authz-keycloak",
    "aws-lambda",
    "azure-functions",
    "basic-auth",
    "batch-requests",
    "body-transformer",
    "brotli",
    "cas-auth",
    "chaitin-waf",
    "clickhouse-logger",
    "client-control",
    "consumer-restriction",
    "cors",
    "csrf",
    "data-mask",
    "datadog",
    "degraphql",
    "dingtalk-auth",
    "dubbo-proxy",
    "echo",
    "elasticsearch-logger",
    "error-log-logger",
    "error-page",
    "example-plugin",
    "exit-transformer",
    "ext-plugin-post-req",
    "ext-plugin-post-resp",
    "ext-plugin-pre-req",
    "fault-injection",
    "feishu-auth",
    "file-logger",
    "forward-auth",
    "gm",
    "google-cloud-logging",
    "graphql-limit-count",
    "graphql-proxy-cache",
    "grpc-transcode",
    "grpc-web",
    "gzip",
    "hmac-auth",
    "http-dubbo",
    "http-logger",
    "inspect",
    "ip-restriction",
    "jwe-decrypt",
    "jwt-auth",
    "kafka-logger",
    "kafka-proxy",
    "key-auth",
    "lago",
    "ldap-auth",
    "ldap-auth-advanced",
    "limit-conn",
    "limit-count",
    "limit-req",
    "log-rotate",
    "loggly",
    "loki-logger",
    "mcp-bridge",
    "mocking",
    "mqtt-proxy",
    "multi-auth",
    "node-status",
    "oas-validator",
    "ocsp-stapling",
    "opa",
    "openfunction",
    "openid-connect",
    "opentelemetry",
    "openwhisk",
    "prometheus",
    "proxy-buffering",
    "proxy-cache",
    "proxy-control",
    "proxy-mirror",
    "proxy-rewrite",
    "public-api",
    "real-ip",
    "redirect",
    "referer-restriction",
    "request-id",
    "request-validation",
    "response-rewrite",
    "rocketmq-logger",
    "saml-auth",
    "server-info",
    "serverless-post-function",
    "serverless-pre-function",
    "skywalking",
    "skywalking-logger",
    "sls-logger",
    "splunk-hec-logging",
    "syslog",
    "tcp-logger",
    "tencent-cloud-cls",
    "traffic-label",
    "traffic-split",
    "ua-restriction",
    "udp-logger",
    "uri-blocker",
    "wolf-rbac",
    "workflow",
    "zipkin",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PluginInfo;
    use crate::check::CheckOptions;
    use serde_json::json;

    #[test]
    fn names_of_apisix_are_sorted() {
        assert!(OF_APISIX.is_sorted_by(|left, right| left < right));
    }

    #[test]
    fn unknown_plugins_are_told_apart() {
        let plugin = |name: &'static str| PluginInfo::new(name, 0, json!({"type": "object"}));
        let options =
            CheckOptions { switched_off: ["cors".into()].into_iter().collect(), ..CheckOptions::default() };
        let catalog =
            Catalog::new(vec![plugin("limit-count"), plugin("key-auth")]).unwrap().with_options(options);
        let check = |subsystem, name: &str, expected: &str| {
            let found = unknown(&catalog, subsystem, name);
            assert_eq!(found, format!("unknown plugin [{name}]{expected}"));
        };
        let http = Subsystem::Http;
        check(http, "limit-cont", "; did you mean `limit-count`?");
        check(http, "limit_count", "; did you mean `limit-count`?");
        check(http, "jwt-auth", ": APISIX has it, this version of Weir has not");
        check(
            http,
            "jwt-auht",
            "; did you mean `jwt-auth`? APISIX has that plugin, this version of Weir has not",
        );
        check(http, "cors", ": it is built in and switched off; add it to the setting `plugins`");
        check(
            http,
            "my-own",
            ": neither Weir nor APISIX has a plugin of this name; this gateway has key-auth, limit-count",
        );
        check(Subsystem::Stream, "key-auth", ": it serves HTTP only, not layer 4");
    }
}
