//! The settings of a Redis, as plugins are configured with them: the names and defaults are APISIX's. It
//! opens no connection.

use exchange::plugin::outbound::{OutboundTls, check_place};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes, words};

/// A Redis and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisSettings {
    /// The servers.
    pub(crate) topology: RedisTopology,
    /// The user of the access list; without one, the password is that of the default user.
    pub(crate) username: Option<Box<str>>,
    /// The password; none: connections do not log in.
    pub(crate) password: Option<Box<str>>,
    /// The number of the database; 0 in a cluster.
    pub(crate) database: u64,
    /// Whether connections are encrypted, and whether the certificate is verified; none: cleartext.
    pub(crate) tls_verifies: Option<bool>,
    /// Milliseconds for opening a connection.
    pub(crate) connect_timeout_ms: u64,
    /// Milliseconds for a reply.
    pub(crate) reply_timeout_ms: u64,
    /// Milliseconds that a connection is kept without use.
    pub(crate) idle_timeout_ms: u64,
    /// The most connections that are kept by each worker; commands share a few.
    pub(crate) pool: u32,
}

/// The servers of a Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedisTopology {
    /// One server, `HOST:PORT`.
    Single(String),
    /// A cluster, some nodes of which are known.
    Cluster(Vec<String>),
    /// A master that sentinels watch.
    Sentinel {
        /// The places of the sentinels.
        sentinels: Vec<String>,
        /// The name by which they know the master.
        master: Box<str>,
        /// Use a replica instead of the master.
        uses_replica: bool,
        /// The user of the sentinels' access list.
        username: Option<Box<str>>,
        /// The sentinels' password.
        password: Option<Box<str>>,
    },
}

/// `HOST:PORT`, an IPv6 address in brackets.
pub(crate) fn format_host_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

attributes! {
    /// The attributes of the policies `redis` and `redis-cluster`.
    pub(crate) struct RedisFields {
        /// The host of the Redis server, for policy redis.
        redis_host: Option<String>, { "minLength": 2 };
        /// The port of the Redis server.
        redis_port: u16 = 6_379, { "minimum": 1, "maximum": 65_535 };
        /// The user of Redis' access list; without one, redis_password is the password of the default user.
        redis_username: Option<Box<str>>, { "minLength": 1 };
        /// The password.
        redis_password: Option<Box<str>>, { "minLength": 0 };
        /// The number of the database.
        redis_database: u64 = 0, { "minimum": 0 };
        /// Milliseconds until a connection is open, and until a reply has come.
        redis_timeout: u64 = 1_000, { "minimum": 1, "maximum": TIMEOUT_MAX_MS };
        /// Whether connections are encrypted, for policy redis.
        redis_ssl: bool = false;
        /// Whether the server's certificate is verified, for policy redis.
        redis_ssl_verify: bool = false;
        /// Milliseconds a connection is kept without use.
        redis_keepalive_timeout: Option<u64>, { "minimum": 1, "default": 10_000 };
        /// The most connections kept by each worker; commands share up to four.
        redis_keepalive_pool: u32 = 100, { "minimum": 1 };
        /// Nodes of the cluster, HOST:PORT, for policy redis-cluster; the others are found through them.
        redis_cluster_nodes: Option<Vec<ClusterNode>>, { "minItems": 1 };
        /// The name of the cluster.
        redis_cluster_name: Option<String>;
        /// Whether connections are encrypted, for policy redis-cluster.
        redis_cluster_ssl: bool = false;
        /// Whether the nodes' certificates are verified, for policy redis-cluster.
        redis_cluster_ssl_verify: bool = false;
    }
}

attributes! {
    /// The further attributes of the policy `redis-sentinel`.
    pub(crate) struct SentinelFields {
        /// The sentinels, for policy redis-sentinel.
        redis_sentinels: Option<Vec<SentinelPlace>>, { "minItems": 1 };
        /// The name by which the sentinels know the master.
        redis_master_name: Option<Box<str>>, { "minLength": 1 };
        /// The server that is used: the master, or a replica, which takes no writes.
        redis_role: RedisRole = RedisRole::Master;
        /// Milliseconds until a connection is open, for policy redis-sentinel.
        redis_connect_timeout: u64 = 1_000, { "minimum": 1, "maximum": TIMEOUT_MAX_MS };
        /// Milliseconds until a reply has come, for policy redis-sentinel.
        redis_read_timeout: u64 = 1_000, { "minimum": 1, "maximum": TIMEOUT_MAX_MS };
        /// The user of the sentinels' access list.
        sentinel_username: Option<Box<str>>, { "minLength": 1 };
        /// The sentinels' password.
        sentinel_password: Option<Box<str>>, { "minLength": 0 };
    }
}

