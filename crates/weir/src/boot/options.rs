//! Settings, translated into the options of the engine, the Admin API and the access log. Decides nothing.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use control::{AdminConfig, AdminKey};
use exchange::client_address::RealIpOptions;
use exchange::options::ForwardOptions;
use exchange::options::Timeouts;
use exchange::options::{Limits, Options};
use gateway::observe::access_log::{self, AccessLog, Format, JsonField};
use gateway::observe::log_writer::{LogWriter, Target};
use message::HeadLimits;
use net::tls::server::ServerSettings;
use router::vars::Template;

use crate::settings::{AccessLogFormat, LogTarget, MemoryLimit, Overload, Settings};

/// The options of the engine.
pub(super) fn engine(settings: &Settings) -> Options {
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
        },
        limits: limits(settings),
        upstream_timeouts: Timeouts {
            connect_ms: settings.upstream_connect_timeout_ms,
            send_ms: settings.upstream_send_timeout_ms,
            read_ms: settings.upstream_read_timeout_ms,
            tunnel_idle_ms: settings.tunnel_idle_timeout_ms,
        },
        pin: settings.pin,
        https_port: settings.proxy_tls.first().map_or(HTTPS_PORT, SocketAddr::port),
    }
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

fn limits(settings: &Settings) -> Limits {
    Limits {
        head: HeadLimits {
            max_head_bytes: settings.max_head_bytes,
            max_line_bytes: settings.max_header_line_bytes,
            max_fields: settings.max_header_fields,
        },
        head_timeout_ms: settings.head_timeout_ms,
        handshake_timeout_ms: settings.tls_handshake_timeout_ms,
        idle_timeout_ms: settings.idle_timeout_ms,
        body_timeout_ms: settings.client_body_timeout_ms,
        send_timeout_ms: settings.client_send_timeout_ms,
        min_body_rate: settings.client_min_body_rate,
        min_send_rate: settings.client_min_send_rate,
        rate_window_ms: settings.client_rate_window_ms,
        request_timeout_ms: settings.request_timeout_ms,
        max_body_bytes: settings.max_body_bytes,
        max_matched_body_bytes: settings.max_matched_body_bytes,
        wait_for_body_bytes: settings.wait_for_body_bytes,
        max_requests_per_connection: settings.max_requests_per_connection,
        max_connections: settings.max_connections,
        max_connections_per_address: settings.max_connections_per_address,
        memory_limit_bytes: memory_limit_bytes(settings),
        adaptive_concurrency: settings.overload == Overload::Adaptive,
        ..Limits::default()
    }
}

/// The memory limit of the process in bytes; 0 is no limit.
fn memory_limit_bytes(settings: &Settings) -> u64 {
    match settings.memory_limit {
        MemoryLimit::Bytes(bytes) => bytes,
        MemoryLimit::Auto => cgroup_memory_bytes().map_or(0, |bytes| bytes / 5 * 4),
        MemoryLimit::Off => 0,
    }
}

/// The memory limit of the cgroup (v2) in bytes, as the process sees it.
pub(crate) fn cgroup_memory_bytes() -> Option<u64> {
    std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

/// The access rules of the Admin API.
pub(super) fn admin(settings: &Settings, keys: Vec<AdminKey>) -> AdminConfig {
    AdminConfig {
        keys,
        key_required: settings.admin_key_required,
        allow: settings.admin_allow.clone(),
        cors: settings.admin_cors,
        emulated_version: settings.admin_emulated_version.clone(),
        stream_routes: settings.admin_stream_routes,
        memory_limit_bytes: memory_limit_bytes(settings),
    }
}

/// The access log, if it is on.
///
/// # Errors
/// The format does not compile, or the file cannot be opened.
pub(super) fn access_log(settings: &Settings) -> anyhow::Result<Option<(AccessLog, LogWriter)>> {
    let target = match &settings.access_log {
        LogTarget::Off => return Ok(None),
        LogTarget::Stdout => Target::Stdout,
        LogTarget::File(path) => Target::File(PathBuf::from(path)),
    };
    let compile = |text: &str| Template::compile(text).with_context(|| format!("access_log_format: {text}"));
    let format = match &settings.access_log_format {
        AccessLogFormat::Template(text) => Format::Text(compile(text)?),
        AccessLogFormat::Json(fields) => {
            let field = |(name, text): &(String, String)| Ok(JsonField::new(name.clone(), compile(text)?));
            Format::Json(fields.iter().map(field).collect::<anyhow::Result<_>>()?)
        }
    };
    let writer = LogWriter::start("access log", target, access_log::QUEUE_BYTES)
        .context("cannot open the access log")?;
    Ok(Some((AccessLog::new(format), writer)))
}
