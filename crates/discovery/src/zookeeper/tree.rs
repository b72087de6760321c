//! The followed services of one ZooKeeper session: the requests that a reply or an event leads to, and the
//! moment when a service is known completely. It does no I/O, so that every order of replies can be tested.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::wire::{NO_NODE, ZooKeeperRequest, children, data, describe_error_code};

/// The nodes of one service.
#[derive(Debug, Default)]
struct ZooKeeperService {
    /// Data by name; none: a request for it has no reply yet.
    nodes: BTreeMap<String, Option<Vec<u8>>>,
    /// Whether a request for the list of names has no reply yet. A watch that fires meanwhile adds none,
    /// because the server answers that request with the changed list.
    is_listing: bool,
    /// Whether the service's node does not exist.
    is_missing: bool,
    /// Why the list or a node could not be read; none after the next good list.
    refused: Option<String>,
}

/// A complete state of a service, or the reason why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownService {
    /// The path of the service.
    pub(super) path: String,
    /// The data of each node; none if the service does not exist.
    pub(super) nodes: Result<Option<Vec<Vec<u8>>>, String>,
}

/// All followed services.
#[derive(Debug, Default)]
pub(super) struct ServiceTree {
    services: HashMap<String, ZooKeeperService>,
    /// Requests to be sent.
    waiting: VecDeque<ZooKeeperRequest>,
    /// Sent requests, oldest first, which is the order of the replies.
    sent: VecDeque<(i32, ZooKeeperRequest)>,
    last_xid: i32,
}

impl ServiceTree {
    /// Follows exactly the services at these paths.
    pub(super) fn follow(&mut self, paths: &[String]) {
        let wanted: HashSet<&String> = paths.iter().collect();
        // Watches of services that are no longer followed fire once and are ignored then.
        self.services.retain(|path, _| wanted.contains(path));
        for path in paths {
            if !self.services.contains_key(path) {
                self.services.insert(path.clone(), ZooKeeperService::default());
                self.list(path);
            }
        }
    }

    /// The next request to be sent with its number, unless [`MAX_IN_FLIGHT`] replies are awaited.
    pub(super) fn next_request(&mut self) -> Option<(i32, ZooKeeperRequest)> {
        if self.sent.len() >= MAX_IN_FLIGHT {
            return None;
        }
        let request = self.waiting.pop_front()?;
        self.last_xid = if self.last_xid == i32::MAX { 1 } else { self.last_xid + 1 };
        self.sent.push_back((self.last_xid, request.clone()));
        Some((self.last_xid, request))
    }

    /// Takes a reply. Gives a service that it completes.
    ///
    /// # Errors
    /// The reply belongs to no request: the connection is not usable any more.
    pub(super) fn reply(&mut self, xid: i32, code: i32, body: &[u8]) -> Result<Option<KnownService>, String> {
        let (expected, request) =
            self.sent.pop_front().ok_or("the server sends a reply without a request")?;
        if expected != xid {
            return Err("the server answers requests in another order".to_owned());
        }
        match request {
            ZooKeeperRequest::Children(path) => Ok(self.listed(path, code, body)),
            ZooKeeperRequest::Exists(path) => {
                match code {
                    // The node was made between the two requests.
                    0 => self.list(&path),
                    NO_NODE => {}
                    other => return Ok(self.refuse(&path, describe_error_code(other, &path))),
                }
                Ok(None)
            }
            ZooKeeperRequest::Data(path) => Ok(self.read(&path, code, body)),
        }
    }

    /// Whether a service could not be read. No watch reports when it can be.
    pub(super) fn has_refused(&self) -> bool {
        self.services.values().any(|service| service.refused.is_some())
    }

    /// Whether no request waits for its turn or for its reply.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Asks again for all services that could not be read.
    pub(super) fn ask_refused_again(&mut self) {
        let refused = self.services.iter().filter(|(_, service)| service.refused.is_some());
        let paths: Vec<String> = refused.map(|(path, _)| path.clone()).collect();
        paths.iter().for_each(|path| self.list(path));
    }

