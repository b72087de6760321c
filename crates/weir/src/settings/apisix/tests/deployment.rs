//! Tables: access to the Admin API, the source of objects, the keyring and the plugins.

use super::super::parse_apisix_config;
use super::{check, gives, read, refused, warns};

#[test]
fn admin_https_takes_its_files() {
    let admin = |text: &str| format!("deployment:\n  admin:\n    {text}\n");
    gives(
        &admin(
            "https_admin: true\n    admin_api_mtls: {admin_ssl_cert: /c.pem, admin_ssl_cert_key: k.pem, admin_ssl_ca_cert: ''}",
        ),
        &["admin_tls_cert Some(\"/c.pem\")", "admin_tls_key Some(\"k.pem\")"],
    );
    gives(
        &admin(
            "https_admin: on\n    admin_api_mtls: {admin_ssl_cert: /c, admin_ssl_cert_key: /k, admin_ssl_ca_cert: /a}",
        ),
        &["admin_tls_cert Some(\"/c\")", "admin_tls_key Some(\"/k\")", "admin_tls_client_ca Some(\"/a\")"],
    );
    gives(
        &admin("https_admin: false\n    admin_api_mtls: {admin_ssl_cert: '', admin_ssl_cert_key: ''}"),
        &[],
    );
    warns(
        &admin("admin_api_mtls: {admin_ssl_cert: /c, admin_ssl_cert_key: /k}"),
        &["3: deployment.admin.admin_api_mtls.admin_ssl_cert: warning: has no effect"],
    );
    refused(
        &admin("https_admin: true\n    admin_api_mtls: {admin_ssl_cert: /c}"),
        &["3: deployment.admin.https_admin: needs `admin_api_mtls` with"],
    );
}

#[test]
fn admin_keys_and_networks() {
    let admin = |text: &str| format!("deployment:\n  admin:\n    {text}\n");
    check(
        &admin(
            "admin_key:\n      - {name: a, key: 0a1b2c3d4e5f0a1b, role: admin}\n      - {name: v, key: short-one, role: viewer}",
        ),
        &["admin_keys [RoleKey { key: (set), role: Admin }, RoleKey { key: (set), role: Viewer }]"],
        &["5: deployment.admin.admin_key[1].key: warning: is short enough to be guessed"],
        &[],
    );
    gives(&admin("admin_key: [{name: admin, key: '', role: admin}]"), &[]);
    gives(&admin("admin_key: ''"), &[]);
    gives(&admin("admin_key: [{key: ${{KEY}}}]"), &["admin_keys [RoleKey { key: (set), role: Admin }]"]);
    check(
        &admin("admin_key:\n      - name: admin\n        key: edd1c9f034335f136f87ad84b625c8f1"),
        &["admin_keys [RoleKey { key: (set), role: Admin }]"],
        &["5: deployment.admin.admin_key[0].key: warning: is published"],
        &[],
    );
    warns(
        &admin("admin_key: [{key: '', role: viewer}]"),
        &["3: deployment.admin.admin_key[0].key: warning: is empty"],
    );
    refused(
        &admin(
            "admin_key:\n      - key: 1234567890123456\n      - {key: abc, role: boss}\n      - key: 'a key with spaces in it'\n",
        ),
        &[
            "4: deployment.admin.admin_key[0].key: is read as a number by YAML; put it in quotes",
            "5: deployment.admin.admin_key[1].role: `boss` is no role",
            "3: deployment.admin.admin_key: a key is empty, or holds a space",
        ],
    );
    refused(&admin("admin_key: secret"), &["3: deployment.admin.admin_key: is a list of keys"]);
    gives(
        &admin("{admin_key_required: false, enable_admin_cors: false, admin_api_version: v3}"),
        &["admin_key_required false", "admin_cors false"],
    );
    let open = "admin Some(0.0.0.0:9180)";
    gives(&admin("allow_admin: [10.0.0.0/8, '::/64']"), &[open, "admin_allow [10.0.0.0/8, ::/64]"]);
    gives(&admin("allow_admin: [127.0.0.0/24]"), &["admin_allow [127.0.0.0/24]"]);
    gives(&admin("{allow_admin: [0.0.0.0/0], admin_listen: {ip: 127.0.0.1}}"), &["admin_allow [0.0.0.0/0]"]);
    gives(&admin("allow_admin: []"), &[open, "admin_allow [0.0.0.0/0, ::/0]"]);
    gives(&admin("allow_admin:"), &[open, "admin_allow [0.0.0.0/0, ::/0]"]);
    refused(
        &admin("admin_api_version: v2"),
        &["3: deployment.admin.admin_api_version: `v2` is not spoken here"],
    );
    refused(&admin("allow_admin: [home]"), &["3: deployment.admin.allow_admin: `home` is not an address"]);
}