attributes! {
    /// Where a sentinel is.
    pub(crate) struct SentinelPlace {
        /// The host.
        host: String, { "minLength": 2 };
        /// The port.
        port: u16, { "minimum": 1, "maximum": 65_535 };
    }
    { "additionalProperties": false }
}

words! {
    /// The server of a master and its replicas.
    pub(crate) enum RedisRole {
        Master = "master",
        Slave = "slave",
    }
}

/// A node of a cluster, as written.
pub(crate) struct ClusterNode(String);

impl Attribute for ClusterNode {
    fn schema() -> Value {
        json!({ "type": "string", "minLength": 2, "maxLength": 100 })
    }

    fn read(written: Value) -> Result<Self, String> {
        String::read(written).map(ClusterNode)
    }

    fn write(&self) -> Value {
        self.0.write()
    }
}

/// Further waiting would exceed the time of a phase.
const TIMEOUT_MAX_MS: u64 = 20_000;
/// The least time that a connection is kept, but for sentinels, and the default there.
const IDLE_MIN_MS: u64 = 1_000;
const IDLE_DEFAULT_MS: u64 = 10_000;
const IDLE_SENTINEL_DEFAULT_MS: u64 = 60_000;

/// Adds the attributes to the schema of a plugin with an attribute `policy`, and those that each policy
/// requires.
pub(crate) fn add_to_schema(schema: &mut Value, with_sentinel: bool) {
    let is =
        |policy: &str| json!({ "properties": { "policy": { "enum": [policy] } }, "required": ["policy"] });
    let mut parts = vec![RedisFields::schema()];
    let mut cluster = json!({
        "if": is("redis-cluster"),
        "then": { "required": ["redis_cluster_nodes", "redis_cluster_name"] },
    });
    schema["encrypt_fields"] = json!(["redis_password"]);
    if with_sentinel {
        parts.push(SentinelFields::schema());
        schema["encrypt_fields"] = json!(["redis_password", "sentinel_password"]);
        cluster["else"] = json!({
            "if": is("redis-sentinel"),
            "then": { "required": ["redis_sentinels", "redis_master_name"] },
        });
    }
    schema["if"] = is("redis");
    schema["then"] = json!({ "required": ["redis_host"] });
    schema["else"] = cluster;
    for mut part in parts {
        if let (Some(own), Value::Object(further)) =
            (schema["properties"].as_object_mut(), part["properties"].take())
        {
            own.extend(further);
        }
    }
}

impl RedisFields {
    /// The settings of a single server.
    ///
    /// # Errors
    /// The misfit, as a sentence.
    pub(crate) fn single(self) -> Result<RedisSettings, String> {
        let host = self.redis_host.as_deref().ok_or("redis_host is needed")?;
        let place = format_host_port(host, self.redis_port);
        checked("redis_host", &place)?;
        let tls_verifies = self.redis_ssl.then_some(self.redis_ssl_verify);
        let database = self.redis_database;
        self.settings(RedisTopology::Single(place), tls_verifies, database)
    }

    /// The settings of a cluster.
    ///
    /// # Errors
    /// The misfit, as a sentence.
    pub(crate) fn cluster(mut self) -> Result<RedisSettings, String> {
        let nodes = self.redis_cluster_nodes.take().unwrap_or_default();
        if nodes.is_empty() {
            return Err("redis_cluster_nodes is needed".to_owned());
        }
        let nodes: Vec<String> = nodes.into_iter().map(|node| node.0).collect();
        for node in &nodes {
            checked("redis_cluster_nodes", node)?;
        }
        // As in APISIX, a cluster is logged in to by password alone, and has one database.
        self.redis_username = None;
        let tls_verifies = self.redis_cluster_ssl.then_some(self.redis_cluster_ssl_verify);
        self.settings(RedisTopology::Cluster(nodes), tls_verifies, 0)
    }

    /// The settings of a master that sentinels watch.
    ///
    /// # Errors
    /// The misfit, as a sentence.
    pub(crate) fn sentinel(self, sentinel: SentinelFields) -> Result<RedisSettings, String> {
        let sentinels: Vec<String> = sentinel
            .redis_sentinels
            .unwrap_or_default()
            .iter()
            .map(|sentinel| format_host_port(&sentinel.host, sentinel.port))
            .collect();
        if sentinels.is_empty() {
            return Err("redis_sentinels is needed".to_owned());
        }
        for place in &sentinels {
            checked("redis_sentinels", place)?;
        }
        let topology = RedisTopology::Sentinel {
            sentinels,
            master: sentinel.redis_master_name.ok_or("redis_master_name is needed")?,
            uses_replica: sentinel.redis_role == RedisRole::Slave,
            username: sentinel.sentinel_username,
            password: sentinel.sentinel_password.filter(|password| !password.is_empty()),
        };
        let idle_timeout_ms = self.redis_keepalive_timeout.unwrap_or(IDLE_SENTINEL_DEFAULT_MS);
        let database = self.redis_database;
        let settings =
            RedisFields { redis_keepalive_timeout: None, ..self }.settings(topology, None, database)?;
        Ok(RedisSettings {
            connect_timeout_ms: sentinel.redis_connect_timeout,
            reply_timeout_ms: sentinel.redis_read_timeout,
            idle_timeout_ms,
            ..settings
        })
    }

