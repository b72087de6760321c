//! Runs the corpus of the fuzz target `exchange` in a test run of the simulation.
#![expect(unreachable_pub, reason = "the same files are public in the fuzz targets' workspace")]

#[path = "../../../../fuzz/oracles/corpus.rs"]
pub(crate) mod corpus;
#[path = "../../../../fuzz/oracles/exchange.rs"]
pub(crate) mod exchange;
#[path = "../../../../fuzz/oracles/exchange_answers.rs"]
pub(crate) mod exchange_answers;
#[path = "../../../../fuzz/oracles/exchange_script.rs"]
pub(crate) mod exchange_script;
#[path = "../../../../fuzz/oracles/exchange_tunnel.rs"]
pub(crate) mod exchange_tunnel;
#[path = "../../../weir/tests/it/hardening/oracle.rs"]
mod oracle;
#[path = "../../../../fuzz/oracles/stand.rs"]
mod stand;

use super::exchange as stage;

#[test]
fn exchanges() {
    corpus::run("exchange", exchange::check);
}
