//! The messages of OTLP as tests read them, by the decoder of `prost`.

/// An `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::opentelemetry) struct DecodedExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<DecodedResource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DecodedResource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<DecodedScope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<DecodedSpan>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DecodedScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

/// A span.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::opentelemetry) struct DecodedSpan {
    #[prost(bytes = "vec", tag = "1")]
    pub(in crate::opentelemetry) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(in crate::opentelemetry) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(in crate::opentelemetry) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(in crate::opentelemetry) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(in crate::opentelemetry) name: String,
    #[prost(int32, tag = "6")]
    pub(in crate::opentelemetry) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(in crate::opentelemetry) started_ns: u64,
    #[prost(fixed64, tag = "8")]
    pub(in crate::opentelemetry) ended_ns: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub(in crate::opentelemetry) status: Option<DecodedStatus>,
}

/// The status of a span.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::opentelemetry) struct DecodedStatus {
    #[prost(string, tag = "2")]
    pub(in crate::opentelemetry) message: String,
    #[prost(int32, tag = "3")]
    pub(in crate::opentelemetry) code: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 2, 3, 4")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
}

impl DecodedExportRequest {
    /// All spans.
    pub(in crate::opentelemetry) fn spans(&self) -> Vec<&DecodedSpan> {
        let scopes = self.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans).collect()
    }

    /// An attribute of the resource; empty without it.
    pub(in crate::opentelemetry) fn resource(&self, name: &str) -> String {
        let resource = self.resource_spans.first().and_then(|spans| spans.resource.as_ref());
        resource.map(|resource| shown(&resource.attributes, name)).unwrap_or_default()
    }
}

impl DecodedSpan {
    /// An attribute: a text in quotes, a number or a truth without; empty without it.
    pub(in crate::opentelemetry) fn attribute(&self, name: &str) -> String {
        shown(&self.attributes, name)
    }
}

fn shown(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.as_ref()).and_then(|value| value.value.as_ref()) {
        Some(Any::Text(text)) => format!("\"{text}\""),
        Some(Any::Bool(value)) => value.to_string(),
        Some(Any::Int(value)) => value.to_string(),
        Some(Any::Double(value)) => value.to_string(),
        None => String::new(),
    }
}
