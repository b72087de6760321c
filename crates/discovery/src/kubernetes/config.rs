//! The block of Kubernetes: one cluster, or a list of clusters, with the fields and defaults of APISIX.
//! Values `${NAME}` are read from the environment. It does not connect.

mod schema;

use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

pub(super) use self::schema::build_kubernetes_schema;
use super::object::KubernetesKind;
use crate::http::TlsSettings;
use crate::parts::{encoded, shortened};

/// The settings of one cluster.
#[derive(Clone, Debug)]
pub(super) struct KubernetesCluster {
    /// The id in service names; none where there is one cluster.
    pub(super) id: Option<Box<str>>,
    /// `https://HOST:PORT`.
    pub(super) base: String,
    pub(super) tls: TlsSettings,
    pub(super) token: TokenSource,
    pub(super) kind: KubernetesKind,
    /// The path and query of the list, without limit and version.
    pub(super) target: String,
    pub(super) namespaces: Namespaces,
    pub(super) weight: u32,
}

/// The place of the bearer token.
#[derive(Clone)]
pub(super) enum TokenSource {
    Text(String),
    /// Read again for each request, because Kubernetes replaces such tokens within an hour.
    File(PathBuf),
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TokenSource::Text(_) => out.write_str("Text(..)"),
            TokenSource::File(path) => out.debug_tuple("File").field(path).finish(),
        }
    }
}

impl TokenSource {
    /// The token at this moment.
    ///
    /// # Errors
    /// The file cannot be read, or its content is no token.
    pub(super) fn read(&self) -> Result<String, String> {
        let token = match self {
            TokenSource::Text(token) => token.trim().to_owned(),
            TokenSource::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("the token file {} cannot be read: {error}", path.display()))?;
                text.trim().to_owned()
            }
        };
        let is_usable = token.len() <= MAX_TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_graphic());
        match is_usable {
            true => Ok(token),
            false => Err("the token has characters that no token has, or is too long".to_owned()),
        }
    }
}

/// The namespaces that are followed, where the server does not choose them.
#[derive(Clone, Debug)]
pub(super) enum Namespaces {
    All,
    Matching(Vec<Regex>),
    NotMatching(Vec<Regex>),
}

impl Namespaces {
    /// Whether services of a namespace are known.
    pub(super) fn has(&self, namespace: &str) -> bool {
        match self {
            Namespaces::All => true,
            Namespaces::Matching(patterns) => patterns.iter().any(|pattern| pattern.is_match(namespace)),
            Namespaces::NotMatching(patterns) => !patterns.iter().any(|pattern| pattern.is_match(namespace)),
        }
    }
}

#[derive(Deserialize)]
struct KubernetesBlock {
    id: Option<Box<str>>,
    #[serde(default)]
    service: KubernetesServiceBlock,
    #[serde(default)]
    client: KubernetesClientBlock,
    #[serde(default)]
    namespace_selector: Selector,
    label_selector: Option<String>,
    #[serde(default = "default_weight")]
    default_weight: u32,
    watch_endpoint_slices: Option<bool>,
}

#[derive(Default, Deserialize)]
struct KubernetesServiceBlock {
    schema: Option<String>,
    host: Option<String>,
    port: Option<String>,
    ssl_verify: Option<bool>,
    ca: Option<String>,
}

