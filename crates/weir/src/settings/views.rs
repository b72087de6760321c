//! Settings as other parts of the program take them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use gateway::compile::ExpiredCertificates;
use model::catalog::StreamPorts;
use model::check::{CheckOptions, UnknownFields};
use model::outbound::OutboundPolicy;
use model::settings::{PathSettings, SharedSettings, UpstreamTimeout};

use super::{ResourceSource, Settings, StreamRoutes};

impl Settings {
    /// The part of the settings that both the control side and the data side need.
    #[must_use]
    pub(crate) fn shared(&self) -> SharedSettings {
        SharedSettings {
            path: PathSettings {
                merge_slashes: self.merge_slashes,
                delete_uri_tail_slash: self.delete_uri_tail_slash,
                normalize_uri_like_servlet: self.normalize_uri_like_servlet,
                match_uri_encoded_slash: self.match_uri_encoded_slash,
            },
            router: self.router_mode,
            trusted_addresses: self.trusted_addresses.clone(),
            upstream_timeout: UpstreamTimeout {
                connect: Duration::from_millis(self.upstream_connect_timeout_ms),
                send: Duration::from_millis(self.upstream_send_timeout_ms),
                read: Duration::from_millis(self.upstream_read_timeout_ms),
            },
            strict: self.strict,
        }
    }

    /// The settings that checks of objects depend on.
    #[must_use]
    pub(crate) fn check_options(&self) -> CheckOptions {
        let unknown_fields = if self.strict { UnknownFields::Refuse } else { self.unknown_fields };
        let refuses_expired_certificates = self.ssl_expired_certificates == ExpiredCertificates::Refuse;
        CheckOptions {
            unknown_fields,
            router: self.router_mode,
            refuses_expired_certificates,
            outbound: OutboundPolicy { allow: self.outbound_allow.clone() },
            ..CheckOptions::default()
        }
    }

    /// The source of resources, with `auto` resolved.
    #[must_use]
    pub(crate) fn source(&self) -> ResourceSource {
        match (self.source, &self.resources) {
            (ResourceSource::Auto, Some(_)) => ResourceSource::File,
            (ResourceSource::Auto, None) => ResourceSource::Store,
            (source, _) => source,
        }
    }

    /// The lists of addresses that the proxy listens on, by their settings.
    #[must_use]
    pub(crate) fn proxy_listeners(&self) -> [(&'static str, &[SocketAddr]); 5] {
        [
            ("proxy", &self.proxy),
            ("proxy_tls", &self.proxy_tls),
            ("proxy_tls_http3", &self.proxy_tls_http3),
            ("proxy_protocol", &self.proxy_protocol),
            ("proxy_protocol_tls", &self.proxy_protocol_tls),
        ]
    }

    /// The lists of addresses of layer 4, by their settings; the last one is that of UDP.
    #[must_use]
    pub(crate) fn stream_listeners(&self) -> [(&'static str, &[SocketAddr]); 5] {
        [
            ("stream_tcp", &self.stream_tcp),
            ("stream_tls", &self.stream_tls),
            ("stream_proxy_protocol", &self.stream_proxy_protocol),
            ("stream_proxy_protocol_tls", &self.stream_proxy_protocol_tls),
            ("stream_udp", &self.stream_udp),
        ]
    }

    /// The ports of listeners of layer 4; none where a listener takes connections to any port.
    #[must_use]
    pub(crate) fn stream_ports(&self) -> Option<StreamPorts> {
        if !self.stream_tproxy.is_empty() || !self.stream_redirect.is_empty() {
            return None;
        }
        let ports = |list: &[SocketAddr]| list.iter().map(SocketAddr::port).collect::<BTreeSet<u16>>();
        let [connections @ .., (_, datagrams)] = self.stream_listeners();
        let connections = connections.into_iter().flat_map(|(_, list)| ports(list)).collect();
        Some(StreamPorts { connections, datagrams: ports(datagrams) })
    }

    /// Whether stream routes are taken.
    #[must_use]
    pub(crate) fn takes_stream_routes(&self) -> bool {
        match self.admin_stream_routes {
            StreamRoutes::Auto => self.stream_listeners().iter().any(|(_, list)| !list.is_empty()),
            StreamRoutes::Taken => true,
            StreamRoutes::Refused => false,
        }
    }
}
