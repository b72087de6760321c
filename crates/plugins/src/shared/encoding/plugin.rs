//! The plugin of a coding: offers it to the gateway for responses that its rules hold for.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{BodyEncoder, Plugin};

use super::encoder::{Compressor, Encoder};
use super::fields;
use super::pool::CompressorPool;
use super::rules::{EncodingRules, content_length};

/// The compiled plugin of a coding.
pub(crate) struct Compression<C: Compressor> {
    rules: EncodingRules,
    settings: C::Settings,
}

impl<C: Compressor> Compression<C> {
    /// The plugin that codes responses that `rules` hold for.
    pub(crate) fn plugin(rules: EncodingRules, settings: C::Settings) -> Arc<dyn Plugin> {
        Arc::new(Compression::<C> { rules, settings })
    }
}

impl<C: Compressor> Plugin for Compression<C> {
    fn coding_weight(&self, exchange: &mut Exchange) -> u16 {
        self.rules.weigh(exchange, C::CODING)
    }

    fn encoder(&self, exchange: &mut Exchange) -> Option<Box<dyn BodyEncoder>> {
        let local = exchange.local();
        let pool = local.resource(|| CompressorPool::<C>::new(local.shared.clone()));
        let length = content_length(&exchange.response.headers);
        // When memory is too short for a state, responses are sent as they are: that costs bandwidth only.
        let encoder = Encoder::new(pool, &self.settings, length).ok()?;
        fields::mark_coded(&mut exchange.response.headers, C::CODING).then(|| Box::new(encoder) as _)
    }
}
