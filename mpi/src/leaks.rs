//! Reports objects that a program has made and not freed.

use crate::instance::State;

/// Names that are told of each kind.
const NAMES: usize = 4;

/// Objects of one kind: how many, what they are called, and how they are freed.
struct Left {
    count: usize,
    what: &'static str,
    names: Vec<String>,
    free: &'static str,
}

impl State {
    /// Returns a line for each kind of objects of which some were not freed, such as `streams`
    /// and communicators of `threads`.
    pub(crate) fn unfreed(&self, streams: usize, threads: usize) -> Vec<String> {
        let State { objects, requests, .. } = self;
        let comms = objects.comms.iter().map(|(comm, _)| objects.comms.title(comm)).take(NAMES).collect();
        let types = objects.types.live_names().take(NAMES).collect();
        let of = |count, what, free| Left { count, what, names: Vec::new(), free };
        let all = [
            Left { names: comms, ..of(objects.comms.len(), "communicators", "MPI_Comm_free") },
            Left { names: types, ..of(objects.types.live(), "datatypes", "MPI_Type_free") },
            of(objects.files.table.len(), "files", "MPI_File_close"),
            of(objects.wins.table.len(), "windows", "MPI_Win_free"),
            of(objects.groups.live(), "groups", "MPI_Group_free"),
            of(requests.table.len(), "requests", "MPI_Wait, MPI_Test or MPI_Request_free"),
            of(objects.messages.len(), "matched messages", "MPI_Mrecv or MPI_Imrecv"),
            of(objects.ops.live(), "operations", "MPI_Op_free"),
            of(objects.anytime.infos().live(), "infos", "MPI_Info_free"),
            of(
                objects.keyvals.live(),
                "keyvals",
                "MPI_Comm_free_keyval, MPI_Type_free_keyval or MPI_Win_free_keyval",
            ),
            of(objects.anytime.errhandlers().live(), "error handlers", "MPI_Errhandler_free"),
            of(streams, "streams", "MPIX_Stream_free"),
            of(threads, "communicators of threads", "MPIX_Threadcomm_free"),
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
