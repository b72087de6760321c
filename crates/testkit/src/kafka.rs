//! A real Apache Kafka, started once for all tests of a process because it takes seconds; librdkafka reads
//! its records. `lab/install.sh peers` installs both.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::foreign::free_address;
use crate::keycloak::SHELL;

/// A running broker, which is its own controller.
#[derive(Debug)]
pub struct Kafka {
    listeners: [SocketAddr; 4],
    certificates: Certificates,
    folder: TempDir,
    /// Its shell ends the broker when the standard input is closed, and that happens when this process ends.
    shell: Child,
}

/// A message as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaMessage {
    /// The number of its partition.
    pub partition: i64,
    /// Its key.
    pub key: Option<String>,
    /// Its value.
    pub value: String,
    /// When it was made, in milliseconds of the Unix epoch.
    pub timestamp_ms: i64,
}

/// The longest start: some seconds on an idle machine with two cores, and minutes on one that compiles at the
/// same time.
const START_MAX: Duration = Duration::from_secs(200);
/// Between two looks whether it is ready.
const START_POLL: Duration = Duration::from_millis(50);

impl Kafka {
    /// User and password for PLAIN.
    pub const PLAIN_USER: (&str, &str) = ("plain-user", "plain-secret");
    /// User and password for SCRAM-SHA-256 and SCRAM-SHA-512.
    pub const SCRAM_USER: (&str, &str) = ("scram-user", "scram-secret");

