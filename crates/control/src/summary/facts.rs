//! The facts of an object that lists show, read from its text. Reading is lenient, because faulty objects are
//! listed too: a field of a wrong type is as one that is missing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Id, ObjectKind, WrittenObject};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

/// See the module. Empty where a kind has no such field.
#[derive(Debug, Default)]
pub(crate) struct SummaryFacts {
    text: Option<Arc<str>>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) desc: Option<Box<str>>,
    pub(crate) methods: Box<[Box<str>]>,
    /// Hosts of routes and services, server names of certificates and stream routes.
    pub(crate) hosts: Box<[Box<str>]>,
    /// Paths of routes, addresses of stream routes.
    pub(crate) paths: Box<[Box<str>]>,
    pub(crate) service: Option<Box<str>>,
    /// The id of the upstream, or [`UPSTREAM_HERE`].
    pub(crate) upstream: Option<Box<str>>,
    pub(crate) plugins: Box<[Box<str>]>,
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    pub(crate) priority: i64,
    pub(crate) created_ms: Option<u64>,
    pub(crate) updated_ms: Option<u64>,
    pub(crate) is_off: bool,
    /// The method of an upstream, the type of a certificate.
    pub(crate) object_type: Option<Box<str>>,
    pub(crate) scheme: Option<Box<str>>,
    /// The nodes that are written in an upstream.
    pub(crate) nodes: usize,
    pub(crate) group: Option<Box<str>>,
}

/// The upstream of an object that has one inside.
pub(crate) const UPSTREAM_HERE: &str = "(here)";

/// The fields as they are written. Plugins and upstreams stay unread beyond their outlines.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawFacts<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    desc: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    create_time: Option<&'a RawValue>,
    #[serde(borrow)]
    update_time: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    plugins: Option<&'a RawValue>,
    #[serde(borrow)]
    methods: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    uris: Option<&'a RawValue>,
    #[serde(borrow)]
    host: Option<&'a RawValue>,
    #[serde(borrow)]
    hosts: Option<&'a RawValue>,
    #[serde(borrow)]
    sni: Option<&'a RawValue>,
    #[serde(borrow)]
    snis: Option<&'a RawValue>,
    #[serde(borrow)]
    server_addr: Option<&'a RawValue>,
    #[serde(borrow)]
    server_port: Option<&'a RawValue>,
    #[serde(borrow)]
    service_id: Option<&'a RawValue>,
    #[serde(borrow)]
    upstream_id: Option<&'a RawValue>,
    #[serde(borrow)]
    upstream: Option<&'a RawValue>,
    #[serde(borrow)]
    priority: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    object_type: Option<&'a RawValue>,
    #[serde(borrow)]
    scheme: Option<&'a RawValue>,
    #[serde(borrow)]
    nodes: Option<&'a RawValue>,
    #[serde(borrow)]
    group_id: Option<&'a RawValue>,
}

impl SummaryFacts {
    /// Reads the facts of an object; of a text that is no JSON object there are none.
    pub(super) fn read(written: &WrittenObject) -> SummaryFacts {
        let form: RawFacts<'_> = serde_json::from_str(&written.text).unwrap_or_default();
        let kind = written.key.kind;
        let hosts = match kind {
            ObjectKind::Ssl => texts(form.sni, form.snis),
            ObjectKind::StreamRoute => texts(form.sni, None),
            _ => texts(form.host, form.hosts),
        };
        let own_upstream = form.upstream.map(|_| UPSTREAM_HERE.into());
        let (default_type, default_scheme) = match kind {
            ObjectKind::Upstream => (Some("roundrobin".into()), Some("http".into())),
            ObjectKind::Ssl => (Some("server".into()), None),
            _ => (None, None),
        };
        SummaryFacts {
            text: Some(Arc::clone(&written.text)),
            name: read(form.name),
            desc: read(form.desc),
            methods: texts(None, form.methods),
            hosts,
            paths: if kind == ObjectKind::StreamRoute { listener(&form) } else { texts(form.uri, form.uris) },
            service: id(form.service_id),
            upstream: id(form.upstream_id).or(own_upstream),
            plugins: names(form.plugins),
            labels: read(form.labels).unwrap_or_default(),
            priority: read(form.priority).unwrap_or_default(),
            created_ms: time_ms(form.create_time),
            updated_ms: time_ms(form.update_time),
            is_off: read::<f64>(form.status) == Some(0.0),
            object_type: read(form.object_type).or(default_type),
            scheme: read(form.scheme).or(default_scheme),
            nodes: count(form.nodes),
            group: id(form.group_id),
        }
    }

    /// Whether these are the facts of that text, byte for byte the same allocation.
    pub(super) fn is_of(&self, written: &WrittenObject) -> bool {
        self.text.as_ref().is_some_and(|text| Arc::ptr_eq(text, &written.text))
    }
}

fn read<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

fn id(raw: Option<&RawValue>) -> Option<Box<str>> {
    read::<Id>(raw).map(|id| id.as_str().into())
}

/// The texts of a field that is written as one or as a list.
fn texts(one: Option<&RawValue>, many: Option<&RawValue>) -> Box<[Box<str>]> {
    let one: Option<Box<str>> = read(one);
    let many: Vec<Box<str>> = read(many).unwrap_or_default();
    one.into_iter().chain(many).collect()
}

/// The names of a map, in order of the alphabet.
fn names(raw: Option<&RawValue>) -> Box<[Box<str>]> {
    let map: Option<BTreeMap<Cow<'_, str>, IgnoredAny>> =
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
    map.unwrap_or_default().into_keys().map(Into::into).collect()
}

/// The number of nodes, which are a map or a list.
fn count(raw: Option<&RawValue>) -> usize {
    let list: Option<Vec<IgnoredAny>> = read(raw);
    list.map_or_else(|| names(raw).len(), |list| list.len())
}

/// The address and port that a stream route listens at, as far as they are written.
fn listener(form: &RawFacts<'_>) -> Box<[Box<str>]> {
    let address: Option<String> = read(form.server_addr);
    let port: Option<u16> = read(form.server_port);
    let text = match (address, port) {
        (Some(address), Some(port)) => format!("{address}:{port}"),
        (Some(address), None) => address,
        (None, Some(port)) => format!(":{port}"),
        (None, None) => return Box::default(),
    };
    [text.into()].into()
}

/// A time that is written in seconds; none for one before 1970 or beyond the year 9999.
fn time_ms(raw: Option<&RawValue>) -> Option<u64> {
    let seconds = read::<f64>(raw).filter(|seconds| (0.0..LATEST_S).contains(seconds))?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The range was checked.
    Some((seconds * 1000.0) as u64)
}

/// The end of the year 9999.
const LATEST_S: f64 = 253_402_300_800.0;
