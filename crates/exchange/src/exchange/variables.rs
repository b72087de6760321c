//! The values of variables for one exchange: what matching, expressions, templates and logs may ask. Each is
//! computed when asked for; a variable that has no value yet is unset.

mod body;
mod forms;
pub(super) mod graphql;
mod multipart;
pub(crate) mod time;

use std::borrow::Cow;
use std::net::IpAddr;

use message::Version;
use router::RequestView;
use router::vars::{BuiltinVariable as Builtin, GaveUp, Value, Variable, VariableSource};

use stdx::address_text::AddressText;

use super::host_name::hostname;
use super::{Exchange, forwarded};
use crate::failure::Cause;

impl RequestView for Exchange {
    #[inline]
    fn path(&self) -> &[u8] {
        &self.target.path
    }

    #[inline]
    fn host(&self) -> &[u8] {
        &self.target.host
    }

    #[inline]
    fn raw_host(&self) -> &[u8] {
        self.request.authority()
    }

    #[inline]
    fn method_bit(&self) -> Option<u8> {
        (self.request.method != message::Method::Other).then(|| self.request.method.index())
    }

    #[inline]
    fn remote_addr(&self) -> IpAddr {
        self.client.address
    }

    fn holds(&self, condition: &(dyn std::any::Any + Send + Sync)) -> bool {
        crate::plugin::scripts::holds(condition, self)
    }
}

impl VariableSource for Exchange {
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
        if let Some(own) = self.own_variables.get(variable) {
            return Some(own);
        }
        match variable {
            Variable::Arg(name) => forms::argument(self.request.query()?, name),
            Variable::Builtin(builtin) => self.builtin(*builtin),
            Variable::Cookie(name) => forms::cookie(&self.request.headers, name),
            Variable::Graphql(part) => body::graphql(self, *part),
            Variable::Header(name) => {
                joined(&self.request.headers, name).or_else(|| forwarded::default_forwarded(self, name))
            }
            Variable::Named(name) => {
                self.claim(name).or_else(|| crate::plugin::scripts::added_variable(self, name))
            }
            Variable::PostArg(name) => body::form_argument(self, name),
            Variable::PostArgPath(path) => body::path_argument(self, path),
            Variable::ProxyProtocolTlv(tlv) => self.connection.proxy.as_ref()?.tlv(*tlv),
            Variable::ResponseHeader(name) | Variable::UpstreamHeader(name) => {
                joined(&self.response.headers, name)
            }
            Variable::UriParam(name) => self.params.get(name.as_bytes()).map(Value::borrowed),
        }
    }

    fn search_gave_up(&self, reason: GaveUp) {
        self.gave_up.set(Some(reason));
    }
}

/// The prefix of variables with the claims of the token that the request was authenticated by.
const CLAIM: &str = "jwt_claim_";

/// A field's value, whether its name is written with `-` or `_`; several fields of a name are one list (RFC
/// 9110 section 5.3).
fn joined<'a>(headers: &'a message::Headers, name: &str) -> Option<Value<'a>> {
    let mut values = headers.get_all_alike(name);
    let first = values.next()?;
    let Some(second) = values.next() else { return Some(Value::borrowed(first)) };
    // The pairs of Cookie are no list with commas, and HTTP/2 clients send each in a field of its own (RFC
    // 9113 section 8.2.3).
    let separator: &[u8] = if name.eq_ignore_ascii_case("cookie") { b"; " } else { b", " };
    let mut list = first.to_vec();
    for value in std::iter::once(second).chain(values) {
        list.extend_from_slice(separator);
        list.extend_from_slice(value);
    }
    Some(Value::owned(list))
}

