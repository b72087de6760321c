//! A real MQTT broker, Eclipse Mosquitto, and its clients. `lab/install.sh test` installs both.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::foreign::{ATTEMPTS, free_address, listens};
use crate::process::Process;

/// Seconds after which a client gives up.
const CLIENT_PATIENCE_S: u32 = 20;

/// A running broker that admits every client; killed when dropped.
#[derive(Debug)]
pub struct Mosquitto {
    address: SocketAddr,
    process: Process,
    _folder: TempDir,
}

/// A version of the protocol, as the clients name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqttVersion {
    /// 3.1
    V31,
    /// 3.1.1
    V311,
    /// 5
    V5,
}

impl MqttVersion {
    fn argument(self) -> &'static str {
        match self {
            MqttVersion::V31 => "mqttv31",
            MqttVersion::V311 => "mqttv311",
            MqttVersion::V5 => "mqttv5",
        }
    }
}

impl Mosquitto {
    /// Starts a broker.
    pub fn start() -> Mosquitto {
        for _ in 0..ATTEMPTS {
            let (address, folder) = (free_address(), tempfile::tempdir().expect("a temporary directory"));
            let path = folder.path().join("mosquitto.conf");
            // As root it would drop its rights; the log goes to the standard error with one line for each
            // client.
            let text = format!(
                "user root\nlistener {} 127.0.0.1\nallow_anonymous true\nlog_dest stderr\nlog_type all\n",
                address.port()
            );
            fs::write(&path, text).expect("a writable directory");
            let mut command = Command::new("/usr/sbin/mosquitto");
            command.arg("-c").arg(path);
            let mut process =
                Process::spawn(&mut command).expect("mosquitto: `lab/install.sh test` installs it");
            if listens(address, &mut process) {
                return Mosquitto { address, process, _folder: folder };
            }
        }
        panic!("mosquitto found no free port in {ATTEMPTS} attempts");
    }

    /// The address of MQTT in clear text.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The ids of the clients that have connected so far, in their order.
    pub fn clients(&self) -> Vec<String> {
        let log = self.process.stderr.text();
        let id = |line: &str| {
            let (_, rest) = line.split_once("New client connected from ")?;
            Some(rest.split_once(" as ")?.1.split(' ').next()?.to_owned())
        };
        log.lines().filter_map(id).collect()
    }
}

/// Publishes `text` under `topic` by the broker at `address`, as the client `id`; false if the client has
/// failed.
pub fn mqtt_publish(address: SocketAddr, version: MqttVersion, id: &str, topic: &str, text: &str) -> bool {
    let mut command = client("mosquitto_pub", address, version, id, topic);
    command.args(["-q", "1", "-m", text]).status().is_ok_and(|status| status.success())
}

/// A client that prints the first message under `topic` and ends.
pub fn mqtt_subscribe(address: SocketAddr, version: MqttVersion, id: &str, topic: &str) -> Child {
    let mut command = client("mosquitto_sub", address, version, id, topic);
    let command = command.args(["-q", "1", "-C", "1", "-W", &CLIENT_PATIENCE_S.to_string()]);
    command.stdout(Stdio::piped()).spawn().expect("mosquitto_sub: `lab/install.sh test` installs it")
}

fn client(program: &str, address: SocketAddr, version: MqttVersion, id: &str, topic: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-t", topic]);
    command.args(["-V", version.argument(), "-i", id]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
