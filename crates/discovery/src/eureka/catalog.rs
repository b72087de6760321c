//! The copy of Eureka's registry: brought up to date by whole answers and by changes, checked by Eureka's
//! hash code, and asked for the instances of one application. It does not ask Eureka.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use model::discovery::ServiceInstance;
use serde_json::Value;

use super::answer::{Applications, EurekaAction, EurekaInstance, Faulty};
use crate::parts::{Collected, parse_weight};

/// All instances by application and id.
#[derive(Debug, Default)]
pub(super) struct EurekaCatalog {
    applications: HashMap<Box<str>, BTreeMap<Box<str>, EurekaInstance>>,
    /// Entries of the last whole answer that cannot be read, by application.
    faulty: HashMap<Box<str>, Faulty>,
}

/// The rules that choose instances.
#[derive(Clone, Debug)]
pub(super) struct EurekaRules {
    pub(super) default_weight: u32,
    /// The zone with instances that are preferred.
    pub(super) zone: Option<Box<str>>,
    /// Whether instances that are STARTING get traffic too.
    pub(super) with_starting: bool,
}

impl EurekaCatalog {
    /// A catalog of a whole answer.
    ///
    /// # Errors
    /// No entry of the answer can be read, although it has some.
    pub(super) fn of(all: Applications) -> Result<EurekaCatalog, String> {
        if all.instances.is_empty()
            && let Some((count, reason)) = all.first_fault()
        {
            return Err(format!("none of the {count} instances can be read: {reason}"));
        }
        let mut catalog = EurekaCatalog { faulty: all.faulty, ..EurekaCatalog::default() };
        for (_, registered) in all.instances {
            catalog.put(registered);
        }
        Ok(catalog)
    }

    /// Applies a list of changes. Gives the applications that it touches.
    ///
    /// # Errors
    /// The copy differs from the server's after it, or an entry cannot be read: the whole is to be fetched
    /// again.
    pub(super) fn apply(&mut self, changes: Applications) -> Result<HashSet<Box<str>>, String> {
        if let Some((_, reason)) = changes.first_fault() {
            return Err(reason.to_owned());
        }
        let mut touched = HashSet::new();
        for (action, registered) in changes.instances {
            let application = registered.application.clone();
            let is_changed = match action {
                EurekaAction::Put => self.put(registered),
                EurekaAction::Delete => self.delete(&registered),
            };
            if is_changed {
                touched.insert(application);
            }
        }
        match changes.hash {
            Some(theirs) if theirs == self.hash() => Ok(touched),
            Some(theirs) => Err(format!("the copy has the hash code {}, the registry {theirs}", self.hash())),
            None => Err("the list of changes has no hash code".to_owned()),
        }
    }

    fn put(&mut self, registered: EurekaInstance) -> bool {
        let instances = self.applications.entry(registered.application.clone()).or_default();
        match instances.get(&registered.id) {
            Some(known) if *known == registered => false,
            _ => {
                instances.insert(registered.id.clone(), registered);
                true
            }
        }
    }

    fn delete(&mut self, registered: &EurekaInstance) -> bool {
        let Some(instances) = self.applications.get_mut(&registered.application) else { return false };
        let is_gone = instances.remove(&registered.id).is_some();
        if instances.is_empty() {
            self.applications.remove(&registered.application);
        }
        is_gone
    }

    /// Eureka's hash code: each reported status with the number of its instances, in the order of the names.
    pub(super) fn hash(&self) -> String {
        let mut statuses: BTreeMap<&str, usize> = BTreeMap::new();
        for registered in self.applications.values().flat_map(BTreeMap::values) {
            *statuses.entry(&registered.reported).or_default() += 1;
        }
        statuses.iter().map(|(status, count)| format!("{status}_{count}_")).collect()
    }

