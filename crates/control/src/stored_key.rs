//! Keys as the store writes them: the path below the prefix (`routes/1`, `consumers/jack/credentials/c1`), as
//! in etcd. It does not know the objects.

use model::{ObjectKey, ObjectKind};

/// The text of a key in the store.
pub(crate) fn format_stored_key(key: &ObjectKey) -> String {
    key.path().trim_start_matches('/').to_owned()
}

/// The key of a text found in the store; none when this version knows no such object.
pub(crate) fn parse_stored_key(path: &str) -> Option<ObjectKey> {
    let (collection, id) = path.split_once('/')?;
    let kind = match ObjectKind::from_collection(collection)? {
        ObjectKind::Consumer if id.contains('/') => ObjectKind::Credential,
        ObjectKind::Credential => return None,
        kind => kind,
    };
    ObjectKey::new(kind, id).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_parsed_from_its_text() {
        let check = |path: &str, kind: Option<ObjectKind>| {
            let key = parse_stored_key(path);
            assert_eq!(key.as_ref().map(|key| key.kind), kind, "{path}");
            if let Some(key) = key {
                assert_eq!(format_stored_key(&key), path);
            }
        };
        check("routes/1", Some(ObjectKind::Route));
        check("consumers/jack", Some(ObjectKind::Consumer));
        check("consumers/jack/credentials/c1", Some(ObjectKind::Credential));
        check("secrets/vault/1", Some(ObjectKind::Secret));
        check("plugin_metadata/a-log", Some(ObjectKind::PluginMetadata));
        check("routes/a b", None);
        check("routes", None);
        check("credentials/x", None);
        check("other/1", None);
    }
}
