//! Peers for the integration tests: scripted origins, a byte-exact client, the real binary, and the real
//! servers beside it, such as nginx, HAProxy, etcd, Redis, Pebble, Keycloak, OpenLDAP, Kafka, Mosquitto and
//! Prometheus.
//!
//! The crate has threads, blocking sockets and an HTTP/1 reader of its own. It uses nothing of the gateway,
//! because a peer with the same parser would have the same mistakes. Helpers panic with a message, because a
//! test cannot handle their errors.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod authority;
mod browser;
mod certificates;
mod clickhouse;
mod client;
mod counted_task;
pub mod dnsmasq;
mod etcd;
mod foreign;
mod graphql_server;
mod haproxy;
mod kafka;
mod keycloak;
mod log_service;
mod mosquitto;
mod nginx;
mod opa;
mod openid_provider;
mod opensearch;
mod origin;
mod otelcol;
mod pebble;
pub mod plugin_runner;
mod process;
mod prometheus;
mod redis;
mod relay;
mod rsyslog;
mod signal;
mod slapd;
mod tls;
mod tls_front;
mod unread;
mod wait;
mod weir;
mod wire;
mod zipkin;

pub use authority::{Authority, KeyKind, Pair, self_signed};
pub use browser::{Browser, Cookie, Page};
pub use certificates::Certificates;
pub use clickhouse::ClickHouse;
pub use client::{Broken, Client, Response, raw_exchange};
pub use counted_task::CountedTask;
pub use etcd::Etcd;
pub use foreign::free_address;
pub use graphql_server::GraphqlServer;
pub use haproxy::Haproxy;
pub use kafka::{Kafka, KafkaMessage};
pub use keycloak::Keycloak;
pub use log_service::{LogApi, LogFault, LogService};
pub use mosquitto::{Mosquitto, MqttVersion, mqtt_publish, mqtt_subscribe};
pub use nginx::Nginx;
pub use opa::Opa;
pub use openid_provider::OpenidProvider;
pub use opensearch::OpenSearch;
pub use origin::{Origin, Reply, Request, Step};
pub use otelcol::{CollectedSpan, Otelcol};
pub use pebble::{Pebble, PebbleSettings};
pub use prometheus::Prometheus;
pub use redis::{Redis, RedisCluster, RedisSentinels};
pub use relay::Relay;
pub use rsyslog::Rsyslog;
pub use signal::Signal;
pub use slapd::Slapd;
pub use tls::{TlsAnswer, TlsClient};
pub use tls_front::{Handshake, TlsBehaviour, TlsFront};
pub use unread::wait_until_read;
pub use wait::{WAIT_LIMIT, wait_for, wait_until, wait_within};
pub use weir::{ADMIN_KEY, Exited, Successor, Weir, WeirBuilder};
pub use zipkin::Zipkin;
