//! The plugins of APISIX 3.18, of which this gateway has a growing part: the purpose of each, and its
//! replacement while it is missing. Messages and documents are made from this list; it does not know which
//! plugins exist here.

/// A plugin of APISIX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApisixPlugin {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub family: Family,
    /// The replacement while there is no such plugin, in Markdown for a page of `docs/guide`; empty: nothing
    /// replaces it.
    pub instead: &'static str,
    /// Whether the gateway cannot have it; `instead` says why and what to do, in plain text.
    pub is_refused: bool,
}

/// The purpose of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Finding the consumer or user of a request.
    Authentication,
    /// Refusing requests.
    Access,
    /// Limits, caches, splitting, faults.
    Traffic,
    /// Changing requests and responses.
    Transformation,
    /// Other protocols than HTTP.
    Protocols,
    /// Sending logs to servers.
    Logs,
    /// Metrics, traces, identifiers.
    Metrics,
    /// Models and agents.
    Ai,
    /// Code of users, and functions of clouds.
    Code,
}

impl Family {
    /// The family as a word of a page.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Family::Authentication => "authentication",
            Family::Access => "access and security",
            Family::Traffic => "traffic",
            Family::Transformation => "transformation",
            Family::Protocols => "protocols",
            Family::Logs => "logs",
            Family::Metrics => "metrics and tracing",
            Family::Ai => "AI",
            Family::Code => "code and functions",
        }
    }
}

/// The plugin of APISIX with this name.
#[must_use]
pub fn find_apisix_plugin(name: &str) -> Option<&'static ApisixPlugin> {
    let index = ALL.binary_search_by(|plugin| plugin.name.cmp(name)).ok()?;
    ALL.get(index)
}

const fn plugin(name: &'static str, family: Family, instead: &'static str) -> ApisixPlugin {
    ApisixPlugin { name, family, instead, is_refused: false }
}

const fn refused(name: &'static str, family: Family, instead: &'static str) -> ApisixPlugin {
    ApisixPlugin { name, family, instead, is_refused: true }
}

use Family::{Access, Ai, Authentication, Code, Logs, Metrics, Protocols, Traffic, Transformation};

