//! A container of crun, and the programs beside it in its network.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

use crate::image;
use crate::pack::{folder, output, program};

/// A name server for one name, which has the address 127.0.0.1. The question of a message begins behind 12
/// bytes and ends 4 bytes behind the zero byte of its name.
const NAME_SERVER: &str = r#"
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("ready", flush=True)
wanted = b"".join(bytes([len(part)]) + part.encode() for part in sys.argv[1].split(".")) + b"\0"
while True:
    message, peer = server.recvfrom(512)
    end = message.index(b"\0", 12) + 5
    question = message[12:end]
    is_known = question[:-4].lower() == wanted
    has_address = is_known and question[-4:-2] == b"\0\1"
    head = message[:2] + (b"\x85\x80" if is_known else b"\x85\x83") + b"\0\1" + (b"\0\1" if has_address else b"\0\0") + b"\0" * 4
    answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if has_address else b""
    server.sendto(head + question + answer, peer)
"#;

/// A running container; killed when dropped, with its peers.
pub(crate) struct Container {
    folder: PathBuf,
    id: String,
    child: Child,
    peers: Vec<Child>,
}

impl Container {
    /// Starts the image with these lines in `/etc/hosts` and waits until it is ready.
    pub(crate) fn start(name: &str, hosts: &[(&str, &str)]) -> Container {
        let folder = folder(&format!("container-{name}"));
        let root = folder.join("rootfs");
        fs::create_dir(&root).unwrap();
        image::unpack(&root);
        let data = folder.join("data");
        fs::create_dir(&data).unwrap();
        output(Command::new("chown").arg("65532:65532").arg(&data));
        let lines: String = hosts.iter().map(|(address, name)| format!("{address} {name}\n")).collect();
        fs::write(folder.join("hosts"), format!("127.0.0.1 localhost\n{lines}")).unwrap();
        fs::write(folder.join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
        fs::write(folder.join("config.json"), specification(&folder).to_string()).unwrap();
        Container::run(folder, format!("weir-test-{name}-{}", std::process::id()))
    }

    /// A new container with the files and the data of one that has ended.
    pub(crate) fn again(&self) -> Container {
        Container::run(self.folder.clone(), format!("{}-again", self.id))
    }

    fn run(folder: PathBuf, id: String) -> Container {
        let log = File::create(folder.join("log")).unwrap();
        let child = crun(&folder)
            .args(["run", "--pid-file", "pid", "--bundle", ".", &id])
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut container = Container { folder, id, child, peers: Vec::new() };
        let stdout = container.child.stdout.take().unwrap();
        let is_ready = is_ready(stdout);
        assert!(is_ready, "the container ended: {}", container.log());
        container
    }

    /// The folder of the container's files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Standard error of the container.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// A file of the instance below `/proc/PID`.
    pub(crate) fn process_file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.pid())).unwrap()
    }

    fn pid(&self) -> String {
        fs::read_to_string(self.folder.join("pid")).unwrap().trim().to_owned()
    }

    /// A program in the network of the container, with the files of the host.
    fn beside(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.pid()).arg("--net").arg(program);
        command
    }

    /// Starts the echo origin on its usual port in the network of the container.
    pub(crate) fn start_origin(&mut self) {
        let mut origin = self.beside(&program());
        origin.arg("origin");
        self.start_peer(&mut origin);
    }

    /// Starts a name server on port 53 that knows one name.
    pub(crate) fn start_name_server(&mut self, name: &str) {
        let mut server = self.beside("/usr/bin/python3".as_ref());
        server.args(["-c", NAME_SERVER, name]);
        self.start_peer(&mut server);
    }

    fn start_peer(&mut self, command: &mut Command) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        self.peers.push(child);
        assert!(is_ready(stdout), "{command:?}");
    }

    /// The head and the body of an answer to curl with these arguments, in the network of the container.
    pub(crate) fn curl(&self, arguments: &[&str]) -> String {
        output(
            self.beside("/usr/bin/curl".as_ref())
                .args(["--silent", "--show-error", "--include"])
                .args(arguments),
        )
    }

    /// The answer of the proxy to `GET path`.
    pub(crate) fn get(&self, path: &str) -> String {
        self.curl(&[&format!("http://127.0.0.1:9080{path}")])
    }

    /// Puts an object with the Admin API, by the key in the data folder.
    pub(crate) fn put(&self, path: &str, body: &Value) {
        let key = fs::read_to_string(self.folder.join("data/admin.key")).unwrap();
        let field = format!("X-API-KEY: {}", key.trim());
        let url = format!("http://127.0.0.1:9180/apisix/admin/{path}");
        let answer = self.curl(&["--request", "PUT", "--header", &field, "--data", &body.to_string(), &url]);
        assert!(answer.starts_with("HTTP/1.1 201"), "{path}: {answer}");
    }

    /// The output of a program in the container, as the user of the image.
    pub(crate) fn exec(&self, arguments: &[&str]) -> String {
        output(crun(&self.folder).args(["exec", "--user", "65532:65532", &self.id]).args(arguments))
    }

    /// Sends a signal to the instance.
    pub(crate) fn signal(&self, name: &str) {
        output(crun(&self.folder).args(["kill", &self.id, name]));
    }

    /// Waits for the end of the container.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for peer in &mut self.peers {
            let _ended = peer.kill();
            let _status = peer.wait();
        }
        // Refused if the container has ended, as it should have.
        let _output = crun(&self.folder).args(["delete", "--force", &self.id]).output();
        let _status = self.child.wait();
    }
}

/// Starts crun where it sees no cgroup of version 2 beside those of version 1, a mixture that it refuses.
const CRUN: &str = "umount /sys/fs/cgroup/unified 2>/dev/null; exec crun --cgroup-manager=disabled \"$@\"";

/// crun with its state beside the container. It makes no cgroup, because this machine may not let any be
/// made.
fn crun(folder: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", CRUN, "crun", "--root"]).arg(folder.join("state"));
    command
}

/// Whether a program prints that it is ready before its end. Later lines are read by a thread, so that the
/// pipe never fills.
fn is_ready(stdout: std::process::ChildStdout) -> bool {
    let mut lines = BufReader::new(stdout).lines();
    let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line == "ready");
    std::thread::spawn(move || lines.for_each(drop));
    is_ready
}

/// The orders for the runtime about the image: its user, command and variables, no capability, a read-only
/// root.
fn specification(folder: &Path) -> Value {
    let config = image::configuration()["config"].clone();
    let mut arguments = config["Entrypoint"].as_array().unwrap().clone();
    arguments.extend(config["Cmd"].as_array().unwrap().clone());
    let (user, group) = config["User"].as_str().unwrap().split_once(':').unwrap();
    let number = |text: &str| text.parse::<u32>().unwrap();
    let bound = |name: &str, place: &str, access: &str| json!({"destination": place, "type": "bind", "source": folder.join(name), "options": ["bind", access, "nosuid", "nodev"]});
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": number(user), "gid": number(group)},
            "args": arguments,
            "env": config["Env"],
            "cwd": config["WorkingDir"],
            "capabilities": {"bounding": [], "effective": [], "permitted": [], "ambient": []},
            "noNewPrivileges": true,
        },
        "root": {"path": "rootfs", "readonly": true},
        "hostname": "weir",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=64k"]},
            bound("data", "/data", "rw"),
            bound("hosts", "/etc/hosts", "ro"),
            bound("resolv.conf", "/etc/resolv.conf", "ro"),
        ],
        "linux": {
            "namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
            "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}
