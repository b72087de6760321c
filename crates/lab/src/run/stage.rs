//! The running programs of a scenario: the origin and the contenders, each started with its script, probed
//! once before anything is measured, and ended with the stage. It measures nothing.

mod running;
mod several;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::interrupt::Interrupt;
use super::probe;
use crate::certificate::Certificates;
use crate::contender::Definition;
use crate::files::LabFiles;
use crate::placement::Placement;
use crate::ports::Ports;
use crate::process::{ProcessGroup, Start};
use crate::scenario::{KeyKind, Scenario, ScenarioProtocol};

/// Parameters with which contenders are started; scenarios with the same setup share the running ones.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Setup {
    /// The protocol of clients.
    pub protocol: ScenarioProtocol,
    /// Workers of each gateway.
    pub workers: u16,
    /// Further routes.
    pub routes: u32,
    /// The key of the certificate.
    pub certificate: KeyKind,
}

impl Setup {
    /// The setup of this scenario.
    pub fn of(scenario: &Scenario) -> Self {
        Self {
            protocol: scenario.protocol,
            workers: scenario.workers,
            routes: scenario.routes,
            certificate: scenario.certificate,
        }
    }
}

/// A running contender.
#[derive(Debug)]
pub struct RunningContender {
    /// Its name.
    pub name: String,
    /// Its processes.
    pub group: ProcessGroup,
    /// Its address.
    pub address: SocketAddr,
    /// Whether it has had load for a while since its start.
    pub is_warm: bool,
    is_usual: bool,
    script: PathBuf,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    changes: u64,
}

/// All running programs.
#[derive(Debug)]
pub struct RunningPrograms {
    program: PathBuf,
    files: LabFiles,
    measured: BTreeMap<String, PathBuf>,
    scratch: TempDir,
    certificates: Certificates,
    ports: Ports,
    /// Cores to which all programs are pinned; empty if nothing is pinned.
    cores: Vec<usize>,
    interrupt: Interrupt,
    setup: Option<Setup>,
    placement: Placement,
    origin: Option<(ProcessGroup, SocketAddr)>,
    running: BTreeMap<String, RunningContender>,
    started: u64,
}

/// A gateway with a hundred thousand routes on a virtual machine is up long before.
const START_LIMIT: Duration = Duration::from_secs(120);
/// The exit code of a program that was ended by SIGPIPE.
const PIPE_CLOSED: i32 = 128 + 13;
/// Idle connections to the origin that a gateway may keep: more than any scenario uses.
const KEEPALIVE: &str = "1024";
/// Client connections that a gateway must take: 10,000 idle ones and those of the load.
const CONNECTIONS: &str = "12000";

