//! The handlers of the listeners, made of the parts that the control side has at its start.

use std::sync::Arc;

use discovery::ServiceDiscovery;
use discovery::registration::Registration;
use model::PluginCatalog;
use model::report::MetricsText;

use super::config::AdminConfig;
use crate::acme::Acme;
use crate::admin::auth::Gate;
use crate::admin::call::AdminParts;
use crate::admin::live::LiveState;
use crate::admin::server::{Admin, max_set_bytes};
use crate::clock::Clock;
use crate::control_api::{ControlApi, ControlParts};
use crate::metrics_server::MetricsHandler;
use crate::reconcile::Reconcile;
use crate::report::Reports;
use crate::sealing::Sealer;
use crate::serve::Handler;
use crate::serve::respond::ApiHeaders;
use crate::status::StatusHandler;
use crate::summary::Summaries;
use crate::view::SharedView;

/// The handlers of all listeners.
pub(super) struct Handlers {
    pub(super) admin: Arc<dyn Handler>,
    pub(super) control: Arc<dyn Handler>,
    pub(super) status: Arc<dyn Handler>,
    pub(super) metrics: Arc<dyn Handler>,
    pub(super) scrape: Arc<dyn MetricsText>,
}

/// The parts of the handlers of all listeners.
pub(super) struct HandlerParts {
    pub(super) reconcile: Reconcile,
    pub(super) view: SharedView,
    pub(super) admin: AdminConfig,
    pub(super) catalog: Arc<PluginCatalog>,
    pub(super) reports: Reports,
    pub(super) status: Arc<StatusHandler>,
    pub(super) sealer: Sealer,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) acme: Option<Arc<Acme>>,
    pub(super) discovery: Option<Arc<ServiceDiscovery>>,
    pub(super) registration: Option<Arc<Registration>>,
    /// The kind of the configuration's source.
    pub(super) source: &'static str,
}

/// Makes the handlers.
pub(super) fn handlers(parts: HandlerParts) -> Handlers {
    let HandlerParts { reconcile, view, admin, catalog, reports, status, sealer, .. } = parts;
    let HandlerParts { acme, discovery, registration, source, .. } = parts;
    let control = ControlApi::new(ControlParts {
        view: view.clone(),
        reconcile: reconcile.clone(),
        catalog: Arc::clone(&catalog),
        reports: reports.clone(),
        discovery,
        registration,
        is_file: source == "file",
    });
    let metrics = Arc::new(MetricsHandler::new(Arc::clone(&reports.metrics), view.clone(), acme.clone()));
    let gate = Gate::new(admin.keys, admin.key_required, admin.allow);
    let admin = Admin::new(AdminParts {
        gate: gate.with_hosts(admin.hosts).with_clock(parts.clock),
        headers: ApiHeaders::new(admin.emulated_version.as_deref(), admin.cors),
        view: view.clone(),
        reconcile: reconcile.clone(),
        catalog,
        reports,
        sealer,
        acme,
        max_set_bytes: max_set_bytes(admin.memory_limit_bytes),
        source,
        ui: admin.ui,
        certificate_file: admin.tls.map(|files| files.certificate),
        summaries: Summaries::default(),
        live: LiveState::default(),
    });
    Handlers {
        admin: Arc::new(admin),
        control: Arc::new(control),
        status,
        metrics: metrics.clone(),
        scrape: metrics,
    }
}
