//! The objects of one resource file, their keys and their lines. It does not know whether they are valid.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use model::{ConfigFault, ObjectKey, ObjectKind, SnapshotChange, WrittenObject};
use stdx::nearest::nearest;

use yaml::Marked;

use super::FileFault;
use super::expand::{Expanded, Unset, expand_variables};
use crate::stored_key;

/// One object of a file.
#[derive(Debug, Clone)]
pub struct FileObject {
    /// The key under which it is stored.
    pub key: ObjectKey,
    /// Its JSON, with the id filled in.
    pub text: Arc<str>,
    /// Its place in the document (`/routes/3`).
    pub pointer: String,
}

/// A file that could be read, with the faults of its outer shape.
#[derive(Debug)]
pub struct ConfigDocument {
    /// The objects, in the file's order.
    pub objects: Vec<FileObject>,
    /// Faulty objects for routes and global rules that cannot be objects under a key of their own; they
    /// answer the requests of such items with 503.
    pub stand_ins: Vec<FileObject>,
    /// Faults of items that are no objects of any kind; the other items are valid nevertheless.
    pub faults: Vec<FileFault>,
    /// Objects to be removed, which only a set in a request may name, with their places.
    pub deletes: Vec<(ObjectKey, String)>,
    /// Kinds with an item that has no usable key: an object of such a kind that seems to be removed may be
    /// that item.
    pub unclear: HashSet<ObjectKind>,
    path: PathBuf,
    /// The last line of the file, from 1.
    last_line: usize,
    marked: Marked,
    expanded: Expanded,
    pointers: HashMap<ObjectKey, String>,
}

impl FileObject {
    /// The change that makes this object new at `revision`.
    pub fn change(&self, revision: u64) -> SnapshotChange {
        let written = WrittenObject {
            key: self.key.clone(),
            text: Arc::clone(&self.text),
            created_index: revision,
            modified_index: revision,
        };
        SnapshotChange { key: self.key.clone(), written: Some(written) }
    }
}

