//! The object or collection that a path of the Admin API names, whether it exists or not.

use model::Kind;

/// An object or a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    pub kind: Kind,
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
        let kind = match Kind::from_collection(collection)? {
            // The path of credentials is below their consumer.
            Kind::Credential => return None,
            // In APISIX this is a collection of its own, so it must not be read as a sub-path of the service.
            Kind::Service if rest.get(1).is_some_and(|segment| segment == COST_DECORATIONS) => return None,
            kind => kind,
        };
        let owned = |segment: Option<&String>| segment.cloned();
        match kind {
            Kind::Consumer if rest.get(1).is_some_and(|segment| segment == "credentials") => {
                Some(ObjectPath {
                    kind: Kind::Credential,
                    parent: owned(rest.first()),
                    id: owned(rest.get(2)),
                    sub_path: rest.get(3..).unwrap_or_default().to_vec(),
                })
            }
            Kind::Secret => Some(ObjectPath {
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

    /// The id as [`model::Key`] writes it, if the path has one.
    pub(crate) fn key_id(&self) -> Option<String> {
        self.id.as_deref().map(|id| self.key_id_of(id))
    }

    /// The id of [`model::Key`] for an object of this collection.
    pub(crate) fn key_id_of(&self, id: &str) -> String {
        match (self.kind, &self.parent) {
            (Kind::Credential, Some(consumer)) => format!("{consumer}/credentials/{id}"),
            (Kind::Secret, Some(manager)) => format!("{manager}/{id}"),
            _ => id.to_owned(),
        }
    }
}

/// APISIX's collection for the costs of GraphQL fields, below a service. Weir has them in the configuration of `graphql-limit-count`.
pub(crate) const COST_DECORATIONS: &str = "graphql_cost_decorations";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_an_object_or_a_collection() {
        let check = |path: &str, expected: Option<(Kind, Option<&str>, &[&str])>| {
            let segments = crate::serve::query::segments(path);
            let target = ObjectPath::parse(&segments);
            let found = target.map(|target| (target.kind, target.key_id(), target.sub_path));
            let expected = expected.map(|(kind, id, sub)| {
                (kind, id.map(str::to_owned), sub.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>())
            });
            assert_eq!(found, expected, "{path}");
        };
        check("routes", Some((Kind::Route, None, &[])));
        check("routes/1/upstream/nodes", Some((Kind::Route, Some("1"), &["upstream", "nodes"])));
        check("consumers/jack", Some((Kind::Consumer, Some("jack"), &[])));
        check("consumers/jack/credentials", Some((Kind::Credential, None, &[])));
        check("consumers/jack/credentials/c1", Some((Kind::Credential, Some("jack/credentials/c1"), &[])));
        check("secrets/vault/1/token", Some((Kind::Secret, Some("vault/1"), &["token"])));
        check("secrets", Some((Kind::Secret, None, &[])));
        check("credentials", None);
        check("services/1/graphql_cost_decorations", None);
        check("services/1/graphql_cost_decorations/2", None);
        check("services/1/labels", Some((Kind::Service, Some("1"), &["labels"])));
        check("ssl", None);
        check("", None);
    }
}
