//! Consumers as authentication finds them: by plugin and key. A consumer carries the compiled plugins that it
//! and its group add to a route's chain.

use std::collections::HashMap;
use std::sync::Arc;

use stdx::persistent::ShardedMap;

use exchange::exchange::Consumer;
use exchange::plugin::chain::PluginInstance;

/// The plugins that a consumer and its group add to a route's; [`Consumer::attached`] holds it.
#[derive(Default)]
pub struct ConsumerPlugins {
    /// Their compiled plugins.
    pub plugins: Arc<[Arc<PluginInstance>]>,
    /// Plugins that they disable: the consumer's setting takes precedence over the route's, so the plugin
    /// does not run.
    pub disabled: Arc<[&'static str]>,
}

impl ConsumerPlugins {
    /// The plugins of `consumer`; none if nothing is attached to it.
    pub(crate) fn of(consumer: &Consumer) -> Option<&ConsumerPlugins> {
        let plugins: &ConsumerPlugins = consumer.attached.as_deref()?.downcast_ref()?;
        (!plugins.plugins.is_empty() || !plugins.disabled.is_empty()).then_some(plugins)
    }
}

/// All consumers. Cheap to clone; a change copies only the entries that it changes.
#[derive(Clone, Default)]
pub struct Consumers {
    by_plugin: HashMap<&'static str, ShardedMap<Box<str>, Arc<Consumer>>>,
    by_name: ShardedMap<Arc<str>, Arc<Consumer>>,
}

impl Consumers {
    /// The consumer that presents `key` to `plugin`.
    pub fn find(&self, plugin: &str, key: &str) -> Option<&Arc<Consumer>> {
        self.by_plugin.get(plugin)?.get(key)
    }

    /// The consumer of that name, found without a credential: an anonymous request counts as this one.
    pub fn named(&self, username: &str) -> Option<&Arc<Consumer>> {
        self.by_name.get(username)
    }

    /// Whether any consumer has a credential for `plugin`.
    pub fn any(&self, plugin: &str) -> bool {
        self.by_plugin.get(plugin).is_some_and(|consumers| !consumers.is_empty())
    }

    /// Adds or replaces an entry.
    pub(crate) fn insert(&mut self, plugin: &'static str, key: &str, consumer: Arc<Consumer>) {
        self.by_plugin.entry(plugin).or_default().insert(key.into(), consumer);
    }

    /// Adds or replaces the consumer of that name.
    pub(crate) fn insert_named(&mut self, consumer: Arc<Consumer>) {
        self.by_name.insert(consumer.username.clone(), consumer);
    }

    /// Removes the consumer of that name.
    pub(crate) fn remove_named(&mut self, username: &str) {
        self.by_name.remove(username);
    }

    /// Removes all entries of `owner`, which are looked for among those of all consumers.
    pub(crate) fn remove_all_of(&mut self, owner: &str) {
        for consumers in self.by_plugin.values_mut() {
            let own = consumers.iter().filter(|(_, consumer)| &*consumer.username == owner);
            let own: Vec<Box<str>> = own.map(|(key, _)| key.clone()).collect();
            for key in own {
                consumers.remove(&*key);
            }
        }
    }

    /// Removes an entry, if it is still the one of `owner`.
    pub(crate) fn remove(&mut self, plugin: &str, key: &str, owner: &str) {
        if let Some(consumers) = self.by_plugin.get_mut(plugin)
            && consumers.get(key).is_some_and(|consumer| &*consumer.username == owner)
        {
            consumers.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use exchange::testing::consumer;

    use super::*;

    fn with_consumers(count: usize) -> Consumers {
        let mut consumers = Consumers::default();
        for number in 0..count {
            consumers.insert("key-auth", &format!("key-{number}"), Arc::new(consumer("jack")));
        }
        consumers
    }

    /// The shortest time of many runs of as many look-ups.
    fn time(consumers: &Consumers, count: usize) -> Duration {
        let keys: Vec<String> = (0..200).map(|number| format!("key-{}", number * 7 % count)).collect();
        let run = || {
            let began = Instant::now();
            let found = keys.iter().filter(|key| consumers.find("key-auth", key).is_some()).count();
            assert_eq!(found, keys.len());
            assert!(consumers.find("key-auth", "none").is_none());
            began.elapsed()
        };
        (0..100).map(|_| run()).min().expect("there are runs")
    }

    /// A search through all consumers would take thousands of times as long.
    #[test]
    fn look_up_is_as_fast_with_100_000_as_with_10() {
        let (few, many) = (time(&with_consumers(10), 10), time(&with_consumers(100_000), 100_000));
        assert!(many < few * 20, "{few:?} {many:?}");
    }
}
