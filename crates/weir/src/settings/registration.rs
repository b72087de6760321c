//! The setting `registration`: the blocks of registries that this instance registers in, written as those of
//! `discovery`.

use discovery::registration::{self, ProxyAddresses};
use serde_json::Value;

use super::discovery::Registries;
use super::written::SettingTexts;
use super::{SettingFault, Settings, WrittenSettings};

/// The blocks, as one JSON object; nothing is none.
pub(super) fn parse_registration(given: &SettingTexts) -> Result<Registries, String> {
    let Some(text) = given.values.first().filter(|text| !text.is_empty()) else {
        return Ok(Registries::default());
    };
    let Ok(Value::Object(blocks)) = serde_json::from_str(text) else {
        return Err("is no JSON object; write `{\"consul\": {\"service\": \"gateway\"}}`".to_owned());
    };
    match registration::check_registration_blocks(&blocks).first() {
        Some(fault) => Err(fault.to_string()),
        None => Ok(Registries(blocks)),
    }
}

impl Settings {
    /// The first listeners with and without TLS, as they are written: a port may be 0.
    pub(crate) fn written_addresses(&self) -> ProxyAddresses {
        let tls = self.proxy_tls.first().or(self.proxy_tls_http3.first());
        ProxyAddresses { plain: self.proxy.first().copied(), tls: tls.copied() }
    }

    /// Refuses registrations with an address that clients cannot connect to, or without a server to ask.
    pub(super) fn check_registration(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let found =
            registration::faults_together(&self.registration.0, &self.discovery.0, self.written_addresses());
        faults.extend(found.iter().map(|fault| written.fault("registration", fault.to_string())));
    }
}
