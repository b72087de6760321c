//! The followed services of one ZooKeeper session: which requests a reply or an event leads to, and when a service is
//! known completely. It does no I/O, so that every order of replies can be tested.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::wire::{NO_NODE, Request, children, data, refusal};

/// The nodes of one service.
#[derive(Debug, Default)]
struct Service {
    /// Data by name; none: it is asked for.
    nodes: BTreeMap<String, Option<Vec<u8>>>,
    /// Whether the list of names is asked for; a second request follows if a watch fires meanwhile.
    is_listing: bool,
    /// Whether the service's node does not exist.
    is_missing: bool,
}

/// A complete state of a service, or the reason why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The path of the service.
    pub(super) path: String,
    /// The data of each node; none if the service does not exist.
    pub(super) nodes: Result<Option<Vec<Vec<u8>>>, String>,
}

/// All followed services.
#[derive(Debug, Default)]
pub(super) struct Tree {
    services: HashMap<String, Service>,
    /// Requests to be sent.
    waiting: VecDeque<Request>,
    /// Sent requests, oldest first, which is the order of the replies.
    sent: VecDeque<(i32, Request)>,
    last_xid: i32,
}

impl Tree {
    /// Follows exactly the services at these paths.
    pub(super) fn follow(&mut self, paths: &[String]) {
        let wanted: HashSet<&String> = paths.iter().collect();
        // Watches of services that are no longer followed fire once and are ignored then.
        self.services.retain(|path, _| wanted.contains(path));
        for path in paths {
            if !self.services.contains_key(path) {
                self.services.insert(path.clone(), Service::default());
                self.list(path);
            }
        }
    }

    /// The next request to be sent with its number, unless [`MAX_IN_FLIGHT`] replies are awaited.
    pub(super) fn next_request(&mut self) -> Option<(i32, Request)> {
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
    pub(super) fn reply(&mut self, xid: i32, code: i32, body: &[u8]) -> Result<Option<Known>, String> {
        let (expected, request) =
            self.sent.pop_front().ok_or("the server sends a reply without a request")?;
        if expected != xid {
            return Err("the server answers requests in another order".to_owned());
        }
        match request {
            Request::Children(path) => self.listed(path, code, body),
            Request::Exists(path) => {
                // The node was made between the two requests.
                if code == 0 {
                    self.list(&path);
                }
                Ok(None)
            }
            Request::Data(path) => self.read(&path, code, body),
        }
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
            self.waiting.push_back(Request::Data(path.to_owned()));
        }
    }

    /// The complete state of a service; none while a reply is awaited.
    pub(super) fn known(&self, path: String) -> Option<Known> {
        self.services.get(&path)?.known(path)
    }

    fn list(&mut self, path: &str) {
        let Some(service) = self.services.get_mut(path) else { return };
        if !std::mem::replace(&mut service.is_listing, true) {
            self.waiting.push_back(Request::Children(path.to_owned()));
        }
    }

    fn listed(&mut self, path: String, code: i32, body: &[u8]) -> Result<Option<Known>, String> {
        let Some(service) = self.services.get_mut(&path) else { return Ok(None) };
        service.is_listing = false;
        if code == NO_NODE {
            service.nodes.clear();
            service.is_missing = true;
            self.waiting.push_back(Request::Exists(path.clone()));
            return Ok(service.known(path));
        }
        if code != 0 {
            let reason = refusal(code, &path);
            return Ok(Some(Known { path, nodes: Err(reason) }));
        }
        service.is_missing = false;
        let names = children(body)?;
        let mut before = std::mem::take(&mut service.nodes);
        for name in names {
            match before.remove(&name) {
                Some(known) => {
                    service.nodes.insert(name, known);
                }
                None => {
                    self.waiting.push_back(Request::Data(format!("{path}/{name}")));
                    service.nodes.insert(name, None);
                }
            }
        }
        Ok(service.known(path))
    }

    fn read(&mut self, path: &str, code: i32, body: &[u8]) -> Result<Option<Known>, String> {
        let Some((service_path, node)) = path.rsplit_once('/') else { return Ok(None) };
        let Some(service) = self.services.get_mut(service_path) else { return Ok(None) };
        match code {
            0 if service.nodes.contains_key(node) => {
                service.nodes.insert(node.to_owned(), Some(data(body)?));
            }
            // The node is gone; the watch of the list has fired.
            0 | NO_NODE => {
                service.nodes.remove(node);
            }
            other => {
                service.nodes.remove(node);
                let nodes = Err(refusal(other, path));
                return Ok(Some(Known { path: service_path.to_owned(), nodes }));
            }
        }
        Ok(service.known(service_path.to_owned()))
    }
}

impl Service {
    fn known(&self, path: String) -> Option<Known> {
        let nodes: Option<Vec<Vec<u8>>> = self.nodes.values().cloned().collect();
        let nodes = nodes.filter(|_| !self.is_listing)?;
        Some(Known { path, nodes: Ok((!self.is_missing).then_some(nodes)) })
    }
}

