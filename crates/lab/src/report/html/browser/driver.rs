//! ChromeDriver and its browser, over plain HTTP. It knows no page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Attempts to start the driver: it takes the same port of IPv4 and IPv6, and ends if another process has one
/// of them.
const STARTS: usize = 5;

/// One browser with one page.
pub(super) struct Browser {
    driver: Child,
    /// Held open, because a driver that cannot write its output ends.
    _output: BufReader<ChildStdout>,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts both and opens an address. Panics with the packages to install if they are missing.
    pub(super) fn open(address: &str) -> Self {
        // From here on, `Drop` ends the driver in any case.
        let mut browser = (1..=STARTS)
            .find_map(|_| Self::started())
            .unwrap_or_else(|| panic!("chromedriver ended {STARTS} times without telling its port"));
        let options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1000"],
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        }}});
        let session = browser.ask("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser.post("/url", &json!({ "url": address }));
        browser
    }

    /// A driver without a session, or `None` if it ended without printing its port. Panics if it is not
    /// installed.
    fn started() -> Option<Self> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("chromedriver cannot be started ({error}); run lab/install.sh test")
            });
        let mut output = BufReader::new(driver.stdout.take().unwrap());
        let printed = output.by_ref().lines().map_while(Result::ok).find_map(|line| {
            line.strip_prefix("ChromeDriver was started successfully on port ")?
                .trim_end_matches('.')
                .parse()
                .ok()
        });
        let port = printed.unwrap_or_default();
        let driver = Self { driver, _output: output, port, session: String::new() };
        printed.map(|_| driver)
    }

    /// Runs a script on the page and returns what it returns.
    pub(super) fn run(&mut self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Sets the size of the window.
    pub(super) fn resize(&mut self, width: u32, height: u32) {
        // A window has a minimum width, which a page's view does not have.
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics });
        self.post("/goog/cdp/execute", &command);
    }

    /// The messages in the console since the start.
    pub(super) fn console(&mut self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "browser" }));
        log.as_array().unwrap().iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// The requests of the browser since the start, by address.
    pub(super) fn requests(&mut self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "performance" }));
        let url = |entry: &Value| {
            let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let event = &event["message"];
            let asked = event["method"] == "Network.requestWillBeSent";
            asked.then(|| event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned())
        };
        log.as_array().unwrap().iter().filter_map(url).collect()
    }

    fn post(&mut self, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        self.ask("POST", &path, body)
    }

    /// One request on a connection of its own; returns the response's `value`. Panics with an error's
    /// message.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(ANSWER_LIMIT)).unwrap();
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["value"]["error"].is_null(), "{method} {path}: {}", answer["value"]["message"]);
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser when the session ends; a killed driver would leave the browser running.
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &json!({}));
        } else if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let path = format!("/session/{}", self.session);
            let _ = stream.write_all(format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
            let _ = stream.set_read_timeout(Some(ANSWER_LIMIT));
            let _ = stream.read(&mut [0; 64]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// After this time a browser counts as hung. It is long, because on a busy machine starting one has taken
/// more than a minute.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
