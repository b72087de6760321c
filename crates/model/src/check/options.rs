//! The settings that checks depend on beside the object: settings of this gateway. Knows neither the settings
//! file nor the flags.

use std::collections::BTreeSet;

use crate::outbound::OutboundPolicy;
use crate::settings::RouterMode;

/// The treatment of a field that is unknown where APISIX accepts unknown ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// It is refused.
    Refuse,
    /// A typing error of a known name is refused, any other is accepted with a warning.
    #[default]
    Warn,
    /// It is accepted, as in APISIX.
    Accept,
}

/// The settings that checks depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Unknown fields of plugins and secrets.
    pub unknown_fields: UnknownFields,
    /// How routes are looked up: it decides whether `:name` in a path is a parameter.
    pub router: RouterMode,
    /// Writes of `ssl` objects with expired certificates are refused.
    pub refuses_expired_certificates: bool,
    /// Which addresses health checks may ask.
    pub outbound: OutboundPolicy,
    /// Plugins that are built in and switched off by a setting.
    pub switched_off: BTreeSet<Box<str>>,
}