impl ConfigDocument {
    /// Splits `text`, the content of `path`; replaces variables by the values that `lookup` returns.
    ///
    /// # Errors
    /// An unset variable, a fault of syntax, or a top level that is no mapping: the text is no document.
    pub fn parse(
        path: &Path,
        text: &str,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ConfigDocument, Vec<FileFault>> {
        let expanded = expand_variables(text, lookup).map_err(|unset| {
            let fault = |unset: Unset| FileFault {
                path: path.to_owned(),
                line: unset.line,
                place: String::new(),
                reason: unset.reason,
            };
            unset.into_iter().map(fault).collect::<Vec<_>>()
        })?;
        ConfigDocument::split(path, text, expanded, DocumentForm::File)
    }

    /// Splits `text` without replacing variables, because a text from elsewhere must not read this process's
    /// environment.
    ///
    /// # Errors
    /// As [`ConfigDocument::parse`].
    pub fn parse_plain(path: &Path, text: &str) -> Result<ConfigDocument, Vec<FileFault>> {
        ConfigDocument::split(path, text, Expanded::plain(text), DocumentForm::File)
    }

    /// As [`ConfigDocument::parse_plain`], for a set in a request, which may also list keys to `delete`.
    ///
    /// # Errors
    /// As [`ConfigDocument::parse`].
    pub(crate) fn parse_set(path: &Path, text: &str) -> Result<ConfigDocument, Vec<FileFault>> {
        ConfigDocument::split(path, text, Expanded::plain(text), DocumentForm::Set)
    }

    /// Reports the list of keys to delete as a fault, if there is one.
    pub(crate) fn refuse_deletes(&mut self, reason: &str) {
        if !self.deletes.is_empty() {
            let fault = self.fault(&format!("/{DELETE}"), reason.to_owned());
            self.faults.push(fault);
        }
    }

    fn split(
        path: &Path,
        text: &str,
        expanded: Expanded,
        form: DocumentForm,
    ) -> Result<ConfigDocument, Vec<FileFault>> {
        let general = |line, reason| FileFault { path: path.to_owned(), line, place: String::new(), reason };
        let last_line = text.lines().count().max(1);
        let mut marked = yaml::parse(&expanded.text).map_err(|fault| {
            // The parser reports a missing end after the last line.
            vec![general(expanded.file_line(fault.line).min(last_line), fault.reason)]
        })?;
        let collections = match marked.value.take() {
            Value::Object(collections) => collections,
            Value::Null => Map::new(),
            _ => {
                return Err(vec![general(
                    1,
                    "the top level must be a mapping: routes, services, upstreams, ...".to_owned(),
                )]);
            }
        };
        let mut document = ConfigDocument {
            objects: Vec::new(),
            stand_ins: Vec::new(),
            faults: Vec::new(),
            deletes: Vec::new(),
            unclear: HashSet::new(),
            path: path.to_owned(),
            last_line,
            marked,
            expanded,
            pointers: HashMap::new(),
        };
        // Objects under a misspelt collection name must not count as removed, because a gateway would then
        // run without its global rules.
        let is_delete = |name: &str| form == DocumentForm::Set && name == DELETE;
        let misspelt = |name: &&String| {
            ObjectKind::from_collection(name).is_none()
                && !is_delete(name)
                && nearest_collection(name).is_some()
        };
        let misspelt: Vec<FileFault> = collections
            .keys()
            .filter(misspelt)
            .map(|name| document.fault(&format!("/{}", escaped(name)), unknown_collection(name)))
            .collect();
        if !misspelt.is_empty() {
            return Err(misspelt);
        }
        for (name, items) in collections {
            if is_delete(&name) {
                document.take_deletes(&items);
            } else {
                document.collection(&name, items);
            }
        }
        document.check_deletes();
        document.pointers =
            document.objects.iter().map(|object| (object.key.clone(), object.pointer.clone())).collect();
        // An object may have the key of a stand-in as its id.
        document.stand_ins.retain(|object| !document.pointers.contains_key(&object.key));
        let places = document.stand_ins.iter().map(|object| (object.key.clone(), object.pointer.clone()));
        document.pointers.extend(places);
        Ok(document)
    }

    /// The place of a fault that the model found in one of the objects; none when the object is not in this
    /// document.
    pub fn place(&self, fault: &ConfigFault) -> Option<FileFault> {
        let object = match &fault.key {
            Some(key) => self.pointers.get(key)?.as_str(),
            None => "",
        };
        let mut reason = fault.reason.clone();
        if fault.kept {
            reason.push_str(" (its last good form stays in force)");
        }
        Some(self.fault(&format!("{object}{}", fault.pointer), reason))
    }

    /// The place of a warning about one of the objects; none when the object is not in this document.
    pub(crate) fn warning(&self, key: &ObjectKey, pointer: &str, reason: &str) -> Option<FileFault> {
        let object = self.pointers.get(key)?;
        Some(self.fault(&format!("{object}{pointer}"), format!("warning: {reason}")))
    }

    /// Reads the list of keys to delete: `["routes/1", "consumers/jack"]`.
    fn take_deletes(&mut self, items: &Value) {
        let Some(items) = items.as_array() else {
            self.faults.push(self.fault(&format!("/{DELETE}"), format!("`{DELETE}` must be a list of keys")));
            return;
        };
        for (index, item) in items.iter().enumerate() {
            let pointer = format!("/{DELETE}/{index}");
            let key =
                item.as_str().and_then(|text| stored_key::parse_stored_key(text.trim_start_matches('/')));
            match key {
                Some(key) => self.deletes.push((key, pointer)),
                None => {
                    let reason = "must be the key of an object, such as routes/1".to_owned();
                    self.faults.push(self.fault(&pointer, reason));
                }
            }
        }
    }

    /// Reports keys to delete that the set has an object for.
    fn check_deletes(&mut self) {
        let kept: HashSet<&ObjectKey> = self.objects.iter().map(|object| &object.key).collect();
        let both = self.deletes.iter().filter(|(key, _)| kept.contains(key));
        let fault = |(key, pointer): &(ObjectKey, String)| {
            self.fault(
                pointer,
                format!("{} is also an object of the set", stored_key::format_stored_key(key)),
            )
        };
        let faults: Vec<FileFault> = both.map(fault).collect();
        self.faults.extend(faults);
    }

    fn collection(&mut self, name: &str, items: Value) {
        let pointer = format!("/{}", escaped(name));
        let kind = match ObjectKind::from_collection(name) {
            Some(ObjectKind::Credential) | None => {
                self.faults.push(self.fault(&pointer, unknown_collection(name)));
                return;
            }
            Some(kind) => kind,
        };
        let items = match items {
            Value::Array(items) => items,
            Value::Null => return,
            _ => {
                self.unclear.insert(kind);
                self.faults.push(self.fault(&pointer, format!("`{name}` must be a list")));
                return;
            }
        };
        let mut seen = HashSet::new();
        for (index, item) in items.into_iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let text = is_protective(kind, &item).then(|| item.to_string());
            match parse_item(kind, index, item, &pointer) {
                Ok(object) if seen.insert(object.key.clone()) => self.objects.push(object),
                Ok(object) => {
                    let reason = format!("the id `{}` is there twice; the first one counts", object.key.id);
                    self.stand_ins
                        .extend(text.and_then(|text| stand_in(kind, index, &text, &reason, &pointer)));
                    self.faults.push(self.fault(&pointer, reason));
                }
                Err((below, reason)) => {
                    self.stand_ins
                        .extend(text.and_then(|text| stand_in(kind, index, &text, &reason, &pointer)));
                    self.unclear.insert(kind);
                    if kind == ObjectKind::Consumer {
                        self.unclear.insert(ObjectKind::Credential);
                    }
                    self.faults.push(self.fault(&format!("{pointer}{below}"), reason));
                }
            }
        }
    }

