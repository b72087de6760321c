//! The parts that the plugins of tracing share: ids, the contexts that requests carry, and the decision
//! whether a request is reported. It reports nothing.

pub(crate) mod b3;
pub(crate) mod host;
pub(crate) mod ids;
pub(crate) mod json_post;
pub(crate) mod sampler;
pub(crate) mod w3c;
