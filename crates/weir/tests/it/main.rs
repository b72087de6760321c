//! Integration tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod admin;
mod admin_settings;
mod authorization;
mod binary_upgrade;
mod bodies;
mod body_variables;
mod changes;
mod cli;
mod client_address;
mod clients;
mod command;
mod configs;
mod connections;
mod etcd;
mod exhaustion;
mod file_source;
mod framing;
mod hardening;
mod listeners;
mod load;
mod loggers;
mod names;
mod observability;
mod plan;
mod plugins_live;
mod protection;
mod requests;
mod rewriting;
mod routing;
mod slow_clients;
mod start;
mod store;
mod support;
mod upgrades;
mod upstreams;
