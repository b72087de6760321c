//! Settings, translated into the options of the engine, the Admin API and the access log. Decides nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use control::acme::{AcmeConfig, Authority, OnDemandConfig};
use control::{AdminConfig, AdminKey, TlsFiles};
use exchange::client_address::RealIpOptions;
use exchange::options::AttemptTimeouts;
use exchange::options::ForwardOptions;
use exchange::options::{EngineLimits, Http2Limits, Http3Limits, Options, UpstreamHttp2Limits};
use gateway::observe::access_log::{self, AccessLog, Format, JsonField};
use gateway::observe::log_writer::{LogDestination, LogWriter};
use message::HeadLimits;
use model::acme::Challenges;
use model::outbound::OutboundPolicy;
use net::tls::server::ServerSettings;
use router::vars::Template;

use super::memory_bound::memory_bound;
use crate::settings::{AccessLogFormat, LogTarget, MemoryLimit, Overload, Settings};

/// The options of the engine.
pub(super) fn engine(settings: &Settings, challenges: &Arc<Challenges>) -> Options {
    Options {
        path: settings.shared().path.into(),
        real_ip: RealIpOptions {
            proxy_protocol_from: settings.proxy_protocol_from.clone(),
            from: settings.real_ip_from.clone(),
            header: settings.real_ip_header.as_str().into(),
            recursive: settings.real_ip_recursive,
        },
        forward: ForwardOptions {
            trusted_addresses: settings.trusted_addresses.clone(),
            via: Some("weir".into()),
            server: settings.server_header.as_deref().map(Into::into),
            show_upstream_status: settings.show_upstream_status_in_response_header,
            error_header: settings.error_header,
            accel_fields: settings.forward_accel_fields,
            html_errors: settings.html_errors,
            alt_svc: settings.http3_alt_svc.clone(),
        },
        limits: limits(settings),
        upstream_timeouts: AttemptTimeouts {
            connect_ms: settings.upstream_connect_timeout_ms,
            send_ms: settings.upstream_send_timeout_ms,
            read_ms: settings.upstream_read_timeout_ms,
            tunnel_idle_ms: settings.tunnel_idle_timeout_ms,
        },
        pin: settings.pin,
        challenges: acme(settings).is_some().then(|| Arc::clone(challenges)),
        https_port: redirect_port(settings).unwrap_or_else(|| {
            let listener = settings.proxy_tls.first().or(settings.proxy_tls_http3.first());
            listener.map_or(HTTPS_PORT, SocketAddr::port)
        }),
        mutual_tls_over_http: settings.mutual_tls_over_http,
        http1_only: settings.http1_only.clone(),
    }
}

/// The port that redirects to HTTPS name, if a setting has one.
pub(super) fn redirect_port(settings: &Settings) -> Option<u16> {
    u16::try_from(settings.redirect_https_port_number).ok().filter(|port| *port != 0)
}

/// The port of HTTPS where nothing listens for TLS here: another gateway may end TLS in front.
const HTTPS_PORT: u16 = 9443;

/// The settings of clients' handshakes.
pub(super) fn tls(settings: &Settings) -> ServerSettings {
    ServerSettings {
        versions: settings.ssl_protocols,
        ciphers: settings.ssl_ciphers.clone(),
        curves: settings.ssl_curves.clone(),
        fallback_sni: settings.fallback_sni.clone(),
        session_tickets: settings.ssl_session_tickets,
        key_log_file: settings.tls_key_log.clone().map(PathBuf::into_boxed_path),
    }
}

fn limits(settings: &Settings) -> EngineLimits {
    EngineLimits {
        head: HeadLimits {
            max_head_bytes: settings.max_head_bytes,
            max_line_bytes: settings.max_header_line_bytes,
            max_fields: settings.max_header_fields,
        },
        head_timeout_ms: settings.head_timeout_ms,
        worker_stall_timeout_ms: settings.worker_stall_timeout_ms,
        handshake_timeout_ms: settings.tls_handshake_timeout_ms,
        idle_timeout_ms: settings.idle_timeout_ms,
        linger_timeout_ms: settings.client_linger_timeout_ms,
        linger_time_ms: settings.client_linger_time_ms,
        max_lingering_connections: settings.max_lingering_connections,
        body_timeout_ms: settings.client_body_timeout_ms,
        send_timeout_ms: settings.client_send_timeout_ms,
        min_body_rate: settings.client_min_body_rate,
        min_send_rate: settings.client_min_send_rate,
        rate_window_ms: settings.client_rate_window_ms,
        request_timeout_ms: settings.request_timeout_ms,
        max_body_bytes: settings.max_body_bytes,
        max_matched_body_bytes: settings.max_matched_body_bytes,
        wait_for_body_bytes: settings.wait_for_body_bytes,
        http2: Http2Limits {
            is_enabled: settings.http2,
            max_streams: settings.http2_max_streams,
            stream_window_bytes: settings.http2_stream_window_bytes,
            connection_window_bytes: settings.http2_connection_window_bytes,
        },
        http3: Http3Limits {
            max_streams: settings.http3_max_streams,
            stream_window_bytes: settings.http3_stream_window_bytes,
            connection_window_bytes: settings.http3_connection_window_bytes,
            retry_handshakes: settings.http3_retry_handshakes as usize,
            max_handshakes: settings.http3_max_handshakes as usize,
        },
        upstream_http2: UpstreamHttp2Limits {
            max_streams: settings.upstream_http2_max_streams,
            stream_window_bytes: settings.upstream_http2_stream_window_bytes,
            ping_after_ms: settings.upstream_http2_ping_after_ms,
            ping_timeout_ms: settings.upstream_http2_ping_timeout_ms,
        },
        grpc_max_message_bytes: settings.grpc_max_message_bytes,
        max_requests_per_connection: settings.max_requests_per_connection,
        max_connections: settings.max_connections,
        max_connections_per_address: settings.max_connections_per_address,
        memory_limit_bytes: memory_limit_bytes(settings),
        adaptive_concurrency: settings.overload == Overload::Adaptive,
        ..EngineLimits::default()
    }
}

