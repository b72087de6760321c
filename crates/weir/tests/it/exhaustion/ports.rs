//! No local port left for a connection to a node, in a network namespace with a range of a few ports. The
//! test starts itself again in the namespace, with gateway, node and clients.

use std::fs;
use std::process::Command;
use std::time::Duration;

use testkit::{Client, Origin, Reply, Signal, wait_until};

use super::cpu_ticks;
use crate::support::{builder, everything_to};

#[test]
#[allow(clippy::print_stderr, reason = "who looks for a test that did nothing finds why")]
fn no_local_port_answers_503_and_keeps_others() {
    if std::env::var_os(INSIDE).is_some() {
        return with_few_ports();
    }
    let namespace = ["--user", "--map-root-user", "--net"];
    match Command::new("unshare").args(namespace).args(["ip", "link", "set", "lo", "up"]).output() {
        Ok(output) if output.status.success() => {}
        why => {
            eprintln!("skipped: this machine gives no network namespace with `unshare` and `ip`: {why:?}");
            return;
        }
    }
    let test = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(namespace)
        .args(["sh", "-c", "ip link set lo up && exec \"$0\" --exact \"$1\" --nocapture"])
        .arg(test)
        .arg("exhaustion::ports::no_local_port_answers_503_and_keeps_others")
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
}

fn with_few_ports() {
    let go = Signal::new();
    // Each response ends its connection, so that each request needs a port of its own.
    let origin = Origin::start({
        let go = go.clone();
        move |request| {
            let reply = Reply::new();
            let reply = if request.path() == "/held" { reply.wait(&go) } else { reply };
            reply.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone").close()
        }
    });
    let weir = builder(&everything_to(origin.address(), ""))
        .arguments(&["--access-log", "stdout", "--access-log-format", "$status $weir_cause $weir_detail"])
        .start();
    // The clients connect before the range is small.
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| weir.client()).collect();
    assert_eq!(clients[0].get("/").status, 200);
    fs::write("/proc/sys/net/ipv4/ip_local_port_range", format!("{FIRST_PORT} {}", FIRST_PORT + PORTS - 1))
        .unwrap();
    let before = origin.connections();
    let (held, late) = clients.split_at_mut(PORTS);
    for (number, client) in held.iter_mut().enumerate() {
        client.send(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
        wait_until("the node was asked", || origin.connections() == before + number + 1);
    }
    let spent = cpu_ticks(&weir);
    for client in &mut *late {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.text().contains("no_resources")), (503, true), "{}", answer.text());
    }
    wait_until("the log tells why", || {
        let logged = |line: &&String| line.starts_with("503 no_resources Cannot assign requested address");
        weir.stdout().iter().filter(logged).count() == late.len()
    });
    // Half a second in which no request can be served: a busy loop would use 50 ticks of 10 ms.
    std::thread::sleep(Duration::from_millis(500));
    assert!(cpu_ticks(&weir) - spent < 25, "it spins: {} ticks", cpu_ticks(&weir) - spent);
    go.set();
    for client in held {
        assert_eq!(client.read_response(false).unwrap().text(), "done", "what was under way ends well");
    }
    // A port is free again once the node's side of the connection is closed.
    for client in &mut clients {
        wait_until("it is served", || client.get("/").status == 200);
    }
}

/// Set for the run in the namespace.
const INSIDE: &str = "WEIR_TEST_HAS_FEW_PORTS";
const FIRST_PORT: usize = 61_000;
const PORTS: usize = 8;
/// Three times the number of ports.
const CLIENTS: usize = 24;
