//! Lines of a watch of Kubernetes: objects that are new, changed or gone, bookmarks and errors. It does not
//! ask.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::object::{KubernetesKind, KubernetesObject, ObjectName, Slice, slice};
use crate::parts::{read_message, shortened};

/// An event of a watch, with its version where it has one.
#[derive(Debug)]
pub(super) enum KubernetesEvent {
    Put(Arc<Slice>, Option<String>),
    /// The object is gone, or no longer belongs to a service.
    Delete(ObjectName, Option<String>),
    /// An object that cannot be read; its last state stays.
    Unreadable(String, Option<String>),
    /// The watch has come to this version without a change.
    Bookmark(String),
    /// The version is too old: everything is to be listed again.
    Expired(String),
    Failed(String),
    /// A type of events that is not known.
    Other(Option<String>),
}

/// Reads one line of a watch.
///
/// # Errors
/// The text is no event. An event with an object that cannot be read is one.
pub(super) fn parse_kubernetes_event(line: &[u8], kind: KubernetesKind) -> Result<KubernetesEvent, String> {
    #[derive(Deserialize)]
    struct Raw {
        #[serde(rename = "type")]
        kind: String,
        object: Value,
    }
    let raw: Raw = read_message(line).map_err(|error| format!("a line of the watch is no event: {error}"))?;
    if raw.kind == "ERROR" {
        let code = raw.object.get("code").and_then(Value::as_u64).unwrap_or_default();
        let message = raw.object.get("message").and_then(Value::as_str).unwrap_or_default();
        let message = format!("the watch ended with code {code}: {}", shortened(message));
        return Ok(if code == 410 {
            KubernetesEvent::Expired(message)
        } else {
            KubernetesEvent::Failed(message)
        });
    }
    let version = raw.object.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
    if raw.kind == "BOOKMARK" {
        return Ok(version.map_or(KubernetesEvent::Other(None), KubernetesEvent::Bookmark));
    }
    let is_put = match raw.kind.as_str() {
        "ADDED" | "MODIFIED" => true,
        "DELETED" => false,
        _ => return Ok(KubernetesEvent::Other(version)),
    };
    let text = |name: &str| raw.object.pointer(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(namespace), Some(name)) = (text("/metadata/namespace"), text("/metadata/name")) else {
        return Ok(KubernetesEvent::Unreadable("an object has no name or no namespace".to_owned(), version));
    };
    let object_name = ObjectName { namespace: namespace.into(), name: name.into() };
    if !is_put {
        return Ok(KubernetesEvent::Delete(object_name, version));
    }
    let read = KubernetesObject::deserialize(raw.object).map_err(|error| error.to_string());
    Ok(match read.and_then(|object| slice(object, kind)) {
        Ok(Some(slice)) => KubernetesEvent::Put(Arc::new(slice), version),
        Ok(None) => KubernetesEvent::Delete(object_name, version),
        Err(reason) => {
            let name = shortened(&object_name.name);
            KubernetesEvent::Unreadable(format!("the object `{name}` cannot be read: {reason}"), version)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice_object() -> Value {
        json!({"metadata": {"name": "web-1", "namespace": "shop", "resourceVersion": "7",
                "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "http", "port": 80}]})
    }

    #[test]
    fn hostile_line_is_a_failure() {
        let flat = format!("[{}0]", "[0],".repeat(60_000));
        let line = format!(r#"{{"type":"ADDED","object":{{"metadata":{{"labels":{flat}}}}}}}"#);
        let error = parse_kubernetes_event(line.as_bytes(), KubernetesKind::EndpointSlices).unwrap_err();
        assert!(error.contains("more than 100000 values"), "{error}");
    }

    #[test]
    fn events_of_a_watch_are_read() {
        let read = |kind: &str, object: Value| {
            parse_kubernetes_event(
                json!({"type": kind, "object": object}).to_string().as_bytes(),
                KubernetesKind::EndpointSlices,
            )
        };
        let is_seven = |version: &Option<String>| version.as_deref() == Some("7");
        assert!(
            matches!(read("ADDED", slice_object()), Ok(KubernetesEvent::Put(_, version)) if is_seven(&version))
        );
        let is_web = |name: &ObjectName| (&*name.namespace, &*name.name) == ("shop", "web-1");
        let deleted = read("DELETED", slice_object());
        assert!(
            matches!(deleted, Ok(KubernetesEvent::Delete(name, version)) if is_web(&name) && is_seven(&version))
        );
        let mut unlabelled = slice_object();
        unlabelled["metadata"]["labels"] = json!({});
        assert!(
            matches!(read("MODIFIED", unlabelled), Ok(KubernetesEvent::Delete(name, _)) if is_web(&name))
        );
        let mut unreadable = slice_object();
        unreadable["endpoints"] = json!(7);
        let unreadable = read("MODIFIED", unreadable);
        assert!(matches!(unreadable, Ok(KubernetesEvent::Unreadable(_, version)) if is_seven(&version)));
        let bookmark = json!({"metadata": {"resourceVersion": "12"}});
        assert!(
            matches!(read("BOOKMARK", bookmark), Ok(KubernetesEvent::Bookmark(version)) if version == "12")
        );
        let gone = json!({"kind": "Status", "code": 410, "message": "too old"});
        assert!(
            matches!(read("ERROR", gone), Ok(KubernetesEvent::Expired(message)) if message.ends_with("410: too old"))
        );
        assert!(matches!(read("ERROR", json!({"code": 500})), Ok(KubernetesEvent::Failed(_))));
        assert!(matches!(read("NEW", slice_object()), Ok(KubernetesEvent::Other(_))));
    }

    #[test]
    fn garbage_is_refused() {
        for text in ["", "{}", "<html>", "{\"type\":\"ADDED\"}", "{\"object\":{}}"] {
            assert!(
                parse_kubernetes_event(text.as_bytes(), KubernetesKind::EndpointSlices).is_err(),
                "{text}"
            );
        }
        let nameless = parse_kubernetes_event(
            b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":1}}}",
            KubernetesKind::Endpoints,
        );
        assert!(matches!(nameless, Ok(KubernetesEvent::Unreadable(_, None))));
    }
}
