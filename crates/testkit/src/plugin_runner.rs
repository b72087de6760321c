//! Plugin runners of APISIX as peers of a test: commands that a gateway starts. `lab/install.sh test`
//! installs that for Go and the stand-in, `lab/install.sh peers` that for Java.

use std::path::{Path, PathBuf};

use crate::foreign::go_program;

/// The command of the runner for Go, with its own example plugins.
pub fn go() -> Vec<String> {
    vec![go_program("go-runner").to_string_lossy().into_owned(), "run".to_owned()]
}

/// The command of a stand-in in Python, which behaves as the name of a plugin says; see `plugin_runner.py`.
pub fn stand_in() -> Vec<String> {
    let python = target("test-python/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/plugin_runner.py");
    [python, script].map(|path| path.to_string_lossy().into_owned()).to_vec()
}

/// The command of the runner for Java, with the plugins `asks`, `marks` and `shouts` of
/// `lab/test-java/plugin-runner`.
pub fn java() -> Vec<String> {
    let folder = target("test-java/plugin-runner");
    let class_path = format!("{0}/lib/*:{0}", folder.display());
    let options = ["-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", &class_path, "test.TestRunner"];
    let settings = [
        "--socket.file=${APISIX_LISTEN_ADDRESS}",
        "--cache.config.expired=${APISIX_CONF_EXPIRE_TIME}",
        "--cache.config.capacity=1000",
    ];
    std::iter::once("java").chain(options).chain(settings).map(str::to_owned).collect()
}

fn target(path: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(path);
    assert!(place.exists(), "{} is not there; run lab/install.sh test peers", place.display());
    place
}
