//! Plugins of users in Lua: the lists of plugins, and the folders that their files lie in.

use std::fs;

use super::*;

#[test]
fn plugins_with_a_file_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["apisix/plugins/own", "apisix/stream/plugins/sessions", "apisix/stream/plugins/own"] {
        let file = folder.path().join(format!("{name}.lua"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "return {}").unwrap();
    }
    let path = folder.path().display();
    let text = |lists: &str| format!("apisix:\n  extra_lua_path: {path}/?.lua\n{lists}\n");
    let of_requests = "plugins: [key-auth, own, sessions]";
    let (settings, remarks, faults) =
        read("c.yaml", &text(&format!("{of_requests}\nstream_plugins: [mqtt-proxy, sessions, gone]")));
    assert_eq!(faults, [""; 0]);
    assert!(settings.contains(&"lua_plugins own,sessions".to_owned()), "{settings:?}");
    let unknown = "unknown here, objects with one of them are faulty";
    let expected = [
        format!("plugins: warning: {unknown}: sessions"),
        format!("stream_plugins: warning: {unknown}: gone"),
    ];
    for (remark, expected) in remarks.iter().zip(expected) {
        assert!(remark.contains(&expected), "{remarks:?}");
    }
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    let (_, _, faults) = read("c.yaml", &text("plugins: [own]\nstream_plugins: [own]"));
    assert!(faults[0].contains("stream_plugins: there are two plugins own"), "{faults:?}");
}
