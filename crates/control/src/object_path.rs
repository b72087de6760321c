//! The object or collection that a path of the Admin API names, whether it exists or not.

use model::ObjectKind;

/// An object or a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    pub kind: ObjectKind,
    /// The consumer of a credential, the manager of a secret.
    pub parent: Option<String>,
    /// The id within the collection.
    pub id: Option<String>,
    /// The segments after the id.
    pub sub_path: Vec<String>,
}

impl ObjectPath {
    /// Reads the segments after `/apisix/admin`; none if the first one is not a collection.
    pub(crate) fn parse(segments: &[String]) -> Option<ObjectPath> {
        let (collection, rest) = segments.split_first()?;
        let kind = match ObjectKind::from_collection(collection)? {
            // The path of credentials is below their consumer.
            ObjectKind::Credential => return None,
            // In APISIX this is a collection of its own, so it must not be read as a sub-path of the service.
            ObjectKind::Service if rest.get(1).is_some_and(|segment| segment == COST_DECORATIONS) => {
                return None;
            }
            kind => kind,
        };
        let owned = |segment: Option<&String>| segment.cloned();
        match kind {
            ObjectKind::Consumer if rest.get(1).is_some_and(|segment| segment == "credentials") => {
                Some(ObjectPath {
                    kind: ObjectKind::Credential,
                    parent: owned(rest.first()),
                    id: owned(rest.get(2)),
                    sub_path: rest.get(3..).unwrap_or_default().to_vec(),
                })
            }
            ObjectKind::Secret => Some(ObjectPath {
                kind,
                parent: owned(rest.first()),
                id: owned(rest.get(1)),
                sub_path: rest.get(2..).unwrap_or_default().to_vec(),
            }),
            _ => Some(ObjectPath {
                kind,
                parent: None,
                id: owned(rest.first()),
                sub_path: rest.get(1..).unwrap_or_default().to_vec(),
            }),
        }
    }

    /// The id as [`model::ObjectKey`] writes it, if the path has one.
    pub(crate) fn key_id(&self) -> Option<String> {
        self.id.as_deref().map(|id| self.key_id_of(id))
    }

    /// The id of [`model::ObjectKey`] for an object of this collection.
    pub(crate) fn key_id_of(&self, id: &str) -> String {
        match (self.kind, &self.parent) {
            (ObjectKind::Credential, Some(consumer)) => format!("{consumer}/credentials/{id}"),
            (ObjectKind::Secret, Some(manager)) => format!("{manager}/{id}"),
            _ => id.to_owned(),
        }
    }
}

/// APISIX's collection for the costs of GraphQL fields, below a service. Weir has them in the configuration
/// of `graphql-limit-count`.
pub(crate) const COST_DECORATIONS: &str = "graphql_cost_decorations";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_an_object_or_a_collection() {
        let check = |path: &str, expected: Option<(ObjectKind, Option<&str>, &[&str])>| {
            let segments = crate::serve::query::segments(path);
            let target = ObjectPath::parse(&segments);
            let found = target.map(|target| (target.kind, target.key_id(), target.sub_path));
            let expected = expected.map(|(kind, id, sub)| {
                (kind, id.map(str::to_owned), sub.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>())
            });
            assert_eq!(found, expected, "{path}");
        };
        check("routes", Some((ObjectKind::Route, None, &[])));
        check("routes/1/upstream/nodes", Some((ObjectKind::Route, Some("1"), &["upstream", "nodes"])));
        check("consumers/jack", Some((ObjectKind::Consumer, Some("jack"), &[])));
        check("consumers/jack/credentials", Some((ObjectKind::Credential, None, &[])));
        check(
            "consumers/jack/credentials/c1",
            Some((ObjectKind::Credential, Some("jack/credentials/c1"), &[])),
        );
        check("secrets/vault/1/token", Some((ObjectKind::Secret, Some("vault/1"), &["token"])));
        check("secrets", Some((ObjectKind::Secret, None, &[])));
        check("credentials", None);
        check("services/1/graphql_cost_decorations", None);
        check("services/1/graphql_cost_decorations/2", None);
        check("services/1/labels", Some((ObjectKind::Service, Some("1"), &["labels"])));
        check("ssl", None);
        check("", None);
    }
}
