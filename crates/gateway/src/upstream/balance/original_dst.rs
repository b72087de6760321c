//! No choice at all: sessions of layer 4 go to the destination of their client, which `upstream/original.rs`
//! judges, so that the upstream has no nodes. A caller that asks for a node nevertheless gets none.

use super::{BalanceInput, Balancer, BalancerKind, Uses};

/// Chooses no node.
pub static KIND: BalancerKind =
    BalancerKind { name: "original_dst", derive: None, make: |_| Box::new(NoChoice), uses: Uses::Loads };

struct NoChoice;

impl Balancer for NoChoice {
    fn choose(&mut self, _choice: &BalanceInput<'_>) -> Option<usize> {
        None
    }
}
