//! # ip-restriction
//!
//! Admits or refuses requests by the client's address: either only the listed addresses are admitted
//! (`whitelist`), or all except the listed ones (`blacklist`).
//!
//! ```json
//! {
//!     "whitelist": ["10.0.0.0/8", "192.168.1.7", "fd00::/8"],
//!     "message": "only from the office",
//!     "response_code": 403
//! }
//! ```
//!
//! Exactly one of `whitelist` and `blacklist` is given. An entry is an IPv4 or IPv6 address or a network in
//! CIDR notation; an IPv4-mapped IPv6 address counts as the IPv4 address it maps. The address that is
//! compared is the peer's, unless the gateway trusts the peer to name the client (`real_ip_from`).
//! `X-Forwarded-For` of an untrusted client has no effect.
//!
//! A refused request is answered with `response_code` and `{"message": "…"}`.
//!
//! On a stream route the connection of a refused client is closed before a node is chosen; `message` and
//! `response_code` are then in the log only.

use std::net::IpAddr;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::stream::{StreamFlow, StreamKind, StreamPhase, StreamPlugin, StreamSession};
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use router::CidrSet;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::{config, networks};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("ip-restriction", 3000, &[PluginPhase::Access], IpRestrictionConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .on_streams(StreamKind { phases: &[StreamPhase::Preread], build: build_stream })
        .documented(include_str!("ip_restriction.rs"));

attributes! {
    struct IpRestrictionConfig {
        /// The message that a refused client receives.
        message: String = "Your IP address is not allowed".into(), {"minLength": 1, "maxLength": 1024};
        /// The status a refused client gets; 404 does not even admit that there is something.
        response_code: u16 = 403, {"minimum": 403, "maximum": 404};
        /// The only addresses and networks that pass.
        whitelist: Option<Vec<String>>, {"minItems": 1, "items": networks::schema()};
        /// The addresses and networks that are refused.
        blacklist: Option<Vec<String>>, {"minItems": 1, "items": networks::schema()};
    }
    {
        "title": "Pass or refuse by the client's address",
        "oneOf": [{"required": ["whitelist"]}, {"required": ["blacklist"]}],
    }
}

struct IpRestriction {
    addresses: CidrSet,
    /// Whether the listed addresses are admitted, instead of refused.
    listed_pass: bool,
    message: String,
    refusal: BufferedReply,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn build_stream(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<IpRestriction, String> {
    let config: IpRestrictionConfig = config::parse_config(config)?;
    let (listed, listed_pass) = match (&config.whitelist, &config.blacklist) {
        (Some(listed), None) => (listed, true),
        (None, Some(listed)) => (listed, false),
        _ => return Err("give either whitelist or blacklist".to_owned()),
    };
    let addresses = CidrSet::parse(listed).map_err(|error| format!("invalid ip address: {}", error.text))?;
    let refusal = BufferedReply::message(config.response_code, &config.message);
    Ok(IpRestriction { addresses, listed_pass, message: config.message, refusal })
}

impl IpRestriction {
    fn lets_pass(&self, client: IpAddr) -> bool {
        self.addresses.contains(client) == self.listed_pass
    }
}

impl Plugin for IpRestriction {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.lets_pass(exchange.client_address()) {
            Flow::Continue
        } else {
            Flow::reply(self.refusal.clone())
        }
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

impl StreamPlugin for IpRestriction {
    fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
        if self.lets_pass(session.client_address) {
            StreamFlow::Continue
        } else {
            StreamFlow::Reject(self.message.clone().into())
        }
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::configuration_check;
    use gateway::testing::{Scene, run_preread, stream_route};
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"whitelist": ["127.0.0.1", "10.0.0.0/8", "::1", "fe80::/32"]}), None);
        check(json!({"blacklist": ["0.0.0.0/0"], "message": "no", "response_code": 404}), None);
        check(json!({"blacklist": ["::/0"], "_meta": {"disable": false}}), None);
        check(json!({}), Some(""));
        check(json!({"whitelist": []}), Some("whitelist"));
        check(json!({"whitelist": ["::1"], "blacklist": ["::1"]}), Some(""));
        check(json!({"whitelist": ["example.com"]}), Some("whitelist"));
        check(json!({"whitelist": ["10.255.256.0/8"]}), Some("whitelist"));
        check(json!({"whitelist": ["127.0.0.1/33"]}), Some("whitelist"));
        check(json!({"whitelist": ["::1/129"]}), Some("invalid ip address: ::1/129"));
        let fault = "invalid ip address: 1:2:3:4:5:6:7:8:9/32";
        check(json!({"whitelist": ["1:2:3:4:5:6:7:8:9/32"]}), Some(fault));
        check(json!({"whitelist": ["::1"], "message": ""}), Some("message"));
        check(json!({"whitelist": ["::1"], "response_code": 500}), Some("response_code"));
        check(json!({"whitelist": ["::1"], "black_list": ["::2"]}), Some("black_list"));
    }

    #[test]
    fn lists_decide() {
        let check = |config: Value, client: &str, refused: Option<(u16, &str)>| {
            let scene = Scene::with_plugins(&[&KIND], &json!({"ip-restriction": config}));
            let scene = scene.from(client.parse().unwrap());
            let outcome = scene.run("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.1.1.1\r\n\r\n");
            // No socket listens at the route's upstream, so an admitted request is answered 502.
            let got = (outcome.status != 502).then_some((outcome.status, outcome.body));
            assert_eq!(got, refused.map(|(status, body)| (status, body.to_owned())), "{config} {client}");
        };
        let stock = Some((403, "{\"message\":\"Your IP address is not allowed\"}\n"));
        let white = json!({"whitelist": ["10.0.0.0/8", "::1", "192.168.1.7"]});
        check(white.clone(), "10.200.0.1", None);
        check(white.clone(), "::ffff:10.0.0.1", None);
        check(white.clone(), "192.168.1.7", None);
        check(white.clone(), "::1", None);
        check(white.clone(), "192.168.1.8", stock);
        check(white, "::2", stock);
        let black = json!({"blacklist": ["10.0.0.0/8"], "message": "go away", "response_code": 404});
        check(black.clone(), "10.0.0.1", Some((404, "{\"message\":\"go away\"}\n")));
        check(black, "11.0.0.1", None);
    }

    #[test]
    fn lists_decide_on_sessions_of_layer_4_too() {
        let check = |config: Value, client: &str, refused: Option<&str>| {
            let route = stream_route(&[&KIND], &json!({"ip-restriction": config}));
            let local = ([127, 0, 0, 1], 9100).into();
            let mut session = StreamSession::new(client.parse().unwrap(), local, 0);
            run_preread(&route, &mut session);
            assert_eq!(session.reason.as_deref(), refused, "{client}");
        };
        let white = json!({"whitelist": ["10.0.0.0/8", "::1"]});
        check(white.clone(), "10.0.0.1:4000", None);
        check(white.clone(), "[::ffff:10.0.0.1]:4000", None);
        check(white, "11.0.0.1:4000", Some("Your IP address is not allowed"));
        let black = json!({"blacklist": ["10.0.0.0/8"], "message": "go away"});
        check(black.clone(), "10.0.0.1:4000", Some("go away"));
        check(black, "11.0.0.1:4000", None);
        let filter = json!([["server_port", "==", 9101]]);
        check(json!({"blacklist": ["10.0.0.0/8"], "_meta": {"filter": filter}}), "10.0.0.1:4000", None);
        check(json!({"blacklist": ["10.0.0.0/8"], "_meta": {"disable": true}}), "10.0.0.1:4000", None);
    }
}
