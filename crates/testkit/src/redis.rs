//! A real Redis as a peer of a test: a single server, with TLS and an access list if wanted, a cluster of
//! three, and a master with a replica that three sentinels watch. `lab/install.sh` installs it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::foreign::{ATTEMPTS, Started, free_address, when_listening};
use crate::process::Process;
use crate::wait::{wait_for, wait_until};

/// A running Redis server; killed when dropped.
#[derive(Debug)]
pub struct Redis {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    arguments: Vec<String>,
    process: Option<Process>,
    directory: TempDir,
}

impl Redis {
    /// Starts a server without a password.
    pub fn start() -> Redis {
        Redis::start_with(&[], None)
    }

    /// Starts a server that speaks TLS at [`Redis::tls_address`] and lets no one in without a login: the user
    /// `gw` with the password `gw-secret` may use all keys, the default user has the password `top-secret`.
    pub fn start_secured(certificates: &Certificates) -> Redis {
        let users =
            ["user default on >top-secret ~* &* +@all", "user gw on >gw-secret ~* &* +@all -@dangerous"];
        Redis::start_with(&users, Some(certificates))
    }

    fn start_with(lines: &[&str], tls: Option<&Certificates>) -> Redis {
        for _ in 0..ATTEMPTS {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let (address, tls_address) = (free_address(), tls.map(|_| free_address()));
            let mut text: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            if let (Some(tls), Some(tls_address)) = (tls, tls_address) {
                text.push(format!("tls-port {}", tls_address.port()));
                text.push(format!("tls-cert-file {}", tls.certificate().display()));
                text.push(format!("tls-key-file {}", tls.key().display()));
                text.push(format!("tls-ca-cert-file {}", tls.authority().display()));
                text.push("tls-auth-clients no".to_owned());
            }
            let started = try_start("redis-server", address, &text, &[], directory);
            if let Some((process, directory, arguments)) = started {
                return Redis { address, tls_address, arguments, process: Some(process), directory };
            }
        }
        panic!("redis-server found no free port in {ATTEMPTS} attempts");
    }

    /// The address of its port in cleartext.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its port with TLS.
    pub fn tls_address(&self) -> SocketAddr {
        self.tls_address.expect("this server was started without TLS")
    }

    /// Runs `redis-cli` with these arguments in cleartext, and returns its output.
    pub fn cli(&self, arguments: &[&str]) -> String {
        cli(self.address, arguments)
    }

    /// Kills the server; its data is lost.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts a killed server again, empty, at the same address.
    pub fn restart(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(&self.arguments).current_dir(self.directory.path());
        self.process = Some(Process::spawn(&mut command).expect("redis-server"));
        wait_until("redis serves again", || self.cli(&["PING"]).contains("PONG"));
    }

    /// Stops the process without closing anything: connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        assert!(self.signal(rustix::process::Signal::STOP), "redis-server runs");
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        assert!(self.signal(rustix::process::Signal::CONT), "redis-server runs");
    }

    fn signal(&self, signal: rustix::process::Signal) -> bool {
        self.process.as_ref().is_some_and(|process| process.signal(signal))
    }
}

/// A cluster of three masters; killed when dropped.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts the nodes and waits until all slots are served by all of them.
    pub fn start() -> RedisCluster {
        let node = |_| {
            let bus = free_address().port();
            Redis::start_with(
                &[
                    "cluster-enabled yes",
                    "cluster-config-file nodes.conf",
                    "cluster-node-timeout 2000",
                    &format!("cluster-port {bus}"),
                ],
                None,
            )
        };
        let nodes: Vec<Redis> = (0..3).map(node).collect();
        let ranges = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];
        for (index, (node, [first, last])) in nodes.iter().zip(ranges).enumerate() {
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            assert_eq!(node.cli(&["CLUSTER", "ADDSLOTSRANGE", first, last]), "OK");
        }
        for node in &nodes[1..] {
            let bus = node.setting("cluster-port");
            let port = node.address.port().to_string();
            assert_eq!(nodes[0].cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]), "OK");
        }
        wait_until("all nodes of the cluster serve all slots", || {
            nodes.iter().all(|node| {
                let info = node.cli(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            })
        });
        RedisCluster { nodes }
    }

    /// The nodes; the slots are shared among them in this order.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Moves an empty or occupied slot to another node.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        self.finish_move(slot, from, to);
    }

    /// Begins to move a slot: from now on its node answers ASK for keys that it does not have.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let id = |index: usize| self.nodes[index].cli(&["CLUSTER", "MYID"]);
        assert_eq!(self.nodes[to].cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]), "OK");
        assert_eq!(self.nodes[from].cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]), "OK");
    }

    /// Moves the keys of the slot, and the slot.
    pub fn finish_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let target = self.nodes[to].cli(&["CLUSTER", "MYID"]);
        let keys = self.nodes[from].cli(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]);
        let port = self.nodes[to].address.port().to_string();
        for key in keys.lines().filter(|key| !key.is_empty()) {
            self.nodes[from].cli(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        }
        for node in [to, from] {
            assert_eq!(self.nodes[node].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]), "OK");
        }
    }
}

impl Redis {
    /// The value of a setting of the server.
    fn setting(&self, name: &str) -> String {
        let text = self.cli(&["CONFIG", "GET", name]);
        text.lines().nth(1).expect("a setting has a value").to_owned()
    }
}

