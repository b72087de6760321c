//! The course of one run: a gateway in front of fresh endpoints, the load, and the endpoints' conditions
//! switched at their times meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::arrivals::{Arrivals, TrafficShare, WINDOW};
use super::endpoint::EndpointSet;
use super::plan::{EndpointFault, Phases, Switch};
use super::refused::RefusalCounter;
use crate::contender::Definition;
use crate::load::{self, Expectation, LoadMode, LoadPlan, LoadTarget, LoadTransport, ResponseCheck, Tls};
use crate::result::{FaultRun, FaultyTraffic, LoadOutcome, Protection};
use crate::run::{Interrupt, RunningPrograms};

/// The conditions that all runs have in common.
pub(super) struct Course<'a> {
    pub(super) stage: &'a mut RunningPrograms,
    pub(super) interrupt: &'a Interrupt,
    pub(super) phases: Phases,
    /// Requests that are due in a second.
    pub(super) rate: f64,
}

/// Connections of the load generator.
pub(super) const CONNECTIONS: u32 = 64;
/// Time after which a client gives a request up, counted from when it was sent, or waited in vain for a
/// connection.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
/// Load before a run, in seconds, in which gateways open their connections.
const WARM_UP_S: f64 = 0.5;
/// Length of a measurement of capacity, in seconds.
const CAPACITY_S: f64 = 1.0;
/// Responses for each failure that a measurement of capacity may have, such as a connection that broke.
const GOOD_PER_FAILURE: u64 = 100;
/// Interval at which interrupts are noticed and refused connections are counted.
const PAUSE: Duration = Duration::from_millis(20);
/// The path of all requests.
const PATH: &str = "/checked-out";
/// The time that endpoints record beside the phases: start, warm-up and end of a run, on a slow machine.
const BESIDE: Duration = Duration::from_secs(180);

impl Course<'_> {
    /// Requests per second that the contender forwards with its default settings to three healthy endpoints.
    /// Fails if more than a few requests fail, because the rate of all runs depends on it.
    pub(super) fn capacity(&mut self, definition: &Definition) -> anyhow::Result<f64> {
        let endpoints = self.endpoints(3)?;
        let running = self.stage.in_front_of(definition, &endpoints.addresses(), Protection::Default)?;
        let stop = AtomicBool::new(false);
        load::generate_load(&plan(running.address, WARM_UP_S, None), &stop, || {})?;
        let outcome = load::generate_load(&plan(running.address, CAPACITY_S, None), &stop, || {})?;
        capacity_of(&outcome)
    }

    /// Measures one contender with one fault. Fails if it does not start, or ends before its time.
    pub(super) fn run(
        &mut self,
        fault: EndpointFault,
        definition: &Definition,
        protection: Protection,
    ) -> anyhow::Result<FaultRun> {
        let endpoints = self.endpoints(fault.endpoints())?;
        let running = self.stage.in_front_of(definition, &endpoints.addresses(), protection)?;
        let stop = AtomicBool::new(false);
        load::generate_load(&plan(running.address, WARM_UP_S, Some(self.rate)), &stop, || {})?;
        let mut refused = RefusalCounter::default();
        let mut began = Instant::now();
        let follow = |at: Instant| {
            began = at;
            self.follow(&endpoints, &self.phases.switches(fault), at, &mut refused, &stop);
        };
        let load = plan(running.address, self.phases.all().as_secs_f64(), Some(self.rate));
        let (phases, outcome) = load::run_in_periods(&load, &self.phases.ends(), &stop, follow)?;
        self.interrupt.check()?;
        running.group.check_running()?;
        let faulty = (fault != EndpointFault::Restart).then(|| {
            let counted = (fault == EndpointFault::Dies).then_some(&refused);
            self.traffic(&endpoints, counted, began)
        });
        Ok(FaultRun {
            fault,
            contender: definition.name.clone(),
            protection,
            absent: None,
            phases,
            faulty,
            unsent: outcome.unsent,
            notes: outcome.notes,
        })
    }

    fn endpoints(&self, count: u8) -> anyhow::Result<EndpointSet> {
        EndpointSet::start(count, self.phases.all() + BESIDE, &self.stage.placement().origin)
    }

    /// Switches the conditions at their times until the end of the load; ends the load after an interrupt.
    fn follow(
        &self,
        endpoints: &EndpointSet,
        switches: &[Switch],
        began: Instant,
        refused: &mut RefusalCounter,
        stop: &AtomicBool,
    ) {
        let mut switches = switches.iter().peekable();
        let end = began + self.phases.all();
        while Instant::now() < end {
            if self.interrupt.check().is_err() {
                stop.store(true, Ordering::Relaxed);
                return;
            }
            refused.sample();
            while let Some(switch) = switches.next_if(|switch| began + switch.at <= Instant::now()) {
                endpoints.switch(switch.endpoint, switch.condition);
            }
            let next = switches.peek().map_or(end, |switch| began + switch.at);
            thread::sleep(next.saturating_duration_since(Instant::now()).min(PAUSE));
        }
    }

    /// The traffic of the first endpoint. Refused connections count as its own, if they are given.
    fn traffic(
        &self,
        endpoints: &EndpointSet,
        refused: Option<&RefusalCounter>,
        began: Instant,
    ) -> FaultyTraffic {
        let [begin, recovery, end] = self.phases.ends().map(|at| began + at);
        let with = share(endpoints, refused, begin, recovery);
        // After its return the endpoint counts its own requests.
        let after = share(endpoints, None, recovery, end);
        FaultyTraffic {
            late_requests: with.late_requests(),
            off_after_s: with.off_after_s(),
            back_after_s: after.back_after_s(),
        }
    }
}

