//! A real etcd as a peer of a test: one or several members, each a process that can be killed and started
//! again.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::foreign::{ATTEMPTS, free_address};
use crate::process::Process;
use crate::wait::{wait_for, wait_until};

/// An etcd cluster; its members are killed when it is dropped.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    tls: Option<Certificates>,
    directory: TempDir,
}

#[derive(Debug)]
struct Member {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    data: PathBuf,
    process: Option<Process>,
}

impl Etcd {
    /// Starts this number of members and waits until they serve requests.
    pub fn start(members: usize) -> Etcd {
        Etcd::start_with(members, None)
    }

    /// Starts members that speak TLS and require a client certificate of the same authority.
    pub fn start_with_tls(certificates: Certificates) -> Etcd {
        Etcd::start_with(1, Some(certificates))
    }

    fn start_with(members: usize, tls: Option<Certificates>) -> Etcd {
        for _ in 0..ATTEMPTS {
            let member = |number: usize| Member {
                name: format!("m{number}"),
                client: free_address(),
                peer: free_address(),
                data: PathBuf::from(format!("m{number}")),
                process: None,
            };
            let mut etcd = Etcd {
                members: (0..members).map(member).collect(),
                tls: tls.clone(),
                directory: tempfile::tempdir().expect("a temporary directory"),
            };
            for index in 0..members {
                etcd.spawn(index, "new");
            }
            if etcd.serves_or_lost_a_port() {
                return etcd;
            }
        }
        panic!("etcd found no free ports in {ATTEMPTS} attempts");
    }

    /// The endpoints of all members, as a setting lists them.
    pub fn endpoints(&self) -> String {
        let urls: Vec<String> =
            self.members.iter().map(|member| format!("{}://{}", self.scheme(), member.client)).collect();
        urls.join(",")
    }

    /// The address of a member for clients.
    pub fn address(&self, member: usize) -> SocketAddr {
        self.members[member].client
    }

    /// The number of members, including killed ones.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// False, because a cluster has at least one member. Clippy asks for it beside `len`.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Kills a member (KILL).
    pub fn kill(&mut self, member: usize) {
        self.members[member].process = None;
    }

    /// Kills all members (KILL).
    pub fn kill_all(&mut self) {
        (0..self.len()).for_each(|member| self.kill(member));
    }

    /// Starts killed members again on their data and ports, and waits until all members serve requests.
    pub fn restart(&mut self) {
        for index in 0..self.len() {
            if self.members[index].process.is_none() {
                self.spawn(index, "existing");
            }
        }
        wait_until("etcd serves again", || self.is_healthy());
    }

    /// Runs `etcdctl` with these arguments and returns its output; panics if it fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.ctl_command(arguments).output().expect("etcdctl: `make test` installs it");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "etcdctl {arguments:?}: {said}{complained}");
        said
    }

    /// Puts a value.
    pub fn put(&self, key: &str, value: &str) {
        self.ctl(&["put", key, value]);
    }

    /// The value of a key; empty if there is none.
    pub fn get(&self, key: &str) -> String {
        self.ctl(&["get", key, "--print-value-only"]).trim_end_matches('\n').to_owned()
    }

    /// The keys with this prefix, in order.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let text = self.ctl(&["get", prefix, "--prefix", "--keys-only"]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The revision of the cluster.
    pub fn revision(&self) -> u64 {
        let text = self.ctl(&["get", "no-such-key", "--write-out=json"]);
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON of etcdctl");
        json["header"]["revision"].as_u64().expect("a revision")
    }

    /// A snapshot of all data.
    pub fn save(&self) -> PathBuf {
        let file = self.directory.path().join(format!("saved-{}", self.revision()));
        let endpoint = format!("{}://{}", self.scheme(), self.members[0].client);
        let mut command = self.ctl_command(&["snapshot", "save"]);
        command.arg(&file).args(["--endpoints", &endpoint]);
        let output = command.output().expect("etcdctl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        file
    }

    /// Replaces the data of the only member by a snapshot, as operators do after a disaster, and starts it
    /// again.
    pub fn restore(&mut self, saved: &Path) {
        assert_eq!(self.len(), 1, "one member is restored");
        self.kill_all();
        let data = self.directory.path().join(&self.members[0].data);
        fs::remove_dir_all(&data).expect("the member's data");
        let peer = format!("http://{}", self.members[0].peer);
        let name = &self.members[0].name;
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(saved)
            .arg("--data-dir")
            .arg(&data)
            .args(["--name", name, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("{name}={peer}")])
            .output()
            .expect("etcdctl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.restart();
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn ctl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(arguments);
        if !arguments.contains(&"--endpoints") && !arguments.starts_with(&["snapshot"]) {
            command.args(["--endpoints", &self.endpoints()]);
        }
        if let Some(tls) = &self.tls {
            command.arg("--cacert").arg(tls.authority());
            command.arg("--cert").arg(tls.certificate()).arg("--key").arg(tls.key());
        }
        command
    }

    fn spawn(&mut self, index: usize, state: &str) {
        let cluster: Vec<String> =
            self.members.iter().map(|member| format!("{}=http://{}", member.name, member.peer)).collect();
        let scheme = self.scheme();
        let directory = self.directory.path();
        let member = &self.members[index];
        let client = format!("{scheme}://{}", member.client);
        let peer = format!("http://{}", member.peer);
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(directory.join(&member.data));
        command.args(["--name", &member.name, "--initial-cluster-state", state]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &cluster.join(","), "--heartbeat-interval=50"]);
        // Short, so that elections are quick; ten heartbeats, so that a slow disk of a test machine causes
        // none.
        command.arg("--election-timeout=500");
        if let Some(tls) = &self.tls {
            command.arg("--cert-file").arg(tls.certificate()).arg("--key-file").arg(tls.key());
            command.arg("--trusted-ca-file").arg(tls.authority()).arg("--client-cert-auth");
        }
        let process = Process::spawn(&mut command).expect("etcd: not found; `make test` installs it");
        self.members[index].process = Some(process);
    }

    /// Waits until the cluster serves requests (true) or a member has ended because its port was taken
    /// (false).
    fn serves_or_lost_a_port(&mut self) -> bool {
        wait_for("etcd serves", || {
            for member in &mut self.members {
                let process = member.process.as_mut()?;
                if process.ended().is_some() {
                    let errors = process.stderr.text();
                    assert!(errors.contains("address already in use"), "etcd did not start: {errors}");
                    return Some(false);
                }
            }
            self.is_healthy().then_some(true)
        })
    }

    fn is_healthy(&self) -> bool {
        let output =
            self.ctl_command(&["endpoint", "health"]).output().expect("etcdctl: `make test` installs it");
        output.status.success()
    }
}
