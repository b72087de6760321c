//! The one instance of a cluster that orders: it holds a text that ends by itself unless the instance renews
//! it. An instance that is alone always leads.

use std::time::{Duration, Instant};

use crate::shared_state::SharedState;

/// This instance's claim to lead.
pub(super) struct Leader {
    shared: SharedState,
    /// The name of this instance among the others.
    name: String,
    held_until: Option<Instant>,
    renew_at: Instant,
}

impl Leader {
    pub(super) fn new(shared: SharedState, name: String) -> Leader {
        Leader { shared, name, held_until: None, renew_at: Instant::now() }
    }

    /// Claims or renews the lead where that is due; whether this instance leads now.
    pub(super) async fn lead(&mut self) -> bool {
        if !self.shared.is_cluster() {
            return true;
        }
        let now = Instant::now();
        if now >= self.renew_at && self.shared.is_read() {
            self.renew_at = now + RENEW_EVERY;
            let holder = self.shared.get(PATH);
            if holder.is_none_or(|holder| *holder.text == *self.name) {
                match self.shared.put(PATH, &self.name, Some(CLAIM_TTL)).await {
                    Ok(true) => {
                        if !self.leads(now) {
                            tracing::info!("this instance orders certificates for the cluster");
                        }
                        // Counted from before the write, so that the claim never seems longer than it is.
                        self.held_until = Some(now + CLAIM_TTL - CLAIM_MARGIN);
                    }
                    Ok(false) => self.held_until = None,
                    Err(fault) => tracing::debug!(%fault, "the lead of ACME is not renewed"),
                }
            } else {
                self.held_until = None;
            }
        }
        self.leads(Instant::now())
    }

    /// When [`Leader::lead`] has something to do again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.shared.is_cluster().then_some(self.renew_at)
    }

    /// Gives the lead up, so that another instance takes over at once.
    pub(super) async fn resign(&mut self) {
        if self.shared.is_cluster() && self.held_until.take().is_some() {
            // Otherwise it ends by itself.
            let _ = self.shared.remove(PATH).await;
        }
    }

    fn leads(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }
}

/// The path of the leader's name.
pub(super) const PATH: &str = "leader";
/// A leader that died is replaced after that.
const CLAIM_TTL: Duration = Duration::from_secs(20);
/// Between two renewals: two of them may fail.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// The claim counts as lost this much earlier here than in etcd.
const CLAIM_MARGIN: Duration = Duration::from_secs(3);
