//! The groups of targets in a text of the `file_sd` format. It reads no file.

use std::collections::BTreeMap;

use model::discovery::ServiceInstance;
use serde_json::Value;

use super::FileServices;

/// The services in `text`; `name` is the service of groups without the label `service`.
///
/// # Errors
/// The line and the reason: a text that is not a list of groups.
pub(super) fn read_target_groups(text: &str, name: &str, weight: u32) -> Result<FileServices, String> {
    let marked = yaml::parse(text).map_err(|fault| format!("line {}: {}", fault.line, fault.reason))?;
    let mut found = FileServices::new();
    let groups = match &marked.value {
        Value::Null => return Ok(found),
        Value::Array(groups) => groups,
        _ => return Err("line 1: not a list of groups `{targets: […], labels: {…}}`".to_owned()),
    };
    for (index, group) in groups.iter().enumerate() {
        let pointer = format!("/{index}");
        let (service, instances) = group_of(group, name, weight)
            .map_err(|reason| format!("line {}: {reason}", marked.line(&pointer)))?;
        found.entry(service).or_default().extend(instances);
    }
    Ok(found)
}

fn group_of(group: &Value, name: &str, weight: u32) -> Result<(Box<str>, Vec<ServiceInstance>), String> {
    let targets = group.get("targets").and_then(Value::as_array).ok_or("a group has a list `targets`")?;
    let labels = match group.get("labels") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(labels)) => labels.iter().map(|(name, value)| (&**name, text_of(value))).collect(),
        Some(_) => return Err("`labels` is a map".to_owned()),
    };
    let number = |label: &str| match labels.get(label) {
        Some(text) => {
            text.parse::<i32>().map(Some).map_err(|_| format!("the label {label} is no whole number"))
        }
        None => Ok(None),
    };
    let weight = match number("__weight__")? {
        Some(own) => u32::try_from(own).map_err(|_| "the label __weight__ is negative".to_owned())?,
        None => weight,
    };
    let priority = number("__priority__")?.unwrap_or(0);
    let service = labels.get("service").map_or(name, |service| service).into();
    let shown = labels.iter().filter(|(name, _)| !name.starts_with("__"));
    let metadata: BTreeMap<Box<str>, Box<str>> =
        shown.map(|(name, value)| ((*name).into(), value.as_str().into())).collect();
    let instance = |target: &Value| {
        // A target that is no HOST:PORT has no host, which is left out with a reason.
        let (host, port) = target.as_str().and_then(split).unwrap_or_default();
        ServiceInstance { host: host.into(), port, weight, priority, metadata: metadata.clone() }
    };
    Ok((service, targets.iter().map(instance).collect()))
}

/// Host and port of a target; port 0 where it names none.
fn split(target: &str) -> Option<(&str, u16)> {
    if let Some(rest) = target.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, port.parse().ok().filter(|port| *port != 0)?)),
            None => rest.is_empty().then_some((host, 0)),
        };
    }
    match target.split_once(':') {
        Some((host, port)) => Some((host, port.parse().ok().filter(|port| *port != 0)?)),
        None => Some((target, 0)),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_become_services() {
        let text = "- targets: ['10.0.0.1:80', '[::1]:81', 'name', 'bad:port', 5]\n  labels: {service: shop, \
                    zone: a, __weight__: 3, __priority__: '-1'}\n- targets: [b:1]\n";
        let found = read_target_groups(text, "file", 9).unwrap();
        let shop: Vec<(&str, u16, u32, i32)> =
            found["shop"].iter().map(|one| (&*one.host, one.port, one.weight, one.priority)).collect();
        let expected = [("10.0.0.1", 80), ("::1", 81), ("name", 0), ("", 0), ("", 0)];
        assert_eq!(shop, expected.map(|(host, port)| (host, port, 3, -1)));
        assert_eq!(&*found["shop"][0].metadata["zone"], "a");
        assert!(!found["shop"][0].metadata.contains_key("__weight__"));
        assert_eq!(found["file"][0].weight, 9);
    }

    #[test]
    fn faulty_texts_are_refused_with_line() {
        let check = |text: &str, reason: &str| {
            let found = read_target_groups(text, "file", 1).unwrap_err();
            assert!(found.contains(reason), "{text}: {found}");
        };
        check("{}", "not a list of groups");
        check("- targets: [a]\n- labels: {}\n", "line 2: a group has a list `targets`");
        check("- {targets: [a], labels: 3}", "`labels` is a map");
        check("- {targets: [a], labels: {__weight__: x}}", "no whole number");
        check("- {targets: [a], labels: {__weight__: -1}}", "negative");
        check("- [", "line");
        assert!(read_target_groups("", "file", 1).unwrap().is_empty());
    }
}
