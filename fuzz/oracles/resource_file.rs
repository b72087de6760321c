//! Oracle of declarative files: faults have a place in the file, its objects can be written and read again,
//! and applying them in one or two changes gives the same result.

use std::collections::BTreeSet;
use std::path::Path;

use control::source::file::{ConfigDocument, FileFault};
use model::{ConfigFault, FaultPolicy, ObjectKind, Snapshot, SnapshotChange};
use serde_json::{Map, Value};

use super::catalog::CATALOG;

/// The input is the text of a file.
pub fn check(data: &[u8]) {
    let Some(text) = std::str::from_utf8(data).ok().filter(|text| text.len() <= TEXT_BYTES_MAX) else {
        return;
    };
    let lines = text.lines().count().max(1);
    let within = |fault: &FileFault| {
        assert!((1..=lines).contains(&fault.line) && !fault.reason.is_empty(), "{fault} of {lines} lines");
    };
    let document = match parse(text) {
        Ok(document) => document,
        Err(faults) => {
            assert!(!faults.is_empty());
            faults.iter().for_each(within);
            return;
        }
    };
    document.faults.iter().for_each(within);
    let mut keys = BTreeSet::new();
    for object in &document.objects {
        assert!(keys.insert(object.key.path()), "{} is there twice", object.key);
        let value: Value = serde_json::from_str(&object.text).expect("an object is JSON");
        let mut places = vec![String::new()];
        pointers(&value, "", &mut places);
        for pointer in places.into_iter().take(PLACES_MAX) {
            let fault =
                ConfigFault { key: Some(object.key.clone()), pointer, reason: "x".to_owned(), kept: false };
            within(&document.place(&fault).expect("the object is in the document"));
        }
    }
    written_again(&document);
    let changes: Vec<SnapshotChange> = document.objects.iter().map(|object| object.change(1)).collect();
    for fault in apply(&changes, changes.len()) {
        within(&document.place(&fault).expect("the object is in the document"));
    }
}

/// Applies the changes at once and in two parts, asserts the same result, and returns the faults.
fn apply(changes: &[SnapshotChange], length: usize) -> Vec<ConfigFault> {
    let whole = Snapshot::empty().apply(&CATALOG, changes, 1, FaultPolicy::Lenient);
    let (first, second) = changes.split_at(length / 2);
    for (first, second) in [(first, second), (second, first)] {
        let half = Snapshot::empty().apply(&CATALOG, first, 1, FaultPolicy::Lenient).snapshot;
        let parts = half.apply(&CATALOG, second, 1, FaultPolicy::Lenient).snapshot;
        assert_eq!(in_force(&parts), in_force(&whole.snapshot));
        assert_eq!(parts.faults(), whole.snapshot.faults());
    }
    let strict = Snapshot::empty().apply(&CATALOG, changes, 1, FaultPolicy::Strict).snapshot;
    let expected = if whole.faults.is_empty() { in_force(&whole.snapshot) } else { BTreeSet::new() };
    assert_eq!(in_force(&strict), expected, "all or nothing");
    whole.faults
}

fn in_force(snapshot: &Snapshot) -> BTreeSet<String> {
    let keys =
        ObjectKind::ALL.into_iter().flat_map(|kind| snapshot.iter(kind)).map(|object| object.key().path());
    keys.collect()
}

/// Asserts that the objects, written as one JSON file, are read as the same objects.
fn written_again(document: &ConfigDocument) {
    let mut collections: Map<String, Value> = Map::new();
    for object in &document.objects {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(&object.text) else {
            panic!("{}", object.text)
        };
        let kind = match object.key.kind {
            ObjectKind::Credential => ObjectKind::Consumer,
            kind => kind,
        };
        if matches!(object.key.kind, ObjectKind::Credential | ObjectKind::Secret | ObjectKind::PluginMetadata)
        {
            fields.insert("id".to_owned(), Value::from(&*object.key.id));
        }
        let items = collections.entry(kind.collection()).or_insert_with(|| Value::Array(Vec::new()));
        items.as_array_mut().expect("a list").push(Value::Object(fields));
    }
    let text = Value::Object(collections).to_string();
    // The value or default of a variable may contain `${{`, which a file cannot express.
    if text.contains("${{") {
        return;
    }
    let again = parse(&text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    assert!(again.faults.is_empty(), "{text}: {:?}", again.faults);
    let seen = |document: &ConfigDocument| -> BTreeSet<(String, String)> {
        document.objects.iter().map(|object| (object.key.path(), object.text.to_string())).collect()
    };
    assert_eq!(seen(&again), seen(document), "{text}");
}

fn parse(text: &str) -> Result<ConfigDocument, Vec<FileFault>> {
    let lookup = |name: &str| match name {
        "HOST" => Some("example.org".to_owned()),
        "PORT" => Some("8080".to_owned()),
        "LINES" => Some("a\nb\n".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    ConfigDocument::parse(Path::new("weir.yaml"), text, &lookup)
}

/// The pointers of all parts of a value.
fn pointers(value: &Value, above: &str, found: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.replace('~', "~0").replace('/', "~1"), field)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    for (name, part) in below {
        let pointer = format!("{above}/{name}");
        pointers(part, &pointer, found);
        found.push(pointer);
    }
}

/// Limit of the input. It is longer than the files in the guide; aliases make values of quadratic size.
const TEXT_BYTES_MAX: usize = 4096;
/// Limit of looked-up places of an object, because each search begins at the top.
const PLACES_MAX: usize = 32;
