//! HTTP/3 of clients against the real binary. The peers are the crate `h3` on quinn, libcurl on ngtcp2, and
//! raw datagrams.

mod changeover;
mod client;
mod exchanges;
mod handshakes;
mod hostile;
mod parameters;
mod peers;
mod websocket;

use serde_json::{Value, json};
use testkit::{Authority, Client, Origin, Pair, Weir, wait_until};

use crate::support::BINARY;

/// A gateway that serves HTTP/3, with an authority and a certificate for `a.example`.
struct Scene {
    weir: Weir,
    authority: Authority,
}

/// A gateway that passes every request on to `origin`.
fn scene(origin: &Origin, arguments: &[&str]) -> Scene {
    let arguments = [&["--proxy-tls-http3", "127.0.0.1:0"], arguments].concat();
    of(Weir::builder(BINARY).arguments(&arguments).start(), origin)
}

/// The same for a gateway that runs already.
fn of(weir: Weir, origin: &Origin) -> Scene {
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "enable_websocket": true, "upstream": upstream}));
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    Scene { weir, authority }
}

impl Scene {
    /// A client that asks for `a.example`.
    fn client(&self) -> client::H3Client {
        let tls = testkit::TlsClient::new(self.authority.pem(), "a.example");
        client::H3Client::connect(self.address(), &tls).unwrap()
    }

    fn address(&self) -> std::net::SocketAddr {
        self.weir.address("proxy-tls-http3")
    }

    /// The value of a metric without labels.
    fn metric(&self, name: &str) -> u64 {
        let text = Client::connect(self.weir.address("metrics")).get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    }
}

/// Puts an `ssl` object with these fields besides the pair, and waits until the workers run by it.
fn put_ssl(weir: &Weir, id: &str, pair: &Pair, fields: Value) {
    let mut body = json!({"cert": pair.certificate, "key": pair.key});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    weir.put(&format!("ssls/{id}"), body);
    settled(weir);
}

/// Waits until every worker runs by the newest configuration.
fn settled(weir: &Weir) {
    let revision = Client::connect(weir.address("admin"))
        .request("GET", "/apisix/admin/ssls", &[("X-API-KEY", testkit::ADMIN_KEY)], b"")
        .header("x-weir-revision")
        .and_then(|text| text.parse::<u64>().ok());
    wait_until("the worker has taken the change up", || {
        let text = Client::connect(weir.address("metrics")).get("/metrics").text();
        let running = text.lines().filter(|line| line.starts_with("weir_config_revision{"));
        let mut running = running.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        revision.is_none_or(|revision| running.all(|one| one >= revision))
    });
}
