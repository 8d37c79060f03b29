//! Builds a C program that prints sizes, offsets and constants of installed headers, and lists the
//! Rust declarations in the same form.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A structure: its name, size and alignment in bytes, and the name, offset and size of each field.
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    pub align: usize,
    pub fields: Vec<(&'static str, usize, usize)>,
}

/// Returns the size in bytes of the field that a function leads to.
pub fn size_of_field<T, F>(_: impl Fn(*const T) -> *const F) -> usize {
    size_of::<F>()
}

/// Lists the [`Layout`]s of structures and unions.
#[macro_export]
macro_rules! layouts {
    ($($name:ident { $($field:ident),* $(,)? })*) => {
        vec![$($crate::common::probe::Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            align: align_of::<$name>(),
            fields: vec![$((
                stringify!($field),
                core::mem::offset_of!($name, $field),
                $crate::common::probe::size_of_field(|s: *const $name| {
                    // SAFETY: only the type is used; the closure is never called.
                    unsafe { &raw const (*s).$field }
                }),
            )),*],
        }),*]
    };
}

/// Lists constants by name.
#[macro_export]
macro_rules! constants {
    ($($name:ident),* $(,)?) => {
        vec![$((stringify!($name), $name as i64)),*]
    };
}

/// Finds the structures, with their fields, and the constants that source files declare.
pub fn declared(structures: &[&str], constants: &str) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let mut found = BTreeMap::new();
    let parts = structures.iter().flat_map(|s| s.split("\npub ").skip(1));
    for part in parts.filter_map(|p| p.strip_prefix("struct ").or(p.strip_prefix("union "))) {
        let (name, rest) = part.split_once(" {\n").expect("a structure has fields");
        let (body, _) = rest.split_once("\n}").expect("a structure ends");
        let fields = body.lines().filter_map(|l| l.strip_prefix("    pub ")?.split_once(':'));
        found.insert(name.to_owned(), fields.map(|(f, _)| f.to_owned()).collect());
    }
    let constants = constants.lines();
    let constants =
        constants.filter_map(|l| Some(l.strip_prefix("pub const ")?.split_once(':')?.0.to_owned()));
    (found, constants.collect())
}

/// A C program under construction.
pub struct Program(String);

impl Program {
    /// Starts a program that includes these headers.
    pub fn new(headers: &[&str]) -> Program {
        let headers: String = headers.iter().map(|h| format!("#include <{h}>\n")).collect();
        Program(format!("#include <stddef.h>\n#include <stdio.h>\n{headers}int main(void) {{\n"))
    }

    /// Prints the size and alignment of a type.
    pub fn size(&mut self, name: &str, c: &str) {
        self.0 += &format!("printf(\"{name} %zu %zu\\n\", sizeof({c}), _Alignof({c}));\n");
    }

    /// Prints the offset and size of a field. A name that is a Rust keyword has a trailing `_` in
    /// Rust.
    pub fn field(&mut self, name: &str, c: &str, field: &str) {
        let c_field = field.trim_end_matches('_');
        self.0 += &format!(
            "printf(\"{name}.{field} %zu %zu\\n\", offsetof({c}, {c_field}), sizeof((({c} *)0)->{c_field}));\n"
        );
    }

    /// Prints a number.
    pub fn value(&mut self, name: &str, c: &str) {
        self.0 += &format!("printf(\"{name} %lld\\n\", (long long)({c}));\n");
    }

    /// Adds a preprocessor line.
    pub fn line(&mut self, line: &str) {
        self.0 += &format!("{line}\n");
    }

    /// Runs the program and returns its numbers by name. Returns `None`, and reports `what` as
    /// untested, if there is no C compiler, or no such header from the Debian package.
    pub fn run(self, what: &str, header: &str, package: &str) -> Option<BTreeMap<String, Vec<i64>>> {
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        if Command::new(&compiler).arg("--version").output().is_err() {
            super::skip(&format!("{what}: there is no C compiler (apt-get install gcc)"));
            return None;
        }
        let folder = Folder::new();
        let has_header = format!("#include <{header}>\nint main(void) {{ return 0; }}\n");
        if folder.compile(&compiler, "probe.c", &has_header).is_err() {
            super::skip(&format!("{what}: no {header} (apt-get install {package})"));
            return None;
        }
        let text = self.0 + "return 0;\n}\n";
        let path = folder.compile(&compiler, "layout.c", &text).unwrap_or_else(|e| panic!("{e}"));
        let out = Command::new(path).output().expect("the compiled program starts");
        assert!(out.status.success(), "{out:?}");
        let text = String::from_utf8(out.stdout).expect("the program prints ASCII");
        let line = |line: &str| {
            let (name, numbers) = line.split_once(' ')?;
            let numbers = numbers.split(' ').map(|n| n.parse().ok()).collect::<Option<Vec<i64>>>()?;
            Some((name.to_owned(), numbers))
        };
        Some(text.lines().map(|l| line(l).unwrap_or_else(|| panic!("{l}"))).collect())
    }
}

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("layout-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the program");
        Folder(path)
    }

    /// Compiles a program. Returns the compiler's messages if that fails.
    fn compile(&self, compiler: &OsStr, name: &str, text: &str) -> Result<PathBuf, String> {
        let (source, out) = (self.0.join(name), self.0.join(name).with_extension("out"));
        std::fs::write(&source, text).map_err(|e| e.to_string())?;
        let done =
            Command::new(compiler).arg("-o").arg(&out).arg(&source).output().map_err(|e| e.to_string())?;
        if done.status.success() { Ok(out) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
