//! The gateway's plugin kinds as the control side sees them: data, and no way to run them.

use std::borrow::Cow;

use gateway::plugin::{Phase, PluginKind};
use model::Catalog;
use model::catalog::{PluginInfo, RunPolicy, Subsystem};

/// The catalog of the plugins that may be used: those of these names, or all.
pub(crate) fn catalog(usable: Option<&[String]>) -> Catalog {
    let is_usable = |kind: &PluginKind| usable.is_none_or(|names| names.iter().any(|name| name == kind.name));
    let infos = plugins::ALL.iter().filter(|kind| is_usable(kind)).map(|kind| info(kind)).collect();
    // A test of the plugins' crate makes the same catalog, so a faulty schema never leaves the workshop.
    Catalog::new(infos).expect("the plugins' schemas compile and their names are unique")
}

fn info(kind: &'static PluginKind) -> PluginInfo {
    PluginInfo {
        phases: phases(kind.phases),
        subsystems: match kind.stream {
            Some(_) => &[Subsystem::Http, Subsystem::Stream],
            None => &[Subsystem::Http],
        },
        is_auth: kind.auth,
        run_policy: if kind.prefer_route { RunPolicy::PreferRoute } else { RunPolicy::Both },
        consumer_schema: kind.consumer_schema.map(|schema| schema().into()),
        metadata_schema: kind.metadata_schema.map(|schema| schema().into()),
        consumer_key: kind.consumer_key,
        check: kind.check,
        ..PluginInfo::new(Cow::Borrowed(kind.name), i64::from(kind.priority), (kind.schema)())
    }
}

/// The contract's names of the phases. Made once per process and plugin, so leaking them costs nothing that grows.
fn phases(phases: &'static [Phase]) -> &'static [&'static str] {
    let name = |phase: &Phase| {
        Some(match phase {
            Phase::Rewrite => "rewrite",
            // The contract has no phase for it.
            Phase::RequestBody => return None,
            Phase::Access => "access",
            Phase::BeforeProxy => "before_proxy",
            Phase::ResponseHead | Phase::Informational => "header_filter",
            Phase::ResponseBody => "body_filter",
            Phase::Log => "log",
        })
    };
    Vec::leak(phases.iter().filter_map(name).collect())
}
