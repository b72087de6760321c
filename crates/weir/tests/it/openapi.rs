//! The OpenAPI document of a running instance, checked by independent tools from PyPI:
//! `openapi-spec-validator` validates it, and `schemathesis` sends the requests that it describes and
//! compares each response with it. `lab/install.sh test` installs both under `target/`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use testkit::{ADMIN_KEY, Weir};

use crate::clients::python;
use crate::support::BINARY;

/// A Python with the tools, in the instance's folder, so that files that a tool keeps of earlier runs do not
/// change this one.
fn python_at(weir: &Weir) -> Command {
    let mut command = Command::new(python());
    command.current_dir(weir.directory());
    command
}

fn check(run: &Output) {
    let (printed, failed) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{printed}{failed}");
}

#[test]
fn committed_document_is_valid_and_served() {
    let weir = Weir::start(BINARY);
    let served = weir.admin_raw("GET", "openapi.json", &[("X-API-KEY", ADMIN_KEY)], b"");
    assert_eq!((served.status, served.header("content-type")), (200, Some("application/json")));
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(committed).unwrap()).unwrap();
    assert_eq!(served.json(), committed);
    assert_eq!(
        weir.admin_raw("GET", "openapi.json", &[], b"").status,
        401,
        "it needs the key as all of the API"
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/openapi/validate_document.py");
    let address = format!("http://{}", weir.address("admin"));
    check(&python_at(&weir).arg(script).args([&address, ADMIN_KEY]).output().unwrap());
}

/// Runs schemathesis against this instance, with the phases and operations in `more`; the same requests in
/// each run.
fn ask_everything(weir: &Weir, checks: &str, more: &[&str]) {
    let document = format!("http://{}/apisix/admin/openapi.json", weir.address("admin"));
    let run = python_at(weir)
        .args(["-m", "schemathesis.cli", "run", &document, "--header", &format!("X-API-KEY:{ADMIN_KEY}")])
        .args(["--checks", checks, "--generation-deterministic", "--no-shrink"])
        .args(["--generation-with-security-parameters", "false", "--suppress-health-check", "all"])
        .args(["--no-color", "--warnings", "off"])
        // A stream does not end by itself.
        .args(["--exclude-path", "/weir/events"])
        // Its answer ends after ten minutes only.
        .args(["--exclude-path", "/weir/tap"])
        .args(more)
        .output()
        .unwrap();
    check(&run);
    assert!(!weir.stderr().join("\n").contains("panicked"), "a panic was caught");
}

#[test]
fn every_answer_to_a_write_is_as_the_document_says() {
    let mut weir = Weir::builder(BINARY).arguments(&["--admin-stream-routes", "true"]).start();
    let checks = format!("{CHECKS},negative_data_rejection");
    let writes = ["PUT", "POST", "PATCH", "DELETE"].map(|method| format!("--include-method={method}"));
    let writes: Vec<&str> = writes.iter().map(String::as_str).collect();
    ask_everything(
        &weir,
        &checks,
        &[&["--phases", "examples,fuzzing", "--max-examples", "2"], &*writes].concat(),
    );
    assert!(weir.is_running());
}

#[test]
fn every_answer_to_a_question_is_as_the_document_says() {
    let mut weir = Weir::builder(BINARY).arguments(&["--admin-stream-routes", "true"]).start();
    let checks = format!("{CHECKS},negative_data_rejection");
    ask_everything(&weir, &checks, &["--phases", "examples,coverage", "--include-method=GET"]);
    ask_everything(&weir, CHECKS, &["--phases", "stateful", "--max-examples", "5"]);
    assert!(weir.is_running());
}

/// The checks of every response. Not `unsupported_method`: it wants 405 where APISIX answers 404. Not
/// `positive_data_acceptance`: no schema can describe the objects that an object refers to. And
/// `negative_data_rejection` of writes only: a listing ignores an invalid page number, as APISIX does.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,ignored_auth,use_after_free,\
                      ensure_resource_availability";
