//! Follows one cluster: all objects page by page, then the changes from that version on. A watch that ends is continued; a
//! version that the server no longer has makes it list everything again. The last state stays meanwhile.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header;
use model::discovery::ServiceKey;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout};

use super::catalog::{Catalog, Wanted};
use super::config::Cluster;
use super::object::{self, Event, Slice};
use crate::discovery::Services;
use crate::discovery::http::{Call, HttpClient, Lines, Reply};
use crate::discovery::parts::encoded;
use crate::discovery::publish::{Found, Pause, publish};

/// See the module.
pub(super) struct Watcher {
    cluster: Cluster,
    client: HttpClient,
    services: Services,
    /// The followed services of all clusters.
    wanted: Receiver<Arc<Vec<ServiceKey>>>,
    catalog: Catalog,
    /// The version that the catalog is of; none: everything is to be listed.
    version: Option<String>,
}

/// The end of a watch.
enum Ended {
    /// The server ended it, as it does regularly.
    Regularly,
    /// Everything is to be listed again.
    Expired,
}

impl Watcher {
    pub(super) fn new(
        cluster: Cluster,
        client: HttpClient,
        services: Services,
        wanted: Receiver<Arc<Vec<ServiceKey>>>,
    ) -> Watcher {
        Watcher { cluster, client, services, wanted, catalog: Catalog::default(), version: None }
    }

    /// Follows the cluster without end.
    pub(super) async fn run(mut self) {
        let mut pause = Pause::default();
        loop {
            let Err(reason) = self.follow(&mut pause).await;
            self.fail(&reason);
            pause.wait().await;
        }
    }

