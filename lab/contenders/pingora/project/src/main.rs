//! The smallest reverse proxy on Pingora that does what the other contenders do: every path to one origin, one prefix
//! stripped, the client added to X-Forwarded-For. From the environment: LISTEN, ORIGIN, PROTOCOL, CERTIFICATE, KEY,
//! WORKERS, KEEPALIVE, and WORK_STEALING, `true` for one runtime that steals work (Pingora's default) or `false` for one
//! runtime a worker. `--version` prints the version of OpenSSL.

use std::str::FromStr;

use async_trait::async_trait;
use pingora::apps::HttpServerOptions;
use pingora::http::RequestHeader;
use pingora::listeners::tls::TlsSettings;
use pingora::prelude::*;
use pingora::protocols::ALPN;
use pingora::proxy::{http_proxy_service, ProxyHttp, Session};
use pingora::server::configuration::ServerConf;
use pingora::server::Server;

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PREFIX: &str = "/sodik";

struct Forward {
    origin: HttpPeer,
}

#[async_trait]
impl ProxyHttp for Forward {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        // Cloned, so that no request parses the address.
        Ok(Box::new(self.origin.clone()))
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        (): &mut (),
    ) -> Result<()> {
        let stripped = request
            .uri
            .path_and_query()
            .and_then(|target| target.as_str().strip_prefix(PREFIX))
            .filter(|rest| rest.starts_with('/'))
            .and_then(|rest| rest.parse().ok());
        if let Some(uri) = stripped {
            request.set_uri(uri);
        }
        if let Some(client) = session.client_addr().and_then(|address| address.as_inet()) {
            let client = client.ip().to_string();
            let before = request.headers.get("x-forwarded-for").and_then(|value| value.to_str().ok());
            let chain = before.map_or(client.clone(), |before| format!("{before}, {client}"));
            request.insert_header("X-Forwarded-For", chain)?;
        }
        Ok(())
    }
}

fn setting<T: FromStr>(name: &str) -> T {
    let text = std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    text.parse().unwrap_or_else(|_| panic!("{name} cannot be '{text}'"))
}

fn main() {
    if std::env::args().any(|word| word == "--version") {
        return println!("{}", openssl::version::version());
    }
    let protocol: String = setting("PROTOCOL");
    let configuration = ServerConf {
        threads: setting("WORKERS"),
        work_stealing: setting("WORK_STEALING"),
        upstream_keepalive_pool_size: setting("KEEPALIVE"),
        grace_period_seconds: Some(0),
        graceful_shutdown_timeout_seconds: Some(1),
        ..Default::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, configuration);
    server.bootstrap();
    let origin: String = setting("ORIGIN");
    let mut origin = HttpPeer::new(origin.as_str(), false, String::new());
    if protocol == "grpc" {
        // HTTP/2 in clear text, by prior knowledge.
        origin.options.alpn = ALPN::H2;
        // Its default is a connection for each call.
        origin.options.max_h2_streams = 100;
    }
    let mut service = http_proxy_service(&server.configuration, Forward { origin });
    let listen: String = setting("LISTEN");
    match protocol.as_str() {
        "https" | "http2" => {
            let (certificate, key): (String, String) = (setting("CERTIFICATE"), setting("KEY"));
            let mut tls = TlsSettings::intermediate(&certificate, &key).expect("certificate and key are readable");
            if protocol == "http2" {
                tls.enable_h2();
            }
            service.add_tls_with_settings(&listen, None, tls);
        }
        _ => service.add_tcp(&listen),
    }
    if matches!(protocol.as_str(), "h2c" | "grpc") {
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        service.app_logic_mut().expect("it was just made").server_options = Some(options);
    }
    server.add_service(service);
    server.run_forever();
}
