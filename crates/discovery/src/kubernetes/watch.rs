//! Follows one cluster: all objects page by page, then the changes from that version on. A watch that ends is
//! continued; a version that the server no longer has makes it list everything again. The last state stays
//! meanwhile.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header;
use model::discovery::ServiceKey;
use stdx::address_family::AddressChoice;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout};

use super::catalog::{KubernetesCatalog, KubernetesServicePort, of_one_family};
use super::config::KubernetesCluster;
use super::event::{KubernetesEvent, parse_kubernetes_event};
use super::object;
use crate::Services;
use crate::http::{HttpClient, RegistryRequest, RegistryResponse, ResponseLines};
use crate::parts::encoded;
use crate::publish::{RegistryBackoff, ServiceLookup, publish};

/// The task that follows one cluster.
pub(super) struct Watcher {
    cluster: KubernetesCluster,
    client: HttpClient,
    services: Services,
    /// The followed services of all clusters.
    wanted: Receiver<Arc<Vec<ServiceKey>>>,
    /// Which addresses of a dual-stack service are used.
    addresses: AddressChoice,
    catalog: KubernetesCatalog,
    /// The version that the catalog is of; none: everything is to be listed.
    version: Option<String>,
}

/// The end of a watch.
enum WatchEnd {
    /// The server ended it, as it does regularly.
    Regularly,
    /// Everything is to be listed again.
    Expired,
}

impl Watcher {
    pub(super) fn new(
        cluster: KubernetesCluster,
        client: HttpClient,
        services: Services,
        wanted: Receiver<Arc<Vec<ServiceKey>>>,
        addresses: AddressChoice,
    ) -> Watcher {
        Watcher {
            cluster,
            client,
            services,
            wanted,
            addresses,
            catalog: KubernetesCatalog::default(),
            version: None,
        }
    }

    /// Follows the cluster without end.
    pub(super) async fn run(mut self) {
        let mut pause = RegistryBackoff::default();
        loop {
            let Err(reason) = self.follow(&mut pause).await;
            self.fail(&reason);
            pause.wait().await;
        }
    }

    async fn follow(&mut self, pause: &mut RegistryBackoff) -> Result<Infallible, String> {
        loop {
            if self.version.is_none() {
                self.list().await?;
            }
            let lines = self.open().await?;
            if lines.status == 410 {
                self.version = None;
                pause.wait().await;
                continue;
            }
            let short_until = Instant::now() + SHORT_WATCH;
            // The answers are passed on once the watch is open, because they end a failure of the cluster.
            self.tell(None);
            let ended = self.read(lines).await;
            let is_short = Instant::now() < short_until;
            if !is_short {
                pause.reset();
            }
            match ended? {
                WatchEnd::Regularly => {}
                WatchEnd::Expired => self.version = None,
            }
            if is_short {
                pause.wait().await;
            }
        }
    }

    /// Reads all objects into a new catalog, which takes the place of the old one when it is complete.
    async fn list(&mut self) -> Result<(), String> {
        let mut catalog = KubernetesCatalog::default();
        let mut next: Option<String> = None;
        let (mut objects, mut faulty) = (0, None);
        for _ in 0..MAX_PAGES {
            let mut target = format!("{}limit={PAGE}", self.cluster.target);
            if let Some(token) = &next {
                target.push_str(&format!("&continue={}", encoded(token)));
            }
            let reply = self.client.call(&self.signed(target)?).await?;
            let mut page = object::parse_slice_page(self.checked(&reply)?, self.cluster.kind)?;
            if let Some(reason) = page.reason.take() {
                faulty.get_or_insert(reason);
            }
            page.slices.retain(|slice| self.cluster.namespaces.has(&slice.namespace));
            objects += page.objects;
            if objects > MAX_LISTED {
                return Err(format!("the server lists more than {MAX_LISTED} objects; {SELECT}"));
            }
            let version = page.version.clone();
            next = page.next.take();
            catalog.take(page);
            check_size(&catalog)?;
            if next.is_none() {
                if let Some(reason) = faulty.filter(|_| catalog.len() == 0) {
                    return Err(format!("no object can be read: {reason}"));
                }
                self.catalog = catalog;
                self.version = Some(version);
                return Ok(());
            }
        }
        Err(format!("the list has more than {MAX_PAGES} pages; {SELECT}"))
    }

    async fn open(&self) -> Result<ResponseLines, String> {
        let version = encoded(self.version.as_deref().unwrap_or_default());
        let target = format!(
            "{}watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={version}",
            self.cluster.target,
            WATCH.as_secs()
        );
        let mut lines = self.client.lines(&self.signed(target)?).await?;
        if !matches!(lines.status, 200 | 410) {
            let status = lines.status;
            let body =
                timeout(Duration::from_secs(1), lines.next()).await.ok().and_then(Result::ok).flatten();
            let body = body.unwrap_or_default().freeze();
            let reply = RegistryResponse { status, headers: header::HeaderMap::new(), body };
            return Err(self.checked(&reply).err().unwrap_or_else(|| format!("status {status}")));
        }
        Ok(lines)
    }