    async fn follow(&mut self, pause: &mut Pause) -> Result<Infallible, String> {
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
            match self.read(lines).await? {
                Ended::Regularly => {}
                Ended::Expired => self.version = None,
            }
            match Instant::now() < short_until {
                true => pause.wait().await,
                false => pause.reset(),
            }
        }
    }

    /// Reads all objects into a new catalog, which takes the place of the old one when it is complete.
    async fn list(&mut self) -> Result<(), String> {
        let mut catalog = Catalog::default();
        let mut next: Option<String> = None;
        let (mut objects, mut faulty) = (0, None);
        loop {
            let mut target = format!("{}limit={PAGE}", self.cluster.target);
            if let Some(token) = &next {
                target.push_str(&format!("&continue={}", encoded(token)));
            }
            let reply = self.client.call(&self.signed(target)?).await?;
            let mut page = object::page(self.checked(&reply)?, self.cluster.kind)?;
            if let Some(reason) = page.reason.take() {
                faulty.get_or_insert(reason);
            }
            page.slices.retain(|slice| self.cluster.namespaces.has(&slice.namespace));
            objects += page.slices.len();
            if objects > MAX_OBJECTS {
                return Err(format!(
                    "the cluster has more than {MAX_OBJECTS} objects; select namespaces or labels"
                ));
            }
            let version = page.version.clone();
            next = page.next.take();
            catalog.take(page);
            if next.is_none() {
                if let Some(reason) = faulty.filter(|_| objects == 0) {
                    return Err(format!("no object can be read: {reason}"));
                }
                self.catalog = catalog;
                self.version = Some(version);
                return Ok(());
            }
        }
    }

    async fn open(&self) -> Result<Lines, String> {
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
            let reply = Reply { status, headers: header::HeaderMap::new(), body };
            return Err(self.checked(&reply).err().unwrap_or_else(|| format!("status {status}")));
        }
        Ok(lines)
    }

    /// Takes the events of a watch until it ends.
    async fn read(&mut self, mut lines: Lines) -> Result<Ended, String> {
        let end = Instant::now() + WATCH + GRACE;
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
                Ok(Ok(None)) => return Ok(Ended::Regularly),
                Ok(Err(reason)) => return Err(reason),
                Err(_) => return Err("the server has not ended the watch in time".to_owned()),
            };
            if line.is_empty() {
                continue;
            }
            match object::event(&line, self.cluster.kind)? {
                Event::Put(slice, version) => {
                    self.change(&slice, version, |catalog, slice| catalog.put(Arc::clone(slice)));
                }
                Event::Delete(slice, version) => {
                    self.change(&slice, version, |catalog, slice| catalog.delete(slice))
                }
                Event::Bookmark(version) | Event::Other(Some(version)) => self.version = Some(version),
                Event::Other(None) => {}
                Event::Expired(reason) => {
                    tracing::debug!(%reason, "listing the objects of kubernetes again");
                    return Ok(Ended::Expired);
                }
                Event::Failed(reason) => return Err(reason),
            }
        }
    }

    fn change(
        &mut self,
        slice: &Arc<Slice>,
        version: Option<String>,
        change: impl FnOnce(&mut Catalog, &Arc<Slice>),
    ) {
        if version.is_some() {
            self.version = version;
        }
        if self.cluster.namespaces.has(&slice.namespace) {
            change(&mut self.catalog, slice);
            self.tell(Some(&HashSet::from([&*slice.service])));
        }
    }

    /// Passes on the instances of the followed services of this cluster; of those in `touched` where it is given.
    fn tell(&mut self, touched: Option<&HashSet<&str>>) {
        let wanted = Arc::clone(&self.wanted.borrow_and_update());
        for (key, name) in self.own(&wanted) {
            if touched.is_some_and(|touched| !touched.contains(name.service)) {
                continue;
            }
            let found = match self.catalog.has(name.service) {
                false => Found::Unknown,
                true => {
                    let (instances, reason) =
                        self.catalog.instances(name.service, name.port, self.cluster.weight);
                    Found::Instances(instances, reason)
                }
            };
            publish(&self.services, key, Ok(found));
        }
    }

    /// Followed services of this cluster.
    fn own<'a>(&self, wanted: &'a [ServiceKey]) -> impl Iterator<Item = (&'a ServiceKey, Wanted<'a>)> {
        let id = self.cluster.id.clone();
        wanted.iter().filter_map(move |key| {
            let name = Wanted::of(&key.service, id.is_some()).ok()?;
            (name.cluster == id.as_deref()).then_some((key, name))
        })
    }

    /// Reports a failure: of the registry where there is one cluster, else of the services of this cluster.
    fn fail(&mut self, reason: &str) {
        match &self.cluster.id {
            None => self.services.failed(None, reason),
            Some(_) => {
                let wanted = Arc::clone(&self.wanted.borrow_and_update());
                self.own(&wanted).for_each(|(key, _)| self.services.failed(Some(key), reason));
            }
        }
    }

    /// A call with the token of this moment.
    fn signed(&self, target: String) -> Result<Call, String> {
        let token = self.cluster.token.read()?;
        let call = Call::get(target).with(header::ACCEPT, "application/json");
        Ok(if token.is_empty() { call } else { call.with(header::AUTHORIZATION, &format!("Bearer {token}")) })
    }

    /// The body of a good answer.
    fn checked<'a>(&self, reply: &'a Reply) -> Result<&'a [u8], String> {
        reply.ok().map_err(|reason| match reply.status {
            403 => format!(
                "{reason}; the account needs get, list and watch on the objects of `{}`",
                self.cluster.target
            ),
            _ => reason,
        })
    }
}

/// Objects in one page of a list.
pub(super) const PAGE: usize = 500;
/// Most objects of a cluster.
const MAX_OBJECTS: usize = 100_000;
/// The server ends a watch after this time; a connection that has silently died is noticed then.
const WATCH: Duration = Duration::from_secs(120);
/// Time beyond [`WATCH`] until the connection counts as dead.
const GRACE: Duration = Duration::from_secs(15);
/// A watch that ends before this time is followed by a pause.
const SHORT_WATCH: Duration = Duration::from_secs(1);