/// Requests without a reply; a server holds a thousand of one client by default.
const MAX_IN_FLIGHT: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<u8> {
        let mut out = i32::try_from(names.len()).unwrap().to_be_bytes().to_vec();
        for name in names {
            out.extend(i32::try_from(name.len()).unwrap().to_be_bytes());
            out.extend(name.as_bytes());
        }
        out
    }

    fn text(text: &str) -> Vec<u8> {
        names(&[text])[4..].to_vec()
    }

    fn expect(tree: &mut Tree, request: &Request) -> i32 {
        let (xid, next) = tree.next_request().expect("a request");
        assert_eq!(&next, request);
        xid
    }

    fn children_of(path: &str) -> Request {
        Request::Children(path.to_owned())
    }

    fn data_of(path: &str) -> Request {
        Request::Data(path.to_owned())
    }

    /// A tree that knows `/s/a` with one node.
    fn followed() -> Tree {
        let mut tree = Tree::default();
        tree.follow(&["/s/a".to_owned()]);
        let xid = expect(&mut tree, &children_of("/s/a"));
        assert_eq!(tree.reply(xid, 0, &names(&["1"])), Ok(None));
        let xid = expect(&mut tree, &data_of("/s/a/1"));
        let known = tree.reply(xid, 0, &text("one")).unwrap().unwrap();
        assert_eq!(known.nodes, Ok(Some(vec![b"one".to_vec()])));
        assert_eq!(tree.next_request(), None);
        tree
    }

    #[test]
    fn service_is_known_when_all_nodes_are_read() {
        let mut tree = followed();
        tree.event("/s/a");
        let xid = expect(&mut tree, &children_of("/s/a"));
        assert_eq!(tree.reply(xid, 0, &names(&["1", "2", "3"])), Ok(None));
        let second = expect(&mut tree, &data_of("/s/a/2"));
        let third = expect(&mut tree, &data_of("/s/a/3"));
        assert_eq!(tree.reply(second, 0, &text("two")), Ok(None));
        let known = tree.reply(third, NO_NODE, b"").unwrap().unwrap();
        assert_eq!(known.nodes, Ok(Some(vec![b"one".to_vec(), b"two".to_vec()])));
    }

    #[test]
    fn missing_service_is_watched_until_it_is_made() {
        let mut tree = Tree::default();
        tree.follow(&["/s/a".to_owned()]);
        let xid = expect(&mut tree, &children_of("/s/a"));
        assert_eq!(tree.reply(xid, NO_NODE, b"").unwrap().unwrap().nodes, Ok(None));
        let xid = expect(&mut tree, &Request::Exists("/s/a".to_owned()));
        assert_eq!(tree.reply(xid, NO_NODE, b""), Ok(None));
        assert_eq!(tree.next_request(), None);
        tree.event("/s/a");
        expect(&mut tree, &children_of("/s/a"));
    }

    #[test]
    fn changed_data_is_read_again() {
        let mut tree = followed();
        tree.event("/s/a/1");
        tree.event("/s/a/unknown");
        let xid = expect(&mut tree, &data_of("/s/a/1"));
        let known = tree.reply(xid, 0, &text("new")).unwrap().unwrap();
        assert_eq!(known.nodes, Ok(Some(vec![b"new".to_vec()])));
        assert_eq!(tree.next_request(), None);
    }

    #[test]
    fn refusal_is_no_empty_service() {
        let mut tree = followed();
        tree.event("/s/a");
        let xid = expect(&mut tree, &children_of("/s/a"));
        let known = tree.reply(xid, -102, b"").unwrap().unwrap();
        assert_eq!(known.nodes, Err("the credentials may not read /s/a".to_owned()));
    }

    #[test]
    fn services_no_longer_followed_are_ignored() {
        let mut tree = followed();
        tree.event("/s/a");
        let xid = expect(&mut tree, &children_of("/s/a"));
        tree.follow(&[]);
        assert_eq!(tree.reply(xid, 0, &names(&["1"])), Ok(None));
        tree.event("/s/a");
        assert_eq!(tree.next_request(), None);
    }

    #[test]
    fn replies_out_of_order_end_the_session() {
        assert!(followed().reply(1, 0, b"").is_err());
        let mut tree = followed();
        tree.event("/s/a");
        let xid = expect(&mut tree, &children_of("/s/a"));
        assert!(tree.reply(xid + 1, 0, b"").is_err());
    }

    #[test]
    fn requests_in_flight_are_bounded() {
        let mut tree = Tree::default();
        let paths: Vec<String> = (0..2000).map(|number| format!("/s/{number}")).collect();
        tree.follow(&paths);
        let sent = std::iter::from_fn(|| tree.next_request()).count();
        assert_eq!(sent, MAX_IN_FLIGHT);
    }
}