#[test]
fn roles_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    let of = |text: &str| read(config.to_str().unwrap(), text);
    let role = |role: &str, provider: &str| {
        format!("deployment:\n  role: {role}\n  role_{role}:\n    config_provider: {provider}\n")
    };
    let resources = |name: &str| format!("resources Some({:?})", folder.path().join(name));
    let (settings, remarks, faults) = of(&role("data_plane", "yaml"));
    assert_eq!(
        (settings, remarks, faults),
        (vec!["admin None".to_owned(), resources("apisix.yaml")], vec![], vec![])
    );
    assert_eq!(of(&role("data_plane", "json")).0[1], resources("apisix.json"));

    let (settings, remarks, _) = of(&role("traditional", "yaml"));
    assert!(settings.is_empty() && remarks[0].contains("no apisix.yaml lies beside it"), "{remarks:?}");
    std::fs::write(folder.path().join("apisix.yaml"), "routes: []\n#END\n").unwrap();
    assert_eq!(of(&role("traditional", "yaml")).0, [resources("apisix.yaml")]);
    let profile = |name: &str| (name == "APISIX_PROFILE").then(|| "dev".to_owned());
    let mut faults = Vec::new();
    let (written, _) = parse_apisix_config(&config, &role("data_plane", "yaml"), &profile, &mut faults);
    assert!(format!("{written:?}").contains("apisix-dev.yaml"), "{written:?}");

    // The provider of another role does not count.
    gives("deployment: {role: traditional, role_data_plane: {config_provider: yaml}}", &[]);
    refused("deployment: {role: standalone}", &["1: deployment.role: `standalone` is no role"]);
    refused(
        "deployment:\n  role_traditional:\n    config_provider: xds\n",
        &["3: deployment.role_traditional.config_provider: `xds` is not read here"],
    );
    refused(
        "deployment:\n  role: control_plane\n  role_control_plane: {config_provider: yaml}\n",
        &["3: deployment.role_control_plane.config_provider: a control plane has no objects"],
    );
    refused(
        "deployment:\n  role: data_plane\n",
        &["2: deployment.role: this role needs a source of objects"],
    );
}

#[test]
fn etcd_as_the_provider() {
    let off = "apisix: {data_encryption: {enable_encrypt_fields: false}}\n";
    gives(
        "apisix:\n  ssl: {enable: false, ssl_trusted_certificate: /ca.pem}\n  data_encryption: {enable_encrypt_fields: false}\n\
         deployment:\n  role: data_plane\n  role_data_plane: {config_provider: etcd}\n  etcd:\n    \
         host: ['https://192.0.2.1:2379', 'https://192.0.2.2:2379']\n    prefix: /gate\n    user: weir\n    \
         password: word-of-etcd\n    timeout: 3\n    watch_timeout: 50\n    \
         tls: {cert: /c.pem, key: /k.pem, verify: false, sni: etcd.example}\n",
        &[
            "proxy_tls []",
            "admin None",
            "source Etcd",
            "etcd_endpoints [\"https://192.0.2.1:2379\", \"https://192.0.2.2:2379\"]",
            "etcd_prefix \"/gate\"",
            "etcd_username Some(\"weir\")",
            "etcd_password Some((set))",
            "etcd_ca Some(\"/ca.pem\")",
            "etcd_cert Some(\"/c.pem\")",
            "etcd_key Some(\"/k.pem\")",
            "etcd_server_name Some(\"etcd.example\")",
            "etcd_verify false",
            "etcd_timeout_ms 3000",
            "secret_ca Some(\"/ca.pem\")",
            "trusted_certificates [\"/ca.pem\"]",
        ],
    );
    gives(
        &format!("{off}deployment: {{etcd: {{host: ['http://127.0.0.1:2379'], user: ''}}}}"),
        &["source Etcd"],
    );
    gives(
        &format!("{off}deployment: {{role: control_plane, etcd: {{}}}}"),
        &["proxy []", "proxy_tls []", "source Etcd"],
    );
    check(
        &format!("{off}deployment: {{etcd: {{hosts: []}}}}"),
        &["source Etcd"],
        &["2: deployment.etcd.hosts: warning: there is no such key; did you mean `host`?"],
        &[],
    );
    // The provider of the role decides.
    check(
        "deployment:\n  role_traditional: {config_provider: yaml}\n  etcd: {prefix: /gate}\n",
        &["etcd_prefix \"/gate\""],
        &["2: deployment.role_traditional.config_provider: warning: no apisix.yaml lies beside it"],
        &[],
    );
    refused(
        &format!("{off}deployment:\n  etcd:\n    host: [etcd.example]\n    timeout: soon\n"),
        &["5: deployment.etcd.timeout: `soon` is not a time", "4: deployment.etcd.host: "],
    );
}

