//! Settings that both the control and the data side need. Knows neither the settings file nor the flags.

use std::time::Duration;

use ipnet::IpNet;
use router::Mode;
use router::path::PathOptions;
use serde::Deserialize;

use crate::number;

/// How a request's path is brought into its one canonical form, with APISIX's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathSettings {
    /// Repeated slashes become one.
    pub merge_slashes: bool,
    /// A slash at the end is dropped.
    pub delete_uri_tail_slash: bool,
    /// The part of a segment behind `;` is dropped, as servlet containers do.
    pub normalize_uri_like_servlet: bool,
    /// An encoded slash (`%2F`) is matched as part of a segment, not as a slash.
    pub match_uri_encoded_slash: bool,
}

impl Default for PathSettings {
    fn default() -> PathSettings {
        PathSettings {
            merge_slashes: true,
            delete_uri_tail_slash: false,
            normalize_uri_like_servlet: false,
            match_uri_encoded_slash: false,
        }
    }
}

impl From<PathSettings> for PathOptions {
    fn from(settings: PathSettings) -> PathOptions {
        PathOptions {
            merge_slashes: settings.merge_slashes,
            match_uri_encoded_slash: settings.match_uri_encoded_slash,
            delete_uri_tail_slash: settings.delete_uri_tail_slash,
            normalize_uri_like_servlet: settings.normalize_uri_like_servlet,
        }
    }
}

/// How routes are looked up (`apisix.router.http`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterMode {
    /// Host first, then path.
    #[default]
    RadixtreeHostUri,
    /// Path first; the host is only a filter.
    RadixtreeUri,
    /// Path first, with `:name` and `*name` parameters.
    RadixtreeUriWithParameter,
}

impl From<RouterMode> for Mode {
    fn from(mode: RouterMode) -> Mode {
        match mode {
            RouterMode::RadixtreeHostUri => Mode::HostUri,
            RouterMode::RadixtreeUri => Mode::Uri,
            RouterMode::RadixtreeUriWithParameter => Mode::UriWithParameter,
        }
    }
}

/// The settings that both sides need, to read a configuration and to serve it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SharedSettings {
    /// The canonical path.
    pub path: PathSettings,
    /// The router.
    pub router: RouterMode,
    /// Peers with `X-Forwarded-*` headers that are believed.
    pub trusted_addresses: Vec<IpNet>,
    /// Timeouts of upstreams that name none.
    pub upstream_timeout: UpstreamTimeout,
    /// Whether one faulty object refuses the whole batch it comes in.
    pub strict: bool,
}

/// Timeouts of upstreams that name none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamTimeout {
    /// To connect.
    #[serde(deserialize_with = "number::seconds")]
    pub connect: Duration,
    /// Between two successful writes.
    #[serde(deserialize_with = "number::seconds")]
    pub send: Duration,
    /// Between two successful reads.
    #[serde(deserialize_with = "number::seconds")]
    pub read: Duration,
}

impl Default for UpstreamTimeout {
    fn default() -> UpstreamTimeout {
        UpstreamTimeout { connect: MINUTE, send: MINUTE, read: MINUTE }
    }
}

/// nginx's default for each of the three, which APISIX keeps.
const MINUTE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_unknown_fields() {
        let settings: SharedSettings = serde_json::from_str("{}").unwrap();
        assert!(settings.path.merge_slashes && settings.router == RouterMode::RadixtreeHostUri);
        assert_eq!(settings.upstream_timeout.read, MINUTE);
        assert!(serde_json::from_str::<SharedSettings>(r#"{"colour":1}"#).is_err());
        let mode: RouterMode = serde_json::from_str(r#""radixtree_uri_with_parameter""#).unwrap();
        assert_eq!(Mode::from(mode), Mode::UriWithParameter);
        assert_eq!(PathOptions::from(PathSettings::default()), PathOptions::default());
    }
}