#[derive(Default, Deserialize)]
struct KubernetesClientBlock {
    token: Option<String>,
    token_file: Option<String>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    ssl_verify: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Selector {
    equal: Option<String>,
    not_equal: Option<String>,
    r#match: Option<Vec<String>>,
    not_match: Option<Vec<String>>,
}

fn default_weight() -> u32 {
    50
}

/// Reads the block. `environment` gives the value of a variable.
///
/// # Errors
/// A value cannot be used; a sentence that names the field.
pub(super) fn clusters(
    block: &Value,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<KubernetesCluster>, String> {
    let several = block.as_array();
    let written: Vec<KubernetesBlock> = match several {
        Some(_) => serde_json::from_value(block.clone()).map_err(|error| error.to_string())?,
        None => vec![serde_json::from_value(block.clone()).map_err(|error| error.to_string())?],
    };
    let mut clusters: Vec<KubernetesCluster> = Vec::new();
    for written in written {
        let cluster = cluster(written, environment)?;
        if several.is_some() && cluster.id.is_none() {
            return Err("a cluster of a list needs an id".to_owned());
        }
        if clusters.iter().any(|other| other.id == cluster.id) {
            return Err(format!("two clusters have the id `{}`", cluster.id.unwrap_or_default()));
        }
        clusters.push(KubernetesCluster { id: cluster.id.filter(|_| several.is_some()), ..cluster });
    }
    Ok(clusters)
}

fn cluster(
    written: KubernetesBlock,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<KubernetesCluster, String> {
    let value = |field: &str, text: Option<String>, default: &str| {
        resolved(text.as_deref().unwrap_or(default), environment)
            .map_err(|reason| format!("{field}: {reason}"))
    };
    let scheme = written.service.schema.unwrap_or_else(|| "https".to_owned());
    let host = value("service.host", written.service.host, "${KUBERNETES_SERVICE_HOST}")?;
    let port = value("service.port", written.service.port, "${KUBERNETES_SERVICE_PORT}")?;
    let host = match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host,
    };
    if port.parse::<u16>().map_or(true, |port| port == 0) {
        return Err(format!("service.port: `{}` is no port", shortened(&port)));
    }
    let identity = written.client.cert_file.zip(written.client.key_file);
    let token = match (written.client.token, written.client.token_file) {
        (Some(token), _) => TokenSource::Text(value("client.token", Some(token), "")?),
        // A client certificate stands in for the token.
        (None, None) if identity.is_some() => TokenSource::Text(String::new()),
        (None, file) => TokenSource::File(PathBuf::from(value("client.token_file", file, POD_TOKEN)?)),
    };
    let ca = match written.service.ca {
        Some(file) => Some(PathBuf::from(value("service.ca", Some(file), "")?)),
        // A pod finds the certificate of its cluster's authority there.
        None => Some(PathBuf::from(POD_CA)).filter(|file| Path::exists(file)),
    };
    let kind = match written.watch_endpoint_slices {
        Some(false) => KubernetesKind::Endpoints,
        _ => KubernetesKind::EndpointSlices,
    };
    // APISIX has this field at `client`; Weir accepts it at `service` too.
    let verify = match (written.service.ssl_verify, written.client.ssl_verify) {
        (Some(one), Some(other)) if one != other => {
            return Err("service.ssl_verify and client.ssl_verify differ; write one of them".to_owned());
        }
        (one, other) => one.or(other).unwrap_or(true),
    };
    let (cert, key) = identity.unzip();
    let (target, namespaces) = target(kind, &written.namespace_selector, written.label_selector.as_deref())?;
    Ok(KubernetesCluster {
        id: written.id,
        base: format!("{scheme}://{host}:{port}"),
        tls: TlsSettings { ca, cert, key, verify },
        token,
        kind,
        target,
        namespaces,
        weight: written.default_weight,
    })
}

/// A value as written, or that of the variable in `${NAME}`.
fn resolved(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    match name {
        Some(name) => environment(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("the environment variable {name} is not set")),
        None => Ok(text.to_owned()),
    }
}

/// The path and query of a list with its selectors. One namespace is asked for by its own path, so that
/// rights on that namespace suffice.
fn target(
    kind: KubernetesKind,
    selector: &Selector,
    labels: Option<&str>,
) -> Result<(String, Namespaces), String> {
    let (api, objects) = match kind {
        KubernetesKind::EndpointSlices => ("/apis/discovery.k8s.io/v1", "endpointslices"),
        KubernetesKind::Endpoints => ("/api/v1", "endpoints"),
    };
    let mut target = match &selector.equal {
        Some(namespace) => format!("{api}/namespaces/{}/{objects}?", encoded(namespace)),
        None => format!("{api}/{objects}?"),
    };
    if let Some(namespace) = &selector.not_equal {
        target.push_str(&format!("fieldSelector={}&", encoded(&format!("metadata.namespace!={namespace}"))));
    }
    if let Some(labels) = labels.map(str::trim).filter(|labels| !labels.is_empty()) {
        target.push_str(&format!("labelSelector={}&", encoded(labels)));
    }
    let namespaces = match (&selector.r#match, &selector.not_match) {
        (Some(patterns), _) => Namespaces::Matching(compiled(patterns)?),
        (None, Some(patterns)) => Namespaces::NotMatching(compiled(patterns)?),
        (None, None) => Namespaces::All,
    };
    Ok((target, namespaces))
}

/// Patterns that match a whole name.
fn compiled(patterns: &[String]) -> Result<Vec<Regex>, String> {
    let compile = |pattern: &String| {
        RegexBuilder::new(&format!("^(?:{pattern})$"))
            .size_limit(MAX_PATTERN_BYTES)
            .build()
            .map_err(|error| format!("namespace_selector: `{}` is no pattern: {error}", shortened(pattern)))
    };
    patterns.iter().map(compile).collect()
}

const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const POD_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
/// Limit of a token, as in APISIX.
const MAX_TOKEN_BYTES: usize = 4096;
/// Memory of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