/// All of them, sorted by name: those that its sample configuration lists, and those of layer 4.
pub const ALL: &[ApisixPlugin] = &[
    plugin("acl", Access, ""),
    plugin("ai", Ai, "an AI gateway behind Weir"),
    plugin("ai-aliyun-content-moderation", Ai, "an AI gateway behind Weir"),
    plugin("ai-aws-content-moderation", Ai, "an AI gateway behind Weir"),
    plugin("ai-cache", Ai, "an AI gateway behind Weir"),
    plugin("ai-lakera-guard", Ai, "an AI gateway behind Weir"),
    plugin("ai-prompt-decorator", Ai, "an AI gateway behind Weir"),
    plugin("ai-prompt-guard", Ai, "an AI gateway behind Weir"),
    plugin("ai-prompt-template", Ai, "an AI gateway behind Weir"),
    plugin("ai-proxy", Ai, "an AI gateway behind Weir"),
    plugin("ai-proxy-multi", Ai, "an AI gateway behind Weir"),
    plugin("ai-rag", Ai, "an AI gateway behind Weir"),
    plugin("ai-rate-limiting", Ai, "an AI gateway behind Weir"),
    plugin("ai-request-rewrite", Ai, "an AI gateway behind Weir"),
    plugin("api-breaker", Traffic, ""),
    plugin("attach-consumer-label", Authentication, ""),
    plugin("authz-casbin", Authentication, ""),
    plugin("authz-casdoor", Authentication, "`openid-connect` or `forward-auth` with Casdoor"),
    plugin("authz-keycloak", Authentication, ""),
    plugin("aws-lambda", Code, "the function's URL as an upstream"),
    plugin("azure-functions", Code, "the function's URL as an upstream"),
    plugin("basic-auth", Authentication, ""),
    plugin("batch-requests", Traffic, ""),
    plugin("body-transformer", Transformation, ""),
    plugin("brotli", Transformation, ""),
    plugin("cas-auth", Authentication, "`forward-auth` with a service that speaks CAS"),
    plugin("chaitin-waf", Access, "the WAF as a proxy in front of Weir or as the upstream"),
    plugin("clickhouse-logger", Logs, ""),
    plugin("client-control", Traffic, ""),
    plugin("consumer-restriction", Access, ""),
    plugin("cors", Access, ""),
    plugin("csrf", Access, ""),
    plugin("data-mask", Access, ""),
    plugin("datadog", Metrics, ""),
    plugin("degraphql", Transformation, ""),
    plugin("dingtalk-auth", Authentication, "`forward-auth` with a service of your own"),
    plugin("dubbo-proxy", Protocols, ""),
    plugin("echo", Transformation, ""),
    plugin("elasticsearch-logger", Logs, ""),
    plugin("error-log-logger", Logs, ""),
    plugin("error-page", Transformation, ""),
    plugin("example-plugin", Code, ""),
    plugin("exit-transformer", Transformation, ""),
    plugin("ext-plugin-post-req", Code, ""),
    plugin("ext-plugin-post-resp", Code, ""),
    plugin("ext-plugin-pre-req", Code, ""),
    plugin("fault-injection", Traffic, ""),
    plugin("feishu-auth", Authentication, "`forward-auth` with a service of your own"),
    plugin("file-logger", Logs, ""),
    plugin("forward-auth", Authentication, ""),
    plugin("gm", Access, ""),
    plugin("google-cloud-logging", Logs, ""),
    plugin("graphql-limit-count", Traffic, ""),
    plugin("graphql-proxy-cache", Traffic, ""),
    plugin("grpc-transcode", Protocols, ""),
    plugin("grpc-web", Protocols, ""),
    plugin("gzip", Transformation, ""),
    plugin("hmac-auth", Authentication, ""),
    plugin("http-dubbo", Protocols, ""),
    plugin("http-logger", Logs, ""),
    refused(
        "inspect",
        Metrics,
        "its breakpoints are debugging hooks in the Lua code of APISIX, and there is no such code here; set the log level \
         while the instance runs, or ask `weir explain`",
    ),
    plugin("ip-restriction", Access, ""),
    plugin("jwe-decrypt", Authentication, ""),
    plugin("jwt-auth", Authentication, ""),
    plugin("kafka-logger", Logs, ""),
    plugin("kafka-proxy", Protocols, ""),
    plugin("key-auth", Authentication, ""),
    plugin("lago", Metrics, ""),
    plugin("ldap-auth", Authentication, ""),
    plugin("ldap-auth-advanced", Authentication, "`forward-auth` with a service that asks the directory"),
    plugin("limit-conn", Traffic, ""),
    plugin("limit-count", Traffic, ""),
    plugin("limit-req", Traffic, ""),
    plugin("log-rotate", Logs, ""),
    plugin("loggly", Logs, ""),
    plugin("loki-logger", Logs, ""),
    plugin("mcp-bridge", Protocols, ""),
    plugin("mocking", Traffic, ""),
    plugin("mqtt-proxy", Protocols, ""),
    plugin("multi-auth", Authentication, ""),
    plugin("node-status", Metrics, ""),
    plugin("oas-validator", Access, ""),
    plugin("ocsp-stapling", Access, ""),
    plugin("opa", Authentication, ""),
    plugin("openfunction", Code, "the function's URL as an upstream"),
    plugin("openid-connect", Authentication, ""),
    plugin("opentelemetry", Metrics, ""),
    plugin("openwhisk", Code, "the function's URL as an upstream"),
    plugin("prometheus", Metrics, ""),
    plugin("proxy-buffering", Traffic, ""),
    plugin("proxy-cache", Traffic, ""),
    plugin("proxy-control", Traffic, ""),
    plugin("proxy-mirror", Traffic, ""),
    plugin("proxy-rewrite", Transformation, ""),
    plugin("public-api", Code, ""),
    plugin("real-ip", Traffic, ""),
    plugin("redirect", Transformation, ""),
    plugin("referer-restriction", Access, ""),
    plugin("request-id", Metrics, ""),
    plugin("request-validation", Access, ""),
    plugin("response-rewrite", Transformation, ""),
    plugin("rocketmq-logger", Logs, "a collector that reads the access log"),
    plugin("saml-auth", Authentication, "`forward-auth` with a service that speaks SAML"),
    plugin("server-info", Metrics, ""),
    plugin("serverless-post-function", Code, ""),
    plugin("serverless-pre-function", Code, ""),
    plugin("skywalking", Metrics, ""),
    plugin("skywalking-logger", Logs, ""),
    plugin("sls-logger", Logs, ""),
    plugin("splunk-hec-logging", Logs, ""),
    plugin("syslog", Logs, ""),
    plugin("tcp-logger", Logs, ""),
    plugin("tencent-cloud-cls", Logs, ""),
    plugin("traffic-label", Traffic, ""),
    plugin("traffic-split", Traffic, ""),
    plugin("ua-restriction", Access, ""),
    plugin("udp-logger", Logs, ""),
    plugin("uri-blocker", Access, ""),
    plugin("wolf-rbac", Authentication, "`forward-auth` with the Wolf server"),
    plugin("workflow", Traffic, ""),
    plugin("zipkin", Metrics, ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_sorted_so_that_names_are_found() {
        assert!(ALL.is_sorted_by(|left, right| left.name < right.name));
        assert!(ALL.iter().all(|plugin| find_apisix_plugin(plugin.name) == Some(plugin)));
        assert_eq!(find_apisix_plugin("limit-cont"), None);
        assert!(ALL.iter().all(|plugin| !plugin.is_refused || !plugin.instead.is_empty()));
    }
}
