//! Translations of the arguments of the standard's interface to what the library wants, whose
//! handles and numbers are others. They follow from the arguments' roles.

use super::names::{handle, safe};
use super::table::{Argument, Function, How, Role};

/// Kinds of numbers that are translated by a table of their own.
pub(super) const NUMBERS: [&str; 24] = [
    "rank",
    "tag",
    "keyval",
    "thread",
    "comparison",
    "topology",
    "split",
    "combiner",
    "typeclass",
    "order",
    "distribution",
    "darg",
    "flavor",
    "model",
    "lock",
    "whence",
    "assertion",
    "amode",
    "t_verbosity",
    "t_bind",
    "t_scope",
    "t_pvar_class",
    "t_cb_safety",
    "t_source_order",
];

/// Returns the type in Rust of an argument or result.
pub(super) fn rust(name: &str, role: &Role, large: bool) -> String {
    let same = || if large { role.rust_large.clone() } else { role.rust.clone() };
    let stars =
        |base: &str| same().replace("c_int", base).replace("MpiStatus", "Status").replace("CFile", base);
    let bare = ["out", "io", "c"].iter().find_map(|start| name.strip_prefix(start)).unwrap_or(name);
    let is_handle = |name: &str| handle(name).is_some_and(|kind| kind != "Keyval");
    match name {
        _ if is_handle(name) || is_handle(bare) => stars("Handle"),
        "dts" | "outdts" | "outt_dts" | "reqs" | "creqs" | "infos" => stars("Handle"),
        _ if same().contains("MpiStatus") => stars("c_int"),
        _ => same(),
    }
}

/// Returns the lines that translate the arguments of a function of MPICH's interface: files, which
/// are pointers there.
pub(super) fn file_lines(function: &Function) -> String {
    let plain = function.group == "convert" || function.how == How::None;
    let arguments = if plain { &[][..] } else { &function.arguments[..] };
    let line = |argument: &Argument| {
        let name = safe(&argument.name);
        let place = |how: &str| format!("let mut {name}_io = {how}; let {name} = {name}_io.at();");
        match argument.role.as_str() {
            "file" => Some(format!("let {name} = file_in({name});")),
            "outfile" => Some(place(&format!("OutFile::new({name})"))),
            "iofile" => Some(place(&format!("OutFile::of({name})"))),
            _ => None,
        }
    };
    arguments.iter().filter_map(line).collect::<Vec<_>>().join(" ")
}

/// Returns the lines that translate the arguments of a function.
///
/// # Errors
/// If a role of the function has no translation.
pub(super) fn lines(function: &Function) -> Result<String, String> {
    let mut lines = Vec::new();
    // Conversions of handles are done on the handles themselves; a function that is not there yet
    // needs none of its arguments.
    let plain = function.group == "convert" || function.how == How::None;
    let arguments = if plain { &[][..] } else { &function.arguments[..] };
    for (at, argument) in arguments.iter().enumerate() {
        let length = arguments[..at].iter().rev().find(|a| a.role == "int" || a.role == "mcount");
        let line = line(argument, length).map_err(|why| format!("{}: {why}", function.name))?;
        lines.extend(line);
    }
    Ok(lines.join(" "))
}

/// Returns the lines that translate one argument, with that of the length if it is an array.
fn line(argument: &Argument, length: Option<&Argument>) -> Result<Option<String>, String> {
    let (name, role) = (safe(&argument.name), argument.role.as_str());
    let value = |how: &str| Ok(Some(format!("let {name} = {how};")));
    let place = |how: &str| Ok(Some(format!("let mut {name}_io = {how}; let {name} = {name}_io.at();")));
    let number = |role: &str| NUMBERS.contains(&role).then(|| role.to_owned());
    let length = || length.map(|a| safe(&a.name)).ok_or_else(|| format!("{role} without a length"));
    let (start, bare) = ["out", "io"]
        .iter()
        .find_map(|start| role.strip_prefix(start).map(|bare| (*start, bare)))
        .unwrap_or(("", role));
    let kind = handle(bare).filter(|_| bare != "keyval").map(str::to_uppercase);
    match (start, kind) {
        ("", Some(_)) => return value(&format!("{name}.number()")),
        ("out", Some(kind)) => return place(&format!("OutHandle::new({name}, Kind::{kind})")),
        ("io", Some(kind)) => return place(&format!("OutHandle::of({name}, Kind::{kind})")),
        _ => {}
    }
    if let Some(bare) = number(bare) {
        return match start {
            "" => value(&format!("numbers::{bare}_in({name})")),
            "out" => place(&format!("OutInt::new({name}, numbers::{bare}_out)")),
            _ => place(&format!("OutInt::of({name}, numbers::{bare}_in, numbers::{bare}_out)")),
        };
    }
    match role {
        "viewoffset" => value(&format!("displacement_in({name})")),
        "code" => value(&format!("code_in({name})")),
        "outcode" => place(&format!("OutInt::new({name}, code_out)")),
        "ranks" | "distributions" | "dargs" => {
            let kind = role.trim_end_matches('s');
            place(&format!("Ints::of({name}, {}, numbers::{kind}_in)", length()?))
        }
        "outranks" => place(&format!("OutInts::new({name}, {}, numbers::rank_out)", length()?)),
        "weights" | "outweights" => value(&format!("{name}.weights()")),
        "cstatus" => place(&format!("InStatus::of({name})")),
        "status" => place(&format!("OutStatus::new({name})")),
        "iostatus" => place(&format!("OutStatus::of({name})")),
        "statuses" => place(&format!("OutStatuses::new({name}, {})", length()?)),
        "reqs" => place(&format!("Handles::of({name}, {}, Kind::REQUEST)", length()?)),
        "creqs" => place(&format!("Handles::read({name}, {})", length()?)),
        "outdts" => place(&format!("Handles::new({name}, {} as c_int, Kind::DATATYPE)", length()?)),
        "dts" | "infos" => value(&format!("types({name})")),
        "buf" | "cbuf" => value(&format!("{name}.memory()")),
        "outbuffer" => place(&format!("OutBuffer::new({name})")),
        "copyfn" | "comm_copy_attrfn" | "type_copy_attrfn" | "win_copy_attrfn" => {
            value(&format!("copy_function({name})"))
        }
        // Numbers, strings, and functions that are called in the way of this interface.
        "int" | "ints" | "outint" | "outints" | "flag" | "count" | "counts" | "outcount" | "mcount"
        | "outmcount" | "outmcounts" | "aint" | "aints" | "outaint" | "outaints" | "extent" | "outextent"
        | "displs" | "hdispls" | "position" | "aposition" | "offset" | "outoffset" | "dispunit"
        | "outdispunit" | "ranges" | "double" | "outcodes" | "str" | "strss" | "strs" | "outstr" | "argv"
        | "attr" | "ptr" | "cptr" | "baseptr" | "opfn" => Ok(None),
        _ if role.ends_with("fn") || role.contains("t_") => Ok(None),
        _ => Err(format!("the role {role} has no translation to the standard ABI")),
    }
}
