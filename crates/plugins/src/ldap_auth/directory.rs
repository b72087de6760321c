//! The LDAP server: one bind after another on connections that a thread keeps. A bind replaces the identity
//! of its connection, so that any user may use a connection after any other (RFC 4511 section 4.2.1).

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use exchange::local::WorkerLocal;
use exchange::plugin::outbound::{OutboundStream, OutboundTls, StreamDestination};
use exchange::plugin::services::Services;

use super::message::{MESSAGE_BYTES_MAX, MESSAGE_ID_MAX, bind_request, bind_result};

/// The time of a bind with everything it needs, in milliseconds: that of APISIX.
const BIND_MS: u64 = 10_000;
/// Binds under way at one server, over all threads. A server that has so many to decide is not helped by
/// more, and each holds a request of a client.
const BINDS_MAX: usize = 4_096;
/// Connections that a thread keeps, to all servers.
const IDLE_MAX: usize = 32;
/// Milliseconds that a connection is kept without use: as in APISIX.
const IDLE_MS: u64 = 60_000;

/// The result codes by which a server refuses credentials: no such attribute, no such object, invalid name,
/// inappropriate authentication, invalid credentials, no rights (RFC 4511 appendix A). Others are faults of
/// the server.
const REFUSALS: [u32; 6] = [16, 32, 34, 48, 49, 50];

/// The place of a server, as users write it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LdapServerAddress {
    /// `HOST:PORT`.
    place: String,
    uses_tls: bool,
}

/// A server that binds are sent to.
pub(super) struct Directory {
    destination: StreamDestination,
    /// Tells its connections from those to other servers.
    number: u64,
    under_way: AtomicUsize,
}

/// A connection to a server.
struct LdapConnection {
    stream: OutboundStream,
    /// The id of the last message. Each bind has one of its own (RFC 4511 section 4.1.1.1), so that a
    /// response that comes late is not taken for that of the next bind.
    message_id: u32,
}

struct IdleLdapConnection {
    number: u64,
    since_ms: u64,
    connection: LdapConnection,
}

thread_local! {
    /// The thread's idle connections, the oldest first. Those of a server that is no longer configured are
    /// closed by the next use of any, and are few.
    static IDLE: RefCell<Vec<IdleLdapConnection>> = const { RefCell::new(Vec::new()) };
}

/// The number of the next directory.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl LdapServerAddress {
    /// Reads `HOST`, `HOST:PORT`, or one of them behind `ldap://` or `ldaps://`.
    ///
    /// # Errors
    /// It has another form, or the scheme and `use_tls` contradict each other.
    pub(super) fn read(written: &str, use_tls: bool) -> Result<LdapServerAddress, String> {
        let (rest, is_ldaps) = match (written.strip_prefix("ldap://"), written.strip_prefix("ldaps://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ => (written, false),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let host_end = if rest.starts_with('[') { rest.find(']').map_or(0, |at| at + 1) } else { 0 };
        let (host, port) = match rest[host_end..].find(':') {
            Some(colon) => rest.split_at(host_end + colon),
            None => (rest, if is_ldaps { ":636" } else { ":389" }),
        };
        let is_port = port[1..].parse::<u16>().is_ok_and(|port| port > 0);
        if host.is_empty() || host.contains(['/', '?', '@', ' ']) || !is_port {
            return Err(format!("ldap_uri: `{written}` is not HOST or HOST:PORT"));
        }
        Ok(LdapServerAddress { place: format!("{host}{port}"), uses_tls: use_tls || is_ldaps })
    }
}

impl Directory {
    /// # Errors
    /// Why the server cannot be reached, a sentence.
    pub(super) fn new(
        services: &Services,
        server: &LdapServerAddress,
        verifies: bool,
    ) -> Result<Directory, String> {
        let tls = server.uses_tls.then(|| OutboundTls::verifying(verifies));
        Ok(Directory {
            destination: services
                .stream_destination(&server.place, tls.as_ref())
                .map_err(|reason| format!("ldap_uri: {reason}"))?,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            under_way: AtomicUsize::new(0),
        })
    }

    /// Whether the server accepts `password` for `name`.
    ///
    /// # Errors
    /// The server's fault, a sentence for the log.
    pub(super) async fn bind(
        &self,
        worker: &WorkerLocal,
        name: &str,
        password: &[u8],
    ) -> Result<bool, String> {
        let _under_way = UnderWay::begin(&self.under_way)?;
        let deadline_ms = worker.now_ms() + BIND_MS;
        let bind = Bind { name, password, deadline_ms };
        // A kept connection may be closed by the server at any time; a bind may be repeated.
        while let Some(kept) = take(self.number, worker.now_ms()) {
            if let Ok(code) = self.exchange(worker, kept, &bind).await {
                return verdict(code);
            }
        }
        let fresh = self.destination.connect(left(worker, deadline_ms)).await;
        let stream = fresh.map_err(|error| error.to_string())?;
        verdict(self.exchange(worker, LdapConnection { stream, message_id: 0 }, &bind).await?)
    }

    /// Sends a bind and gives the code of its result. The connection is kept if it is of further use.
    async fn exchange(
        &self,
        worker: &WorkerLocal,
        mut connection: LdapConnection,
        bind: &Bind<'_>,
    ) -> Result<u32, String> {
        let broken = |error| self.destination.broken(&error).to_string();
        let deadline_ms = bind.deadline_ms;
        connection.message_id += 1;
        let request = bind_request(connection.message_id, bind.name, bind.password);
        let stream = &mut connection.stream;
        stream.write_all(&request, left(worker, deadline_ms)).await.map_err(broken)?;
        let (mut received, mut room) = (Vec::new(), [0; 1_024]);
        loop {
            let count = stream.read(&mut room, left(worker, deadline_ms)).await.map_err(broken)?;
            if count == 0 {
                return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
            }
            received.extend_from_slice(&room[..count]);
            let fault = |fault: &str| broken(std::io::Error::other(fault));
            match bind_result(connection.message_id, &received).map_err(fault)? {
                Some((code, length)) => {
                    // Bytes after the response would be read as the next one.
                    if length == received.len() && connection.message_id < MESSAGE_ID_MAX {
                        keep(IdleLdapConnection {
                            number: self.number,
                            since_ms: worker.now_ms(),
                            connection,
                        });
                    }
                    return Ok(code);
                }
                None if received.len() > MESSAGE_BYTES_MAX => {
                    return Err(fault("the answer is longer than 64 KiB"));
                }
                None => {}
            }
        }
    }
}

fn verdict(code: u32) -> Result<bool, String> {
    match code {
        0 => Ok(true),
        code if REFUSALS.contains(&code) => Ok(false),
        code => Err(format!("the LDAP server answers with result code {code}")),
    }
}

/// Milliseconds until `deadline_ms`; 1 if it is over, so that the next step fails.
fn left(worker: &WorkerLocal, deadline_ms: u64) -> u64 {
    deadline_ms.saturating_sub(worker.now_ms()).max(1)
}

/// The youngest idle connection to a server. Connections that were idle for too long are closed, and those
/// that bytes have come on: no bind has asked for them.
fn take(number: u64, now_ms: u64) -> Option<LdapConnection> {
    let mut idle = IDLE.take();
    idle.retain(|kept| now_ms.saturating_sub(kept.since_ms) < IDLE_MS);
    let mut found = None;
    while let Some(at) = idle.iter().rposition(|kept| kept.number == number) {
        let mut kept = idle.remove(at).connection;
        if kept.stream.is_quiet() {
            found = Some(kept);
            break;
        }
    }
    IDLE.set(idle);
    found
}

fn keep(stream: IdleLdapConnection) {
    let mut idle = IDLE.take();
    idle.retain(|kept| stream.since_ms.saturating_sub(kept.since_ms) < IDLE_MS);
    if idle.len() >= IDLE_MAX {
        idle.remove(0);
    }
    idle.push(stream);
    IDLE.set(idle);
}

/// The content of a bind, and the time at which it has to be over.
struct Bind<'b> {
    name: &'b str,
    password: &'b [u8],
    deadline_ms: u64,
}

