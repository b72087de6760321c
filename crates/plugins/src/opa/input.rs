//! The document that describes a request to the policy. It sends nothing.

use std::collections::HashMap;
use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::Consumer;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use message::query::{arguments, decode};

/// Routes, services and consumers of which the text is kept, for each instance. Beyond it the texts are made
/// anew, so that a service with many routes costs time and not memory.
const OBJECTS_MAX: usize = 1_024;

/// Renders the document.
pub(super) struct OpaInput {
    with_route: bool,
    with_service: bool,
    with_consumer: bool,
    /// The texts of objects, by the written form that they were made from.
    objects: Mutex<HashMap<usize, RenderedObject>>,
}

struct RenderedObject {
    /// Kept, so that its address, the key of this entry, belongs to no other text.
    written: Arc<str>,
    text: Arc<str>,
}

impl OpaInput {
    pub(super) fn new(with_route: bool, with_service: bool, with_consumer: bool) -> OpaInput {
        OpaInput { with_route, with_service, with_consumer, objects: Mutex::default() }
    }

    /// The document of a request, `{"input": …}`.
    pub(super) fn render(&self, exchange: &Exchange) -> Vec<u8> {
        let mut out = b"{\"input\":{\"type\":\"http\",\"request\":".to_vec();
        out.extend_from_slice(request(exchange).to_string().as_bytes());
        out.extend_from_slice(b",\"var\":");
        out.extend_from_slice(variables(exchange).to_string().as_bytes());
        let route = exchange.route();
        if let Some(route) = route.filter(|_| self.with_route) {
            out.extend_from_slice(b",\"route\":");
            out.extend_from_slice(self.object(&route.written).as_bytes());
        }
        if let Some(consumer) = exchange.consumer().filter(|_| self.with_consumer) {
            out.extend_from_slice(b",\"consumer\":");
            self.render_consumer(consumer, &mut out);
        }
        if let Some(service) = route.and_then(|route| route.service.as_ref()).filter(|_| self.with_service) {
            out.extend_from_slice(b",\"service\":");
            out.extend_from_slice(self.object(&service.written).as_bytes());
        }
        out.extend_from_slice(b"}}");
        out
    }

    fn render_consumer(&self, consumer: &Consumer, out: &mut Vec<u8>) {
        let mut found = json!({"consumer_name": &*consumer.username});
        if let Some(id) = &consumer.credential_id {
            found["credential_id"] = Value::from(&**id);
        }
        let (found, written) = (found.to_string(), self.object(&consumer.written));
        out.extend_from_slice(&found.as_bytes()[..found.len() - 1]);
        if written.len() > "{}".len() {
            out.push(b',');
        }
        out.extend_from_slice(&written.as_bytes()[1..]);
    }

    /// The text of an object, without its upstream.
    fn object(&self, written: &Arc<str>) -> Arc<str> {
        let key = Arc::as_ptr(written).cast::<u8>().addr();
        let mut objects = self.objects.lock();
        if let Some(known) = objects.get(&key).filter(|known| Arc::ptr_eq(&known.written, written)) {
            return known.text.clone();
        }
        let mut object = serde_json::from_str(written).unwrap_or_else(|_| Map::new());
        object.shift_remove("upstream");
        let text: Arc<str> = Value::from(object).to_string().into();
        if objects.len() >= OBJECTS_MAX {
            objects.clear();
        }
        objects.insert(key, RenderedObject { written: written.clone(), text: text.clone() });
        text
    }
}

fn request(exchange: &Exchange) -> Value {
    let request = &exchange.request;
    let mut headers = Map::new();
    for field in request.headers.iter() {
        add(&mut headers, text(field.name).to_ascii_lowercase(), text(field.value).into());
    }
    let mut query = Map::new();
    for (whole, name, value) in arguments(request.query().unwrap_or_default()) {
        let has_value = whole.len() > name.len();
        let value = if has_value { text(&decode(value)).into() } else { Value::from(true) };
        add(&mut query, text(&decode(name)), value);
    }
    json!({
        "scheme": exchange.connection.scheme.as_str(),
        "method": text(request.method_text()),
        "host": text(exchange.host()),
        "port": exchange.connection.local.port(),
        "path": text(exchange.path()),
        "headers": headers,
        "query": query,
    })
}

fn variables(exchange: &Exchange) -> Value {
    let (timestamp, _) = exchange.local().wall_at(exchange.times.started_ns);
    json!({
        "server_addr": exchange.connection.local.ip().to_string(),
        "server_port": exchange.connection.local.port().to_string(),
        "remote_addr": exchange.client_address().to_string(),
        "remote_port": exchange.client.port.map(|port| port.to_string()),
        "timestamp": timestamp,
    })
}

/// Adds a value; several of one name become a list.
fn add(fields: &mut Map<String, Value>, name: String, value: Value) {
    match fields.get_mut(&name) {
        None => drop(fields.insert(name, value)),
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