    fn settings(
        self,
        topology: RedisTopology,
        tls_verifies: Option<bool>,
        database: u64,
    ) -> Result<RedisSettings, String> {
        let idle_timeout_ms = self.redis_keepalive_timeout.unwrap_or(IDLE_DEFAULT_MS);
        if idle_timeout_ms < IDLE_MIN_MS {
            return Err(format!("redis_keepalive_timeout must be at least {IDLE_MIN_MS}"));
        }
        // The name of a cluster is a label for people.
        let _ = self.redis_cluster_name;
        Ok(RedisSettings {
            topology,
            username: self.redis_username,
            // As in APISIX, an empty password is none.
            password: self.redis_password.filter(|password| !password.is_empty()),
            database,
            tls_verifies,
            connect_timeout_ms: self.redis_timeout,
            reply_timeout_ms: self.redis_timeout,
            idle_timeout_ms,
            pool: self.redis_keepalive_pool,
        })
    }
}

impl RedisSettings {
    /// The TLS settings of connections; none in cleartext.
    pub(super) fn tls(&self) -> Option<OutboundTls> {
        self.tls_verifies.map(OutboundTls::verifying)
    }
}

fn checked(attribute: &str, place: &str) -> Result<(), String> {
    if crate::shared::config::is_reference(place) {
        return Ok(());
    }
    check_place(place).map_err(|reason| format!("{attribute}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_brackets_where_needed() {
        let places = [("h", "h:1"), ("10.0.0.1", "10.0.0.1:1"), ("::1", "[::1]:1"), ("[::1]", "[::1]:1")];
        for (host, expected) in places {
            assert_eq!(format_host_port(host, 1), expected);
        }
    }

    #[test]
    fn single_server_has_the_defaults_of_apisix() {
        let fields = RedisFields::read(json!({ "redis_host": "127.0.0.1", "redis_password": "" })).unwrap();
        let expected = RedisSettings {
            topology: RedisTopology::Single("127.0.0.1:6379".to_owned()),
            username: None,
            password: None,
            database: 0,
            tls_verifies: None,
            connect_timeout_ms: 1_000,
            reply_timeout_ms: 1_000,
            idle_timeout_ms: 10_000,
            pool: 100,
        };
        assert_eq!(fields.single(), Ok(expected));
        let written =
            json!({ "redis_host": "h1", "redis_ssl": true, "redis_ssl_verify": true, "redis_database": 2 });
        let settings = RedisFields::read(written).unwrap().single().unwrap();
        assert_eq!((settings.tls_verifies, settings.database), (Some(true), 2));
    }

    #[test]
    fn cluster_and_sentinel_read_their_own_fields() {
        let written =
            json!({ "redis_cluster_nodes": ["a:1", "b:2"], "redis_cluster_name": "c", "redis_database": 3 });
        let settings = RedisFields::read(written).unwrap().cluster().unwrap();
        assert_eq!(settings.topology, RedisTopology::Cluster(vec!["a:1".to_owned(), "b:2".to_owned()]));
        assert_eq!(settings.database, 0);
        let sentinel = json!({ "redis_sentinels": [{"host": "::1", "port": 5}], "redis_master_name": "m" });
        let sentinel = SentinelFields::read(sentinel).unwrap();
        let settings = RedisFields::read(json!({})).unwrap().sentinel(sentinel).unwrap();
        assert_eq!((settings.idle_timeout_ms, settings.reply_timeout_ms), (60_000, 1_000));
        let misfits = [json!({ "redis_cluster_nodes": ["a"] }), json!({ "redis_cluster_nodes": [] })];
        for written in misfits {
            assert!(
                RedisFields::read(written).unwrap().cluster().unwrap_err().contains("redis_cluster_nodes")
            );
        }
        let short = json!({ "redis_host": "h1", "redis_keepalive_timeout": 5 });
        assert!(RedisFields::read(short).unwrap().single().unwrap_err().contains("at least 1000"));
    }
}