/// A bind under way, counted until it ends or is dropped.
struct UnderWay<'d>(&'d AtomicUsize);

impl<'d> UnderWay<'d> {
    fn begin(count: &'d AtomicUsize) -> Result<UnderWay<'d>, String> {
        let counted = UnderWay(count);
        match count.fetch_add(1, Ordering::Relaxed) {
            ..BINDS_MAX => Ok(counted),
            _ => Err(format!("{BINDS_MAX} binds to the LDAP server are under way")),
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn servers_are_read_or_refused() {
        let check = |written: &str, use_tls: bool, expected: Option<(&str, bool)>| {
            let expected =
                expected.map(|(place, uses_tls)| LdapServerAddress { place: place.to_owned(), uses_tls });
            assert_eq!(LdapServerAddress::read(written, use_tls).ok(), expected, "{written}");
        };
        check("127.0.0.1:1389", false, Some(("127.0.0.1:1389", false)));
        check("test.com:1636", true, Some(("test.com:1636", true)));
        check("ldap.example", false, Some(("ldap.example:389", false)));
        check("ldap.example", true, Some(("ldap.example:389", true)));
        check("ldap://ldap.example/", false, Some(("ldap.example:389", false)));
        check("ldaps://ldap.example", false, Some(("ldap.example:636", true)));
        check("[::1]", false, Some(("[::1]:389", false)));
        check("[::1]:1389", false, Some(("[::1]:1389", false)));
        for bad in ["", ":389", "a:", "a:0", "a:b", "a:65536", "ldap://", "a/b", "ldap://u@a", "http://a"] {
            check(bad, false, None);
        }
    }

    /// The response to message `id`, with `code`.
    fn response(id: u8, code: u8) -> [u8; 14] {
        [0x30, 12, 2, 1, id, 0x61, 7, 0x0a, 1, code, 4, 0, 4, 0]
    }

    /// A server refuses each bind, and says once more afterwards that the first one was good.
    #[test]
    fn late_response_answers_no_other_bind() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let (sent, was_sent) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let sent = sent.clone();
                std::thread::spawn(move || {
                    let mut request = [0; 64];
                    // The id is the first element of a message this short.
                    while client.read(&mut request).is_ok_and(|count| count > 4) {
                        client.write_all(&response(request[4], 49)).unwrap();
                        let _ = client.write_all(&response(1, 0));
                        let _ = sent.send(());
                    }
                });
            }
        });
        let services = exchange::testing::services();
        let directory =
            Directory::new(&services, &LdapServerAddress::read(&place, false).unwrap(), false).unwrap();
        let mut scene = exchange::testing::Scene::new();
        let worker = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").local().clone();
        let verdicts = net::env::block_on(async {
            let mut verdicts = Vec::new();
            for _ in 0..6 {
                verdicts.push(directory.bind(&worker, "cn=a", b"bad").await);
                was_sent.recv().unwrap();
            }
            verdicts
        });
        assert_eq!(verdicts.unwrap(), vec![Ok(false); 6]);
    }

    #[test]
    fn result_codes_decide() {
        assert_eq!(verdict(0), Ok(true));
        assert_eq!(verdict(49), Ok(false));
        for fault in [1, 2, 14, 51, 52, 80] {
            assert!(verdict(fault).is_err(), "{fault}");
        }
    }
}
