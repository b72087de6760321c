//! Finds the stream route of a session. The most precise match wins: an exact server name before a longer wildcard before none,
//! then a condition on ALPN or the first bytes, the port, the server's address, the client's, and at last the id. Built
//! anew when a stream route changes; a search is a few look-ups and looks at the routes of one name or port.

use std::sync::Arc;

use stdx::hash::FastMap;

use super::stream_route::{NamePattern, StreamQuery, StreamRoute};

/// What has to be read of a client before its route can be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// The ClientHello of TLS.
    pub hello: bool,
    /// The protocol of the first bytes.
    pub sniff: bool,
}

impl Asks {
    /// Whether nothing has to be read.
    pub fn is_none(self) -> bool {
        !self.hello && !self.sniff
    }

    fn with(self, other: Asks) -> Asks {
        Asks { hello: self.hello || other.hello, sniff: self.sniff || other.sniff }
    }
}

impl StreamRoute {
    fn asks(&self) -> Asks {
        let matching = &self.matching;
        Asks { hello: matching.name.is_some() || !matching.alpn.is_empty(), sniff: matching.sniff.is_some() }
    }
}

/// See the module.
#[derive(Default)]
pub struct StreamTable {
    /// All routes, the most precise first.
    routes: Box<[Arc<StreamRoute>]>,
    /// The routes of one exact name.
    exact: FastMap<Box<str>, Vec<u32>>,
    /// The routes of all names with one end.
    suffix: FastMap<Box<str>, Vec<u32>>,
    /// The routes without a name, by port.
    of_port: FastMap<u16, Vec<u32>>,
    /// The routes without name and port.
    rest: Vec<u32>,
    /// What any of the routes asks for.
    most: Asks,
}

impl StreamTable {
    /// The table of `routes`.
    pub fn new(routes: impl Iterator<Item = Arc<StreamRoute>>) -> StreamTable {
        let mut routes: Box<[_]> = routes.collect();
        routes.sort_by(|a, b| (a.matching.rank(), &a.id).cmp(&(b.matching.rank(), &b.id)));
        let mut table = StreamTable::default();
        for (index, route) in (0_u32..).zip(&routes) {
            let list = match (&route.matching.name, route.matching.port) {
                (Some(NamePattern::Exact(name)), _) => table.exact.entry(name.clone()).or_default(),
                (Some(NamePattern::Suffix(end)), _) => table.suffix.entry(end.clone()).or_default(),
                (None, Some(port)) => table.of_port.entry(port).or_default(),
                (None, None) => &mut table.rest,
            };
            list.push(index);
            table.most = table.most.with(route.asks());
        }
        table.routes = routes;
        table
    }

    /// All routes, the most precise first.
    pub fn routes(&self) -> &[Arc<StreamRoute>] {
        &self.routes
    }

    /// What has to be read of a client with the addresses of `query`.
    pub fn asks(&self, query: &StreamQuery<'_>) -> Asks {
        let mut asks = Asks::default();
        if self.most.is_none() {
            return asks;
        }
        for route in self.routes.iter().filter(|route| route.matching.matches_addresses(query)) {
            asks = asks.with(route.asks());
            if asks == self.most {
                break;
            }
        }
        asks
    }

    /// The route of the session.
    pub fn find(&self, query: &StreamQuery<'_>) -> Option<&Arc<StreamRoute>> {
        let first = |list: Option<&Vec<u32>>| {
            let of = |index: &u32| &self.routes[*index as usize];
            list?.iter().map(of).find(|route| route.matching.misses(query).is_none())
        };
        if let Some(name) = query.name {
            if let Some(route) = first(self.exact.get(name)) {
                return Some(route);
            }
            let starts = (0..=name.len()).filter(|at| name.is_char_boundary(*at));
            if !self.suffix.is_empty()
                && let Some(route) = starts.filter_map(|at| first(self.suffix.get(&name[at..]))).next()
            {
                return Some(route);
            }
        }
        self.without_name(query)
    }

    /// The first by rank of the routes without a name, among those of the port and those of any.
    fn without_name(&self, query: &StreamQuery<'_>) -> Option<&Arc<StreamRoute>> {
        let first = |list: &Vec<u32>| {
            let matches = |index: &&u32| self.routes[**index as usize].matching.misses(query).is_none();
            list.iter().find(matches).copied()
        };
        let of_port = self.of_port.get(&query.local.port()).and_then(first);
        let rest = first(&self.rest);
        // The routes are in the order of their rank.
        let found = [of_port, rest].into_iter().flatten().min()?;
        self.routes.get(found as usize)
    }
}

#[cfg(test)]
mod tests {
    use exchange::plugin::stream::chain::StreamChain;
    use net::sniff::FirstProtocol;

    use super::*;
    use crate::runtime::stream_route::{ProxyHeader, StreamMatch, StreamTarget};

