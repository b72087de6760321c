//! Whether a request may be served over its TLS connection: where a site asks for client certificates, the connection must
//! have been made for that site and with a valid one. It knows no route.

use crate::runtime::Generation;
use exchange::Exchange;
use exchange::exchange::TlsContext;
use exchange::failure::{Cause, Failure};
use net::tls::facts::ClientVerdict;
use net::tls::server::site::{Site, SiteState};

/// Judges the request; its host and path are known by then.
///
/// # Errors
/// 400 without a valid certificate; 421 (RFC 9110 section 15.5.20) where the connection was made for another name, or under
/// a policy that has changed since.
#[inline]
pub(super) fn check(generation: &Generation, exchange: &mut Exchange) -> Result<(), Failure> {
    match &exchange.connection.tls {
        None => Ok(()),
        Some(tls) => check_tls(generation, exchange, tls),
    }
}

fn check_tls(generation: &Generation, exchange: &Exchange, tls: &TlsContext) -> Result<(), Failure> {
    let path = &exchange.target.path;
    // That of the handshake first: a Host that no site has must not lead around it.
    if tls.site.client.is_some() && !tls.site.is_exempt(path) {
        verified(tls)?;
    }
    if !generation.sites.restricts_requests() {
        return Ok(());
    }
    let host = std::str::from_utf8(&exchange.target.host).ok();
    let Some(site) = host.and_then(|host| generation.sites.by_name(host)) else { return Ok(()) };
    if site.state == SiteState::Faulty {
        // Its rules for client certificates are not known, and no connection was made for it.
        let detail = format!("the host's ssl object {} is faulty and has no good form", site.id);
        return Err(Failure::new(Cause::Misdirected, detail));
    }
    if site.client.is_none() || site.is_exempt(path) {
        return Ok(());
    }
    let server_name = tls.facts.server_name.as_deref();
    if server_name != host {
        let detail = format!(
            "the host asks for a client certificate, and the connection was made for {}",
            server_name.unwrap_or("no server name")
        );
        return Err(Failure::new(Cause::Misdirected, detail));
    }
    if !is_same_policy(site, &tls.site) {
        let detail = "the rules for client certificates have changed since the connection was made";
        return Err(Failure::new(Cause::PolicyChanged, detail));
    }
    verified(tls)
}

fn is_same_policy(one: &Site, other: &Site) -> bool {
    match (&one.client, &other.client) {
        (Some(one), Some(other)) => one.is_equal(other),
        _ => false,
    }
}

fn verified(tls: &TlsContext) -> Result<(), Failure> {
    let detail = match &tls.facts.client {
        ClientVerdict::Verified => return Ok(()),
        ClientVerdict::None => "client certificate was not present".to_owned(),
        ClientVerdict::Failed(reason) => format!("client certificate verification is not passed: {reason}"),
    };
    Err(Failure::new(Cause::ClientCertificate, detail))
}
