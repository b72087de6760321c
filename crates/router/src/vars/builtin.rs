//! The variables that exist without a plugin and without a part of the request in their name.
//!
//! It does not know their values. The names are those of nginx and APISIX, see section 2.4 of the contract.

/// Makes the enum, its names and the list of all variants from one table.
macro_rules! builtin_variables {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A variable known by its whole name.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum BuiltinVariable {
            $($(#[$doc])* $variant,)+
        }

        impl BuiltinVariable {
            /// All variables.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name as configurations write it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

builtin_variables! {
    /// The id of the request under the name that APISIX gives it.
    ApisixRequestId = "apisix_request_id",
    /// The query without `?`.
    Args = "args",
    /// The address of the node the request went to.
    BalancerIp = "balancer_ip",
    /// The port of that node.
    BalancerPort = "balancer_port",
    /// The client's address in binary form.
    BinaryRemoteAddr = "binary_remote_addr",
    /// Bytes of the response body sent to the client.
    BodyBytesSent = "body_bytes_sent",
    /// Bytes sent to the client in all.
    BytesSent = "bytes_sent",
    /// The serial number of the connection.
    Connection = "connection",
    /// How many requests the connection has carried.
    ConnectionRequests = "connection_requests",
    /// Seconds the connection has lived.
    ConnectionTime = "connection_time",
    /// The `group_id` of the consumer.
    ConsumerGroupId = "consumer_group_id",
    /// The consumer's name under its older name.
    ConsumerId = "consumer_id",
    /// The `username` of the consumer.
    ConsumerName = "consumer_name",
    /// The request's `Content-Length`.
    ContentLength = "content_length",
    /// The request's `Content-Type`.
    ContentType = "content_type",
    /// The canonical path under its older name.
    DocumentUri = "document_uri",
    /// The status of a gRPC call; unset for other requests.
    GrpcStatus = "grpc_status",
    /// The host in lower case, without port.
    Host = "host",
    /// The name of the machine the gateway runs on.
    Hostname = "hostname",
    /// `h2` for HTTP/2 over TLS, `h2c` without TLS, else empty.
    Http2 = "http2",
    /// `h3` for HTTP/3, else empty.
    Http3 = "http3",
    /// `on` over TLS, else empty.
    Https = "https",
    /// `?` if the request has a query, else empty.
    IsArgs = "is_args",
    /// The request method under its short name.
    Method = "method",
    /// The client id of an MQTT connection.
    MqttClientId = "mqtt_client_id",
    /// Seconds since the epoch, with milliseconds.
    Msec = "msec",
    /// The version of the server software.
    NginxVersion = "nginx_version",
    /// The `traceparent` of the span of the plugin `opentelemetry`, if its metadata sets `set_ngx_var`.
    OpentelemetryContextTraceparent = "opentelemetry_context_traceparent",
    /// The id of that span.
    OpentelemetrySpanId = "opentelemetry_span_id",
    /// The id of its trace.
    OpentelemetryTraceId = "opentelemetry_trace_id",
    /// `p` if the request was pipelined, else `.`.
    Pipe = "pipe",
    /// The process id.
    Pid = "pid",
    /// The client address a PROXY protocol header gave.
    ProxyProtocolAddr = "proxy_protocol_addr",
    /// The client port a PROXY protocol header gave.
    ProxyProtocolPort = "proxy_protocol_port",
    /// The server address a PROXY protocol header gave.
    ProxyProtocolServerAddr = "proxy_protocol_server_addr",
    /// The server port a PROXY protocol header gave.
    ProxyProtocolServerPort = "proxy_protocol_server_port",
    /// The query without `?`, under its longer name.
    QueryString = "query_string",
    /// The address of the socket's peer, before a PROXY protocol header or a trusted field replaced it.
    RealipRemoteAddr = "realip_remote_addr",
    /// The port of that peer.
    RealipRemotePort = "realip_remote_port",
    /// The path and query as the client sent them.
    RealRequestUri = "real_request_uri",
    /// The client's address.
    RemoteAddr = "remote_addr",
    /// The client's port.
    RemotePort = "remote_port",
    /// The user of basic authentication.
    RemoteUser = "remote_user",
    /// The request line as sent.
    Request = "request",
    /// The request body, if it is held in memory.
    RequestBody = "request_body",
    /// The id of the request, 32 hexadecimal digits unless a plugin set another.
    RequestId = "request_id",
    /// Bytes of the request: line, headers and body.
    RequestLength = "request_length",
    /// The request method.
    RequestMethod = "request_method",
    /// Seconds since the first byte of the request, with milliseconds.
    RequestTime = "request_time",
    /// The canonical path, encoded, with the query; no plugin changes it.
    RequestUri = "request_uri",
    /// The response body, for loggers that keep it.
    RespBody = "resp_body",
    /// The id of the route.
    RouteId = "route_id",
    /// The name of the route.
    RouteName = "route_name",
    /// `http` or `https`.
    Scheme = "scheme",
    /// The address the request came in at.
    ServerAddr = "server_addr",
    /// The name of the virtual server: the host of the request.
    ServerName = "server_name",
    /// The port the request came in at.
    ServerPort = "server_port",
    /// `HTTP/1.1` and so on.
    ServerProtocol = "server_protocol",
    /// The id of the service.
    ServiceId = "service_id",
    /// The name of the service.
    ServiceName = "service_name",
    /// The protocol agreed by ALPN.
    SslAlpnProtocol = "ssl_alpn_protocol",
    /// The TLS cipher.
    SslCipher = "ssl_cipher",
    /// The client certificate (PEM), each line but the first behind a tab.
    SslClientCert = "ssl_client_cert",
    /// The client certificate (PEM), percent-encoded.
    SslClientEscapedCert = "ssl_client_escaped_cert",
    /// The SHA-1 digest of the client certificate.
    SslClientFingerprint = "ssl_client_fingerprint",
    /// The issuer of the client certificate.
    SslClientIDn = "ssl_client_i_dn",
    /// The client certificate (PEM).
    SslClientRawCert = "ssl_client_raw_cert",
    /// The subject of the client certificate.
    SslClientSDn = "ssl_client_s_dn",
    /// The serial number of the client certificate.
    SslClientSerial = "ssl_client_serial",
    /// The end of the client certificate's validity.
    SslClientVEnd = "ssl_client_v_end",
    /// Days until the end of the client certificate's validity.
    SslClientVRemain = "ssl_client_v_remain",
    /// The beginning of the client certificate's validity.
    SslClientVStart = "ssl_client_v_start",
    /// `SUCCESS`, `NONE` or `FAILED:reason`.
    SslClientVerify = "ssl_client_verify",
    /// The group of the TLS key exchange.
    SslCurve = "ssl_curve",
    /// The JA4 fingerprint of the client's TLS hello.
    SslJa4 = "ssl_ja4",
    /// The TLS version.
    SslProtocol = "ssl_protocol",
    /// The name the client asked for in its TLS hello.
    SslServerName = "ssl_server_name",
    /// `r` if the TLS session was resumed, else `.`.
    SslSessionReused = "ssl_session_reused",
    /// The status of the response.
    Status = "status",
    /// The time as in ISO 8601.
    TimeIso8601 = "time_iso8601",
    /// The time as in the common log format.
    TimeLocal = "time_local",
    /// The nodes that were tried, `host:port`.
    UpstreamAddr = "upstream_addr",
    /// Bytes received from the nodes.
    UpstreamBytesReceived = "upstream_bytes_received",
    /// Bytes sent to the nodes.
    UpstreamBytesSent = "upstream_bytes_sent",
    /// `HIT`, `MISS` and so on.
    UpstreamCacheStatus = "upstream_cache_status",
    /// Seconds until connected.
    UpstreamConnectTime = "upstream_connect_time",
    /// Seconds until the response's headers were there.
    UpstreamHeaderTime = "upstream_header_time",
    /// The `Host` sent to the node.
    UpstreamHost = "upstream_host",
    /// Bytes of the node's response.
    UpstreamResponseLength = "upstream_response_length",
    /// Seconds until the response was complete.
    UpstreamResponseTime = "upstream_response_time",
    /// The scheme spoken with the node.
    UpstreamScheme = "upstream_scheme",
    /// The nodes' statuses.
    UpstreamStatus = "upstream_status",
    /// The node's host before it was resolved.
    UpstreamUnresolvedHost = "upstream_unresolved_host",
    /// The path and query sent to the node, if a plugin rewrote them; otherwise unset.
    UpstreamUri = "upstream_uri",
    /// The canonical path, decoded.
    Uri = "uri",
    /// Each attempt with its node, its status or cause of failure, and its seconds.
    WeirAttempts = "weir_attempts",
    /// The side at fault: `client`, `gateway` or `origin`.
    WeirBlame = "weir_blame",
    /// Why the request got an error: a code from the table of causes, the plugin that refused it, or
    /// `upstream_status`.
    WeirCause = "weir_cause",
    /// More about that cause, in words.
    WeirDetail = "weir_detail",
    /// The node at which it failed.
    WeirNode = "weir_node",
    /// The phase in which it failed.
    WeirPhase = "weir_phase",
    /// The plugin that refused the request, or failed.
    WeirPlugin = "weir_plugin",
    /// The span of the plugin `zipkin` as a `traceparent`.
    ZipkinContextTraceparent = "zipkin_context_traceparent",
    /// The id of that span.
    ZipkinSpanId = "zipkin_span_id",
    /// The id of its trace.
    ZipkinTraceId = "zipkin_trace_id",
}

impl BuiltinVariable {
    /// The variable of this name, if it is one of these.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variable| variable.name() == name)
    }

    /// Whether its value is a number, or a list of numbers with one for each attempt.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        matches!(
            self,
            Self::BalancerPort
                | Self::BodyBytesSent
                | Self::BytesSent
                | Self::Connection
                | Self::ConnectionRequests
                | Self::ConnectionTime
                | Self::ContentLength
                | Self::GrpcStatus
                | Self::Msec
                | Self::Pid
                | Self::ProxyProtocolPort
                | Self::ProxyProtocolServerPort
                | Self::RealipRemotePort
                | Self::RemotePort
                | Self::RequestLength
                | Self::RequestTime
                | Self::ServerPort
                | Self::SslClientVRemain
                | Self::Status
                | Self::UpstreamBytesReceived
                | Self::UpstreamBytesSent
                | Self::UpstreamConnectTime
                | Self::UpstreamHeaderTime
                | Self::UpstreamResponseLength
                | Self::UpstreamResponseTime
                | Self::UpstreamStatus
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_lead_back() {
        let names: HashSet<&str> = BuiltinVariable::ALL.iter().map(|variable| variable.name()).collect();
        assert_eq!(names.len(), BuiltinVariable::ALL.len());
        for &variable in BuiltinVariable::ALL {
            assert_eq!(BuiltinVariable::from_name(variable.name()), Some(variable));
        }
        assert_eq!(BuiltinVariable::from_name("nothing"), None);
    }
}
