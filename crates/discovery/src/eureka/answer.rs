//! Eureka's answers: applications with their instances, in whole (`/apps`) or as a list of changes
//! (`/apps/delta`). It does not ask, and does not keep them.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::parts::{Direct, InstanceMetadata, Loose, metadata, parse_host, port, read_answer};

/// The applications of an answer, and the hash code of all instances that the server knows.
#[derive(Debug)]
pub(super) struct Applications {
    pub(super) hash: Option<String>,
    pub(super) instances: Vec<(EurekaAction, EurekaInstance)>,
    /// Entries that cannot be read, by application; those without one have an empty name.
    pub(super) faulty: HashMap<Box<str>, Faulty>,
}

/// Entries that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Faulty {
    pub(super) count: usize,
    /// The reason of the first one.
    pub(super) reason: String,
}

/// The change that an entry of a list of changes stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EurekaAction {
    /// The instance is new, or has changed.
    Put,
    Delete,
}

/// One registered instance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EurekaInstance {
    /// The application in upper case; Eureka's names do not depend on the case.
    pub(super) application: Box<str>,
    pub(super) id: Box<str>,
    /// `UP`, `DOWN`, `STARTING`, `OUT_OF_SERVICE` or `UNKNOWN`, after an operator's override; it decides
    /// about traffic.
    pub(super) status: Box<str>,
    /// The status without the override, which Eureka's hash code counts.
    pub(super) reported: Box<str>,
    /// The host; for instances that cannot be used, the reason.
    pub(super) host: Result<Box<str>, String>,
    /// The port without TLS, if it is enabled.
    pub(super) port: Option<Result<u16, String>>,
    /// The port with TLS, if it is enabled.
    pub(super) secure_port: Option<Result<u16, String>>,
    pub(super) zone: Option<Box<str>>,
    pub(super) metadata: InstanceMetadata,
}

#[derive(Deserialize)]
struct EurekaAnswer {
    applications: Listed,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(rename = "apps__hashcode")]
    hash: Option<String>,
    application: Direct<Application>,
}

#[derive(Deserialize)]
struct Application {
    name: Option<String>,
    #[serde(default)]
    instance: Loose<EurekaChange>,
}

/// An entry in its compact form, which is made at once, so that memory for the written form is held for one
/// entry only.
#[derive(Deserialize)]
#[serde(try_from = "EurekaEntry")]
struct EurekaChange((EurekaAction, EurekaInstance));

impl TryFrom<EurekaEntry> for EurekaChange {
    type Error = String;