/// A master and a replica that three sentinels watch under the name `mymaster`; killed when dropped.
#[derive(Debug)]
pub struct RedisSentinels {
    master: Redis,
    replica: Redis,
    sentinels: Vec<(SocketAddr, Process, TempDir)>,
}

impl RedisSentinels {
    /// Starts all of them and waits until the sentinels agree.
    pub fn start() -> RedisSentinels {
        let master = Redis::start();
        let replica = Redis::start_with(&[&format!("replicaof 127.0.0.1 {}", master.address.port())], None);
        wait_until("the replica follows", || {
            replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
        });
        let sentinels = (0..3).map(|_| sentinel(master.address)).collect();
        let all = RedisSentinels { master, replica, sentinels };
        wait_until("the sentinels know each other and the replica", || {
            all.sentinels.iter().all(|(address, _, _)| {
                let usable = cli(*address, &["SENTINEL", "CKQUORUM", "mymaster"]).contains("3 usable");
                usable && cli(*address, &["SENTINEL", "REPLICAS", "mymaster"]).contains("ip")
            })
        });
        all
    }

    /// The addresses of the sentinels.
    pub fn sentinels(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(|(address, _, _)| *address).collect()
    }

    /// The first master.
    pub fn master(&self) -> &Redis {
        &self.master
    }

    /// The server that becomes the master.
    pub fn replica(&self) -> &Redis {
        &self.replica
    }

    /// Kills the master, and waits until the replica has taken its place.
    pub fn fail_over(&mut self) {
        self.master.kill();
        let port = self.replica.address.port().to_string();
        wait_until("the replica is the master", || {
            self.sentinels.iter().all(|(address, _, _)| {
                let named = cli(*address, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]);
                named.lines().nth(1) == Some(&*port)
            }) && self.replica.cli(&["ROLE"]).starts_with("master")
        });
    }
}

fn sentinel(master: SocketAddr) -> (SocketAddr, Process, TempDir) {
    let port = master.port();
    let lines = [
        format!("sentinel monitor mymaster 127.0.0.1 {port} 2"),
        "sentinel down-after-milliseconds mymaster 500".to_owned(),
        "sentinel failover-timeout mymaster 3000".to_owned(),
    ];
    for _ in 0..ATTEMPTS {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let address = free_address();
        if let Some((process, directory, _)) =
            try_start("redis-sentinel", address, &lines, &["--sentinel"], directory)
        {
            return (address, process, directory);
        }
    }
    panic!("redis-sentinel found no free port in {ATTEMPTS} attempts");
}

/// Starts a server with a configuration of these lines; nothing if its port was taken. Gives its arguments as
/// well.
fn try_start(
    program: &str,
    address: SocketAddr,
    lines: &[String],
    options: &[&str],
    directory: TempDir,
) -> Option<(Process, TempDir, Vec<String>)> {
    let file = directory.path().join("redis.conf");
    write_configuration(&file, address, directory.path(), lines);
    let mut arguments = vec![file.display().to_string()];
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    let mut command = Command::new(program);
    command.args(&arguments).current_dir(directory.path());
    let started = Process::spawn(&mut command);
    let mut process = started.unwrap_or_else(|error| panic!("{program}: {error}; `make test` installs it"));
    // Its errors come on the standard output.
    match when_listening(program, address, &mut process, "") {
        Started::Up => {
            wait_for(&format!("{program} answers"), || {
                let reply = cli(address, &["PING"]);
                (reply.contains("PONG") || reply.contains("NOAUTH")).then_some(())
            });
            Some((process, directory, arguments))
        }
        Started::PortTaken => {
            let output = process.stdout.text();
            assert!(output.contains("Address already in use"), "{program} did not start: {output}");
            None
        }
    }
}

fn write_configuration(file: &PathBuf, address: SocketAddr, directory: &Path, lines: &[String]) {
    let mut text =
        format!("bind 127.0.0.1\nport {}\ndir {}\nsave \"\"\n", address.port(), directory.display());
    for line in lines {
        text += line;
        text.push('\n');
    }
    fs::write(file, text).expect("a writable temporary directory");
}

/// Runs `redis-cli`; the output without the last line break, errors included.
fn cli(address: SocketAddr, arguments: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &address.port().to_string()]).args(arguments);
    let output = command.output().expect("redis-cli: `make test` installs it");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_server_keeps_and_loses_keys() {
        let mut redis = Redis::start();
        assert_eq!(redis.cli(&["SET", "k", "v"]), "OK");
        assert_eq!(redis.cli(&["GET", "k"]), "v");
        redis.kill();
        redis.restart();
        assert_eq!(redis.cli(&["GET", "k"]), "");
    }

    #[test]
    fn cluster_moves_a_slot_with_its_keys() {
        let cluster = RedisCluster::start();
        // The slot of `foo` is 12,182, which the third node has.
        assert_eq!(cluster.nodes()[2].cli(&["SET", "foo", "v"]), "OK");
        assert!(cluster.nodes()[0].cli(&["GET", "foo"]).contains("MOVED 12182"));
        cluster.move_slot(12_182, 2, 0);
        assert_eq!(cluster.nodes()[0].cli(&["GET", "foo"]), "v");
    }

    #[test]
    fn replica_becomes_the_master() {
        let mut sentinels = RedisSentinels::start();
        assert!(sentinels.replica().cli(&["SET", "k", "v"]).contains("READONLY"));
        sentinels.fail_over();
        assert_eq!(sentinels.replica().cli(&["SET", "k", "v"]), "OK");
    }
}
