//! Whether the health of nodes is checked. Checks nothing.

use super::draft::{Draft, Spot};

/// `apisix.disable_upstream_healthcheck`.
pub(super) fn disable(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(is_off) = draft.switch(spot) {
        draft.set_one(&spot.at(), "upstream_health_checks", (!is_off).to_string());
    }
}
