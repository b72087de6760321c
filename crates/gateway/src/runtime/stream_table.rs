//! Finds the stream route of a session. The most precise match wins: an exact server name before a longer
//! wildcard before none, then a condition on ALPN or the first bytes, the port, the server's address, the
//! client's, and at last the id. Built anew when a stream route changes; a search is a few look-ups and looks
//! at the routes of one name or port. A route that asks for first bytes and names no port is not asked at
//! ports with a plain route: see decision 0058.

use std::sync::Arc;

use exchange::plugin::stream::StreamTransport;
use net::sniff::ProtocolSet;
use stdx::hash::FastMap;

use super::stream_route::{NamePattern, StreamQuery, StreamRoute};

/// Bytes that have to be read of a client before its route can be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SniffNeeds {
    /// The ClientHello of TLS.
    pub hello: bool,
    /// The first bytes, as far as they may show one of these protocols.
    pub protocols: ProtocolSet,
}

impl SniffNeeds {
    /// Whether nothing has to be read.
    pub fn is_none(self) -> bool {
        !self.hello && self.protocols.is_empty()
    }

    fn with(self, other: SniffNeeds) -> SniffNeeds {
        SniffNeeds { hello: self.hello || other.hello, protocols: self.protocols.and(other.protocols) }
    }

    /// The part that bytes of a client can answer: TLS that ends here has had its ClientHello before.
    fn over(self, transport: StreamTransport) -> SniffNeeds {
        SniffNeeds { hello: self.hello && transport == StreamTransport::Tcp, ..self }
    }
}

impl StreamRoute {
    fn asks(&self) -> SniffNeeds {
        let matching = &self.matching;
        let protocols = matching.sniff.map_or(ProtocolSet::default(), |one| ProtocolSet::default().with(one));
        SniffNeeds { hello: matching.name.is_some() || !matching.alpn.is_empty(), protocols }
    }

    /// Whether it asks for first bytes at each port.
    fn asks_everywhere(&self) -> bool {
        self.matching.port.is_none() && !self.asks().is_none()
    }
}