    /// Takes the events of a watch until it ends.
    async fn read(&mut self, mut lines: ResponseLines) -> Result<WatchEnd, String> {
        let end = Instant::now() + WATCH + GRACE;
        // One message for each watch, because the server decides about the number of such events.
        let mut has_warned = false;
        loop {
            let line = tokio::select! {
                changed = self.wanted.changed() => match changed {
                    Ok(()) => {
                        self.tell(None);
                        continue;
                    }
                    Err(_) => return Err("the registry is stopped".to_owned()),
                },
                line = tokio::time::timeout_at(end, lines.next()) => line,
            };
            let line = match line {
                Ok(Ok(Some(line))) => line,
                Ok(Ok(None)) => return Ok(WatchEnd::Regularly),
                Ok(Err(reason)) => return Err(reason),
                Err(_) => return Err("the server has not ended the watch in time".to_owned()),
            };
            if line.is_empty() {
                continue;
            }
            // After a line that is no event the copy may miss a change, so that everything is listed again.
            let event =
                parse_kubernetes_event(&line, self.cluster.kind).inspect_err(|_| self.version = None)?;
            match event {
                KubernetesEvent::Put(slice, version) => {
                    self.came_to(version);
                    if self.cluster.namespaces.has(&slice.namespace) {
                        let service = slice.service.clone();
                        let before = self.catalog.put(slice);
                        check_size(&self.catalog).inspect_err(|_| self.version = None)?;
                        self.tell(Some(&[before, Some(service)]));
                    }
                }
                KubernetesEvent::Delete(name, version) => {
                    self.came_to(version);
                    let before = self.catalog.delete(&name);
                    self.tell(Some(&[before, None]));
                }
                KubernetesEvent::Unreadable(reason, version) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        tracing::warn!(%reason, "an object of kubernetes keeps its last state");
                    }
                    if version.is_none() {
                        self.version = None;
                        return Err(reason);
                    }
                    self.came_to(version);
                }
                KubernetesEvent::Bookmark(version) => self.came_to(Some(version)),
                KubernetesEvent::Other(version) => self.came_to(version),
                KubernetesEvent::Expired(reason) => {
                    tracing::debug!(%reason, "listing the objects of kubernetes again");
                    return Ok(WatchEnd::Expired);
                }
                KubernetesEvent::Failed(reason) => return Err(reason),
            }
        }
    }

    /// The catalog is of this version now.
    fn came_to(&mut self, version: Option<String>) {
        if version.is_some() {
            self.version = version;
        }
    }

    /// Passes on the instances of the followed services of this cluster; of those in `touched` where it is
    /// given.
    fn tell(&mut self, touched: Option<&[Option<Box<str>>]>) {
        // Only after all services were told no change of the followed services is left.
        let wanted = match touched {
            None => Arc::clone(&self.wanted.borrow_and_update()),
            Some(_) => Arc::clone(&self.wanted.borrow()),
        };
        for (key, name) in self.own(&wanted) {
            let is_touched = |touched: &[Option<Box<str>>]| {
                touched.iter().flatten().any(|service| **service == *name.service)
            };
            if !touched.is_none_or(is_touched) {
                continue;
            }
            let found = match self.catalog.has(name.service) {
                false => Ok(ServiceLookup::Unknown),
                true => self.catalog.instances(name.service, name.port, self.cluster.weight).map(
                    |(all, reason)| ServiceLookup::Instances(of_one_family(all, &self.addresses), reason),
                ),
            };
            publish(&self.services, key, found);
        }
    }

    /// Followed services of this cluster.
    fn own<'a>(
        &self,
        wanted: &'a [ServiceKey],
    ) -> impl Iterator<Item = (&'a ServiceKey, KubernetesServicePort<'a>)> {
        let id = self.cluster.id.clone();
        wanted.iter().filter_map(move |key| {
            let name = KubernetesServicePort::of(&key.service, id.is_some()).ok()?;
            (name.cluster == id.as_deref()).then_some((key, name))
        })
    }

    /// Reports a failure: of the registry where there is one cluster, else of the services of this cluster.
    fn fail(&self, reason: &str) {
        match &self.cluster.id {
            None => self.services.failed(None, reason),
            Some(_) => {
                let wanted = Arc::clone(&self.wanted.borrow());
                self.own(&wanted).for_each(|(key, _)| self.services.failed(Some(key), reason));
            }
        }
    }

    /// A call with the token of this moment.
    fn signed(&self, target: String) -> Result<RegistryRequest, String> {
        let token = self.cluster.token.read()?;
        let call = RegistryRequest::get(target).with(header::ACCEPT, "application/json");
        Ok(if token.is_empty() { call } else { call.with(header::AUTHORIZATION, &format!("Bearer {token}")) })
    }

    /// The body of a good answer.
    fn checked<'a>(&self, reply: &'a RegistryResponse) -> Result<&'a [u8], String> {
        reply.ok().map_err(|reason| match reply.status {
            403 => format!(
                "{reason}; the account needs the rights list and watch on the objects of `{}`",
                self.cluster.target
            ),
            _ => reason,
        })
    }
}

/// # Errors
/// The catalog has more objects than the limit.
fn check_size(catalog: &KubernetesCatalog) -> Result<(), String> {
    match catalog.len() > MAX_OBJECTS {
        true => Err(format!("the cluster has more than {MAX_OBJECTS} objects; {SELECT}")),
        false => Ok(()),
    }
}

/// The advice for clusters that are too large.
const SELECT: &str = "select namespaces or labels";
/// Objects in one page of a list.
pub(super) const PAGE: usize = 500;
/// Most objects of a cluster that are kept.
const MAX_OBJECTS: usize = 100_000;
/// Most objects in a list, with those of namespaces that are not selected.
const MAX_LISTED: usize = 1_000_000;
/// Most pages of a list; a server may send fewer objects in a page than it is asked for.
const MAX_PAGES: usize = 2_000;
/// The server ends a watch after this time; a connection that has silently died is noticed then.
const WATCH: Duration = Duration::from_secs(120);
/// Time beyond [`WATCH`] until the connection counts as dead.
const GRACE: Duration = Duration::from_secs(15);
/// A watch that ends before this time is followed by a pause.
const SHORT_WATCH: Duration = Duration::from_secs(1);
