//! The sites of a generation: each is put in its place under its names, and where the setting refuses expired
//! certificates, it goes on without them. A caller on the control side asks every second for those that have
//! ended; handshakes pay nothing.

use std::sync::Arc;

use model::{ObjectKey, ObjectKind};
use net::tls::certificate::{Certificate, unix_now_s};
use net::tls::server::SiteCertificate;
use net::tls::server::site::{Site, SiteState};

use super::expiry::ExpiredCertificates;
use super::{CompileFault, SnapshotCompiler};
use crate::runtime::Runtime;

impl SnapshotCompiler {
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
            Some(site) => self.enter_site(id, site, unix_now_s()),
            None => drop(self.expiry.reported.remove(id)),
        }
    }

    fn enter_site(&mut self, id: &Arc<str>, mut site: Site, now_s: i64) {
        let has_expired = site.certificates().iter().any(|one| one.not_after_s < now_s);
        let refuses = self.expiry.policy == ExpiredCertificates::Refuse;
        if has_expired {
            self.expiry.report(&site, now_s);
            if refuses && site.state != SiteState::ToNodes {
                site = site.without_expired(now_s);
            }
        }
        if site.state == SiteState::Withheld {
            let ends = site.certificates().iter().filter_map(until).collect::<Vec<_>>().join(", ");
            let reason = format!(
                "every certificate has expired ({ends}), and the setting ssl_expired_certificates refuses such: \
                 other objects serve its names, or none"
            );
            let key = ObjectKey::new(ObjectKind::Ssl, id).ok();
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

    /// Reports certificates that have ended since the last call, and where such are refused, returns the
    /// generation without them, with all faults.
    pub fn expire(&mut self) -> Option<(Arc<Runtime>, Vec<CompileFault>)> {
        self.expire_at(unix_now_s())
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

fn until(certificate: &SiteCertificate) -> Option<String> {
    Some(Certificate::parse(certificate.der())?.valid_until())
}