impl RunningPrograms {
    /// An empty stage. `measured` names the binaries of Weir that these contenders run, `program` is the
    /// origin, the guard and a load generator; `cores` are those that all of them are pinned to, if any.
    pub fn new(
        program: PathBuf,
        files: LabFiles,
        measured: BTreeMap<String, PathBuf>,
        ports: Ports,
        cores: Vec<usize>,
        interrupt: Interrupt,
    ) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new().prefix("weir-lab-").tempdir().context("no scratch folder")?;
        // Workers that gave up root still have to reach their files.
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755))?;
        let certificates = Certificates::within(scratch.path());
        Ok(Self {
            program,
            files,
            measured,
            scratch,
            certificates,
            ports,
            // For endpoints that start before the first setup.
            placement: Placement::on(&cores, 1),
            cores,
            interrupt,
            setup: None,
            origin: None,
            running: BTreeMap::new(),
            started: 0,
        })
    }

    /// Cores of the present setup.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The program that is the guard, the origin and a load generator.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Clears the stage for another setup and starts the origin; without effect if it is the present setup.
    pub fn set(&mut self, setup: Setup) -> anyhow::Result<()> {
        if self.setup == Some(setup) && self.origin.as_ref().is_some_and(|(origin, _)| origin.is_running()) {
            return Ok(());
        }
        self.clear();
        self.placement = Placement::on(&self.cores, setup.workers);
        let workers = self.placement.origin.len().max(1);
        let address = self.ports.take()?;
        let directory = self.fresh_directory("origin")?;
        let program = self.program.display().to_string();
        let (address_text, workers) = (address.to_string(), workers.to_string());
        let words: &[&str] = match setup.protocol.is_layer4() {
            true => &["lab", "echo", "--listen", &address_text],
            false => &["origin", "--listen", &address_text, "--workers", &workers],
        };
        let command: Vec<String> =
            std::iter::once(program).chain(words.iter().map(|&word| word.to_owned())).collect();
        let group = ProcessGroup::start(&Start {
            guard: &self.program,
            name: "origin",
            command: &command,
            environment: &[],
            cores: &self.placement.origin,
            directory: &directory,
        })?;
        let spoken = if setup.protocol.is_layer4() { ScenarioProtocol::Tcp } else { ScenarioProtocol::Http };
        self.wait_for_answers(&group, spoken, address).context("the origin does not start")?;
        self.origin = Some((group, address));
        self.setup = Some(setup);
        Ok(())
    }

    /// The contender, running and answering; starts it if necessary. Fails with the reason and the end of its
    /// output.
    pub fn contender(&mut self, definition: &Definition) -> anyhow::Result<()> {
        if let Some(running) = self.running.get(&definition.name) {
            if running.group.is_running() {
                return Ok(());
            }
            self.running.remove(&definition.name);
        }
        let setup = self.setup.context("the stage is not set")?;
        let (_, origin) = self.origin.as_ref().context("the stage has no origin")?;
        let origin = *origin;
        let running = self.launch(definition, setup, origin, Vec::new())?;
        self.wait_for_answers(&running.group, setup.protocol, running.address)?;
        self.same_bodies(setup.protocol, running.address, origin)?;
        self.running.insert(definition.name.clone(), running);
        Ok(())
    }

    /// Starts a contender's script in front of this origin, with further variables.
    fn launch(
        &mut self,
        definition: &Definition,
        setup: Setup,
        origin: SocketAddr,
        more: Vec<(String, String)>,
    ) -> anyhow::Result<RunningContender> {
        let address = self.ports.take()?;
        let directory = self.fresh_directory(&definition.name)?;
        let certificate = self.certificates.of(setup.certificate)?;
        let script = self.files.start_script(definition);
        let mut environment = self.basic_environment(definition);
        let mut set = |name: &str, value: String| environment.push((name.to_owned(), value));
        set("DIRECTORY", directory.display().to_string());
        set("WORKERS", setup.workers.to_string());
        set("LISTEN", address.to_string());
        set("ORIGIN", origin.to_string());
        set("PROTOCOL", setup.protocol.name().to_owned());
        set("CERTIFICATE", certificate.certificate.display().to_string());
        set("KEY", certificate.key.display().to_string());
        set("ROUTES", setup.routes.to_string());
        set("KEEPALIVE", KEEPALIVE.to_owned());
        set("CONNECTIONS", CONNECTIONS.to_owned());
        environment.extend(more);
        environment.extend(definition.environment.clone());
        let group = ProcessGroup::start(&Start {
            guard: &self.program,
            name: &definition.name,
            command: &shell(&script, &["run"]),
            environment: &environment,
            cores: &self.placement.gateway,
            directory: &directory,
        })?;
        Ok(RunningContender {
            name: definition.name.clone(),
            group,
            address,
            is_warm: false,
            is_usual: definition.usual,
            script,
            environment,
            directory,
            changes: 0,
        })
    }

    /// Ends contenders of a study that the next scenario does not use, because each may hold a gigabyte.
    pub fn end_unusual(&mut self, next: &[Definition]) {
        self.running.retain(|name, running| running.is_usual || next.iter().any(|one| &one.name == name));
    }

    /// A contender that was started.
    pub fn running(&mut self, name: &str) -> anyhow::Result<&mut RunningContender> {
        self.running.get_mut(name).with_context(|| format!("{name} does not run"))
    }

    /// Ends one contender.
    pub fn end(&mut self, name: &str) {
        self.running.remove(name);
    }

    /// Ends all programs.
    pub fn clear(&mut self) {
        self.running.clear();
        self.origin = None;
        self.setup = None;
    }

    /// Runs the contender's script with one of the verbs that end by themselves; returns its output.
    pub fn script(&self, definition: &Definition, word: &str, limit: Duration) -> anyhow::Result<String> {
        let directory = self.scratch.path().join("scripts");
        fs::create_dir_all(&directory)?;
        fs::create_dir_all(self.files.installed())?;
        let script = self.files.start_script(definition);
        let mut environment = self.basic_environment(definition);
        environment.extend(definition.environment.clone());
        let mut group = ProcessGroup::start(&Start {
            guard: &self.program,
            name: &format!("{}-{word}", definition.name),
            command: &shell(&script, &[word]),
            environment: &environment,
            cores: &[],
            directory: &directory,
        })?;
        let Some(ended) = self.interrupt.wait(limit, || Ok(group.ended()?))? else {
            bail!("`start.sh {word}` takes longer than {} s", limit.as_secs());
        };
        match ended.code {
            // A reader within the script that stopped early (`… | head -n 1`) is no failure.
            0 | PIPE_CLOSED if ended.code == 0 || !group.output().is_empty() => Ok(group.output()),
            code => bail!("`start.sh {word}` ended with status {code}: {}", group.last_lines()),
        }
    }

    /// A new folder of this run.
    pub fn fresh_directory(&mut self, name: &str) -> anyhow::Result<PathBuf> {
        self.started += 1;
        let directory = self.scratch.path().join(format!("{name}-{}", self.started));
        fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(directory)
    }

    fn basic_environment(&self, definition: &Definition) -> Vec<(String, String)> {
        let weir = self.measured.get(&definition.name).or_else(|| self.measured.get("weir"));
        let weir = weir.unwrap_or(&self.program);
        vec![
            ("NAME".to_owned(), definition.name.clone()),
            ("CACHE".to_owned(), self.files.installed().display().to_string()),
            ("WEIR".to_owned(), weir.display().to_string()),
        ]
    }

    fn wait_for_answers(
        &self,
        group: &ProcessGroup,
        protocol: ScenarioProtocol,
        address: SocketAddr,
    ) -> anyhow::Result<()> {
        let mut last = String::new();
        let answered = self.interrupt.wait(START_LIMIT, || {
            group.check_running()?;
            match probe::probe_gateway(protocol, address, probe::paths(protocol)[0]) {
                Ok(_) => Ok(Some(())),
                Err(error) => {
                    last = format!("{error:#}");
                    Ok(None)
                }
            }
        })?;
        if answered.is_none() {
            bail!("no answer within {} s ({last}): {}", START_LIMIT.as_secs(), group.last_lines());
        }
        // Another program may listen at the address; then the contender has ended.
        group.check_running()
    }

    fn same_bodies(
        &self,
        protocol: ScenarioProtocol,
        address: SocketAddr,
        origin: SocketAddr,
    ) -> anyhow::Result<()> {
        if protocol.is_layer4() {
            return probe::bytes::check_layer4_forwarding(protocol, address);
        }
        // The origin speaks HTTP/2 for gRPC only.
        let behind =
            if protocol == ScenarioProtocol::Grpc { ScenarioProtocol::Grpc } else { ScenarioProtocol::Http };
        for path in probe::paths(protocol) {
            let wanted = probe::probe_gateway(behind, origin, path).context("the origin does not answer")?;
            if probe::probe_gateway(protocol, address, path)? != wanted {
                bail!("what comes through it for {path} is not what the origin answers");
            }
        }
        Ok(())
    }
}

/// A script's command. It does not need the file's executable bit, which some ways of copying lose.
fn shell(script: &Path, words: &[&str]) -> Vec<String> {
    let mut command = vec!["bash".to_owned(), script.display().to_string()];
    command.extend(words.iter().map(|&word| word.to_owned()));
    command
}