    fn fault(&self, pointer: &str, reason: String) -> FileFault {
        // For YAML a lone carriage return ends a line, but not for editors.
        let line = self.expanded.file_line(self.marked.line(pointer)).min(self.last_line);
        FileFault { path: self.path.clone(), line, place: dotted(pointer), reason }
    }
}

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentForm {
    /// A file of objects.
    File,
    /// A set in a request, which may also name objects to be deleted.
    Set,
}

/// The field with the keys to delete.
const DELETE: &str = "delete";

/// Whether an item that is left out would let requests through that it may refuse. A route that is no mapping
/// matches no request.
fn is_protective(kind: ObjectKind, item: &Value) -> bool {
    kind == ObjectKind::GlobalRule || kind == ObjectKind::Route && item.is_object()
}

/// A faulty object for an item that cannot be an object under a key of its own; it answers the item's
/// requests with 503.
fn stand_in(kind: ObjectKind, index: usize, item: &str, reason: &str, pointer: &str) -> Option<FileObject> {
    let key = ObjectKey::new(kind, &format!("arr_{}.faulty", index + 1)).ok()?;
    Some(FileObject { key, text: WrittenObject::unreadable_json(reason, item), pointer: pointer.to_owned() })
}

/// A name as a step of a JSON pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// One item of a collection; the error is a pointer below the item and the reason.
pub(crate) fn parse_item(
    kind: ObjectKind,
    index: usize,
    item: Value,
    pointer: &str,
) -> Result<FileObject, (&'static str, String)> {
    let Value::Object(mut item) = item else {
        return Err(("", format!("a {kind} must be a mapping")));
    };
    fill_empty(kind, &mut item);
    let id = match item.get(id_field(kind, &item)) {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        Some(_) => return Err(("/id", "an id is a text or a number".to_owned())),
        None if kind == ObjectKind::Consumer => return Err(("", "a consumer needs a `username`".to_owned())),
        // APISIX names items without an id by their place, counted from 1.
        None => format!("arr_{}", index + 1),
    };
    let is_credential = kind == ObjectKind::Consumer && id.contains("/credentials/");
    let kind = if is_credential { ObjectKind::Credential } else { kind };
    let key = ObjectKey::new(kind, &id).map_err(|fault| ("/id", fault.to_string()))?;
    match kind {
        // These have no id of their own: the `id` in the file only names the plugin or the consumer.
        ObjectKind::PluginMetadata | ObjectKind::Consumer => {
            item.shift_remove("id");
        }
        ObjectKind::Credential | ObjectKind::Secret => {
            item.insert("id".to_owned(), Value::String(key.own_id().to_owned()));
        }
        _ => {
            item.entry("id").or_insert(Value::String(id));
        }
    }
    let text = Value::Object(item).to_string().into();
    Ok(FileObject { key, text, pointer: pointer.to_owned() })
}

/// Fills in empty mappings: `key-auth:` with nothing behind it is null in YAML and an empty mapping for
/// APISIX. So are fields of the object that hold a mapping or a list.
fn fill_empty(kind: ObjectKind, item: &mut Map<String, Value>) {
    let properties = &model::schema::find_object_schema(kind)["properties"];
    for (name, value) in item.iter_mut() {
        if name == "plugins" {
            let plugins = value.as_object_mut().into_iter().flat_map(|plugins| plugins.values_mut());
            plugins.filter(|config| config.is_null()).for_each(|config| *config = Value::Object(Map::new()));
        }
        if value.is_null() {
            match properties[name.as_str()]["type"].as_str() {
                Some("object") => *value = Value::Object(Map::new()),
                Some("array") => *value = Value::Array(Vec::new()),
                _ => {}
            }
        }
    }
}

