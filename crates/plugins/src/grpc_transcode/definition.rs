//! Protocol Buffers definitions as the Admin API takes them: the text of one `.proto` file, or a descriptor
//! set in base64. They are compiled in this process, within limits. It knows no request.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use data_encoding::{BASE64, BASE64_NOPAD};
use prost_reflect::DescriptorPool;
use protox::Compiler;
use protox::file::{File, FileResolver, GoogleFileResolver};

/// The longest definition, in bytes of its text or its base64, as in the schema of the object.
const DEFINITION_MAX_BYTES: usize = 1024 * 1024;
/// The most brackets inside each other in a text. The parser calls itself for each, and the compiler of C++
/// stops at 32 messages.
const NESTING_MAX: usize = 64;
/// The most messages of one definition: each costs memory in every generation that uses it.
const MESSAGES_MAX: usize = 10_000;

/// The name of the file that a text stands for.
const FILE: &str = "content";

/// Compiles a definition.
///
/// # Errors
/// The fault, a sentence, with the line where it is known.
pub(super) fn compile_definition(content: &str) -> Result<DescriptorPool, String> {
    if content.len() > DEFINITION_MAX_BYTES {
        return Err(format!("a definition has at most {DEFINITION_MAX_BYTES} bytes"));
    }
    // A bug of the compiler that panics must not end the thread that checks configurations.
    let pool = catch_unwind(AssertUnwindSafe(|| match descriptor_set(content) {
        Some(set) => from_set(&set),
        None => from_text(content),
    }));
    let pool = pool.map_err(|_| "the compiler failed".to_owned())??;
    let messages = pool.all_messages().len();
    if messages > MESSAGES_MAX {
        return Err(format!("it has {messages} messages, and at most {MESSAGES_MAX} are allowed"));
    }
    Ok(pool)
}

/// The bytes behind `content` if it has the form of base64, which no definition as text has: those have
/// semicolons.
fn descriptor_set(content: &str) -> Option<Vec<u8>> {
    let text: Vec<u8> = content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(&text).or_else(|_| BASE64_NOPAD.decode(&text)).ok().filter(|bytes| !bytes.is_empty())
}

fn from_set(set: &[u8]) -> Result<DescriptorPool, String> {
    // Sets made without `--include_imports` lack the well-known types, which the global pool has.
    let mut pool = DescriptorPool::global();
    pool.decode_file_descriptor_set(set).map_err(|error| {
        format!(
            "it is no descriptor set: {error}; make one with `protoc --include_imports --descriptor_set_out`"
        )
    })?;
    Ok(pool)
}

fn from_text(content: &str) -> Result<DescriptorPool, String> {
    check_nesting(content)?;
    let mut compiler = Compiler::with_file_resolver(OneFile(content.to_owned()));
    match compiler.open_file(FILE) {
        Ok(_) => Ok(compiler.descriptor_pool()),
        Err(error) => Err(explain(&error)),
    }
}

/// The error with its line: the compiler writes `FILE:LINE:COLUMN: reason` in the form for programmers only.
fn explain(error: &(impl Debug + ToString)) -> String {
    let placed = format!("{error:?}");
    let place = placed.strip_prefix(FILE).and_then(|rest| rest.strip_prefix(':'));
    let line = place.and_then(|rest| rest.split(':').next()).and_then(|line| line.parse::<u32>().ok());
    let reason = error.to_string();
    let hint = if reason.starts_with("import") && reason.ends_with("not found") {
        "; a text can import only the files of google/protobuf, so store a descriptor set made with \
         `protoc --include_imports`"
    } else {
        ""
    };
    match line {
        Some(line) => format!("line {line}: {reason}{hint}"),
        None => format!("{reason}{hint}"),
    }
}

/// The text, and the well-known types that it may import.
struct OneFile(String);

impl FileResolver for OneFile {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match name {
            FILE => File::from_source(FILE, &self.0),
            other => GoogleFileResolver::new().open_file(other),
        }
    }
}

/// Refuses a text with more than [`NESTING_MAX`] brackets inside each other, outside of comments and strings.
fn check_nesting(text: &str) -> Result<(), String> {
    let (mut depth, mut line) = (0_usize, 1);
    let mut rest = text.as_bytes();
    while let Some((&byte, later)) = rest.split_first() {
        let skipped = match byte {
            b'/' if later.first() == Some(&b'/') => position(rest, |at| at[0] == b'\n'),
            b'/' if later.first() == Some(&b'*') => {
                2 + position(&rest[2..], |at| at.starts_with(b"*/")).saturating_add(2)
            }
            b'"' | b'\'' => string_length(rest),
            _ => 1,
        };
        match byte {
            b'{' | b'[' | b'(' | b'<' => depth += 1,
            b'}' | b']' | b')' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            return Err(format!("line {line}: more than {NESTING_MAX} brackets inside each other"));
        }
        let (passed, later) = rest.split_at(skipped.clamp(1, rest.len()));
        line += passed.iter().filter(|byte| **byte == b'\n').count();
        rest = later;
    }
    Ok(())
}