    /// The instances of an application that get traffic; `is_secure` chooses the port with TLS where there is
    /// one. With a preferred zone only its instances, if it has any that can be used.
    ///
    /// # Errors
    /// All instances that would get traffic are unusable, or cannot be read.
    pub(super) fn instances(
        &self,
        application: &str,
        is_secure: bool,
        rules: &EurekaRules,
    ) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
        let name = application.to_ascii_uppercase();
        let registered = self.applications.get(name.as_str()).into_iter().flat_map(BTreeMap::values);
        let is_served = |registered: &&EurekaInstance| {
            &*registered.status == "UP" || (rules.with_starting && &*registered.status == "STARTING")
        };
        let read: Vec<(bool, Result<ServiceInstance, String>)> = registered
            .filter(is_served)
            .map(|registered| {
                let is_near = rules.zone.is_some() && registered.zone == rules.zone;
                (is_near, instance(registered, is_secure, rules.default_weight))
            })
            .collect();
        let has_near = read.iter().any(|(is_near, instance)| *is_near && instance.is_ok());
        let mut collected = Collected::default();
        for (_, instance) in read.into_iter().filter(|(is_near, _)| !has_near || *is_near) {
            collected.take(instance.map(Some));
        }
        if let Some(Faulty { count, reason }) = self.faulty.get(name.as_str()) {
            collected.take(Err(format!("{count} entries cannot be read, the first because {reason}")));
        }
        collected.finish()
    }

    /// The names of all applications.
    pub(super) fn names(&self) -> BTreeSet<Box<str>> {
        self.applications.keys().chain(self.faulty.keys()).cloned().collect()
    }

    /// Whether there is such an application, with instances or with entries that cannot be read.
    pub(super) fn has(&self, application: &str) -> bool {
        let name = application.to_ascii_uppercase();
        self.applications.contains_key(name.as_str()) || self.faulty.contains_key(name.as_str())
    }
}

