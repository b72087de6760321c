//! Runs the corpora of the fuzz targets `exchange` and `exchange_http2` in a test run of the simulation.
#![expect(unreachable_pub, reason = "the same files are public in the fuzz targets' workspace")]

#[path = "../../../../fuzz/oracles/corpus.rs"]
pub(crate) mod corpus;
#[path = "../../../../fuzz/oracles/exchange.rs"]
pub(crate) mod exchange;
#[path = "../../../../fuzz/oracles/exchange_answers.rs"]
pub(crate) mod exchange_answers;
#[path = "../../../../fuzz/oracles/exchange_http2.rs"]
pub(crate) mod exchange_http2;
#[path = "../../../../fuzz/oracles/exchange_script.rs"]
pub(crate) mod exchange_script;
#[path = "../../../../fuzz/oracles/exchange_tunnel.rs"]
pub(crate) mod exchange_tunnel;
#[path = "../../../../fuzz/oracles/lenient_answers.rs"]
pub(crate) mod lenient_answers;
#[path = "../../../weir/tests/it/hardening/oracle.rs"]
mod oracle;
#[path = "../../../../fuzz/oracles/stand.rs"]
mod stand;
#[path = "../../../../fuzz/oracles/steering.rs"]
pub(crate) mod steering;

use super::exchange as stage;

#[test]
fn exchanges() {
    corpus::run("exchange", exchange::check);
}

#[test]
fn exchanges_of_http2() {
    corpus::run("exchange_http2", exchange_http2::check);
}