/// Consumers are named by `username`, unless an `id` shows that the item is a credential.
fn id_field(kind: ObjectKind, item: &Map<String, Value>) -> &'static str {
    let names_credential = |id: &Value| id.as_str().is_some_and(|id| id.contains("/credentials/"));
    if kind == ObjectKind::Consumer && !item.get("id").is_some_and(names_credential) {
        "username"
    } else {
        "id"
    }
}

fn unknown_collection(name: &str) -> String {
    match name {
        "credentials" => {
            "credentials are written among the consumers, with the id `USERNAME/credentials/ID`".to_owned()
        }
        "plugins" => "a list of plugins to load has no place here: every plugin that is built in can be used"
            .to_owned(),
        _ => match nearest_collection(name) {
            Some(near) => format!("`{name}` is no kind of object; did you mean `{near}`?"),
            None => {
                let known: Vec<&str> = collections().collect();
                format!("`{name}` is no kind of object; known are {}", known.join(", "))
            }
        },
    }
}

fn collections() -> impl Iterator<Item = &'static str> {
    ObjectKind::ALL.into_iter().filter(|kind| *kind != ObjectKind::Credential).map(ObjectKind::collection)
}

/// The collection with the name that is nearest to a misspelt one.
fn nearest_collection(name: &str) -> Option<&'static str> {
    let has_own_reason = matches!(name, "credentials" | "plugins");
    nearest(name, collections()).filter(|_| !has_own_reason)
}