    /// Takes an event of a watch: a service's list or a node's data has changed.
    pub(super) fn event(&mut self, path: &str) {
        if self.services.contains_key(path) {
            self.list(path);
        } else if let Some((service, node)) = path.rsplit_once('/')
            && let Some(service) = self.services.get_mut(service)
            && let Some(data) = service.nodes.get_mut(node)
            && data.take().is_some()
        {
            self.waiting.push_back(ZooKeeperRequest::Data(path.to_owned()));
        }
    }

    /// The complete state of a service, or the reason of the last refusal; none while a reply is awaited.
    pub(super) fn known(&self, path: String) -> Option<KnownService> {
        self.services.get(&path)?.known(path)
    }

    fn list(&mut self, path: &str) {
        let Some(service) = self.services.get_mut(path) else { return };
        if !std::mem::replace(&mut service.is_listing, true) {
            self.waiting.push_back(ZooKeeperRequest::Children(path.to_owned()));
        }
    }

    fn listed(&mut self, path: String, code: i32, body: &[u8]) -> Option<KnownService> {
        let service = self.services.get_mut(&path)?;
        service.is_listing = false;
        if code == NO_NODE {
            service.nodes.clear();
            service.is_missing = true;
            service.refused = None;
            self.waiting.push_back(ZooKeeperRequest::Exists(path.clone()));
            return service.known(path);
        }
        let names = match code {
            0 => children(body),
            other => Err(describe_error_code(other, &path)),
        };
        let names = match names {
            Ok(names) => names,
            Err(reason) => return self.refuse(&path, reason),
        };
        service.is_missing = false;
        service.refused = None;
        let mut before = std::mem::take(&mut service.nodes);
        for name in names {
            match before.remove(&name) {
                Some(known) => {
                    service.nodes.insert(name, known);
                }
                None => {
                    self.waiting.push_back(ZooKeeperRequest::Data(format!("{path}/{name}")));
                    service.nodes.insert(name, None);
                }
            }
        }
        service.known(path)
    }

    fn read(&mut self, path: &str, code: i32, body: &[u8]) -> Option<KnownService> {
        let (service_path, node) = path.rsplit_once('/')?;
        let service = self.services.get_mut(service_path)?;
        let read = match code {
            0 => data(body).map(Some),
            // The node is gone; the watch of the list has fired.
            NO_NODE => Ok(None),
            other => Err(describe_error_code(other, path)),
        };
        match read {
            Ok(Some(data)) if service.nodes.contains_key(node) => {
                service.nodes.insert(node.to_owned(), Some(data));
            }
            Ok(_) => drop(service.nodes.remove(node)),
            Err(reason) => {
                // The next list asks for the node again.
                service.nodes.remove(node);
                return self.refuse(service_path, reason);
            }
        }
        // The reason of a refusal was reported with its reply.
        service.known(service_path.to_owned()).filter(|known| known.nodes.is_ok())
    }

    fn refuse(&mut self, path: &str, reason: String) -> Option<KnownService> {
        let service = self.services.get_mut(path)?;
        service.refused = Some(reason.clone());
        Some(KnownService { path: path.to_owned(), nodes: Err(reason) })
    }
}

impl ZooKeeperService {
    fn known(&self, path: String) -> Option<KnownService> {
        if let Some(reason) = &self.refused {
            return Some(KnownService { path, nodes: Err(reason.clone()) });
        }
        let nodes: Option<Vec<Vec<u8>>> = self.nodes.values().cloned().collect();
        let nodes = nodes.filter(|_| !self.is_listing)?;
        Some(KnownService { path, nodes: Ok((!self.is_missing).then_some(nodes)) })
    }
}

/// Requests without a reply; a server holds a thousand of one client by default.
const MAX_IN_FLIGHT: usize = 500;

#[cfg(test)]
mod tests;
