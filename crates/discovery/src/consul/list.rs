//! The list of all services of Consul, followed by a blocking query, where routes are made of them.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

use super::{Agent, ConsulPosition, parameters};
use crate::Services;
use crate::auto_routes::Names;
use crate::parts::read_names;

/// Follows the list without end; ends at once where no routes are made of it.
pub(super) async fn follow_consul_services(agent: &Agent, services: &Services) {
    let Some(of) = services.list_of() else { return };
    let target = format!("/v1/catalog/services?stale=1{}", parameters(&of));
    let mut position = ConsulPosition::default();
    loop {
        let answer = agent.next(&target, &mut position, true).await;
        let names = answer.and_then(|body| match body {
            Some(body) => names(&body),
            None => Err("status 404: it is no Consul agent".to_owned()),
        });
        match names {
            Ok(mut names) => {
                names.retain(|name| !agent.skips(name));
                services.listed(names);
                agent.pause_after_answer(&position, true).await;
            }
            Err(reason) => {
                services.list_failed(&reason);
                position = ConsulPosition { index: 0, ..position };
                agent.pause_after_failure(&mut position).await;
            }
        }
    }
}

/// The names of an answer: an object with the tags of each service.
fn names(body: &[u8]) -> Result<Names, String> {
    let all: BTreeMap<Box<str>, IgnoredAny> =
        read_names(body).map_err(|error| format!("no list of services: {error}"))?;
    Ok(all.into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn names_are_read_without_tags() {
        let read = names(br#"{"consul":[],"web":["a","b"]}"#).unwrap();
        assert_eq!(read.iter().map(|name| &**name).collect::<Vec<_>>(), ["consul", "web"]);
        assert!(names(b"[]").unwrap_err().starts_with("no list of services"));
    }
}
