//! Reports objects that a program has made and not freed.

use crate::instance::Objects;

/// Names that are told of each kind.
const NAMES: usize = 4;

/// Objects of one kind: how many, what they are called, and how they are freed.
struct Left {
    count: usize,
    what: &'static str,
    names: Vec<String>,
    free: &'static str,
}

impl Objects {
    /// Returns a line for each kind of objects of which some were not freed.
    pub(crate) fn unfreed(&self) -> Vec<String> {
        let comms = self.comms.iter().map(|(comm, _)| self.comms.title(comm)).take(NAMES).collect();
        let types = self.types.live_names().take(NAMES).collect();
        let of = |count, what, free| Left { count, what, names: Vec::new(), free };
        let all = [
            Left { names: comms, ..of(self.comms.len(), "communicators", "MPI_Comm_free") },
            Left { names: types, ..of(self.types.live(), "datatypes", "MPI_Type_free") },
            of(self.groups.live(), "groups", "MPI_Group_free"),
            of(self.requests.table.len(), "requests", "MPI_Wait, MPI_Test or MPI_Request_free"),
            of(self.messages.len(), "matched messages", "MPI_Mrecv or MPI_Imrecv"),
            of(self.ops.live(), "operations", "MPI_Op_free"),
            of(self.infos.live(), "infos", "MPI_Info_free"),
            of(self.keyvals.live(), "keyvals", "MPI_Comm_free_keyval or MPI_Type_free_keyval"),
            of(self.errhandlers.live(), "error handlers", "MPI_Errhandler_free"),
        ];
        all.iter().filter(|left| left.count > 0).map(Left::line).collect()
    }
}

impl Left {
    fn line(&self) -> String {
        let more = if self.names.len() < self.count { ", ..." } else { "" };
        let names = match self.names.is_empty() {
            true => String::new(),
            false => format!(" ({}{more})", self.names.join(", ")),
        };
        format!("{} not freed: {}{names}; {} frees them", self.what, self.count, self.free)
    }
}
