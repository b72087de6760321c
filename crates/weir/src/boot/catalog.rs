//! The gateway's plugin kinds as the control side sees them: data, without the code that runs them.

use std::sync::Arc;

use exchange::plugin::PluginKind;
use exchange::plugin::state::StateRegistry;
use model::PluginCatalog;
use model::catalog::PluginInfo;
use model::check::CheckOptions;

use super::extensions::Extensions;
use crate::settings::Settings;

/// The catalog for these settings.
pub(crate) fn catalog_for(settings: &Settings) -> PluginCatalog {
    catalog_with(settings, settings.check_options())
}

/// The catalog for these settings, with other settings that checks depend on. Extensions that the settings
/// name and that cannot be loaded are not in it.
pub(crate) fn catalog_with(settings: &Settings, options: CheckOptions) -> PluginCatalog {
    let (extensions, faults) = Extensions::offline(settings);
    for fault in faults {
        tracing::error!("{fault}");
    }
    let infos = infos(settings.plugins.as_deref(), PluginKind::info);
    let catalog = catalog_of(settings.plugins.as_deref(), options, infos.chain(extensions.infos()).collect());
    adjusted(settings, catalog).with_loader(extensions.loader())
}

/// The catalog of a running instance; its plugins keep their state in `states`.
pub(crate) fn running_catalog(
    settings: &Settings,
    states: &Arc<StateRegistry>,
    extensions: &Extensions,
) -> PluginCatalog {
    let infos = infos(settings.plugins.as_deref(), |kind| kind.info_with(states));
    let infos = infos.chain(extensions.infos()).collect();
    let catalog = catalog_of(settings.plugins.as_deref(), settings.check_options(), infos);
    adjusted(settings, catalog).with_loader(extensions.loader())
}

fn adjusted(settings: &Settings, catalog: PluginCatalog) -> PluginCatalog {
    let catalog = catalog.ignoring(&settings.ignore_faulty_plugins);
    let registries = settings.discovery.0.keys().map(|name| name.as_str().into());
    let files = super::file_policy(settings);
    let catalog = catalog.with_registries(registries).with_file_rule(move |path| files.check_name(path));
    catalog.set_stream_ports(settings.stream_ports());
    if settings.takes_stream_routes() { catalog } else { catalog.without_stream_routes() }
}

/// The catalog of the usable plugins, those with these names or all, with the settings that checks depend on.
pub(crate) fn catalog(usable: Option<&[String]>, options: CheckOptions) -> PluginCatalog {
    catalog_of(usable, options, infos(usable, PluginKind::info).collect())
}

/// The usable kinds as the catalog shows them.
fn infos<'i>(
    usable: Option<&[String]>,
    info: impl Fn(&PluginKind) -> PluginInfo + 'i,
) -> impl Iterator<Item = PluginInfo> + 'i {
    partition(usable).0.into_iter().map(info)
}

fn catalog_of(usable: Option<&[String]>, options: CheckOptions, infos: Vec<PluginInfo>) -> PluginCatalog {
    let (_, off) = partition(usable);
    let switched_off = off.into_iter().map(|kind| kind.name.into()).collect();
    // A test of the crate `plugins` makes the same catalog, so that a faulty schema fails there.
    let catalog = PluginCatalog::new(infos).expect("the plugins' schemas compile and their names are unique");
    let catalog = catalog.with_protocols(plugins::PROTOCOLS.iter().map(|kind| kind.info()));
    catalog.with_scripts(plugins::script_checks()).with_options(CheckOptions { switched_off, ..options })
}

/// The kinds of plugins that these settings allow.
pub(crate) fn usable_kinds(settings: &Settings) -> Vec<&'static PluginKind> {
    partition(settings.plugins.as_deref()).0
}

/// The kinds with these names, or all, and the others.
fn partition(usable: Option<&[String]>) -> (Vec<&'static PluginKind>, Vec<&'static PluginKind>) {
    let is_usable = |kind: &PluginKind| usable.is_none_or(|names| names.iter().any(|name| name == kind.name));
    plugins::ALL.iter().copied().partition(|kind| is_usable(kind))
}

#[cfg(test)]
mod tests {
    use super::{CheckOptions, catalog};

    #[test]
    fn the_openapi_document_is_up_to_date() {
        let document = control::admin::openapi::document(&catalog(None, CheckOptions::default()));
        let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
        crate::settings::check_page("openapi.json", &text);
    }

    #[test]
    fn openapi_examples_are_accepted() {
        let catalog = catalog(None, CheckOptions::default());
        let document = control::admin::openapi::document(&catalog);
        let mut seen = 0;
        for kind in model::ObjectKind::ALL {
            for (path, item) in document["paths"].as_object().unwrap() {
                for operation in ["put", "post"].map(|verb| &item[verb]) {
                    let body = &operation["requestBody"]["content"]["application/json"]["example"];
                    if operation["tags"][0] != kind.collection() || body.is_null() {
                        continue;
                    }
                    let mut body = body.clone();
                    if !matches!(kind, model::ObjectKind::PluginMetadata | model::ObjectKind::Consumer) {
                        body["id"] = "example".into();
                    }
                    let checked = model::check::value(&catalog, kind, &body);
                    assert!(checked.is_ok(), "{path}: {checked:?}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 20, "{seen}");
    }
}