/// A route that matches a session by its addresses alone, so that the session needs no first bytes.
#[derive(Clone, Copy)]
struct PlainRoute<'t> {
    route: &'t Arc<StreamRoute>,
    /// Whether it names the port.
    names_port: bool,
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
    /// Bytes that any of the routes asks for.
    most: SniffNeeds,
    /// Whether a route asks for first bytes at each port.
    asks_everywhere: bool,
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
            table.asks_everywhere |= route.asks_everywhere();
        }
        table.routes = routes;
        table
    }

    /// All routes, the most precise first.
    pub fn routes(&self) -> &[Arc<StreamRoute>] {
        &self.routes
    }

    /// Tells what has to be read of a client with the addresses of `query`.
    pub fn asks(&self, query: &StreamQuery<'_>) -> SniffNeeds {
        let mut asks = SniffNeeds::default();
        if self.most.is_none() {
            return asks;
        }
        let plain = self.plain(query);
        for route in self.routes.iter().filter(|route| route.matching.may_match(query)) {
            if !is_hidden(route, query, plain) {
                asks = asks.with(route.asks().over(query.transport));
            }
            if asks == self.most {
                break;
            }
        }
        asks
    }

    /// The route of the session.
    pub fn find(&self, query: &StreamQuery<'_>) -> Option<&Arc<StreamRoute>> {
        let plain = self.plain(query);
        let first = |list: Option<&Vec<u32>>| {
            let of = |index: &u32| &self.routes[*index as usize];
            list?.iter().map(of).find(|route| matches(route, query, plain))
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
        self.without_name(query, plain)
    }

    /// The first by rank of the routes without a name, among those of the port and those of any.
    fn without_name(
        &self,
        query: &StreamQuery<'_>,
        plain: Option<PlainRoute<'_>>,
    ) -> Option<&Arc<StreamRoute>> {
        let first = |list: &Vec<u32>| {
            let is_match = |index: &&u32| matches(&self.routes[**index as usize], query, plain);
            list.iter().find(is_match).copied()
        };
        let of_port = self.of_port.get(&query.local.port()).and_then(first);
        let rest = first(&self.rest);
        // The routes are in the order of their rank.
        let found = [of_port, rest].into_iter().flatten().min()?;
        self.routes.get(found as usize)
    }

    /// The plain route for the addresses of `query`, where the table has routes that one can hide.
    fn plain(&self, query: &StreamQuery<'_>) -> Option<PlainRoute<'_>> {
        if !self.asks_everywhere {
            return None;
        }
        let first = |list: &Vec<u32>, names_port: bool| {
            let routes = list.iter().map(|index| &self.routes[*index as usize]);
            let is_plain =
                |route: &&Arc<StreamRoute>| route.asks().is_none() && route.matching.matches_addresses(query);
            routes.filter(is_plain).map(|route| PlainRoute { route, names_port }).next()
        };
        let of_port = self.of_port.get(&query.local.port());
        of_port.and_then(|list| first(list, true)).or_else(|| first(&self.rest, false))
    }

    /// The plain route for which `route` is not asked at the port of `query`; none if it is asked.
    pub fn hides(&self, route: &StreamRoute, query: &StreamQuery<'_>) -> Option<&Arc<StreamRoute>> {
        let plain = self.plain(query);
        plain.filter(|_| is_hidden(route, query, plain)).map(|plain| plain.route)
    }
}

fn matches(route: &StreamRoute, query: &StreamQuery<'_>, plain: Option<PlainRoute<'_>>) -> bool {
    route.matching.misses(query).is_none() && !is_hidden(route, query, plain)
}

/// Whether a route that asks for first bytes at each port is not asked for at this one, because a plain route
/// serves it: its clients may wait for the server to speak first. A name or a protocol of ALPN then means TLS
/// that ends here, as in APISIX. `sniff` asks for bytes in so many words, so that only a plain route that
/// names the port goes before it.
fn is_hidden(route: &StreamRoute, query: &StreamQuery<'_>, plain: Option<PlainRoute<'_>>) -> bool {
    let Some(plain) = plain.filter(|_| route.asks_everywhere()) else { return false };
    let sniffs = route.matching.sniff.is_some();
    match query.transport {
        // A datagram is whole, so that nothing is waited for.
        StreamTransport::Udp => false,
        StreamTransport::Tls => sniffs && plain.names_port,
        StreamTransport::Tcp => plain.names_port || !sniffs,
    }
}

#[cfg(test)]
mod tests {
    use exchange::plugin::stream::chain::StreamChain;
    use net::sniff::FirstProtocol;

    use super::*;
    use crate::runtime::stream_route::{ProxyHeader, SessionKind, StreamMatch, StreamTarget};

    /// A route: id, client, server, port, name, ALPN, first bytes, `connection` or `datagram`; `-` is no
    /// condition.
    fn route(row: &str) -> Arc<StreamRoute> {
        let words: Vec<&str> = row.split_whitespace().collect();
        let word = |index: usize| words.get(index).copied().filter(|word| *word != "-");
        let matching = StreamMatch {
            kind: word(7).map(|kind| match kind {
                "datagram" => SessionKind::Datagram,
                _ => SessionKind::Connection,
            }),
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

    fn transport(name: Option<&str>) -> StreamTransport {
        match name {
            Some("udp") => StreamTransport::Udp,
            Some("tls") => StreamTransport::Tls,
            _ => StreamTransport::Tcp,
        }
    }

    /// The route of a session: client, local address, name, ALPN, first bytes, `tls` or `udp`.
    fn found(table: &StreamTable, session: &str) -> String {
        let words: Vec<&str> = session.split_whitespace().collect();
        let word = |index: usize| words.get(index).copied().filter(|word| *word != "-");
        let alpn: Vec<Box<str>> =
            word(3).into_iter().flat_map(|list| list.split(',')).map(Box::from).collect();
        let query = StreamQuery {
            transport: transport(word(5)),
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
            ("10.1.1.1 127.0.0.2:9100 db.test - - tls", "exact"),
            ("10.1.1.1 127.0.0.2:9443 db.test - - tls", "exact-port"),
            ("10.1.1.1 127.0.0.2:9100 a.test - - tls", "wild"),
            ("10.1.1.1 127.0.0.2:9100 a.b.eu.test - - tls", "wilder"),
            ("10.1.1.1 127.0.0.2:9100 test - - tls", "any-name"),
            ("192.0.2.1 127.0.0.1:9000 - h2,http/1.1 - tls", "h2"),
            ("192.0.2.1 127.0.0.1:9000 - http/1.1 - tls", "all"),
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

    /// The bytes that are asked for at a port: `hello`, names of protocols, or nothing.
    fn asked(table: &StreamTable, port: u16, over: &str) -> String {
        let asks = table.asks(&StreamQuery {
            transport: transport(Some(over)),
            client: [127, 0, 0, 1].into(),
            local: ([127, 0, 0, 1], port).into(),
            name: (over == "tls").then_some("db.test"),
            alpn: &[],
            sniffed: None,
        });
        let hello = asks.hello.then_some("hello");
        hello
            .into_iter()
            .chain(asks.protocols.protocols().map(FirstProtocol::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn first_bytes_are_read_only_where_a_route_asks() {
        let table = table(&["plain - - 9100", "names - - 9200 db.test", "ssh - - 9300 - - ssh"]);
        for (port, over, expected) in [
            (9100, "tcp", ""),
            (9200, "tcp", "hello"),
            (9200, "tls", ""),
            (9300, "tcp", "ssh"),
            (9300, "tls", "ssh"),
            (9300, "udp", "ssh"),
        ] {
            assert_eq!(asked(&table, port, over), expected, "{port} {over}");
        }
    }

    #[test]
    fn plain_port_does_not_wait_for_first_bytes() {
        let inside = ["web - - - web.test - ssh", "db - - - db.test"];
        let names = ["mysql - - 9890", "tls - - - db.test", "h2 - - - - h2", "ssh - - - - - ssh"];
        let rest = ["rest", "tls - - - db.test", "ssh - - - - - ssh"];
        let own = ["own - - 9890", "tls - - 9890 db.test", "every - - - *.test"];
        let other = ["other 10.0.0.0/8 - 9890", "udp - - 9890 - - - datagram", "tls - - - db.test"];
        // routes, port, transport → bytes asked for, route of a client with the name, route of one without
        // bytes
        type Row<'r> = (&'r [&'r str], u16, &'r str, &'r str, &'r str, &'r str);
        let rows: [Row<'_>; 12] = [
            (&inside, 9890, "tls", "", "db", "-"),
            (&names, 9890, "tcp", "", "mysql", "mysql"),
            (&names, 9890, "tls", "", "tls", "mysql"),
            (&names, 9891, "tcp", "hello ssh", "tls", "-"),
            (&names, 9891, "tls", "ssh", "tls", "-"),
            (&rest, 9890, "tcp", "ssh", "rest", "rest"),
            (&rest, 9890, "tls", "ssh", "tls", "rest"),
            (&own, 9890, "tcp", "hello", "tls", "own"),
            (&own, 9891, "tcp", "hello", "every", "-"),
            (&other, 9890, "tcp", "hello", "tls", "-"),
            (&other, 9890, "tls", "", "tls", "-"),
            (&other, 9890, "udp", "", "udp", "udp"),
        ];
        for (routes, port, over, asks, named, silent) in rows {
            let table = table(routes);
            let row = format!("{routes:?} {port} {over}");
            assert_eq!(asked(&table, port, over), asks, "{row}");
            let name = if over == "udp" { "-" } else { "db.test" };
            let session = |name: &str| format!("127.0.0.1 127.0.0.1:{port} {name} - - {over}");
            assert_eq!(found(&table, &session(name)), named, "{row}");
            assert_eq!(found(&table, &session("-")), silent, "{row}");
        }
    }

    #[test]
    fn connections_and_datagrams_are_told_apart() {
        let table = table(&[
            "tcp - - 9602 - - - connection",
            "udp - - 9602 - - - datagram",
            "both - - 9603",
            "udp-3 - - 9603 - - - datagram",
            "only-tcp - - 9604 - - - connection",
        ]);
        for (session, expected) in [
            ("127.0.0.1 127.0.0.1:9602 - - - tcp", "tcp"),
            ("127.0.0.1 127.0.0.1:9602 - - - tls", "tcp"),
            ("127.0.0.1 127.0.0.1:9602 - - - udp", "udp"),
            ("127.0.0.1 127.0.0.1:9603 - - - tcp", "both"),
            ("127.0.0.1 127.0.0.1:9603 - - - udp", "udp-3"),
            ("127.0.0.1 127.0.0.1:9604 - - - udp", "-"),
        ] {
            assert_eq!(found(&table, session), expected, "{session}");
        }
    }

    #[test]
    fn routes_of_equal_rank_are_found_by_their_id() {
        for rows in [["b - - 9100", "a - - 9100"], ["a - - 9100", "b - - 9100"]] {
            assert_eq!(found(&table(&rows), "192.0.2.1 127.0.0.1:9100"), "a");
        }
    }
}
