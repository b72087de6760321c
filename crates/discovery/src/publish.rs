//! Passes the state of a service on to the upstreams that follow it: the filter by metadata, and the reason
//! of instances that are left out. It also holds the pause between attempts. It does not know the registries.

use std::time::{Duration, Instant};

use model::discovery::{SCHEME_ARGUMENT, ServiceInstance, ServiceKey};
use serde_json::Value;

use super::Services;

/// The state of a service in its registry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServiceLookup {
    /// The registry does not know it.
    Unknown,
    /// Its instances, and the reason why others are left out.
    Instances(Vec<ServiceInstance>, Option<String>),
}

/// Passes on the state of a service, or the reason why it cannot be known.
pub(super) fn publish(services: &Services, key: &ServiceKey, found: Result<ServiceLookup, String>) {
    let (instances, reason) = match found {
        Ok(ServiceLookup::Instances(instances, reason)) => (instances, reason),
        Ok(ServiceLookup::Unknown) => return services.unknown(key),
        Err(reason) => return services.failed(Some(key), &reason),
    };
    match filter(key) {
        Ok(Some(filter)) => {
            let (matching, reason) = filter.apply(instances, reason);
            services.answer_with(key, matching, reason);
        }
        Ok(None) => services.answer_with(key, instances, reason),
        Err(reason) => services.failed(Some(key), &reason),
    }
}

/// Values that the metadata of an instance must have.
#[derive(Debug)]
struct MetadataFilter(Vec<(String, String)>);

impl MetadataFilter {
    /// The matching instances. If there are none among some, the reason says so.
    fn apply(
        &self,
        all: Vec<ServiceInstance>,
        reason: Option<String>,
    ) -> (Vec<ServiceInstance>, Option<String>) {
        let count = all.len();
        let matching: Vec<ServiceInstance> =
            all.into_iter().filter(|instance| self.matches(instance)).collect();
        if count == 0 || !matching.is_empty() {
            return (matching, reason);
        }
        let unmatched = format!("none of its {count} instances has the metadata of discovery_args");
        let reason = reason.map(|reason| format!("{unmatched}; {reason}")).unwrap_or(unmatched);
        (matching, Some(reason))
    }

    fn matches(&self, instance: &ServiceInstance) -> bool {
        self.0
            .iter()
            .all(|(name, value)| instance.metadata.get(name.as_str()).map(|text| &**text) == Some(value))
    }
}

/// The filter of `discovery_args.metadata`.
fn filter(key: &ServiceKey) -> Result<Option<MetadataFilter>, String> {
    let Some(text) = key.args.get("metadata") else { return Ok(None) };
    let fault = || "discovery_args.metadata is no object of texts".to_owned();
    let fields: Value = serde_json::from_str(text).map_err(|_| fault())?;
    let fields = fields.as_object().ok_or_else(fault)?;
    let pair = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok((name.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((name.clone(), value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(fault()),
    };
    Ok(Some(MetadataFilter(fields.iter().map(pair).collect::<Result<_, _>>()?)))
}

/// Whether the upstream of a service speaks TLS, so that the port with TLS is wanted.
pub(super) fn is_secure(key: &ServiceKey) -> bool {
    key.args.get(SCHEME_ARGUMENT).is_some_and(|scheme| matches!(&**scheme, "https" | "grpcs" | "tls"))
}

/// Whether the upstream of a service speaks gRPC.
pub(super) fn is_grpc(key: &ServiceKey) -> bool {
    key.args.get(SCHEME_ARGUMENT).is_some_and(|scheme| matches!(&**scheme, "grpc" | "grpcs"))
}

/// The pause before the next attempt: doubled with each failure in a row, so that a registry that is down is
/// not asked without end.
#[derive(Debug)]
pub(super) struct RegistryBackoff(Duration);

impl Default for RegistryBackoff {
    fn default() -> RegistryBackoff {
        RegistryBackoff(FIRST_PAUSE)
    }
}

impl RegistryBackoff {
    /// Waits.
    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    /// The length of the next pause, for a caller that waits by itself.
    pub(super) fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(LONGEST_PAUSE);
        now
    }

    /// Begins again with the shortest pause if the attempt that began at `started` has lasted for some
    /// seconds. After a shorter one the pause grows, even if its first answer was good, because such attempts
    /// would follow each other quickly.
    pub(super) fn reset_after(&mut self, started: Instant) {
        if started.elapsed() > LASTING {
            self.reset();
        }
    }

    /// Begins again with the shortest pause, after a success.
    pub(super) fn reset(&mut self) {
        self.0 = FIRST_PAUSE;
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Attempts that last longer do not follow each other quickly.
const LASTING: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(metadata: &str) -> ServiceKey {
        let mut key = ServiceKey::new("eureka", "a");
        key.args.insert("metadata".into(), metadata.into());
        key
    }

    #[test]
    fn filter_compares_all_fields() {
        let mut instance = ServiceInstance::default();
        instance.metadata.insert("zone".into(), "a".into());
        instance.metadata.insert("version".into(), "2".into());
        for (written, is_match) in [
            ("{}", true),
            (r#"{"zone":"a"}"#, true),
            (r#"{"zone":"a","version":2}"#, true),
            (r#"{"zone":"b"}"#, false),
            (r#"{"zone":"a","rack":"1"}"#, false),
        ] {
            assert_eq!(filter(&key(written)).unwrap().unwrap().matches(&instance), is_match, "{written}");
        }
        for written in ["", "[]", "7", r#"{"zone":["a"]}"#] {
            assert!(filter(&key(written)).is_err(), "{written}");
        }
        assert!(filter(&ServiceKey::new("eureka", "a")).unwrap().is_none());
    }

    #[test]
    fn filter_without_a_match_gives_the_reason() {
        let filter = filter(&key(r#"{"zone":"a"}"#)).unwrap().unwrap();
        let (none, reason) =
            filter.apply(vec![ServiceInstance::default()], Some("a port is left out".to_owned()));
        assert!(none.is_empty());
        let expected = "none of its 1 instances has the metadata of discovery_args; a port is left out";
        assert_eq!(reason.as_deref(), Some(expected));
        assert_eq!(filter.apply(Vec::new(), None), (Vec::new(), None));
    }

    #[test]
    fn scheme_decides_the_port() {
        let of = |scheme: &str| {
            let mut key = ServiceKey::new("eureka", "a");
            key.args.insert("scheme".into(), scheme.into());
            (is_secure(&key), is_grpc(&key))
        };
        assert_eq!(
            [of("http"), of("https"), of("grpc"), of("grpcs")].map(|(secure, _)| secure),
            [false, true, false, true]
        );
        assert!(of("grpcs").1 && !of("https").1);
    }
}
