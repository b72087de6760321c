//! Extensions in the compiled configuration: their instances are made anew when their versions change, and a
//! version that cannot be built leaves the former instances in force.

use exchange::options::AttemptTimeouts;
use exchange::plugin::extension::{Extension, ExtensionLanguage};
use exchange::plugin::extension_loader::Loader;
use exchange::plugin::services::Services;
use model::catalog::PluginCatalog;
use model::snapshot::{FaultPolicy, SnapshotChange};
use model::{PluginInfo, WrittenObject};
use serde_json::json;

use super::*;
use crate::compile::{CompileFault, SnapshotCompiler};
use crate::runtime::Runtime;

/// A language of which the content names what fails.
struct Tiny;

struct Code {
    content: String,
}

struct Nothing;

impl Plugin for Nothing {}

impl ExtensionLanguage for Tiny {
    fn name(&self) -> &'static str {
        "tiny"
    }

    fn load(&self, _: &'static str, content: &[u8], _: &Services) -> Result<Arc<dyn Extension>, String> {
        match std::str::from_utf8(content) {
            Ok("panic") => panic!("the language has a fault"),
            Ok("load fails") => Err("line 3: it fails".to_owned()),
            content => Ok(Arc::new(Code { content: content.unwrap_or_default().to_owned() })),
        }
    }
}

impl Extension for Code {
    fn priority(&self) -> i64 {
        17
    }

    fn phases(&self) -> &'static [PluginPhase] {
        if self.content == "logs" { &[PluginPhase::Log] } else { &[PluginPhase::Access] }
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn check(&self, _: &Value) -> Result<(), String> {
        if self.content == "check fails" { Err("it refuses everything".to_owned()) } else { Ok(()) }
    }

    fn build(&self, _: &Build<'_>, _: &Value) -> Result<Arc<dyn Plugin>, String> {
        match &*self.content {
            "build fails" => Err("it cannot be built".to_owned()),
            _ => Ok(Arc::new(Nothing)),
        }
    }
}

struct Stage {
    compiler: SnapshotCompiler,
    catalog: PluginCatalog,
    snapshot: Snapshot,
}

impl Stage {
    fn new() -> Stage {
        let services = Arc::new(exchange::testing::services());
        let loader = Loader::new(vec![Box::new(Tiny)], || Ok(Arc::new(exchange::testing::services())));
        let fixed = loader.load_with_priority("fixed", "tiny", b"x", Some(3)).unwrap();
        let infos: Vec<PluginInfo> = vec![fixed.info.clone()];
        Stage {
            compiler: SnapshotCompiler::new(
                &[],
                router::Mode::default(),
                AttemptTimeouts::default(),
                services,
            )
            .with_fixed_extensions(&[fixed]),
            catalog: PluginCatalog::new(infos).unwrap().with_loader(Arc::new(loader)),
            snapshot: Snapshot::empty(),
        }
    }

    fn apply(
        &mut self,
        objects: &[(ObjectKind, &str, Option<Value>)],
    ) -> (Arc<Runtime>, Vec<CompileFault>, Vec<String>) {
        let change = |(kind, id, object): &(ObjectKind, &str, Option<Value>)| {
            let key = ObjectKey::new(*kind, id).unwrap();
            let written = |object: &Value| WrittenObject {
                key: key.clone(),
                text: object.to_string().into(),
                created_index: 1,
                modified_index: 1,
            };
            SnapshotChange { key: key.clone(), written: object.as_ref().map(written) }
        };
        let changes: Vec<SnapshotChange> = objects.iter().map(change).collect();
        let revision = self.snapshot.revision() + 1;
        let applied = self.snapshot.apply(&self.catalog, &changes, revision, FaultPolicy::Lenient);
        self.snapshot = applied.snapshot.clone();
        let (runtime, faults) = self.compiler.apply(&applied);
        (runtime, faults, applied.faults.into_iter().map(|fault| fault.reason).collect())
    }
}

fn route<'i>(id: &'i str, plugins: &Value) -> (ObjectKind, &'i str, Option<Value>) {
    let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
    (ObjectKind::Route, id, Some(json!({"uri": format!("/{id}"), "upstream": upstream, "plugins": plugins})))
}

