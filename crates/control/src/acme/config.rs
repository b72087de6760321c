//! The settings of certificates by ACME, as values. It reads no file.

use std::path::PathBuf;
use std::time::Duration;

use instant_acme::ChallengeType;
use model::outbound::OutboundPolicy;

/// Which certificates to order, where and how.
#[derive(Clone)]
pub struct AcmeConfig {
    /// The address that an authority writes to about its certificates.
    pub email: Option<String>,
    /// The names of each certificate, in the form of [`super::checked_name`]; the first one gives the id.
    pub certificates: Vec<Vec<String>>,
    /// The authorities, in the order in which they are asked; at least one.
    pub authorities: Vec<Authority>,
    /// The challenges that may be used, the preferred one first.
    pub challenges: Vec<ChallengeKind>,
    /// The command that sets and removes records of DNS-01.
    pub dns_hook: Option<PathBuf>,
    /// How long a record needs until every name server of the zone has it.
    pub dns_wait: Duration,
    /// Certificates (PEM) that an authority's own may be signed by; none means the system's.
    pub ca: Option<PathBuf>,
    /// The profile of certificates to ask for (an extension that some authorities have).
    pub profile: Option<String>,
    /// Certificates for names that clients ask for; none: only `certificates`.
    pub on_demand: Option<OnDemandConfig>,
    /// Which addresses authorities may have.
    pub policy: OutboundPolicy,
}

/// A certificate authority.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    /// The URL of its directory.
    pub directory: String,
    /// Key id and key of an account elsewhere that a new account is bound to (RFC 8555 section 7.3.4).
    pub external_account: Option<(String, Vec<u8>)>,
}

/// Rules of certificates on demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDemandConfig {
    /// Names that are allowed: names, or `*.` in front of one for one more label.
    pub allow: Vec<String>,
    /// Most certificates that are ordered so.
    pub limit: usize,
}

/// A way to prove control of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A file served over HTTP on port 80.
    Http01,
    /// A certificate presented on port 443.
    TlsAlpn01,
    /// A record in DNS.
    Dns01,
}

impl ChallengeKind {
    /// All of them, with the names that settings and authorities have for them.
    pub const ALL: [(&'static str, ChallengeKind); 3] = [
        ("http-01", ChallengeKind::Http01),
        ("tls-alpn-01", ChallengeKind::TlsAlpn01),
        ("dns-01", ChallengeKind::Dns01),
    ];

    /// As the authority's answers name it.
    pub(super) fn of_authority(self) -> ChallengeType {
        match self {
            ChallengeKind::Http01 => ChallengeType::Http01,
            ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
            ChallengeKind::Dns01 => ChallengeType::Dns01,
        }
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bound = self.external_account.as_ref().map(|(id, _)| id);
        formatter
            .debug_struct("Authority")
            .field("directory", &self.directory)
            .field("bound", &bound)
            .finish()
    }
}
