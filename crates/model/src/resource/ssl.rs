//! A certificate with its key. Knows its fields; TLS is the gateway's.

use serde::Deserialize;

use super::common::{ObjectLabels, OneOrMany, on, status};
use crate::{Id, number};

/// A certificate with its key.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "SslForm")]
pub struct Ssl {
    /// The side it is shown to.
    pub ssl_type: SslType,
    /// The server names it serves (`sni` or `snis`).
    pub snis: OneOrMany<Box<str>>,
    /// The certificates with their keys, PEM; the first is the main one.
    pub pairs: Box<[(Box<str>, Box<str>)]>,
    /// Whether and how clients prove their identity.
    pub client: Option<Box<SslClient>>,
    /// Whether and how OCSP responses are stapled.
    pub ocsp_stapling: OcspStapling,
    /// The TLS versions allowed; empty: the defaults.
    pub ssl_protocols: Box<[Box<str>]>,
    /// Off certificates are not shown.
    pub enabled: bool,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    pub labels: ObjectLabels,
}

/// The side that a certificate is shown to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SslType {
    /// To clients.
    #[default]
    Server,
    /// To origin servers.
    Client,
}

/// How clients prove their identity.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SslClient {
    /// The authorities that sign clients, PEM.
    pub ca: Box<str>,
    /// How long the chain may be.
    #[serde(default = "one", deserialize_with = "number::deserialize_integer")]
    pub depth: u32,
    /// Lists of revoked certificates, PEM. Not in APISIX.
    pub crl: Option<Box<str>>,
    /// Paths that need no proof.
    #[serde(default)]
    pub skip_mtls_uri_regex: Box<[Box<str>]>,
}

fn one() -> u32 {
    1
}

/// How OCSP responses are stapled, with the fields of APISIX's plugin `ocsp-stapling`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OcspStapling {
    /// Whether they are.
    #[serde(default)]
    pub enabled: bool,
    /// Whether one is taken as it is: without a verified signature, and with any verdict.
    #[serde(default)]
    pub skip_verify: bool,
    /// Longest time until one is fetched again, in seconds.
    #[serde(default = "hour", deserialize_with = "number::deserialize_integer")]
    pub cache_ttl: u32,
}

impl Default for OcspStapling {
    fn default() -> OcspStapling {
        OcspStapling { enabled: false, skip_verify: false, cache_ttl: hour() }
    }
}

fn hour() -> u32 {
    3600
}

impl Ssl {
    /// An object of which only the server names are known; it has no certificate.
    #[must_use]
    pub(crate) fn of_names(snis: OneOrMany<Box<str>>) -> Ssl {
        Ssl {
            ssl_type: SslType::Server,
            snis,
            pairs: Box::default(),
            client: None,
            ocsp_stapling: OcspStapling::default(),
            ssl_protocols: Box::default(),
            enabled: true,
            name: None,
            desc: None,
            labels: ObjectLabels::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SslForm {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    #[serde(default, rename = "type")]
    ssl_type: SslType,
    sni: Option<Box<str>>,
    snis: Option<Vec<Box<str>>>,
    cert: Box<str>,
    key: Box<str>,
    #[serde(default)]
    certs: Vec<Box<str>>,
    #[serde(default)]
    keys: Vec<Box<str>>,
    client: Option<Box<SslClient>>,
    #[serde(default)]
    ocsp_stapling: OcspStapling,
    #[serde(default)]
    ssl_protocols: Box<[Box<str>]>,
    #[serde(default = "on", deserialize_with = "status")]
    status: bool,
    name: Option<Box<str>>,
    desc: Option<Box<str>>,
    #[serde(default)]
    labels: ObjectLabels,
}

impl From<SslForm> for Ssl {
    fn from(form: SslForm) -> Ssl {
        let main = std::iter::once((form.cert, form.key));
        Ssl {
            ssl_type: form.ssl_type,
            snis: OneOrMany::of(form.sni, form.snis),
            pairs: main.chain(form.certs.into_iter().zip(form.keys)).collect(),
            client: form.client,
            ocsp_stapling: form.ocsp_stapling,
            ssl_protocols: form.ssl_protocols,
            enabled: form.status,
            name: form.name,
            desc: form.desc,
            labels: form.labels,
        }
    }
}