impl Exchange {
    /// The path pattern of the route that matched.
    pub fn matched_uri(&self) -> Option<&str> {
        let rule = &self.route()?.rule;
        rule.paths().find(|pattern| pattern.as_bytes() == self.target.path).or_else(|| {
            // Of several patterns the longest literal beginning of the path is the one that was tried first.
            let literal = |pattern: &&str| pattern.find(['*', ':']).unwrap_or(pattern.len());
            let fits = |pattern: &&str| self.target.path.starts_with(&pattern.as_bytes()[..literal(pattern)]);
            rule.paths().filter(fits).max_by_key(literal)
        })
    }

    fn claim(&self, name: &str) -> Option<Value<'_>> {
        Value::from_json(self.decision.claims.as_ref()?.get(name.strip_prefix(CLAIM)?)?)
    }

    fn builtin(&self, builtin: Builtin) -> Option<Value<'_>> {
        if let Builtin::WeirBlame
        | Builtin::WeirCause
        | Builtin::WeirDetail
        | Builtin::WeirNode
        | Builtin::WeirPhase
        | Builtin::WeirPlugin = builtin
        {
            return self.reason_variable(builtin);
        }
        self.request_variable(builtin)
            .or_else(|| self.connection_variable(builtin))
            .or_else(|| self.decision_variable(builtin))
            .or_else(|| self.response_variable(builtin))
            .or_else(|| self.upstream_variable(builtin))
            .or_else(|| self.trace_variable(builtin))
            .or_else(|| self.connection.tls.as_ref()?.variable(builtin))
            .or_else(|| self.connection.proxy.as_ref()?.variable(builtin))
    }

    fn request_variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        let request = &self.request;
        match builtin {
            Builtin::Args | Builtin::QueryString => request.query().map(Value::borrowed),
            Builtin::IsArgs => Some(Value::borrowed(if request.query().is_some() { b"?" } else { b"" })),
            Builtin::ContentLength => joined(&request.headers, "content-length"),
            Builtin::ContentType => joined(&request.headers, "content-type"),
            Builtin::Host => Some(Value::borrowed(&self.target.host)),
            Builtin::Method | Builtin::RequestMethod => Some(Value::borrowed(request.method_text())),
            Builtin::Request => Some(Value::owned(self.request_line())),
            Builtin::RequestBody => {
                body::whole(self).or_else(|| self.copied_request_body().map(Value::owned))
            }
            Builtin::RequestId | Builtin::ApisixRequestId => {
                Some(Value::borrowed(self.request_id.get().as_bytes()))
            }
            Builtin::RequestLength => Some(Value::from(self.stats.request_bytes)),
            Builtin::RequestUri => Some(Value::owned(target(&self.target.encoded_path, request.query()))),
            Builtin::RealRequestUri => Some(Value::borrowed(request.target_text())),
            Builtin::Scheme => Some(Value::from(self.connection.scheme.as_str())),
            Builtin::ServerProtocol => Some(Value::from(request.version.as_str())),
            Builtin::Uri | Builtin::DocumentUri => Some(Value::borrowed(&self.target.path)),
            _ => None,
        }
    }

    fn trace_variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        let zipkin = &self.traces.zipkin;
        let opentelemetry =
            self.traces.opentelemetry.as_ref().filter(|_| self.traces.has_opentelemetry_variables);
        Some(Value::owned(match builtin {
            Builtin::OpentelemetryContextTraceparent => opentelemetry?.traceparent().to_vec(),
            Builtin::OpentelemetrySpanId => opentelemetry?.span_id_text(),
            Builtin::OpentelemetryTraceId => opentelemetry?.trace_id_text(),
            Builtin::ZipkinContextTraceparent => zipkin.as_ref()?.traceparent().to_vec(),
            Builtin::ZipkinSpanId => zipkin.as_ref()?.span_id_text(),
            Builtin::ZipkinTraceId => zipkin.as_ref()?.trace_id_text(),
            _ => return None,
        }))
    }

    fn request_line(&self) -> Vec<u8> {
        let request = &self.request;
        if request.method_text().is_empty() && request.target_text().is_empty() {
            // Nothing of it was read.
            return Vec::new();
        }
        [request.method_text(), request.target_text(), request.version.as_str().as_bytes()].join(&b' ')
    }

    fn connection_variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        let connection = &self.connection;
        match builtin {
            Builtin::BinaryRemoteAddr => Some(Value::owned(match self.client.address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            })),
            Builtin::Connection => Some(Value::from(connection.id)),
            Builtin::ConnectionRequests => Some(Value::from(connection.requests)),
            Builtin::Http2 => Some(Value::borrowed(match (self.request.version, connection.scheme) {
                (Version::Http2, super::RequestScheme::Https) => b"h2",
                (Version::Http2, super::RequestScheme::Http) => b"h2c",
                _ => b"",
            })),
            Builtin::Http3 => {
                Some(Value::borrowed(if self.request.version == Version::Http3 { b"h3" } else { b"" }))
            }
            Builtin::Https => match connection.scheme {
                super::RequestScheme::Https => Some(Value::borrowed(b"on")),
                super::RequestScheme::Http => Some(Value::borrowed(b"")),
            },
            Builtin::Hostname => Some(Value::from(hostname())),
            Builtin::NginxVersion => Some(Value::from(env!("CARGO_PKG_VERSION"))),
            // Whether a request was pipelined is not kept.
            Builtin::Pipe => Some(Value::borrowed(b".")),
            Builtin::Pid => Some(Value::from(std::process::id())),
            Builtin::RealipRemoteAddr => Some(address(connection.socket_peer().ip())),
            Builtin::RealipRemotePort => Some(Value::from(connection.socket_peer().port())),
            Builtin::RemotePort => self.client.port.map(Value::from),
            Builtin::RemoteAddr => Some(address(self.client.address)),
            Builtin::ServerAddr => Some(address(connection.local.ip())),
            Builtin::ServerPort => Some(Value::from(connection.local.port())),
            Builtin::ServerName => Some(Value::borrowed(b"_")),
            _ => None,
        }
    }

    fn decision_variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        fn text(text: &str) -> Value<'_> {
            Value::borrowed(text.as_bytes())
        }
        match builtin {
            Builtin::RouteId => self.route().map(|route| text(&route.id)),
            Builtin::RouteName => self.route()?.name.as_deref().map(text),
            Builtin::ServiceId => self.route()?.service.as_ref().map(|service| text(&service.id)),
            Builtin::ServiceName => self.route()?.service.as_ref()?.name.as_deref().map(text),
            Builtin::ConsumerName | Builtin::ConsumerId => {
                self.consumer().map(|consumer| text(&consumer.username))
            }
            Builtin::ConsumerGroupId => self.consumer()?.group_id.as_deref().map(text),
            Builtin::RemoteUser => self.consumer().map(|consumer| text(&consumer.username)),
            _ => None,
        }
    }

    fn response_variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        match builtin {
            Builtin::Status => Some(Value::from(self.failure_status().unwrap_or(self.response.status))),
            Builtin::BodyBytesSent => Some(Value::from(self.stats.response_body_bytes)),
            Builtin::RespBody => self.response_copy().map(Value::borrowed),
            Builtin::GrpcStatus => self.grpc?.status.map(Value::from),
            Builtin::BytesSent => Some(Value::from(self.stats.response_bytes)),
            Builtin::RequestTime => Some(Value::owned(time::format_seconds(self.elapsed_ns() / 1_000_000))),
            Builtin::Msec => Some(Value::owned(time::unix_seconds(time::began(self)))),
            Builtin::TimeIso8601 => Some(Value::owned(time::iso8601(time::began(self).0))),
            Builtin::TimeLocal => Some(Value::owned(time::common_log(time::began(self).0))),
            _ => None,
        }
    }

    fn upstream_variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        let last = || self.attempts.last();
        match builtin {
            Builtin::BalancerIp => last().map(|attempt| address(attempt.address.ip())),
            Builtin::BalancerPort => last().map(|attempt| Value::from(attempt.address.port())),
            Builtin::UpstreamAddr => self.each_attempt(|attempt| attempt.address.to_string()),
            Builtin::UpstreamStatus => {
                self.each_attempt(|attempt| attempt.failed.map_or(attempt.status, Cause::status).to_string())
            }
            Builtin::WeirAttempts => self.each_attempt(|attempt| {
                let result = attempt.failed.map_or_else(
                    || Cow::Owned(attempt.status.to_string()),
                    |cause| Cow::Borrowed(cause.code()),
                );
                format!("{} {result} {}", attempt.address, seconds(attempt.total_us))
            }),
            Builtin::UpstreamConnectTime => self.each_attempt(|attempt| seconds(attempt.connect_us)),
            Builtin::UpstreamHeaderTime => self.each_attempt(|attempt| seconds(attempt.head_us)),
            Builtin::UpstreamResponseTime => self.each_attempt(|attempt| seconds(attempt.total_us)),
            Builtin::UpstreamHost => {
                Some(Value::borrowed(self.target.forward_host.as_deref().unwrap_or(self.request.authority())))
            }
            Builtin::UpstreamUnresolvedHost => {
                let attempt = last()?;
                let host =
                    self.decision.directory.as_ref()?.node_host(attempt.upstream, attempt.endpoint_id)?;
                Some(Value::owned(host.as_bytes().to_vec()))
            }
            Builtin::UpstreamCacheStatus => self.decision.cache_status.map(Value::from),
            Builtin::UpstreamScheme => {
                Some(Value::borrowed(last().map_or("http", |attempt| attempt.scheme).as_bytes()))
            }
            Builtin::UpstreamUri
                if self.target.rewritten_path.is_none() && self.target.forward_query.is_none() =>
            {
                None
            }
            Builtin::UpstreamUri => Some(Value::owned(target(self.forward_path(), self.forward_query()))),
            _ => None,
        }
    }

    /// One text for each try, as nginx writes its upstream variables.
    fn each_attempt(&self, text: impl Fn(&super::Attempt) -> String) -> Option<Value<'_>> {
        if let [attempt] = &self.attempts[..] {
            return Some(Value::owned(text(attempt).into_bytes()));
        }
        if self.attempts.is_empty() {
            return None;
        }
        let texts: Vec<String> = self.attempts.iter().map(text).collect();
        Some(Value::owned(texts.join(", ").into_bytes()))
    }

    /// The status of a failure that the client was never sent, for the log.
    fn failure_status(&self) -> Option<u16> {
        let failure = self.failure.as_ref()?;
        (failure.cause == Cause::ClientGone || self.response.status == 0).then(|| failure.cause.status())
    }

    /// Variables beyond the contract: why a request got an error.
    fn reason_variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        let reason = self.reason()?;
        match builtin {
            Builtin::WeirCause => Some(Value::from(reason.cause)),
            Builtin::WeirBlame => Some(Value::from(reason.blame.as_str())),
            Builtin::WeirDetail => reason.detail.map(|detail| Value::borrowed(detail.as_bytes())),
            Builtin::WeirNode => reason.endpoint.map(|node| Value::owned(node.to_string().into_bytes())),
            Builtin::WeirPhase => Some(Value::from(reason.phase)),
            Builtin::WeirPlugin => reason.plugin.map(Value::from),
            _ => None,
        }
    }

    fn elapsed_ns(&self) -> u64 {
        let now = if self.times.ended_ns == 0 { net::env::monotonic_ns() } else { self.times.ended_ns };
        now.saturating_sub(self.times.started_ns)
    }
}

/// A path in encoded form with its query.
fn target(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let mut target = path.to_vec();
    if let Some(query) = query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

fn seconds(us: u64) -> String {
    String::from_utf8(time::format_seconds(us / 1_000)).expect("digits and a point")
}

fn address<'a>(address: IpAddr) -> Value<'a> {
    Value::owned(AddressText::default().write(address).to_vec())
}

#[cfg(test)]
mod tests;
