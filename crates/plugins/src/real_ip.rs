//! # real-ip
//!
//! Takes the client's address from a field, an argument or another variable, for a gateway behind a proxy
//! that the setting `real_ip_from` does not cover. Later plugins, the upstream and the logs then see that
//! address.
//!
//! ```json
//! {
//!   "source": "http_x_forwarded_for",
//!   "trusted_addresses": ["10.0.0.0/8", "127.0.0.1"],
//!   "recursive": true
//! }
//! ```
//!
//! **`source`** is the name of a variable, such as `http_x_real_ip`, `arg_realip` or `proxy_protocol_addr`.
//! Its value is an address, with a port or without: `1.2.3.4`, `1.2.3.4:5678`, `[2001:db8::1]:443`. Of the
//! list in `http_x_forwarded_for` the last entry counts; with `recursive` and `trusted_addresses` it is the
//! last one that is not trusted itself, or the first of all. Several fields of that name are one list.
//!
//! **`trusted_addresses`** lists the addresses and networks of peers that are believed. **Without it every
//! client is believed**, and can name any address: give it unless the source cannot be written by clients.
//!
//! `$remote_addr` and `$remote_port` change, and with them `X-Real-IP` and the last entry of
//! `X-Forwarded-For` that the upstream gets, and every plugin with a lower priority; `$realip_remote_addr` is
//! still the address of the connection. The route has been found before: its `remote_addrs` see the address
//! of the connection. A value that is missing or no address leaves the client unchanged. A request of a batch
//! (`batch-requests`) keeps the client of the batch, because the client wrote its fields and arguments.

use std::sync::Arc;

use exchange::Exchange;
use exchange::client_address::ClientAddress;
use exchange::plugin::{Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running};
use router::CidrSet;
use router::vars::{Variable, VariableSource};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::networks;

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("real-ip", 23000, &[PluginPhase::Rewrite], RealIpConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .documented(include_str!("real_ip.rs"));

attributes! {
    struct RealIpConfig {
        /// Peers that are believed, by address or network; every peer by default.
        trusted_addresses: Option<Vec<String>>, { "minItems": 1, "items": networks::schema() };
        /// The variable with the client's address.
        source: String, { "minLength": 1 };
        /// Whether trusted addresses at the end of the list in X-Forwarded-For are stepped over.
        recursive: bool = false;
    }
}

/// The compiled plugin.
struct RealIp {
    /// `None` trusts every peer.
    trusted: Option<CidrSet>,
    source: RealIpSource,
}

enum RealIpSource {
    /// `http_x_forwarded_for`, a list.
    ForwardedFor {
        /// Steps over trusted addresses.
        is_recursive: bool,
    },
    /// Any other variable, with one address.
    Variable(Variable),
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    compile(config).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value) -> Result<RealIp, String> {
    let config: RealIpConfig = config::parse_config(config)?;
    let trusted = config.trusted_addresses.as_deref().map(CidrSet::parse).transpose();
    let trusted = trusted.map_err(|error| format!("invalid ip address: {}", error.text))?;
    let source = match &*config.source {
        "http_x_forwarded_for" => {
            RealIpSource::ForwardedFor { is_recursive: config.recursive && trusted.is_some() }
        }
        name => RealIpSource::Variable(Variable::parse(name).map_err(|error| format!("source: {error}"))?),
    };
    Ok(RealIp { trusted, source })
}

impl RealIp {
    fn trusts(&self, client: &ClientAddress) -> bool {
        self.trusted.as_ref().is_none_or(|trusted| trusted.contains(client.address))
    }

    /// The client that the source names; `None` if it names none.
    fn client(&self, exchange: &Exchange) -> Option<ClientAddress> {
        let is_recursive = match &self.source {
            RealIpSource::ForwardedFor { is_recursive } => *is_recursive,
            RealIpSource::Variable(variable) => {
                return ClientAddress::parse(&exchange.variable(variable)?.text());
            }
        };
        let mut client = None;
        let lines: Vec<&[u8]> = exchange.request.headers.get_all("X-Forwarded-For").collect();
        for entry in lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b',')) {
            // An entry that is no address was written by a peer that is not trusted; entries before it are
            // not believed.
            client = Some(ClientAddress::parse(entry)?);
            if !is_recursive || !client.as_ref().is_some_and(|client| self.trusts(client)) {
                break;
            }
        }
        client
    }
}