    /// A route: id, client, server, port, name, ALPN, first bytes; `-` is no condition.
    fn route(row: &str) -> Arc<StreamRoute> {
        let words: Vec<&str> = row.split_whitespace().collect();
        let word = |index: usize| words.get(index).copied().filter(|word| *word != "-");
        let matching = StreamMatch {
            client: word(1).map(|text| text.parse().unwrap()),
            server: word(2).map(|text| text.parse().unwrap()),
            port: word(3).map(|text| text.parse().unwrap()),
            name: word(4).map(NamePattern::new),
            alpn: word(5).map(Box::from).into_iter().collect(),
            sniff: word(6).map(protocol),
        };
        Arc::new(StreamRoute {
            id: words[0].into(),
            name: None,
            service_id: None,
            matching,
            plugins: StreamChain::default(),
            target: StreamTarget::None,
            spoken: None,
            sends_proxy: ProxyHeader::OfListener,
            idle_timeout_ms: 0,
            session_timeout_ms: 0,
            datagrams: Default::default(),
            missing: None,
        })
    }

    fn protocol(name: &str) -> FirstProtocol {
        [FirstProtocol::Ssh, FirstProtocol::Http1].into_iter().find(|known| known.as_str() == name).unwrap()
    }

    fn table(rows: &[&str]) -> StreamTable {
        StreamTable::new(rows.iter().map(|row| route(row)))
    }

    /// The route of a session: client, local address, name, ALPN, first bytes.
    fn found(table: &StreamTable, session: &str) -> String {
        let words: Vec<&str> = session.split_whitespace().collect();
        let word = |index: usize| words.get(index).copied().filter(|word| *word != "-");
        let alpn: Vec<Box<str>> =
            word(3).into_iter().flat_map(|list| list.split(',')).map(Box::from).collect();
        let query = StreamQuery {
            client: words[0].parse().unwrap(),
            local: words[1].parse().unwrap(),
            name: word(2),
            alpn: &alpn,
            sniffed: word(4).map(protocol),
        };
        table.find(&query).map_or("-", |route| &route.id).to_owned()
    }

    #[test]
    fn most_precise_route_wins() {
        let table = table(&[
            "all",
            "port - - 9100",
            "net 10.0.0.0/8 - 9100",
            "host 10.1.1.1/32 - 9100",
            "server - 127.0.0.2/32 9100",
            "exact - - - db.test",
            "wild - - - *.test",
            "wilder - - - *.eu.test",
            "any-name - - - *",
            "exact-port - - 9443 db.test",
            "h2 - - - - h2",
            "ssh - - 9100 - - ssh",
        ]);
        let rows = [
            ("192.0.2.1 127.0.0.1:9000", "all"),
            ("192.0.2.1 127.0.0.1:9100", "port"),
            ("10.2.2.2 127.0.0.1:9100", "net"),
            ("::ffff:10.2.2.2 127.0.0.1:9100", "net"),
            ("10.1.1.1 127.0.0.1:9100", "host"),
            ("10.1.1.1 127.0.0.2:9100", "server"),
            ("10.1.1.1 127.0.0.2:9100 db.test", "exact"),
            ("10.1.1.1 127.0.0.2:9443 db.test", "exact-port"),
            ("10.1.1.1 127.0.0.2:9100 a.test", "wild"),
            ("10.1.1.1 127.0.0.2:9100 a.b.eu.test", "wilder"),
            ("10.1.1.1 127.0.0.2:9100 test", "any-name"),
            ("192.0.2.1 127.0.0.1:9000 - h2,http/1.1", "h2"),
            ("192.0.2.1 127.0.0.1:9000 - http/1.1", "all"),
            ("10.1.1.1 127.0.0.1:9100 - - ssh", "ssh"),
            ("10.1.1.1 127.0.0.1:9100 - - http1", "host"),
        ];
        for (session, expected) in rows {
            assert_eq!(found(&table, session), expected, "{session}");
        }
    }

    #[test]
    fn session_without_a_matching_route_has_none() {
        let table = table(&["a 10.0.0.0/8 - 9100", "b - - 9200 db.test"]);
        for session in
            ["192.0.2.1 127.0.0.1:9100", "10.0.0.1 127.0.0.1:9200", "10.0.0.1 127.0.0.1:9200 x.test"]
        {
            assert_eq!(found(&table, session), "-", "{session}");
        }
        assert_eq!(found(&table, "10.0.0.1 127.0.0.1:9200 db.test"), "b");
    }

    #[test]
    fn first_bytes_are_read_only_where_a_route_asks() {
        let table = table(&["plain - - 9100", "names - - 9200 db.test", "ssh - - 9300 - - ssh"]);
        let asks = |port: u16| {
            table.asks(&StreamQuery {
                client: [127, 0, 0, 1].into(),
                local: ([127, 0, 0, 1], port).into(),
                name: None,
                alpn: &[],
                sniffed: None,
            })
        };
        assert!(asks(9100).is_none());
        assert_eq!(asks(9200), Asks { hello: true, sniff: false });
        assert_eq!(asks(9300), Asks { hello: false, sniff: true });
    }

    #[test]
    fn routes_of_equal_rank_are_found_by_their_id() {
        for rows in [["b - - 9100", "a - - 9100"], ["a - - 9100", "b - - 9100"]] {
            assert_eq!(found(&table(&rows), "192.0.2.1 127.0.0.1:9100"), "a");
        }
    }
}
