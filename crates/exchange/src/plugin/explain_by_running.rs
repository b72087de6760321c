//! Explains a plugin by running one of its phases. This is only for plugins with phases that read nothing but
//! the exchange and the configuration, and change nothing but the exchange; each plugin says so itself by
//! calling it.

use super::explained::Explained;
use super::phase::{Flow, Plugin};
use super::phase_name::PluginPhase;
use crate::exchange::Exchange;

/// The effect of `plugin` in `phase`, found by running the phase on `exchange`.
pub fn explain_by_running(plugin: &dyn Plugin, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
    let before = RequestSnapshot::of(exchange);
    let flow = match phase {
        PluginPhase::Preflight => plugin.preflight(exchange),
        PluginPhase::Rewrite => plugin.rewrite(exchange),
        PluginPhase::Access => plugin.access(exchange),
        PluginPhase::BeforeProxy => plugin.before_proxy(exchange),
        _ => return Explained::passes(),
    };
    match answer(flow) {
        Some(answer) => answer,
        None => before.changed(exchange),
    }
}

/// The answer of a plugin that does not let the request pass at once. A future is dropped before its first
/// step.
fn answer(flow: Flow<'_>) -> Option<Explained> {
    match flow {
        Flow::Continue => None,
        Flow::Reply(reply) => Some(Explained::replies(&reply)),
        Flow::Stream(reply) => Some(Explained::replies(&reply.head)),
        Flow::Stored(_) => Some(Explained::unknown("it has a stored response")),
        Flow::Wait(_) => Some(Explained::unknown("it waits before it decides")),
    }
}

/// The parts of a request that plugins commonly change.
struct RequestSnapshot {
    method: Vec<u8>,
    target: Vec<u8>,
    host: Option<Vec<u8>>,
    upstream: Option<String>,
    has_consumer: bool,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RequestSnapshot {
    fn of(exchange: &Exchange) -> RequestSnapshot {
        let field = |field: message::FieldRef<'_>| (field.name.to_ascii_lowercase(), field.value.to_vec());
        RequestSnapshot {
            method: exchange.request.method_text().to_vec(),
            target: target(exchange),
            host: exchange.target.forward_host.clone(),
            upstream: exchange.decision.upstream.as_ref().map(|upstream| upstream.identity().to_owned()),
            has_consumer: exchange.consumer().is_some(),
            fields: exchange.request.headers.iter().map(field).collect(),
        }
    }

    /// The changes since, in words.
    fn changed(&self, exchange: &Exchange) -> Explained {
        let now = RequestSnapshot::of(exchange);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut changes = Vec::new();
        if self.method != now.method {
            changes.push(format!("method {}", text(&now.method)));
        }
        if self.target != now.target {
            changes.push(format!("path {}", text(&now.target)));
        }
        if let Some(host) = now.host.as_ref().filter(|_| self.host != now.host) {
            changes.push(format!("host {}", text(host)));
        }
        if self.upstream != now.upstream {
            let upstream = now.upstream.as_deref().unwrap_or("of the route");
            changes.push(format!("upstream {}", upstream.strip_prefix("/upstreams/").unwrap_or(upstream)));
        }
        // Names alone, because values may be secrets.
        let mut names: Vec<String> = Vec::new();
        for (sign, from, to) in [("+ ", &now.fields, &self.fields), ("− ", &self.fields, &now.fields)] {
            let other = from.iter().filter(|field| !to.contains(field));
            for (name, _) in other {
                let is_replaced = sign == "− " && now.fields.iter().any(|(other, _)| other == name);
                let shown = format!("{sign}{}", text(name));
                if !is_replaced && !names.contains(&shown) {
                    names.push(shown);
                }
            }
        }
        changes.extend(names);
        let explained =
            if changes.is_empty() { Explained::passes() } else { Explained::changes(changes.join(", ")) };
        match exchange.consumer() {
            Some(consumer) if !self.has_consumer => {
                explained.because(format!("passes as consumer {}", consumer.username))
            }
            _ => explained,
        }
    }
}

/// The path and query as they would be forwarded.
fn target(exchange: &Exchange) -> Vec<u8> {
    let mut target = exchange.forward_path().to_vec();
    if let Some(query) = exchange.forward_query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::BufferedReply;
    use crate::testing::Scene;

    struct Rewrites;

    impl Plugin for Rewrites {
        fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
            exchange.set_forward_path(b"/b").unwrap();
            exchange.request.headers.remove("cookie");
            exchange.request.headers.set("x-new", b"1").unwrap();
            Flow::Continue
        }

        fn access<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
            Flow::reply(BufferedReply::status(403))
        }

        fn before_proxy<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
            Flow::Wait(Box::pin(async { unreachable!("it is never polled") }))
        }
    }

    #[test]
    fn changes_replies_and_waits_are_reported() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET /a?q=1 HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\n\r\n");
        let changed = explain_by_running(&Rewrites, &mut exchange, PluginPhase::Rewrite);
        assert_eq!(&*changed.would.unwrap().text, "path /b?q=1, + x-new, − cookie");
        assert!(explain_by_running(&Rewrites, &mut exchange, PluginPhase::Access).ends());
        assert_eq!(explain_by_running(&Rewrites, &mut exchange, PluginPhase::BeforeProxy).runs, None);
    }
}