    /// The one of this process, started at the first call.
    pub fn shared() -> &'static Kafka {
        static SHARED: OnceLock<Kafka> = OnceLock::new();
        SHARED.get_or_init(Kafka::start)
    }

    fn start() -> Kafka {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let certificates = Certificates::make();
        let listeners = [(); 4].map(|()| free_address());
        let settings = folder.path().join("server.properties");
        let identity = folder.path().join("identity.pem");
        let pem = [certificates.key(), certificates.certificate()]
            .map(|path| fs::read_to_string(path).expect("a certificate of the test"));
        fs::write(&identity, pem.concat()).expect("a writable directory");
        fs::write(&settings, properties(listeners, folder.path())).expect("a writable directory");
        fs::write(folder.path().join(SCRIPT_NAME), SCRIPT).expect("a writable directory");
        format_storage(&settings);
        let mut command = Command::new("bash");
        command.args(["-c", SHELL, "kafka"]);
        java(&mut command).args(["-Xmx256m", "kafka.Kafka"]).arg(&settings);
        let shell = command.stdin(Stdio::piped()).spawn().expect("bash can be started");
        let kafka = Kafka { listeners, certificates, folder, shell };
        kafka.wait_until_ready();
        kafka
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + START_MAX;
        // The listeners for clients open when the broker has joined its cluster.
        while self.listeners.iter().any(|listener| TcpStream::connect(listener).is_err()) {
            assert!(
                Instant::now() < deadline,
                "Kafka ({}) is not ready after {START_MAX:?}",
                self.shell.id()
            );
            thread::sleep(START_POLL);
        }
    }

    /// The listener in cleartext without a login.
    pub fn plaintext(&self) -> SocketAddr {
        self.listeners[0]
    }

    /// The listener in cleartext with a login.
    pub fn sasl_plaintext(&self) -> SocketAddr {
        self.listeners[1]
    }

    /// The listener with TLS without a login.
    pub fn ssl(&self) -> SocketAddr {
        self.listeners[2]
    }

    /// The listener with TLS and a login.
    pub fn sasl_ssl(&self) -> SocketAddr {
        self.listeners[3]
    }

    /// The certificates of the listeners with TLS.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Makes a topic. Without this, a topic is made with its first message, with three partitions.
    pub fn create_topic(&self, topic: &str, partitions: usize) {
        self.script("create", topic, partitions);
    }

    /// The first `count` messages of a topic, of each partition in order; waits until there are so many.
    pub fn read(&self, topic: &str, count: usize) -> Vec<KafkaMessage> {
        let text = self.script("read", topic, count);
        let read = |line: &str| {
            let message: Value = serde_json::from_str(line).expect("a message as JSON");
            KafkaMessage {
                partition: message["partition"].as_i64().expect("a partition"),
                key: message["key"].as_str().map(str::to_owned),
                value: message["value"].as_str().expect("a value").to_owned(),
                timestamp_ms: message["timestamp"].as_i64().expect("a time"),
            }
        };
        text.lines().map(read).collect()
    }

    fn script(&self, step: &str, topic: &str, number: usize) -> String {
        let mut command = Command::new(installed("test-python/bin/python"));
        command.arg(self.folder.path().join(SCRIPT_NAME)).args([
            step,
            &self.plaintext().to_string(),
            topic,
            &number.to_string(),
        ]);
        let output = command.output().expect("Python can be started");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{step} {topic} {number}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn installed(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(name);
    assert!(path.exists(), "{} is not there; run lab/install.sh peers", path.display());
    path
}

fn java(command: &mut Command) -> &mut Command {
    // The second compiler would take longer than the tests.
    command.args(["java", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(format!("{}/*", installed("test-java/kafka/lib").display()))
}

/// Prepares the folder of the data, and the users of SCRAM in it.
fn format_storage(settings: &Path) {
    let (user, password) = Kafka::SCRAM_USER;
    let mut command = Command::new("env");
    java(&mut command).args(["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]);
    command.arg(settings);
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        command.arg("--add-scram").arg(format!("{mechanism}=[name={user},password={password}]"));
    }
    let output = command.output().expect("java: `lab/install.sh test` installs it");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "StorageTool: {text} {errors}");
}

fn properties(listeners: [SocketAddr; 4], folder: &Path) -> String {
    let names = ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"];
    let advertised: Vec<String> =
        names.iter().zip(listeners).map(|(name, address)| format!("{name}://{address}")).collect();
    let controller = free_address();
    let (user, password) = Kafka::PLAIN_USER;
    let mut text = SETTINGS
        .replace("$ADVERTISED", &advertised.join(","))
        .replace("$CONTROLLER", &controller.to_string())
        .replace("$FOLDER", &folder.display().to_string());
    for listener in ["sasl_plaintext", "sasl_ssl"] {
        let security = "org.apache.kafka.common.security";
        text += &format!(
            "listener.name.{listener}.plain.sasl.jaas.config={security}.plain.PlainLoginModule required user_{user}=\"{password}\";\n"
        );
        for mechanism in ["scram-sha-256", "scram-sha-512"] {
            text += &format!(
                "listener.name.{listener}.{mechanism}.sasl.jaas.config={security}.scram.ScramLoginModule required;\n"
            );
        }
    }
    text
}

const SETTINGS: &str = "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@$CONTROLLER
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=$ADVERTISED,CONTROLLER://$CONTROLLER
advertised.listeners=$ADVERTISED
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
log.dirs=$FOLDER/data
num.partitions=3
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
ssl.keystore.type=PEM
ssl.keystore.location=$FOLDER/identity.pem
";

const SCRIPT_NAME: &str = "script.py";
const SCRIPT: &str = r#"
import json, sys, time
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

step, place, topic, number = sys.argv[1:]
number = int(number)
if step == "create":
    admin = AdminClient({"bootstrap.servers": place})
    for made in admin.create_topics([NewTopic(topic, number, 1)]).values():
        made.result(60)
else:
    consumer = Consumer({"bootstrap.servers": place, "group.id": "test", "enable.auto.commit": False})
    deadline, found, assigned = time.time() + 20, [], False
    while len(found) < number:
        if time.time() > deadline:
            sys.exit(f"{len(found)} of {number} messages came: {found}")
        if not assigned:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            assigned = len(partitions) > 0
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            continue
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            found.append(message)
    for message in sorted(found, key=lambda message: (message.partition(), message.offset())):
        key = message.key()
        print(json.dumps({
            "partition": message.partition(), "key": key and key.decode(), "value": message.value().decode(),
            "timestamp": message.timestamp()[1],
        }))
    consumer.close()
"#;