fn mine(content: &str) -> (ObjectKind, &'static str, Option<Value>) {
    (ObjectKind::Extension, "mine", Some(json!({"language": "tiny", "content": content})))
}

/// Number, priority and phases of the only instance of a route; none where the route is closed.
fn instance(runtime: &Runtime, id: &str) -> Option<(u32, i64, &'static [PluginPhase])> {
    let slot = *runtime.route_slots.get(id).unwrap();
    match runtime.routes.get(slot).unwrap().plugins.instances() {
        [only] => Some((only.number, only.priority, only.phases)),
        _ => None,
    }
}

#[test]
fn change_of_an_extension_rebuilds_its_users_only() {
    let mut stage = Stage::new();
    let plugins = json!({"mine": {}});
    let (first, faults, refused) =
        stage.apply(&[mine("a"), route("1", &plugins), route("2", &json!({"fixed": {}}))]);
    assert_eq!((faults.len(), refused.len()), (0, 0), "{faults:?} {refused:?}");
    let before = instance(&first, "1").unwrap();
    assert_eq!((before.1, before.2), (17, &[PluginPhase::Access][..]));
    assert_eq!(instance(&first, "2").unwrap().1, 3, "the settings replace the priority");
    let (second, ..) = stage.apply(&[mine("logs")]);
    let after = instance(&second, "1").unwrap();
    assert!(after.0 != before.0 && after.2 == [PluginPhase::Log], "{after:?}");
    assert_eq!(instance(&second, "2"), instance(&first, "2"));
    let (third, ..) = stage.apply(&[mine("logs")]);
    assert_eq!(instance(&third, "1"), Some(after), "the same version makes no new instance");
}

#[test]
fn version_that_cannot_serve_leaves_the_former_one() {
    let mut stage = Stage::new();
    let (first, ..) = stage.apply(&[mine("a"), route("1", &json!({"mine": {}}))]);
    let before = instance(&first, "1");
    for (content, reason) in [
        ("build fails", "plugin mine: it cannot be built"),
        ("check fails", "plugin mine: it refuses everything"),
    ] {
        let (runtime, faults, _) = stage.apply(&[mine(content)]);
        assert_eq!(instance(&runtime, "1"), before, "{content}");
        assert_eq!((&*faults[0].reason, faults[0].kept), (reason, true));
    }
    for (content, reason) in [("load fails", "line 3: it fails"), ("panic", "the code of tiny has panicked")]
    {
        let (runtime, _, refused) = stage.apply(&[mine(content)]);
        assert_eq!(instance(&runtime, "1"), before, "{content}");
        assert_eq!(refused, [format!("mine cannot be loaded: {reason}")]);
    }
    let (runtime, faults, _) = stage.apply(&[mine("b")]);
    assert_ne!(instance(&runtime, "1"), before);
    assert_eq!(faults, []);
    let (runtime, faults, _) = stage.apply(&[(ObjectKind::Extension, "mine", None)]);
    assert_eq!(instance(&runtime, "1"), None, "a route without its plugin serves nothing");
    assert_eq!((&*faults[0].reason, faults[0].kept), ("unknown plugin [mine]", false));
}

#[test]
fn canary_runs_in_the_phases_of_both_versions() {
    let mut stage = Stage::new();
    let two = |canary: Value| {
        let versions = json!([{"version": "1", "content": "a"}, {"version": "2", "content": "logs"}]);
        let object = json!({"language": "tiny", "versions": versions, "active": "1", "canary": canary});
        (ObjectKind::Extension, "mine", Some(object))
    };
    let canary = json!({"version": "2", "percent": 5});
    let (first, faults, refused) = stage.apply(&[two(canary), route("1", &json!({"mine": {}}))]);
    assert_eq!((faults.len(), refused.len()), (0, 0), "{faults:?} {refused:?}");
    let before = instance(&first, "1").unwrap();
    assert_eq!(before.2, [PluginPhase::Access, PluginPhase::Log]);
    let (second, ..) = stage.apply(&[two(json!({"version": "2", "percent": 50}))]);
    assert_ne!(instance(&second, "1").unwrap().0, before.0, "another share is another instance");
}