/// The length of the string that `text` begins with, quotes included.
fn string_length(text: &[u8]) -> usize {
    let quote = text[0];
    let mut length = 1;
    while let Some(byte) = text.get(length) {
        length += if *byte == b'\\' { 2 } else { 1 };
        if *byte == quote {
            break;
        }
    }
    length
}

/// Where in `text` a position first fulfils `is`; its length if none does.
fn position(text: &[u8], is: impl Fn(&[u8]) -> bool) -> usize {
    (0..text.len()).find(|at| is(&text[*at..])).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(content: &str) -> String {
        compile_definition(content).map(|_| ()).unwrap_err()
    }

    #[test]
    fn texts_are_compiled_with_their_imports() {
        let pool = compile_definition(
            "syntax = \"proto3\"; package a.b;
             import \"google/protobuf/timestamp.proto\";
             // A cycle is legal: { { {
             message Tree { repeated Tree branches = 1; google.protobuf.Timestamp at = 2; Leaf leaf = 3; }
             message Leaf { Tree tree = 1; string text = 2 [default = \"\"]; }
             service S { rpc Grow(Tree) returns (stream Tree); }",
        );
        // proto3 has no defaults, and the line of the fault is named.
        assert!(pool.unwrap_err().starts_with("line 5: "));
        let pool = compile_definition(
            "syntax = \"proto3\"; package a.b; import \"google/protobuf/timestamp.proto\";
             message Tree { repeated Tree branches = 1; google.protobuf.Timestamp at = 2; Leaf leaf = 3; }
             message Leaf { Tree tree = 1; }
             service S { rpc Grow(Tree) returns (stream Tree); }",
        )
        .unwrap();
        let service = pool.get_service_by_name("a.b.S").unwrap();
        assert!(service.methods().next().unwrap().is_server_streaming());
    }

    #[test]
    fn faults_of_texts_name_the_line() {
        let check = |content: &str, expected: &str| {
            let fault = fault(content);
            assert!(fault.contains(expected), "{content}: {fault}");
        };
        check("syntax = \"proto3\";\nmessage {", "line 2: ");
        check("syntax = \"proto3\";\nmessage A {\n B b = 1;\n}", "line 3: ");
        check(
            "syntax = \"proto3\";\nimport \"shop/item.proto\";",
            "line 2: import 'shop/item.proto' not found; a text",
        );
        check("syntax = \"proto3\";\nimport \"content\";", "cycle");
        check("hello;", "line 1: ");
    }

    #[test]
    fn nesting_and_size_are_bounded() {
        let nested = |depth: usize| {
            let open: String = (0..depth).map(|level| format!("message M{level} {{\n")).collect();
            format!("syntax = \"proto3\";\n{open}{}", "}".repeat(depth))
        };
        assert_eq!(compile_definition(&nested(NESTING_MAX)).map(|_| ()), Ok(()));
        assert_eq!(fault(&nested(NESTING_MAX + 1)), "line 66: more than 64 brackets inside each other");
        let quoted = format!(
            "syntax = \"proto3\"; /* {0} */ // {0}\noption java_package = \"\\\"{0}\";",
            "{".repeat(99)
        );
        assert_eq!(compile_definition(&quoted).map(|_| ()), Ok(()));
        for open in ["/*", "\"", "'\\", "//", "/"] {
            assert!(
                compile_definition(&format!("syntax = \"proto3\"; {open}")).is_err() || open == "//",
                "{open}"
            );
        }
        let many: String = (0..=MESSAGES_MAX).map(|number| format!("message M{number} {{}}\n")).collect();
        assert!(fault(&format!("syntax = \"proto3\";\n{many}")).contains("at most 10000 are allowed"));
        assert!(fault(&" ".repeat(DEFINITION_MAX_BYTES + 1)).contains("at most 1048576 bytes"));
    }

    #[test]
    fn descriptor_sets_are_read_from_base64() {
        let text = "syntax = \"proto3\"; package p; import \"google/protobuf/any.proto\";
                    message M { google.protobuf.Any any = 1; M next = 2; }";
        let mut compiler = Compiler::with_file_resolver(OneFile(text.to_owned()));
        compiler.open_file(FILE).unwrap();
        for whole in [true, false] {
            let set = compiler.include_imports(whole).encode_file_descriptor_set();
            let pool = compile_definition(&BASE64.encode(&set)).unwrap();
            assert!(pool.get_message_by_name("p.M").is_some(), "imports included: {whole}");
            assert!(compile_definition(&BASE64.encode(&set[..set.len() - 1])).is_err(), "a set that was cut");
        }
        assert!(fault("aGVsbG8=").starts_with("it is no descriptor set: "));
    }
}
