//! The oracles of this crate's fuzz targets; the properties here and the targets there share them.

#[path = "../../../../fuzz/oracles/corpus.rs"]
pub mod corpus;
#[path = "../../../../fuzz/oracles/expression_twin.rs"]
pub mod expression_twin;
#[path = "../../../../fuzz/oracles/path.rs"]
pub mod path;
#[path = "../../../../fuzz/oracles/path_twin.rs"]
pub mod path_twin;
#[path = "../../../../fuzz/oracles/router.rs"]
pub mod router;
#[path = "../../../../fuzz/oracles/router_request.rs"]
pub mod router_request;
#[path = "../../../../fuzz/oracles/router_twin.rs"]
pub mod router_twin;
#[path = "../../../../fuzz/oracles/vars.rs"]
pub mod vars;