    fn try_from(entry: EurekaEntry) -> Result<EurekaChange, String> {
        registered(entry).map(EurekaChange)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EurekaEntry {
    instance_id: Option<String>,
    host_name: Option<String>,
    app: Option<String>,
    ip_addr: Option<String>,
    status: Option<String>,
    #[serde(alias = "overriddenstatus")]
    overridden_status: Option<String>,
    port: Option<Value>,
    secure_port: Option<Value>,
    data_center_info: Option<Value>,
    metadata: Option<Value>,
    action_type: Option<String>,
}

/// Reads an answer of `/apps` or `/apps/delta`.
///
/// # Errors
/// The text is no such answer.
pub(super) fn applications(text: &[u8]) -> Result<Applications, String> {
    let answer: EurekaAnswer =
        read_answer(text).map_err(|error| format!("the answer is no list of applications: {error}"))?;
    let mut all = Applications {
        hash: answer.applications.hash.filter(|hash| hash.len() <= MAX_HASH_BYTES),
        instances: Vec::new(),
        faulty: HashMap::new(),
    };
    for application in answer.applications.application.0 {
        let name: Option<Box<str>> = application.name.map(|name| name.to_ascii_uppercase().into());
        for entry in application.instance.0 {
            let read = entry.and_then(|EurekaChange((action, mut registered))| {
                if let Some(name) = &name {
                    registered.application = name.clone();
                }
                let is_named =
                    !registered.application.is_empty() && registered.application.len() <= MAX_NAME_BYTES;
                is_named
                    .then_some((action, registered))
                    .ok_or_else(|| "an instance has no application".to_owned())
            });
            all.take(name.as_deref().unwrap_or_default(), read);
        }
    }
    Ok(all)
}

impl Applications {
    fn take(&mut self, application: &str, read: Result<(EurekaAction, EurekaInstance), String>) {
        match read {
            Ok(read) => self.instances.push(read),
            Err(reason) => match self.faulty.get_mut(application) {
                Some(faulty) => faulty.count += 1,
                None => drop(self.faulty.insert(application.into(), Faulty { count: 1, reason })),
            },
        }
    }

    /// The number of entries that cannot be read, with the reason of one of them; none if all can be.
    pub(super) fn first_fault(&self) -> Option<(usize, &str)> {
        let count = self.faulty.values().map(|faulty| faulty.count).sum();
        self.faulty.values().next().map(|faulty| (count, faulty.reason.as_str()))
    }
}

fn registered(entry: EurekaEntry) -> Result<(EurekaAction, EurekaInstance), String> {
    let application = entry.app.as_deref().unwrap_or_default();
    let address = entry.ip_addr.as_deref().or(entry.host_name.as_deref()).unwrap_or_default();
    // Clients of the first protocol have no instanceId; their host name is the identity.
    let id = entry.instance_id.as_deref().or(entry.host_name.as_deref()).unwrap_or(address);
    if id.is_empty() || id.len() > MAX_NAME_BYTES {
        return Err("an instance has no usable instanceId".to_owned());
    }
    let overridden = entry.overridden_status.filter(|status| !status.is_empty() && status != "UNKNOWN");
    let reported = entry.status.unwrap_or_else(|| "UNKNOWN".to_owned()).to_ascii_uppercase();
    let status = overridden.map_or_else(|| reported.clone(), |status| status.to_ascii_uppercase());
    let metadata = metadata(entry.metadata.as_ref());
    let zone = metadata.get("zone").cloned().or_else(|| amazon_zone(entry.data_center_info.as_ref()));
    let action = match entry.action_type.as_deref() {
        Some("DELETED") => EurekaAction::Delete,
        _ => EurekaAction::Put,
    };
    let registered = EurekaInstance {
        application: application.to_ascii_uppercase().into(),
        id: id.into(),
        status: status.into(),
        reported: reported.into(),
        host: parse_host(address),
        port: enabled_port(entry.port.as_ref()),
        secure_port: enabled_port(entry.secure_port.as_ref()),
        zone,
        metadata,
    };
    Ok((action, registered))
}

/// The port of `{"$": 8080, "@enabled": "true"}`; none if it is not enabled.
fn enabled_port(value: Option<&Value>) -> Option<Result<u16, String>> {
    let value = value?;
    let is_enabled = match value.get("@enabled") {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => text == "true",
        _ => false,
    };
    is_enabled.then(|| port(value.get("$")))
}

/// The availability zone of an instance in Amazon's cloud.
fn amazon_zone(info: Option<&Value>) -> Option<Box<str>> {
    let zone = info?.get("metadata")?.get("availability-zone")?.as_str()?;
    Some(zone.into())
}

/// Limits of the hash code and of names: Eureka's statuses are few, and its ids are host, name and port.
const MAX_HASH_BYTES: usize = 256;
const MAX_NAME_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: &Value) -> Applications {
        applications(answer.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn hostile_answers_are_failures() {
        let flat = |count: usize| format!("[{}0]", "[0],".repeat(count));
        let answer = |instances: &str| {
            format!(r#"{{"applications":{{"application":[{{"name":"A","instance":{instances}}}]}}}}"#)
        };
        let metadata = |count: usize| format!(r#"[{{"instanceId":"a","metadata":{{"a":{}}}}}]"#, flat(count));
        let error = applications(answer(&metadata(60_000)).as_bytes()).unwrap_err();
        assert!(error.contains("100000 values"), "{error}");
        let error = applications(answer(&metadata(2_000_000)).as_bytes()).unwrap_err();
        assert!(error.contains("4000000 values"), "{error}");
        let error = applications(answer(&format!("[{}1]", "{},".repeat(300_000))).as_bytes()).unwrap_err();
        assert!(error.contains("200000 elements"), "{error}");
    }

    #[test]
    fn instances_are_read_with_ports_and_zone() {
        let all = read(
            &json!({"applications": {"versions__delta": "1", "apps__hashcode": "UP_1_", "application": [
                {"name": "orders", "instance": [{
                    "instanceId": "h:orders:8080", "hostName": "h", "app": "ORDERS", "ipAddr": "10.0.0.1", "status": "UP",
                    "overriddenStatus": "UNKNOWN", "port": {"$": 8080, "@enabled": "true"},
                    "securePort": {"$": 443, "@enabled": "false"}, "metadata": {"zone": "z1", "weight": "7"},
                    "dataCenterInfo": {"name": "Amazon", "metadata": {"availability-zone": "z2"}}, "actionType": "ADDED"}]}
            ]}}),
        );
        assert_eq!(all.hash.as_deref(), Some("UP_1_"));
        let (action, instance) = &all.instances[0];
        assert_eq!((*action, &*instance.application, &*instance.status), (EurekaAction::Put, "ORDERS", "UP"));
        assert_eq!((&instance.port, &instance.secure_port), (&Some(Ok(8080)), &None));
        assert_eq!(instance.zone.as_deref(), Some("z1"));
    }

    #[test]
    fn single_objects_stand_for_lists() {
        let all = read(&json!({"applications": {"application": {"name": "A", "instance": {
            "hostName": "h", "ipAddr": "10.0.0.1", "status": "UP", "port": {"$": "80", "@enabled": true}}}}}));
        assert_eq!(all.instances.len(), 1);
        assert_eq!(&*all.instances[0].1.id, "h");
        assert!(read(&json!({"applications": {"application": []}})).instances.is_empty());
    }

    #[test]
    fn override_decides_the_status() {
        let all = read(&json!({"applications": {"application": [{"name": "A", "instance": [
            {"instanceId": "1", "ipAddr": "10.0.0.1", "status": "UP", "overriddenstatus": "OUT_OF_SERVICE"},
            {"instanceId": "2", "ipAddr": "10.0.0.2", "status": "UP", "actionType": "DELETED"}]}]}}));
        assert_eq!(&*all.instances[0].1.status, "OUT_OF_SERVICE");
        assert_eq!(&*all.instances[0].1.reported, "UP");
        assert_eq!(all.instances[1].0, EurekaAction::Delete);
    }

    #[test]
    fn faulty_entries_are_counted() {
        let all = read(&json!({"applications": {"application": [{"name": "A", "instance": [7, 
            {"status": "UP"}, {"instanceId": 7}, {"instanceId": "1", "ipAddr": "a b", "status": "UP"}]}]}}));
        assert_eq!((all.faulty["A"].count, all.faulty.len(), all.instances.len()), (3, 1, 1));
        assert!(all.instances[0].1.host.is_err());
        for text in [
            "",
            "{}",
            "<applications/>",
            "{\"applications\":{}}",
            "{\"applications\":[]}",
            "{\"applications\":{\"application\":[7]}}",
            "{\"applications\":7}",
            "{\"applications\":{\"application\":[{",
        ] {
            assert!(applications(text.as_bytes()).is_err(), "{text}");
        }
    }
}
