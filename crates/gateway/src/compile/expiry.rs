//! Certificates that end: each is reported once, and where the setting refuses expired ones, its site goes on without it. A
//! caller on the control side asks every few seconds; handshakes pay nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::{Key, Kind};
use net::tls::certificate::{Certificate, now_s};
use net::tls::server::SiteCertificate;
use net::tls::server::site::{Site, SiteState};

use super::{CompileFault, Compiler};
use crate::runtime::Runtime;

/// The treatment of certificates that have expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiredCertificates {
    /// They are served, with a warning in the log.
    #[default]
    Serve,
    /// They are not served: other sites serve their names, or none.
    Refuse,
}

/// The certificates of all sites by the time of their end.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    pub(super) policy: ExpiredCertificates,
    /// The next end of a certificate of each site, in seconds since the Unix epoch, with the site's id.
    ends: BTreeSet<(i64, Arc<str>)>,
    /// Expired certificates that were reported, by the id of their site: serial numbers and ends.
    reported: HashMap<Arc<str>, Vec<(String, i64)>>,
}

impl Compiler {
    /// Puts a site in the place of the one with this id, or takes it out.
    pub(super) fn place_site(&mut self, id: &Arc<str>, site: Option<Site>) {
        let table = Arc::make_mut(&mut self.current.sites);
        if let Some(before) = table.get(id).cloned() {
            table.remove(&before);
            for certificate in before.certificates() {
                self.expiry.ends.remove(&(certificate.not_after_s, id.clone()));
            }
        }
        match site {
            Some(site) => self.enter_site(id, site, now_s()),
            None => drop(self.expiry.reported.remove(id)),
        }
    }

    fn enter_site(&mut self, id: &Arc<str>, mut site: Site, now_s: i64) {
        let has_expired = site.certificates().iter().any(|one| one.not_after_s < now_s);
        let refuses = self.expiry.policy == ExpiredCertificates::Refuse;
        if has_expired {
            self.expiry.report(&site, now_s);
            if refuses {
                site = site.without_expired(now_s);
            }
        }
        if site.state == SiteState::Withheld {
            let ends = site.certificates().iter().filter_map(until).collect::<Vec<_>>().join(", ");
            let reason = format!(
                "every certificate has expired ({ends}), and the setting ssl_expired_certificates refuses such: \
                 other objects serve its names, or none"
            );
            let key = Key::new(Kind::Ssl, id).ok();
            if let Some(key) = key {
                self.note(CompileFault { key, reason, kept: false });
            }
        }
        let next =
            site.certificates().iter().map(|one| one.not_after_s).filter(|end_s| *end_s >= now_s).min();
        if let Some(end_s) = next {
            self.expiry.ends.insert((end_s, id.clone()));
        }
        Arc::make_mut(&mut self.current.sites).insert(&Arc::new(site));
    }

    /// Reports certificates that have ended since the last call, and where such are refused, returns the generation without
    /// them, with all faults.
    pub fn expire(&mut self) -> Option<(Arc<Runtime>, Vec<CompileFault>)> {
        self.expire_at(now_s())
    }

    fn expire_at(&mut self, now_s: i64) -> Option<(Arc<Runtime>, Vec<CompileFault>)> {
        let mut ended = false;
        while let Some((end_s, id)) = self.expiry.ends.first().cloned()
            && end_s < now_s
        {
            self.expiry.ends.pop_first();
            ended = true;
            let Some(site) = self.current.sites.get(&id).cloned() else { continue };
            Arc::make_mut(&mut self.current.sites).remove(&site);
            self.enter_site(&id, site.with_all_certificates(), now_s);
        }
        let is_changed = ended && self.expiry.policy == ExpiredCertificates::Refuse;
        is_changed.then(|| (self.current(), self.faults.values().flatten().cloned().collect()))
    }
}

impl Expiry {
    /// Logs each expired certificate of a site once.
    fn report(&mut self, site: &Site, now_s: i64) {
        let before = self.reported.remove(&site.id).unwrap_or_default();
        let mut expired = Vec::new();
        for certificate in site.certificates().iter().filter(|one| one.not_after_s < now_s) {
            let Some(parsed) = Certificate::parse(certificate.der()) else { continue };
            let mark = (parsed.serial(), certificate.not_after_s);
            if !before.contains(&mark) {
                let (ssl, names, not_after) = (&site.id, site.names.join(", "), parsed.valid_until());
                let message = match self.policy {
                    ExpiredCertificates::Serve => "an expired certificate is served; renew it",
                    ExpiredCertificates::Refuse => "a certificate has expired and is not served; renew it",
                };
                tracing::warn!(%ssl, names, serial = mark.0, not_after, "{message}");
            }
            expired.push(mark);
        }
        self.reported.insert(site.id.clone(), expired);
    }
}

fn until(certificate: &SiteCertificate) -> Option<String> {
    Some(Certificate::parse(certificate.der())?.valid_until())
}