/// A pointer in the notation of messages: `/routes/3/plugins/limit-count` becomes
/// `routes[3].plugins.limit-count`.
pub fn dotted(pointer: &str) -> String {
    let mut place = String::new();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()) {
            place.push_str(&format!("[{step}]"));
        } else {
            if !place.is_empty() {
                place.push('.');
            }
            place.push_str(&step);
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigDocument, Vec<FileFault>> {
        let lookup = |name: &str| (name == "PORT").then(|| "8080".to_owned());
        ConfigDocument::parse(Path::new("weir.yaml"), text, &lookup)
    }

    fn check(text: &str, objects: &[(&str, &str)], faults: &[&str]) {
        let (found, found_faults) = match parse(text) {
            Ok(document) => (document.objects, document.faults),
            Err(faults) => (Vec::new(), faults),
        };
        let found: Vec<(String, String)> =
            found.iter().map(|object| (object.key.path(), object.text.to_string())).collect();
        let expected: Vec<(String, String)> =
            objects.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        assert_eq!(found, expected, "{text}");
        let found_faults: Vec<String> = found_faults.iter().map(ToString::to_string).collect();
        assert_eq!(found_faults.len(), faults.len(), "{found_faults:#?}");
        for (found, part) in found_faults.iter().zip(faults) {
            assert!(found.contains(part), "{found:?} lacks {part:?}");
        }
    }

    #[test]
    fn empty_mapping_is_an_empty_object() {
        let text = "consumers:\n  - username: jack\n    plugins:\n      key-auth:\n    labels:\nroutes:\n  - id: 1\n    \
            plugins:\n    vars:\n    desc:\n    upstream:\n      nodes: {}\n";
        let objects = [
            ("/consumers/jack", r#"{"username":"jack","plugins":{"key-auth":{}},"labels":{}}"#),
            ("/routes/1", r#"{"id":1,"plugins":{},"vars":[],"desc":null,"upstream":{"nodes":{}}}"#),
        ];
        check(text, &objects, &[]);
    }

    #[test]
    fn objects_get_their_keys() {
        check("", &[], &[]);
        check("routes:\n#END\n", &[], &[]);
        check("routes:\n  - uri: /a\n", &[("/routes/arr_1", r#"{"uri":"/a","id":"arr_1"}"#)], &[]);
        check(
            "upstreams:\n  - id: 1\n    nodes: {\"h:${{PORT}}\": 1}\n  - id: b",
            &[("/upstreams/1", r#"{"id":1,"nodes":{"h:8080":1}}"#), ("/upstreams/b", r#"{"id":"b"}"#)],
            &[],
        );
        check(
            "consumers:\n  - username: jack\n  - id: jack/credentials/c1\n    plugins: {}\n",
            &[
                ("/consumers/jack", r#"{"username":"jack"}"#),
                ("/consumers/jack/credentials/c1", r#"{"id":"c1","plugins":{}}"#),
            ],
            &[],
        );
        check("plugin_metadata: [{id: a-log, x: 1}]", &[("/plugin_metadata/a-log", r#"{"x":1}"#)], &[]);
        check("secrets: [{id: vault/1, uri: u}]", &[("/secrets/vault/1", r#"{"id":"1","uri":"u"}"#)], &[]);
    }

    #[test]
    fn json_is_read_with_and_without_end_mark() {
        let route: &[(&str, &str)] = &[("/routes/r", r#"{"id":"r","uri":"/"}"#)];
        check(r#"{"routes": [{"id": "r", "uri": "/"}]}"#, route, &[]);
        check("{\"routes\": [{\"id\": \"r\", \"uri\": \"/\"}]}\n#END\n", route, &[]);
        check(r#"{"routes": [{"id": "r", "uri": "/"}]} #END"#, route, &[]);
        check(r#"{"routes": [{"id": "r", "uri": "/"}]}#END"#, route, &[]);
        check("{\n\t\"routes\": [\n\t\t{\"id\": \"r\",\n\t\t\"uri\"\n: \"\\/\"}\n\t]\n}\n#END", route, &[]);
        check(
            r#"{"routes": [{"id": "r", "desc": "\ud83d\ude00 \u0041 # ${{PORT}}: [a]", "priority": 1.5}]}"#,
            &[("/routes/r", "{\"id\":\"r\",\"desc\":\"\u{1f600} A # 8080: [a]\",\"priority\":1.5}")],
            &[],
        );
        check(
            "{\"routes\": [\n{\"uri\": \"/\"},\n7\n]}\n#END",
            &[("/routes/arr_1", r#"{"uri":"/","id":"arr_1"}"#)],
            &["weir.yaml:3: routes[1]: a route must be a mapping"],
        );
    }

    #[test]
    fn faults_name_file_line_and_place() {
        check(
            "routes:\n  - uri: /a\n  - 7\n",
            &[("/routes/arr_1", r#"{"uri":"/a","id":"arr_1"}"#)],
            &["weir.yaml:3: routes[1]: a route must be a mapping"],
        );
        check(
            "a: 1\nroutes: {}\n",
            &[],
            &["weir.yaml:1: a: `a` is no kind", "weir.yaml:2: routes: `routes` must be a list"],
        );
        check(
            "routes:\n- id: 1\n- id: '1'\n",
            &[("/routes/1", r#"{"id":1}"#)],
            &["weir.yaml:3: routes[1]: the id `1` is there twice"],
        );
        check("routes:\n- uri: /\n  id: a b\n", &[], &["weir.yaml:3: routes[0].id: the id may only have"]);
        check(
            "consumers:\n- plugins: {}\n",
            &[],
            &["weir.yaml:2: consumers[0]: a consumer needs a `username`"],
        );
        check("credentials: []", &[], &["among the consumers"]);
        check("- a", &[], &["weir.yaml:1: the top level must be a mapping"]);
        check(
            "routes: []\nx: ${{UNSET}}\ny: ${{UNSET2}}",
            &[],
            &["weir.yaml:2: the environment variable UNSET", "weir.yaml:3: "],
        );
        check("routes: [\n\n}", &[], &["weir.yaml:3: "]);
    }

    #[test]
    fn yaml_line_breaks_stay_inside_the_file() {
        check(
            "routes:\r- 7\r- 8",
            &[],
            &["weir.yaml:1: routes[0]: a route", "weir.yaml:1: routes[1]: a route"],
        );
        check("routes: [\r\r}", &[], &["weir.yaml:1: "]);
    }

    #[test]
    fn faults_of_objects_get_their_line() {
        let document = parse("routes:\n- id: a\n- id: b\n  plugins:\n    x/y:\n      count: 0\n").unwrap();
        let fault = ConfigFault {
            key: Some(ObjectKey::new(ObjectKind::Route, "b").unwrap()),
            pointer: "/plugins/x~1y/count".to_owned(),
            reason: "too small".to_owned(),
            kept: false,
        };
        assert_eq!(
            document.place(&fault).unwrap().to_string(),
            "weir.yaml:6: routes[1].plugins.x/y.count: too small"
        );
    }
}
