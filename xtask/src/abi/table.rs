//! The tables of the ABI: functions, roles of arguments, constants.

use std::collections::BTreeMap;
use std::path::Path;

use super::only::{Interface, Only};

/// All tables.
#[derive(Debug)]
pub(crate) struct Tables {
    functions: Vec<Function>,
    pub(crate) roles: BTreeMap<String, Role>,
    pub(crate) constants: Vec<Constant>,
    only: Only,
}

/// A function of MPI.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// Its name, such as `MPI_Send`.
    pub(crate) name: String,
    /// True if there is a sibling with large counts, whose name ends in `_c`.
    pub(crate) large: bool,
    /// Role of the result; `int` is an error code.
    pub(crate) result: String,
    pub(crate) group: String,
    /// The argument whose error handler is called; `*` before its name: it is a pointer.
    pub(crate) object: Option<String>,
    pub(crate) how: How,
    /// True if the function in `imp` differs with the interface.
    pub(crate) of_interface: bool,
    pub(crate) arguments: Vec<Argument>,
    /// True if C may pass further arguments.
    pub(crate) variadic: bool,
}

/// The way in which a function is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The method of `Mpi` that has its name; conversions follow from the roles.
    Auto,
    /// A function of `imp`, which gets the library.
    Hand,
    /// A function of `imp`, which gets the library and, last, whether the counts are large.
    Sized,
    /// A function of `imp` that needs no library: allowed before it is initialized.
    Free,
    /// It is not there yet, and answers that it is not supported.
    None,
}

#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) role: String,
    pub(crate) name: String,
}

/// The types of a role, in C with `@` for the name, and in Rust.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) c: String,
    pub(crate) c_large: String,
    pub(crate) rust: String,
    pub(crate) rust_large: String,
}

#[derive(Debug)]
pub(crate) struct Constant {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) c_type: String,
    /// Value in the interface of MPICH.
    mpich: String,
    /// Value in the interface of the standard; `-` if it has none.
    standard: String,
}

impl Constant {
    /// Returns the value in an interface that has this constant.
    pub(crate) fn value(&self, interface: Interface) -> Option<&str> {
        let value = match interface {
            Interface::Mpich => &self.mpich,
            Interface::Standard => &self.standard,
        };
        (value != "-").then_some(value)
    }
}

impl Tables {
    /// Reads the tables of a folder.
    ///
    /// # Errors
    /// With the file and the line, if one cannot be read or has a fault.
    pub(crate) fn read(folder: &Path) -> Result<Tables, String> {
        let rows = |name: &str, columns| rows(&folder.join(name), columns);
        let roles: BTreeMap<String, Role> = rows("roles.tsv", 5)?.into_iter().map(role).collect();
        let functions: Result<Vec<Function>, String> =
            rows("functions.tsv", 7)?.into_iter().map(|row| function(&row, &roles)).collect();
        let constants = rows("constants.tsv", 5)?.into_iter().map(constant).collect();
        Ok(Tables { functions: functions?, roles, constants, only: Only::of(rows("only.tsv", 2)?) })
    }

    /// Returns the functions of an interface.
    pub(crate) fn functions(&self, interface: Interface) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(move |f| self.only.has(interface, &f.name))
    }
}

/// Reads the rows of a table. Lines that begin with `#` are none.
///
/// # Errors
/// With the file and the line, if it cannot be read or a row has another number of columns.
pub(super) fn rows(path: &Path, columns: usize) -> Result<Vec<Vec<String>>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, l)| !l.starts_with('#'));
    let row = |(at, line): (usize, &str)| {
        let row: Vec<String> = line.split('\t').map(str::to_owned).collect();
        match row.len() == columns {
            true => Ok(row),
            false => Err(format!("{}, line {}: {columns} columns are wanted", path.display(), at + 1)),
        }
    };
    lines.map(row).collect()
}

fn role(row: Vec<String>) -> (String, Role) {
    let mut row = row.into_iter();
    let mut next = || row.next().unwrap_or_default();
    (next(), Role { c: next(), c_large: next(), rust: next(), rust_large: next() })
}

fn constant(row: Vec<String>) -> Constant {
    let mut row = row.into_iter();
    let mut next = || row.next().unwrap_or_default();
    Constant { kind: next(), name: next(), c_type: next(), mpich: next(), standard: next() }
}

fn function(row: &[String], roles: &BTreeMap<String, Role>) -> Result<Function, String> {
    let name = row[0].clone();
    let how = match row[5].trim_end_matches('*') {
        "auto" => How::Auto,
        "hand" => How::Hand,
        "sized" => How::Sized,
        "free" => How::Free,
        "none" => How::None,
        other => return Err(format!("{name}: {other} is not a way to do it")),
    };
    let mut arguments = Vec::new();
    for word in row[6].split_whitespace().filter(|w| *w != "...") {
        let (role, argument) =
            word.split_once(':').ok_or_else(|| format!("{name}: {word} is not role:name"))?;
        if !roles.contains_key(role) {
            return Err(format!("{name}: the role {role} is not in roles.tsv"));
        }
        arguments.push(Argument { role: role.to_owned(), name: argument.to_owned() });
    }
    Ok(Function {
        name,
        large: row[1] == "c",
        result: row[2].clone(),
        group: row[3].clone(),
        object: Some(row[4].clone()).filter(|o| o != "-"),
        how,
        of_interface: row[5].ends_with('*'),
        arguments,
        variadic: row[6].ends_with("..."),
    })
}
