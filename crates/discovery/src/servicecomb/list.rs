//! The list of the microservices of one application of ServiceComb, where routes are made of them.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::asker::ServiceCombClient;
use crate::Services;
use crate::auto_routes::Names;
use crate::parts::read_names;

/// Asks for the list without end; ends at once where no routes are made of it.
pub(super) async fn follow_servicecomb_services(
    asker: Arc<ServiceCombClient>,
    services: Services,
    interval: Duration,
) {
    let Some(of) = services.list_of() else { return };
    let app_id = of.args.get("app_id").map_or(asker.app_id(), |id| &**id);
    let ask = async || match asker.microservices().await {
        Ok(reply) => reply.ok().and_then(|body| names(body, app_id)),
        Err(failure) => Err(failure.into()),
    };
    services.list_by(interval, ask).await;
}

/// The names of the microservices of the application; each version of one is an entry of the answer.
fn names(body: &[u8], app_id: &str) -> Result<Names, String> {
    #[derive(Deserialize)]
    struct MicroserviceList {
        services: Vec<Microservice>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Microservice {
        app_id: Option<String>,
        service_name: Box<str>,
    }
    let answer: MicroserviceList =
        read_names(body).map_err(|error| format!("no list of microservices: {error}"))?;
    let of_it = answer
        .services
        .into_iter()
        .filter(|service| service.app_id.as_deref().unwrap_or("default") == app_id);
    Ok(of_it.map(|service| service.service_name).collect())
}