/// APISIX takes the port with TLS of each instance that has one; here the scheme of the upstream decides, and
/// the other port is used where an instance has only that one.
fn instance(
    registered: &EurekaInstance,
    is_secure: bool,
    default_weight: u32,
) -> Result<ServiceInstance, String> {
    let (first, second) = match is_secure {
        true => (&registered.secure_port, &registered.port),
        false => (&registered.port, &registered.secure_port),
    };
    let port =
        first.clone().or_else(|| second.clone()).unwrap_or_else(|| Err("it has no port".to_owned()))?;
    let mut metadata = registered.metadata.clone();
    let written = metadata.remove("weight").map(|weight| Value::String(weight.into()));
    Ok(ServiceInstance {
        host: registered.host.clone()?,
        port,
        weight: parse_weight(written.as_ref(), default_weight)?,
        metadata,
        ..ServiceInstance::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::answer::applications;
    use super::*;
    use crate::parts::show_instances;

    fn entry(id: &str, status: &str, zone: &str) -> Value {
        json!({"instanceId": id, "ipAddr": format!("10.0.0.{id}"), "status": status,
            "port": {"$": 80, "@enabled": "true"}, "securePort": {"$": 443, "@enabled": "true"},
            "metadata": {"zone": zone}})
    }

    fn answer(hash: &str, entries: &[Value]) -> Applications {
        let text = json!({"applications": {"apps__hashcode": hash,
            "application": [{"name": "A", "instance": entries}]}});
        applications(text.to_string().as_bytes()).unwrap()
    }

    fn rules() -> EurekaRules {
        EurekaRules { default_weight: 100, zone: None, with_starting: false }
    }

    fn three() -> EurekaCatalog {
        EurekaCatalog::of(answer(
            "",
            &[entry("1", "UP", "x"), entry("2", "UP", "y"), entry("3", "STARTING", "y")],
        ))
        .unwrap()
    }

    #[test]
    fn only_instances_that_are_up_get_traffic() {
        let catalog = three();
        let (found, _) = catalog.instances("a", false, &rules()).unwrap();
        assert_eq!(show_instances(&found), ["10.0.0.1:80 100", "10.0.0.2:80 100"]);
        let with_starting = EurekaRules { with_starting: true, ..rules() };
        assert_eq!(catalog.instances("A", false, &with_starting).unwrap().0.len(), 3);
        assert!(catalog.instances("B", false, &rules()).unwrap().0.is_empty());
    }

    #[test]
    fn preferred_zone_falls_back_to_all_zones() {
        let near = |zone: &str| EurekaRules { zone: Some(zone.into()), ..rules() };
        let found = |zone| three().instances("A", true, &near(zone)).unwrap().0;
        assert_eq!(show_instances(&found("y")), ["10.0.0.2:443 100"]);
        assert_eq!(found("elsewhere").len(), 2);
    }

    #[test]
    fn unusable_instances_do_not_make_a_zone_near() {
        let mut unusable = entry("1", "UP", "x");
        unusable["ipAddr"] = json!("a b");
        let catalog = EurekaCatalog::of(answer("", &[unusable, entry("2", "UP", "y")])).unwrap();
        let near = EurekaRules { zone: Some("x".into()), ..rules() };
        let (found, reason) = catalog.instances("A", false, &near).unwrap();
        assert_eq!(show_instances(&found), ["10.0.0.2:80 100"]);
        assert!(reason.is_some());
    }

    #[test]
    fn hash_counts_the_status_without_the_override() {
        let mut overridden = entry("1", "STARTING", "x");
        overridden["overriddenStatus"] = json!("OUT_OF_SERVICE");
        let mut catalog = EurekaCatalog::of(answer("", &[overridden, entry("2", "UP", "x")])).unwrap();
        assert_eq!(catalog.hash(), "STARTING_1_UP_1_");
        assert!(catalog.apply(answer("STARTING_1_UP_1_", &[])).is_ok());
        let with_starting = EurekaRules { with_starting: true, ..rules() };
        assert_eq!(
            show_instances(&catalog.instances("A", false, &with_starting).unwrap().0),
            ["10.0.0.2:80 100"]
        );
    }

    #[test]
    fn changes_are_applied_where_the_hash_agrees() {
        let mut catalog = three();
        assert_eq!(catalog.hash(), "STARTING_1_UP_2_");
        let mut gone = entry("1", "UP", "x");
        gone["actionType"] = json!("DELETED");
        let changes = [gone, entry("3", "UP", "y"), entry("4", "UP", "y")];
        let touched = catalog.apply(answer("UP_3_", &changes)).unwrap();
        assert!(touched.contains("A"));
        let (found, _) = catalog.instances("A", false, &rules()).unwrap();
        assert_eq!(show_instances(&found), ["10.0.0.2:80 100", "10.0.0.3:80 100", "10.0.0.4:80 100"]);
        // Eureka lists a change for three minutes: the repetition touches nothing.
        assert!(catalog.apply(answer("UP_3_", &[entry("4", "UP", "y")])).unwrap().is_empty());
    }

    #[test]
    fn other_hash_asks_for_the_whole() {
        let error = three().apply(answer("UP_9_", &[])).unwrap_err();
        assert_eq!(error, "the copy has the hash code STARTING_1_UP_2_, the registry UP_9_");
        assert!(three().apply(answer("STARTING_1_UP_2_", &[json!({"instanceId": 1})])).is_err());
    }

    #[test]
    fn answer_of_faulty_instances_is_a_failure() {
        let error = EurekaCatalog::of(answer("UP_1_", &[json!({"status": "UP"})])).unwrap_err();
        assert!(error.starts_with("none of the 1 instances"), "{error}");
        let mut faulty = entry("1", "UP", "x");
        faulty["ipAddr"] = json!("a b");
        let catalog = EurekaCatalog::of(answer("UP_1_", &[faulty])).unwrap();
        assert!(catalog.instances("A", false, &rules()).is_err());
    }

    #[test]
    fn weight_comes_from_the_metadata() {
        let mut heavy = entry("1", "UP", "x");
        heavy["metadata"]["weight"] = json!("7");
        let catalog = EurekaCatalog::of(answer("UP_1_", &[heavy])).unwrap();
        let (found, _) = catalog.instances("A", false, &rules()).unwrap();
        assert_eq!(show_instances(&found), ["10.0.0.1:80 7"]);
        assert!(!found[0].metadata.contains_key("weight"));
    }
}