impl Plugin for RealIp {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if exchange.inner_client.is_some() {
            // The client of the outer request wrote the source, and no trusted proxy has seen it.
            return Flow::Continue;
        }
        if self.trusts(&exchange.client)
            && let Some(client) = self.client(exchange)
            && client.port != Some(0)
        {
            exchange.set_client(client);
        }
        Flow::Continue
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{self, configuration_check};
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({ "source": "http_xff" }), None);
        check(json!({ "source": "arg_ip", "trusted_addresses": ["127.0.0.0/24", "::1", "fe80::/32"] }), None);
        check(json!({ "source": "http_x_forwarded_for", "recursive": true }), None);
        check(json!({}), Some("property \"source\" is required"));
        check(json!({ "source": "" }), Some("source"));
        check(json!({ "source": "post_arg.a[" }), Some("source: "));
        check(json!({ "source": "a", "trusted_addresses": [] }), Some("trusted_addresses"));
        check(json!({ "source": "a", "trusted_addresses": ["127.0.0.1/33"] }), Some("trusted_addresses"));
        check(
            json!({ "source": "a", "trusted_addresses": ["::1/129"] }),
            Some("invalid ip address: ::1/129"),
        );
    }

    /// Checks the client after a request to `target` with these fields from 127.0.0.1:40000, as
    /// `address port`.
    fn check(config: Value, target: &str, fields: &str, expected: &str) {
        let mut scene = testing::Scene::new();
        let plugin = scene.build(&KIND, &config);
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut exchange = scene.exchange(head.as_bytes());
        assert!(testing::decide(plugin.rewrite(&mut exchange)).is_none());
        let port = exchange.client.port.map_or(String::new(), |port| format!(" {port}"));
        assert_eq!(format!("{}{port}", exchange.client_address()), expected, "{config} {target} {fields}");
    }

    #[test]
    fn source_names_the_client() {
        let header = || json!({ "source": "http_xff" });
        check(header(), "/", "XFF: 1.1.1.1\r\n", "1.1.1.1");
        check(header(), "/", "XFF: 1.1.1.1:80\r\n", "1.1.1.1 80");
        check(header(), "/", "XFF: [2001:db8::1]:443\r\n", "2001:db8::1 443");
        check(header(), "/", "XFF: [::2]\r\n", "::2");
        check(header(), "/", "XFF: ::2\r\n", "::2");
        check(header(), "/", "XFF: ::ffff:1.1.1.1\r\n", "1.1.1.1");
        check(json!({ "source": "arg_ip" }), "/?ip=1.1.1.1", "", "1.1.1.1");
        for bad in
            ["", "XFF: \r\n", "XFF: a\r\n", "XFF: 1.1.1.1:0\r\n", "XFF: 1.1.1.1:65536\r\n", "XFF: 1.1.1\r\n"]
        {
            check(header(), "/", bad, "127.0.0.1 40000");
        }
    }

    #[test]
    fn request_of_a_batch_keeps_its_client() {
        let mut scene = testing::Scene::new();
        let plugin = scene.build(&KIND, &json!({ "source": "arg_ip" }));
        let mut exchange = scene.exchange(b"GET /?ip=1.1.1.1 HTTP/1.1\r\nHost: h\r\n\r\n");
        exchange.inner_client = Some(exchange.client);
        assert!(testing::decide(plugin.rewrite(&mut exchange)).is_none());
        assert_eq!(exchange.client_address().to_string(), "127.0.0.1");
    }

    #[test]
    fn only_trusted_peers_are_believed() {
        let from = |trusted: &str| json!({ "source": "http_xff", "trusted_addresses": [trusted] });
        check(from("127.0.0.0/8"), "/", "XFF: 1.1.1.1\r\n", "1.1.1.1");
        check(from("10.0.0.0/8"), "/", "XFF: 1.1.1.1\r\n", "127.0.0.1 40000");
        check(from("::/0"), "/", "XFF: 1.1.1.1\r\n", "127.0.0.1 40000");
    }

    #[test]
    fn forwarded_for_is_read_from_its_end() {
        let config = |recursive: bool| {
            let trusted = ["127.0.0.1", "10.0.0.0/8"];
            json!({ "source": "http_x_forwarded_for", "trusted_addresses": trusted, "recursive": recursive })
        };
        let list = |list: &str| format!("X-Forwarded-For: {list}\r\n");
        check(config(false), "/", &list("6.6.6.6, 1.1.1.1,  10.2.2.2"), "10.2.2.2");
        check(config(false), "/", &list("6.6.6.6"), "6.6.6.6");
        check(config(true), "/", &list("6.6.6.6, 1.1.1.1, 10.2.2.2"), "1.1.1.1");
        check(config(true), "/", &list("10.1.1.1, 10.2.2.2"), "10.1.1.1");
        check(config(true), "/", &format!("{}{}", list("1.1.1.1"), list("10.2.2.2:5")), "1.1.1.1");
        check(config(true), "/", &list("6.6.6.6, unknown, 10.2.2.2"), "127.0.0.1 40000");
        // Without trusted addresses there is no boundary to step over.
        let untrusting = json!({ "source": "http_x_forwarded_for", "recursive": true });
        check(untrusting, "/", &list("6.6.6.6, 1.1.1.1"), "1.1.1.1");
    }
}