#[test]
fn secrets_are_encrypted_with_the_keyring() {
    gives(
        "apisix: {data_encryption: {keyring: [0123456789abcdef0123456789abcdef, 0123456789abcdeF]}}",
        &["encryption_keyring (2 keys)"],
    );
    gives("apisix: {data_encryption: {enable_encrypt_fields: false, keyring: [0123456789abcdef]}}", &[]);
    check(
        "deployment:\n  etcd: {}\n",
        &["source Etcd", "encryption_keyring (2 keys)"],
        &["2: apisix.data_encryption.keyring: warning: is not written: secrets are encrypted with keys"],
        &[],
    );
    check(
        "apisix:\n  data_encryption: {keyring: [edd1c9f0985e76a2]}\n",
        &["encryption_keyring (1 keys)"],
        &["2: apisix.data_encryption.keyring: warning: secrets are encrypted with keys that are published"],
        &[],
    );
    refused(
        "apisix:\n  data_encryption:\n    keyring:\n      - 1234567890123456\n",
        &["4: apisix.data_encryption.keyring: is read as a number by YAML; put it in quotes"],
    );
    refused(
        "apisix:\n  data_encryption: {keyring: [short]}\n",
        &["2: apisix.data_encryption.keyring: key 1 has 5 bytes"],
    );
}

#[test]
fn missing_plugins_are_named() {
    check(
        "apisix: {}\nplugins:\n  - key-auth\n  - wolf-rbac\n  - cors\n  - my-own\n",
        &["plugins Some([\"key-auth\", \"cors\"])"],
        &["2: plugins: warning: unknown here, objects with one of them are faulty: wolf-rbac, my-own"],
        &[],
    );
    gives(
        "apisix: {}\nplugins: [log-rotate]\nplugin_attr:\n  log-rotate: {interval: 10, max_kept: 5, max_size: -1, enable_compression: true, timeout: 7}\n",
        &[
            "plugins Some([\"log-rotate\"])",
            "log_rotate true",
            "log_rotate_interval_seconds 10",
            "log_rotate_max_kept 5",
            "log_rotate_compression true",
            "log_rotate_timeout_ms 7",
        ],
    );
    gives("apisix: {}\nplugins: []\n", &["plugins Some([])"]);
    let listed = "plugins Some([\"server-info\"])";
    gives(
        "apisix: {id: a}\nplugins: [server-info]\n",
        &["instance_id Some(\"a\")", "server_info_report_seconds 60", listed],
    );
    let attribute =
        |ttl: &str| format!("apisix: {{}}\nplugin_attr: {{server-info: {{report_ttl: {ttl}}}}}\n");
    gives(&attribute("120"), &[]);
    gives(&(attribute("120") + "plugins: [server-info]\n"), &["server_info_report_seconds 120", listed]);
    for (port, expected) in [("8443", "8443"), ("443", "443"), ("0", "443"), ("-1", "443"), ("70000", "443")]
    {
        let text = format!("apisix: {{}}\nplugin_attr: {{redirect: {{https_port: {port}}}}}\n");
        gives(&text, &[&*format!("redirect_https_port_number {expected}")]);
    }
    refused(
        "apisix: {}\nplugin_attr: {redirect: {https_port: x}}\n",
        &["2: plugin_attr.redirect.https_port: `x` is no number"],
    );
    refused(&attribute("2"), &["2: plugin_attr.server-info.report_ttl: `2` is not between 3 and 86400"]);
    warns(
        "apisix: {}\nplugin_attr:\n  my-own: {interval: 1}\n  prometheus: {export_uri: /metrics, refresh_interval: 1, default_buckets: [1]}\n",
        &[
            "3: plugin_attr.my-own: warning: no plugin here reads it",
            "4: plugin_attr.prometheus.export_uri: warning: metrics are at",
            "4: plugin_attr.prometheus.default_buckets: warning: buckets are",
        ],
    );
}
