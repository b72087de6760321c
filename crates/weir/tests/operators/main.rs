//! Files for operators against the real programs: the Helm chart and the manifests of Kubernetes, Grafana's
//! dashboards, the rules of Prometheus, and the examples of log collectors.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod alerts;
mod chart;
mod chart_run;
mod dashboards;
mod live;
mod log_shipping;
mod manifests;
mod stage;
mod support;