/// The memory limit of the process in bytes; 0 is no limit.
fn memory_limit_bytes(settings: &Settings) -> u64 {
    match settings.memory_limit {
        MemoryLimit::Bytes(bytes) => bytes,
        MemoryLimit::Auto => memory_bound().map_or(0, |bound| bound.share_bytes),
        MemoryLimit::Off => 0,
    }
}

/// The access rules of the Admin API.
pub(super) fn build_admin_config(settings: &Settings, keys: Vec<AdminKey>) -> AdminConfig {
    AdminConfig {
        keys,
        key_required: settings.admin_key_required,
        allow: settings.admin_allow.clone(),
        cors: settings.admin_cors,
        ui: settings.admin_ui,
        hosts: settings.admin_hosts.clone(),
        emulated_version: settings.admin_emulated_version.clone(),
        memory_limit_bytes: memory_limit_bytes(settings),
        tls: settings.admin_tls_cert.clone().zip(settings.admin_tls_key.clone()).map(|(certificate, key)| {
            TlsFiles { certificate, key, client_ca: settings.admin_tls_client_ca.clone() }
        }),
    }
}

/// Certificates to order, if there are any.
pub(super) fn acme(settings: &Settings) -> Option<AcmeConfig> {
    if settings.acme_domains.is_empty() && settings.acme_on_demand.is_empty() {
        return None;
    }
    let authority = |(index, directory): (usize, &String)| Authority {
        directory: directory.clone(),
        external_account: settings.acme_external_accounts.reveal(index),
    };
    let on_demand =
        OnDemandConfig { allow: settings.acme_on_demand.clone(), limit: settings.acme_on_demand_limit };
    Some(AcmeConfig {
        email: settings.acme_email.clone(),
        certificates: settings.acme_domains.clone(),
        authorities: settings.acme_authorities.iter().enumerate().map(authority).collect(),
        challenges: settings.acme_challenges.clone(),
        dns_hook: settings.acme_dns_hook.clone(),
        dns_wait: Duration::from_secs(settings.acme_dns_wait_seconds),
        ca: settings.acme_ca.clone(),
        profile: settings.acme_profile.clone(),
        on_demand: Some(on_demand).filter(|on_demand| !on_demand.allow.is_empty()),
        policy: OutboundPolicy { allow: settings.outbound_allow.clone() },
    })
}

/// A log of requests or sessions with its format.
pub(super) type OpenLog = Option<(AccessLog, LogWriter)>;

/// The access log and the log of sessions, each if it is on. Both may write to one file.
///
/// # Errors
/// A format does not compile, or a file cannot be opened.
pub(super) fn access_logs(settings: &Settings) -> anyhow::Result<(OpenLog, OpenLog)> {
    let requests = log("access log", &settings.access_log, &settings.access_log_format, None)?;
    let shared = (settings.stream_access_log == settings.access_log).then_some(requests.as_ref()).flatten();
    let shared = shared.map(|(_, writer)| writer.clone());
    let format = &settings.stream_access_log_format;
    let sessions = log("log of sessions", &settings.stream_access_log, format, shared)?;
    Ok((requests, sessions))
}

/// The log at `target`, with `shared` as its writer if there is one already.
fn log(
    name: &'static str,
    target: &LogTarget,
    format: &AccessLogFormat,
    shared: Option<LogWriter>,
) -> anyhow::Result<OpenLog> {
    let target = match target {
        LogTarget::Off => return Ok(None),
        LogTarget::Stdout => LogDestination::Stdout,
        LogTarget::File(path) => LogDestination::File(PathBuf::from(path)),
    };
    let compile =
        |text: &str| Template::compile(text).with_context(|| format!("format of the {name}: {text}"));
    let format = match format {
        AccessLogFormat::Template(text) => Format::Text(compile(text)?),
        AccessLogFormat::Json(fields) => {
            let field = |(name, text): &(String, String)| Ok(JsonField::new(name.clone(), compile(text)?));
            Format::Json(fields.iter().map(field).collect::<anyhow::Result<_>>()?)
        }
    };
    let writer = match shared {
        Some(writer) => writer,
        None => LogWriter::start(name, target, access_log::QUEUE_BYTES)
            .with_context(|| format!("cannot open the {name}"))?,
    };
    Ok(Some((AccessLog::new(format), writer)))
}