/// The good responses per second of a measurement of capacity; none are a failure of the measurement, and so
/// are failures of more than one request in [`GOOD_PER_FAILURE`].
fn capacity_of(outcome: &LoadOutcome) -> anyhow::Result<f64> {
    let failed = outcome.failures.all();
    if outcome.requests == 0 || failed * GOOD_PER_FAILURE > outcome.requests {
        let first = outcome.notes.first().map(|note| format!(": {note}")).unwrap_or_default();
        let requests = outcome.requests;
        bail!("its capacity could not be measured: {failed} failures, {requests} responses{first}");
    }
    Ok(outcome.requests_per_second)
}

/// The share of the first endpoint in the traffic of a time.
fn share(
    endpoints: &EndpointSet,
    refused: Option<&RefusalCounter>,
    from: Instant,
    until: Instant,
) -> TrafficShare {
    let received: Vec<Vec<u64>> =
        endpoints.arrivals().map(|one: &Arrivals| one.windows(from, until)).collect();
    let mut faulty = received.first().cloned().unwrap_or_default();
    let refused = refused.map(|refused| refused.windows(from, WINDOW, faulty.len())).unwrap_or_default();
    for (sum, refused) in faulty.iter_mut().zip(refused) {
        *sum += refused;
    }
    let others = received.get(1..).unwrap_or_default();
    let of_others = |index: usize| others.iter().filter_map(|windows| windows.get(index)).sum::<u64>();
    let all = faulty.iter().enumerate().map(|(index, faulty)| faulty + of_others(index)).collect();
    TrafficShare { endpoints: received.len(), faulty, all }
}

/// A load on this gateway: at a rate, or as fast as it answers.
fn plan(address: SocketAddr, seconds: f64, rate: Option<f64>) -> LoadPlan {
    LoadPlan {
        target: LoadTarget {
            address,
            host: address.to_string(),
            path: PATH.to_owned(),
            is_tls: false,
            transport: LoadTransport::Http,
        },
        manner: LoadMode::Http,
        connections: CONNECTIONS,
        threads: 1,
        seconds: Some(seconds),
        requests: None,
        rate,
        ramp_up: Duration::ZERO,
        per_connection: None,
        body_bytes: 0,
        timeout: TIMEOUT,
        tls: Tls::default(),
        expect: Expectation {
            status: 200,
            bytes: Some(21),
            failing_one_in: 0,
            check: ResponseCheck::Bytes,
            body: Some(b"checked-out response.".to_vec()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Failures;

    #[test]
    fn capacity_needs_good_responses() {
        let outcome = |requests, failures| LoadOutcome {
            requests,
            failures,
            requests_per_second: 900.0,
            ..LoadOutcome::default()
        };
        let of = |requests, failures| capacity_of(&outcome(requests, failures)).ok();
        assert_eq!(of(1_000, Failures::default()), Some(900.0));
        assert_eq!(of(1_000, Failures { broken: 10, ..Failures::default() }), Some(900.0));
        assert_eq!(of(1_000, Failures { status: 11, ..Failures::default() }), None);
        assert_eq!(of(0, Failures { timeout: 64, ..Failures::default() }), None);
        assert_eq!(of(0, Failures::default()), None);
    }
}
