//! Names in the generated Rust code.

/// The Rust type of a handle's role.
pub(super) fn handle(role: &str) -> Option<&'static str> {
    Some(match role {
        "comm" => "Comm",
        "group" => "Group",
        "dt" => "Datatype",
        "op" => "Op",
        "req" => "Request",
        "info" => "Info",
        "file" => "File",
        "errh" => "Errhandler",
        "win" => "Win",
        "session" => "Session",
        "msg" => "Message",
        "keyval" => "Keyval",
        "x_stream" => "Stream",
        _ => return None,
    })
}

/// A name that has no other meaning in the generated files.
pub(super) fn safe(name: &str) -> String {
    match name {
        "type" | "fn" | "box" | "ref" | "move" | "in" | "mpi" | "buffer" | "get" | "put" | "text"
        | "look" | "given" => format!("{name}_"),
        _ => name.to_owned(),
    }
}

/// `MPI_Comm_split` as `comm_split`.
pub(super) fn snake(name: &str) -> String {
    let name = name.strip_prefix("MPI_").or_else(|| name.strip_prefix("MPIX_")).unwrap_or(name);
    name.to_lowercase()
}
