//! A real GraphQL server, started once for all tests of a process: npm's graphql-yoga. `lab/install.sh test`
//! installs it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::openid_provider::installed;

/// A running server. It has persons, products, and `tick(key)`, which counts its executions for each key.
/// Below `/guarded` its schema is for requests with `Authorization: Bearer operator` only.
#[derive(Debug)]
pub struct GraphqlServer {
    address: SocketAddr,
    /// It ends when its standard input is closed, and that happens when this process ends.
    _process: Child,
    _folder: TempDir,
}

impl GraphqlServer {
    /// The one of this process, started at the first call.
    pub fn shared() -> &'static GraphqlServer {
        static SHARED: OnceLock<GraphqlServer> = OnceLock::new();
        SHARED.get_or_init(GraphqlServer::start)
    }

    fn start() -> GraphqlServer {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = folder.path().join("server.mjs");
        fs::write(&script, include_str!("graphql_server.mjs")).expect("a writable temporary directory");
        let mut command = Command::new(installed("node"));
        command.arg(script).arg(installed("node_modules"));
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node can be started");
        let mut line = String::new();
        // Node ends, and the line with it, if the script cannot serve.
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line of text");
        let address = line.trim().parse().unwrap_or_else(|_| panic!("the GraphQL server ended: {line}"));
        GraphqlServer { address, _process: process, _folder: folder }
    }

    /// Its address; GraphQL is at `/graphql`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
