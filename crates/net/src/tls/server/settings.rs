//! The settings of TLS for clients that hold for all sites, in the form that handshakes use. They are made
//! once for the process and shared by its workers, with the keys of session tickets.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::{KeyLog, NoKeyLog, SupportedProtocolVersion, version};

use super::Alpn;
use super::challenge::Orders;
use super::site::{Site, SiteKeys};
use super::tickets::{PolicyTicketer, TicketKeys, TicketSecret};
use crate::tls::{names, provider, wall_clock};

/// Tickets that a client of TLS 1.3 is sent after a handshake: two, so that a browser's second connection has
/// its own.
const TICKETS: usize = 2;

/// The versions of TLS that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Versions {
    /// TLS 1.2.
    pub tls12: bool,
    /// TLS 1.3.
    pub tls13: bool,
}

impl Versions {
    /// Both.
    pub const ALL: Versions = Versions { tls12: true, tls13: true };

    /// Of names as `TLSv1.2`.
    ///
    /// # Errors
    /// No name, or one of a version that is not spoken, as a sentence.
    pub fn parse<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Versions, String> {
        let mut versions = Versions { tls12: false, tls13: false };
        for name in names {
            match name {
                "TLSv1.2" => versions.tls12 = true,
                "TLSv1.3" => versions.tls13 = true,
                "SSLv2" | "SSLv3" | "TLSv1" | "TLSv1.0" | "TLSv1.1" => {
                    return Err(format!(
                        "{name} is not supported because its protection is broken (RFC 8996): write TLSv1.2, TLSv1.3"
                    ));
                }
                _ => return Err(format!("{name} is no version of TLS: write TLSv1.2, TLSv1.3")),
            }
        }
        match versions {
            Versions { tls12: false, tls13: false } => {
                Err("it names no version of TLS: write TLSv1.2, TLSv1.3".to_owned())
            }
            versions => Ok(versions),
        }
    }

    fn of_library(self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
        match self {
            Versions { tls12: true, tls13: false } => &ALL[1..],
            Versions { tls12: false, tls13: true } => &ALL[..1],
            _ => &ALL,
        }
    }
}

/// The settings as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The versions where a site names none.
    pub versions: Versions,
    /// Cipher suites by OpenSSL's names, the preferred one first; none means all, in the client's order.
    pub ciphers: Option<String>,
    /// Curves by OpenSSL's names, the preferred one first; none means all.
    pub curves: Option<String>,
    /// The server name of the site for clients that name none, or one without a site.
    pub fallback_sni: Option<String>,
    /// Sessions may be resumed by tickets.
    pub session_tickets: bool,
    /// A file that the secrets of all connections are appended to, for debugging with captured packets.
    pub key_log_file: Option<Box<Path>>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            versions: Versions::ALL,
            ciphers: None,
            curves: None,
            fallback_sni: None,
            session_tickets: true,
            key_log_file: None,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct ServerTls {
    provider: Arc<CryptoProvider>,
    versions: Versions,
    fallback_sni: Option<Box<str>>,
    /// None where sessions are not resumed.
    tickets: Option<Arc<TicketKeys>>,
    key_log: Arc<dyn KeyLog>,
    prefers_own_order: bool,
    /// None where no certificates are ordered.
    orders: Option<Arc<dyn Orders>>,
}

impl ServerTls {
    /// Compiles the settings.
    ///
    /// # Errors
    /// A suite or curve that does not exist, or a key log that cannot be opened, as a sentence.
    pub fn new(settings: &ServerSettings) -> Result<ServerTls, String> {
        let mut provider = CryptoProvider::clone(provider());
        if let Some(list) = &settings.ciphers {
            provider.cipher_suites = names::suites(&provider, list)?;
        }
        if let Some(list) = &settings.curves {
            provider.kx_groups = names::curves(&provider, list)?;
        }
        let key_log: Arc<dyn KeyLog> = match &settings.key_log_file {
            None => Arc::new(NoKeyLog),
            Some(path) => {
                let file = File::options().create(true).append(true).open(path);
                let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
                Arc::new(KeyLogFile(Mutex::new(file)))
            }
        };
        Ok(ServerTls {
            provider: Arc::new(provider),
            versions: settings.versions,
            fallback_sni: settings.fallback_sni.as_deref().map(|name| name.to_ascii_lowercase().into()),
            tickets: settings.session_tickets.then(TicketKeys::random).transpose()?.map(Arc::new),
            key_log,
            prefers_own_order: settings.ciphers.is_some(),
            orders: None,
        })
    }

