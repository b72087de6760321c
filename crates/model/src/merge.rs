//! Which plugins are in force where: whole plugin objects win over those of lesser places (contract section
//! 2.5). Pure functions over [`Plugins`]; knows no order of running and no chain.

use serde_json::Value;

use crate::resource::{Plugin, Plugins};

/// Where a plugin object was written. A later one of this list wins over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// On the service.
    Service,
    /// On the plugin config.
    PluginConfig,
    /// On the route.
    Route,
    /// On the consumer's group.
    ConsumerGroup,
    /// On the consumer.
    Consumer,
}

/// A plugin in force, and where it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effective<'a> {
    /// The plugin's name.
    pub name: &'a str,
    /// Its configuration.
    pub config: &'a Value,
    /// Where it was written.
    pub provenance: Provenance,
}

/// The plugins of a route before a consumer is authenticated: route over plugin config over service. In the
/// order first written, service first.
#[must_use]
pub fn route_plugins<'a>(
    route: &'a Plugins,
    plugin_config: Option<&'a Plugins>,
    service: Option<&'a Plugins>,
) -> Vec<Effective<'a>> {
    let mut merged = Vec::new();
    overlay(&mut merged, service, Provenance::Service);
    overlay(&mut merged, plugin_config, Provenance::PluginConfig);
    overlay(&mut merged, Some(route), Provenance::Route);
    merged
}

/// The plugins of a route for one consumer: consumer over consumer group over those of the route.
#[must_use]
pub fn consumer_plugins<'a>(
    route: &[Effective<'a>],
    consumer: &'a Plugins,
    consumer_group: Option<&'a Plugins>,
) -> Vec<Effective<'a>> {
    let mut merged = route.to_vec();
    overlay(&mut merged, consumer_group, Provenance::ConsumerGroup);
    overlay(&mut merged, Some(consumer), Provenance::Consumer);
    merged
}

/// The plugins of all global rules, each with the index of its rule; of a plugin in two rules only the first
/// counts.
pub fn global_plugins<'a>(rules: impl IntoIterator<Item = &'a Plugins>) -> Vec<(usize, &'a Plugin)> {
    let mut merged: Vec<(usize, &Plugin)> = Vec::new();
    for (rule, plugins) in rules.into_iter().enumerate() {
        for plugin in plugins {
            if merged.iter().all(|(_, earlier)| earlier.name != plugin.name) {
                merged.push((rule, plugin));
            }
        }
    }
    merged
}

fn overlay<'a>(merged: &mut Vec<Effective<'a>>, plugins: Option<&'a Plugins>, provenance: Provenance) {
    for plugin in plugins.into_iter().flatten() {
        let effective = Effective { name: &plugin.name, config: &plugin.config, provenance };
        match merged.iter_mut().find(|present| present.name == effective.name) {
            Some(present) => *present = effective,
            None => merged.push(effective),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plugins(names: &str, mark: i64) -> Plugins {
        let plugin = |name: &str| Plugin { name: name.into(), config: json!({ "mark": mark }) };
        Plugins::new(names.split_whitespace().map(plugin).collect())
    }

    fn check(merged: &[Effective<'_>], expected: &[(&str, i64, Provenance)]) {
        let found: Vec<_> = merged
            .iter()
            .map(|effective| {
                (effective.name, effective.config["mark"].as_i64().unwrap(), effective.provenance)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn whole_objects_win() {
        let (service, config, route) = (plugins("a b c", 1), plugins("b c", 2), plugins("c d", 3));
        let merged = route_plugins(&route, Some(&config), Some(&service));
        check(
            &merged,
            &[
                ("a", 1, Provenance::Service),
                ("b", 2, Provenance::PluginConfig),
                ("c", 3, Provenance::Route),
                ("d", 3, Provenance::Route),
            ],
        );
        let (group, consumer) = (plugins("a e", 4), plugins("e", 5));
        check(
            &consumer_plugins(&merged, &consumer, Some(&group)),
            &[
                ("a", 4, Provenance::ConsumerGroup),
                ("b", 2, Provenance::PluginConfig),
                ("c", 3, Provenance::Route),
                ("d", 3, Provenance::Route),
                ("e", 5, Provenance::Consumer),
            ],
        );
    }

    #[test]
    fn of_a_plugin_in_two_global_rules_the_first_counts() {
        let rules = [plugins("a b", 1), plugins("b c", 2)];
        let merged = global_plugins(&rules);
        let found: Vec<_> = merged.iter().map(|(rule, plugin)| (*rule, &*plugin.name)).collect();
        assert_eq!(found, [(0, "a"), (0, "b"), (1, "c")]);
    }
}
