//! A contender in front of several endpoints that the caller runs, instead of the stage's origin.

use std::net::SocketAddr;

use anyhow::Context;

use super::{RunningContender, RunningPrograms, Setup};
use crate::contender::Definition;
use crate::placement::Placement;
use crate::result::Protection;
use crate::scenario::{KeyKind, ScenarioProtocol};

impl RunningPrograms {
    /// Starts a contender of one worker in front of these endpoints and waits for its first response. It ends
    /// when it is dropped. Fails with the reason and the end of its output.
    pub fn in_front_of(
        &mut self,
        definition: &Definition,
        endpoints: &[SocketAddr],
        protection: Protection,
    ) -> anyhow::Result<RunningContender> {
        let setup = Setup {
            protocol: ScenarioProtocol::Http,
            workers: 1,
            routes: 0,
            certificate: KeyKind::default(),
        };
        self.placement = Placement::on(&self.cores, setup.workers);
        let first = *endpoints.first().context("there is no endpoint")?;
        let all: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        let more = vec![
            ("ENDPOINTS".to_owned(), all.join(" ")),
            ("PROTECTION".to_owned(), protection.name().to_owned()),
        ];
        let running = self.launch(definition, setup, first, more)?;
        self.wait_for_answers(&running.group, setup.protocol, running.address)?;
        Ok(running)
    }
}