    /// Lets handshakes ask `orders` for answers to challenges, and tell it of names without a site.
    #[must_use]
    pub fn with_orders(mut self, orders: Arc<dyn Orders>) -> ServerTls {
        self.orders = Some(orders);
        self
    }

    pub(super) fn orders(&self) -> Option<&dyn Orders> {
        self.orders.as_deref()
    }

    /// The secrets that tickets are encrypted with, for a process that takes over; none where there are no
    /// tickets.
    pub fn ticket_secrets(&self) -> Vec<TicketSecret> {
        self.tickets.as_ref().map(|keys| keys.secrets()).unwrap_or_default()
    }

    /// Makes tickets with these secrets, of another process, from now on, and still reads the own ones.
    pub fn adopt_ticket_secrets(&self, secrets: &[TicketSecret]) {
        if let Some(keys) = &self.tickets {
            keys.adopt(secrets);
        }
    }

    /// The server name for clients that name none, or one without a site.
    pub(super) fn fallback_name(&self) -> Option<&str> {
        self.fallback_sni.as_deref()
    }

    pub(super) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    /// The form of a site that rustls takes for handshakes.
    pub(super) fn config(&self, site: &Site, alpn: Alpn) -> Result<ServerConfig, String> {
        let keys = site.keys(&self.provider)?;
        let versions = match (site.versions.unwrap_or(self.versions), alpn) {
            (Versions { tls13: false, .. }, Alpn::Http3) => {
                return Err("HTTP/3 needs TLSv1.3, which this name does not allow".to_owned());
            }
            (_, Alpn::Http3) => Versions { tls12: false, tls13: true },
            (versions, Alpn::Http1 | Alpn::Http2 | Alpn::Unknown) => versions,
        };
        let builder = ServerConfig::builder_with_details(self.provider.clone(), wall_clock::clock())
            .with_protocol_versions(versions.of_library())
            .map_err(|error| error.to_string())?;
        let builder = match &site.client {
            None => builder.with_client_cert_verifier(WebPkiClientVerifier::no_client_auth()),
            Some(policy) => builder.with_client_cert_verifier(policy.verifier()),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SiteKeys(keys)));
        config.alpn_protocols = alpn.names().iter().map(|name| name.to_vec()).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ignore_client_order = self.prefers_own_order;
        config.key_log = self.key_log.clone();
        config.send_tls13_tickets = 0;
        if let Some(keys) = &self.tickets {
            config.ticketer = Arc::new(PolicyTicketer::new(keys.clone(), site.policy_tag()));
            config.send_tls13_tickets = TICKETS;
        }
        Ok(config)
    }
}

/// Appends lines in the form of NSS, which packet analysers read.
#[derive(Debug)]
struct KeyLogFile(Mutex<File>);

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        // A line that is lost spoils one connection of a debugging session.
        let _ = self.0.lock().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_or_refused_with_the_reason() {
        let check = |names: &[&str], expected: Result<(bool, bool), &str>| {
            let found = Versions::parse(names.iter().copied());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!((found.tls12, found.tls13), expected, "{names:?}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{names:?}: {found}"),
                (found, _) => panic!("{names:?}: {found:?}"),
            }
        };
        check(&["TLSv1.2"], Ok((true, false)));
        check(&["TLSv1.3", "TLSv1.2"], Ok((true, true)));
        check(&[], Err("names no version"));
        check(&["TLSv1.1", "TLSv1.2"], Err("TLSv1.1 is not supported because its protection is broken"));
        check(&["tlsv1.2"], Err("tlsv1.2 is no version of TLS"));
    }
}
