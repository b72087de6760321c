//! Whether a request, or a session of layer 4, may be served over its connection: where a site asks for
//! client certificates, the connection must have been made under its rules and with a valid one. The site is
//! that of the host asked for, or else that of the host pattern of the route, so that no other certificate
//! leads to the route.

use std::borrow::Cow;

use crate::runtime::Generation;
use crate::runtime::stream_route::NamePattern;
use exchange::Exchange;
use exchange::exchange::TlsContext;
use exchange::failure::{Cause, ExchangeFailure};
use net::tls::facts::ClientVerdict;
use net::tls::server::SiteTable;
use net::tls::server::site::{Site, SiteState};

/// The remaining judgement of a request with a known host and no route yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingCertificateCheck {
    /// None: the connection is right for the host, or no site has rules.
    Nothing,
    /// The host pattern of the route may belong to a site with rules.
    Route,
}

/// The judgement of a request over its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is served.
    Served,
    /// It came without TLS for a host that asks for a client certificate: it may be led to TLS by a redirect,
    /// and is refused otherwise.
    LedToTls,
}

/// Judges the request by its host; host and path are known by then.
///
/// # Errors
/// 400 without a valid certificate; 421 (RFC 9110 section 15.5.20) where the connection was made for another
/// name, or under a policy that has changed since.
#[inline]
pub(super) fn check(
    generation: &Generation,
    exchange: &Exchange,
) -> Result<PendingCertificateCheck, ExchangeFailure> {
    match &exchange.connection.tls {
        Some(tls) => check_tls(&generation.sites, exchange, tls),
        None if generation.sites.restricts_requests() => Ok(PendingCertificateCheck::Route),
        None => Ok(PendingCertificateCheck::Nothing),
    }
}

fn check_tls(
    sites: &SiteTable,
    exchange: &Exchange,
    tls: &TlsContext,
) -> Result<PendingCertificateCheck, ExchangeFailure> {
    // That of the handshake first: a Host that no site has must not lead around it.
    if tls.site.client.is_some() && !tls.site.is_exempt(&exchange.target.path) {
        verified(tls)?;
    }
    if !sites.restricts_requests() {
        return Ok(PendingCertificateCheck::Nothing);
    }
    let host = host_of(exchange);
    let Some(site) = sites.restricting(&host, None) else { return Ok(PendingCertificateCheck::Route) };
    let server_name = tls.facts.server_name.as_deref();
    if server_name != Some(&*host) && is_demanded(site, exchange)? {
        let detail = format!(
            "the host asks for a client certificate, and the connection was made for {}",
            server_name.unwrap_or("no server name")
        );
        return Err(ExchangeFailure::new(Cause::Misdirected, detail));
    }
    check_site(site, exchange, tls).map(|()| PendingCertificateCheck::Nothing)
}

/// Judges the request by the host pattern of its route, for which [`check`] has left something.
/// `serves_cleartext` serves connections without TLS in any case.
///
/// # Errors
/// As [`check`].
#[inline]
pub(super) fn check_route(
    generation: &Generation,
    exchange: &Exchange,
    pattern: Option<&str>,
    serves_cleartext: bool,
) -> Result<Admission, ExchangeFailure> {
    let host = host_of(exchange);
    let Some(site) = generation.sites.restricting(&host, pattern.map(without_port)) else {
        return Ok(Admission::Served);
    };
    match &exchange.connection.tls {
        Some(tls) => check_site(site, exchange, tls).map(|()| Admission::Served),
        None if serves_cleartext || !is_demanded(site, exchange)? => Ok(Admission::Served),
        None => Ok(Admission::LedToTls),
    }
}

/// The refusal of a request that came without TLS.
#[cold]
pub(super) fn cleartext_refusal() -> ExchangeFailure {
    let detail = "the host asks for a client certificate, and the connection is one without TLS";
    ExchangeFailure::new(Cause::Misdirected, detail)
}

/// Whether the session of layer 4 may go on over its TLS connection, to a stream route with this pattern of
/// server names.
///
/// # Errors
/// The reason, a sentence.
pub(crate) fn check_session(
    sites: &SiteTable,
    tls: &TlsContext,
    pattern: Option<&NamePattern>,
) -> Result<(), &'static str> {
    let is_verified = tls.facts.client == ClientVerdict::Verified;
    if tls.site.client.is_some() && !is_verified {
        return Err("the client has shown no valid certificate");
    }
    if !sites.restricts_requests() {
        return Ok(());
    }
    let pattern = pattern.map(|pattern| match pattern {
        NamePattern::Exact(name) => Cow::Borrowed(&**name),
        NamePattern::Suffix(end) => Cow::Owned(format!("*{end}")),
    });
    let name = tls.facts.server_name.as_deref().unwrap_or_default();
    match sites.restricting(name, pattern.as_deref()) {
        Some(site) if !is_same_policy(site, &tls.site) || !is_verified => Err(
            "the server name asks for a client certificate, and the connection was made with another site",
        ),
        _ => Ok(()),
    }
}

/// Judges the connection of the request by the rules of a site.
fn check_site(site: &Site, exchange: &Exchange, tls: &TlsContext) -> Result<(), ExchangeFailure> {
    if !is_demanded(site, exchange)? {
        return Ok(());
    }
    if is_same_policy(site, &tls.site) {
        return verified(tls);
    }
    if tls.site.id == site.id {
        let detail = "the rules for client certificates have changed since the connection was made";
        return Err(ExchangeFailure::new(Cause::PolicyChanged, detail));
    }
    let detail = "the host asks for a client certificate, and the connection was made with the \
                  certificate of another ssl object";
    Err(ExchangeFailure::new(Cause::Misdirected, detail))
}

/// Whether the site demands a client certificate for the request.
///
/// # Errors
/// The site is faulty: its rules are not known, and no connection was made for it.
fn is_demanded(site: &Site, exchange: &Exchange) -> Result<bool, ExchangeFailure> {
    if site.state == SiteState::Faulty {
        let detail = format!("the host's ssl object {} is faulty and has no good form", site.id);
        return Err(ExchangeFailure::new(Cause::Misdirected, detail));
    }
    Ok(!site.is_exempt(&exchange.target.path))
}

/// The host asked for. Bytes that are no UTF-8 are in no name of a site, and may stand before the end of one.
fn host_of(exchange: &Exchange) -> Cow<'_, str> {
    String::from_utf8_lossy(&exchange.target.host)
}

/// A host pattern of a route without its port.
fn without_port(pattern: &str) -> &str {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    pattern.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(pattern, |(host, _)| host)
}

fn is_same_policy(one: &Site, other: &Site) -> bool {
    match (&one.client, &other.client) {
        (Some(one), Some(other)) => one.is_equal(other),
        _ => false,
    }
}

fn verified(tls: &TlsContext) -> Result<(), ExchangeFailure> {
    let detail = match &tls.facts.client {
        ClientVerdict::Verified => return Ok(()),
        ClientVerdict::None => "client certificate was not present".to_owned(),
        ClientVerdict::Failed(reason) => format!("client certificate verification is not passed: {reason}"),
    };
    Err(ExchangeFailure::new(Cause::ClientCertificate, detail))
}
