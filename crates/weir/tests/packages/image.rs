//! The OCI image: the archive as skopeo and tar read it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::pack::{VERSION, folder, output, package, program, run};

/// The largest image with a static program, as the issue of packages asks.
const IMAGE_MAX_BYTES: u64 = 35_000_000;

/// The unpacked layout of the image.
pub(crate) fn layout() -> &'static Path {
    static UNPACKED: OnceLock<PathBuf> = OnceLock::new();
    UNPACKED.get_or_init(|| {
        let place = folder("oci-layout");
        run("tar", &[&"-xf", &package("-oci.tar"), &"-C", &place]);
        place
    })
}

/// A JSON file of the layout.
fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The file of a descriptor, after its size and digest were compared.
fn blob(descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let path = layout().join("blobs/sha256").join(digest);
    assert_eq!(fs::metadata(&path).unwrap().len(), descriptor["size"].as_u64().unwrap(), "{descriptor}");
    assert!(run("sha256sum", &[&path]).starts_with(digest), "{descriptor}");
    path
}

/// The manifest.
fn manifest() -> Value {
    let index = json(&layout().join("index.json"));
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], VERSION);
    json(&blob(&index["manifests"][0]))
}

/// The configuration of the image: its command, user and digests.
pub(crate) fn configuration() -> Value {
    json(&blob(&manifest()["config"]))
}

/// Unpacks the files of the image with their owners.
pub(crate) fn unpack(root: &Path) {
    let layer = blob(&manifest()["layers"][0]);
    run("tar", &[&"-xzpf", &layer, &"--numeric-owner", &"-C", &root]);
}

#[test]
fn skopeo_reads_the_archive() {
    let archive = format!("oci-archive:{}", package("-oci.tar").display());
    let inspected: Value = serde_json::from_str(&run("skopeo", &[&"inspect", &archive])).unwrap();
    assert_eq!((&inspected["Architecture"], &inspected["Os"]), (&"amd64".into(), &"linux".into()));
    assert_eq!(inspected["Labels"]["org.opencontainers.image.version"], VERSION);
    assert_eq!(inspected["Layers"].as_array().unwrap().len(), 1);
    // Copied as a registry would take it: skopeo checks all digests.
    let copied = folder("oci-copied");
    run("skopeo", &[&"copy", &"--quiet", &archive, &format!("dir:{}", copied.display())]);
    assert_eq!(json(&copied.join("manifest.json")), manifest());
}

#[test]
fn image_runs_as_a_user_with_a_data_volume() {
    let image = configuration();
    let config = &image["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], serde_json::json!(["/usr/bin/weir"]));
    assert_eq!(config["Cmd"], serde_json::json!(["run"]));
    assert_eq!(config["Volumes"], serde_json::json!({"/data": {}}));
    let layer = blob(&manifest()["layers"][0]);
    let unpacked = run("sh", &[&"-c", &"gzip -dc \"$1\" | sha256sum", &"sh", &layer]);
    let digest = unpacked.split_whitespace().next().unwrap();
    assert_eq!(image["rootfs"]["diff_ids"], serde_json::json!([format!("sha256:{digest}")]));
}

#[test]
fn image_has_the_program_and_few_files() {
    let layer = blob(&manifest()["layers"][0]);
    let mut list = Command::new("tar");
    list.args(["-tvz", "--numeric-owner"]).stdin(Stdio::from(File::open(&layer).unwrap()));
    let listed = output(&mut list);
    let files: BTreeMap<_, _> = listed
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .map(|fields| (fields[5], format!("{} {}", fields[0], fields[1])))
        .collect();
    for (path, wanted) in [
        ("usr/bin/weir", "-rwxr-xr-x 0/0"),
        ("etc/passwd", "-rw-r--r-- 0/0"),
        ("etc/weir/weir.yaml", "-rw-r--r-- 0/0"),
        ("etc/ssl/certs/ca-certificates.crt", "-rw-r--r-- 0/0"),
        ("data/", "drwx------ 65532/65532"),
    ] {
        assert_eq!(files.get(path).map(String::as_str), Some(wanted), "{path}: {listed}");
    }
    let is_static = !files.keys().any(|path| path.contains("ld-linux"));
    let bytes = fs::metadata(package("-oci.tar")).unwrap().len();
    // The debug build is larger, and has its libraries with it.
    assert!(!is_static || bytes <= IMAGE_MAX_BYTES, "{bytes} bytes");
    let printed = output(
        Command::new(program()).arg("check").arg(crate::pack::repository().join("packaging/oci/weir.yaml")),
    );
    assert!(printed.trim_end().ends_with("ok"), "{printed}");
}
