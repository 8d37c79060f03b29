//! Opening, closing and deleting files.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::file::{Entry, OpenFile, Settings};
use super::hidden;
use super::hints::Hints;
use super::port::{Collective, Port};
use super::rep::Rep;
use super::shared::Shared;
use super::storage::{self, Disk};
use super::view::View;
use crate::comm::CommCore;
use crate::consts::{
    MODE_APPEND, MODE_CREATE, MODE_DELETE_ON_CLOSE, MODE_EXCL, MODE_RDONLY, MODE_RDWR, MODE_SEQUENTIAL,
    MODE_UNIQUE_OPEN, MODE_WRONLY,
};
use crate::context::{Agreement, channels};
use crate::errh::Handler;
use crate::error::{Class, MpiError, Result};
use crate::exchange::Party;
use crate::handle::{Comm, Datatype, File, Info};
use crate::instance::{Mpi, State};
use crate::status::Status;

/// `MPI_BYTE`.
const BYTE: Datatype = Datatype::BYTE;
/// Aggregators of a node.
const AGGREGATORS: u64 = 4;
/// Bytes that each process has in a window, on average.
const PIECE: u64 = 128 << 10;

/// Returns the path of a file. The kind of its file system may stand before it, as ROMIO has it; it
/// makes no difference here.
fn bare(name: &str) -> Result<&str> {
    let kinds = ["ufs:", "nfs:"];
    let name = kinds.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    if name.is_empty() || name.contains('\0') {
        return Err(MpiError::new(Class::BAD_FILE, format!("{name:?} is no name of a file; give its path")));
    }
    Ok(name)
}

fn bad_mode(text: &str) -> Result<()> {
    Err(MpiError::new(Class::AMODE, text))
}

/// Checks an access mode.
fn check_mode(amode: i32) -> Result<()> {
    const ALL: i32 = MODE_CREATE
        | MODE_RDONLY
        | MODE_WRONLY
        | MODE_RDWR
        | MODE_DELETE_ON_CLOSE
        | MODE_UNIQUE_OPEN
        | MODE_EXCL
        | MODE_APPEND
        | MODE_SEQUENTIAL;
    if amode & !ALL != 0 {
        return bad_mode(&format!(
            "amode {amode:#x} has bits that are no access mode; join MPI_MODE_ constants"
        ));
    }
    if (amode & (MODE_RDONLY | MODE_WRONLY | MODE_RDWR)).count_ones() != 1 {
        return bad_mode("amode has exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR");
    }
    if amode & MODE_RDONLY != 0 && amode & (MODE_CREATE | MODE_EXCL) != 0 {
        return bad_mode("amode has MPI_MODE_RDONLY with MPI_MODE_CREATE or MPI_MODE_EXCL, which write");
    }
    if amode & MODE_RDWR != 0 && amode & MODE_SEQUENTIAL != 0 {
        return bad_mode(
            "amode has both MPI_MODE_RDWR and MPI_MODE_SEQUENTIAL; a sequential file is read or written",
        );
    }
    Ok(())
}

/// The arguments of an open that are needed at its steps.
struct Wanted {
    name: String,
    amode: i32,
    /// True if the processes share memory.
    one_node: bool,
    /// The opened file and its shared file pointer, once they are there.
    opened: Mutex<Option<Disk>>,
    shared: Mutex<Option<Shared>>,
    /// The place where file pointers begin.
    start: AtomicU64,
}

impl Wanted {
    /// Finds the place where file pointers begin.
    fn find_start(&self) -> Result<u64> {
        match &*self.opened.lock() {
            Some(disk) if self.amode & MODE_APPEND != 0 => disk.len(),
            _ => Ok(0),
        }
    }
}

/// Opens a file in all processes: first at rank 0, which creates it.
async fn open(port: Port, wanted: Arc<Wanted>, checked: Result<()>) -> Result<Status> {
    port.settle(checked).await?;
    port.same("amode", wanted.amode.into()).await?;
    for turn in [true, false] {
        let mine = (port.me == 0) == turn;
        let this = Arc::clone(&wanted);
        let result = port
            .outside(move || {
                if mine {
                    let create = turn && this.amode & MODE_CREATE != 0;
                    let made = storage::open(&this.name, this.amode, create, this.amode & MODE_EXCL != 0)?;
                    *this.opened.lock() = Some(Disk::new(&this.name, made));
                }
                Ok(())
            })
            .await;
        if let Err(e) = port.settle(result).await {
            wanted.opened.lock().take();
            return Err(e);
        }
    }
    let this = Arc::clone(&wanted);
    let start = port.outside(move || this.find_start()).await;
    // The first process decides where all start: nobody writes before all are through.
    let start = port.settle(start).await?;
    let start = port.numbers(start.cast_signed()).await?[0].cast_unsigned();
    wanted.start.store(start, Ordering::Relaxed);
    let made = hidden::make(&port, &wanted.name, wanted.one_node, start).await?;
    *wanted.shared.lock() = Some(made);
    Ok(Status::EMPTY)
}

/// Returns the bytes of a window for so many processes: a piece of some length of each, and no more
/// than the caches hold, unless the processes are many.
pub(super) fn window(processes: u64) -> u64 {
    (processes * PIECE).clamp(2 * PIECE, 128 * PIECE)
}

/// Closes a file in all processes, and deletes it if it was opened so.
async fn close(port: Port, file: Arc<OpenFile>, name: String) -> Result<Status> {
    let gone = file.disk.lock().take();
    let closed = port
        .outside(move || match gone.map(Arc::try_unwrap) {
            Some(Ok(disk)) => disk.close(),
            // An access of another thread goes on with it.
            _ => Ok(()),
        })
        .await;
    let closed = port.settle(closed).await;
    let delete = port.me == 0 && file.amode & MODE_DELETE_ON_CLOSE != 0;
    let deleted = port.outside(move || if delete { storage::delete(&name) } else { Ok(()) }).await;
    let deleted = port.settle(deleted).await;
    closed.and(deleted).map(|()| Status::EMPTY)
}

impl Mpi {
    /// Makes the group of a file, with a context of its own.
    fn file_core(&self, parent: &CommCore, agreement: Agreement) -> Result<Arc<CommCore>> {
        let agreed = self.agree(agreement)?;
        self.with(|s| {
            let channels = channels(&mut s.dev, agreed.id, parent.group())?;
            let core = CommCore::intra(agreed, channels, Arc::clone(parent.group()), parent.rank());
            Ok(Arc::new(core))
        })
    }

    fn end_file_core(&self, core: Arc<CommCore>) -> Result<()> {
        self.with(|s| {
            s.objects.contexts.give_back(core, Handler::Return);
            Ok(())
        })
    }

    /// Opens a file in all processes of a communicator (`MPI_File_open`).
    ///
    /// # Errors
    /// In all processes, whichever has failed: a bad handle, name or access mode, or another one
    /// than others give; what the file system says.
    pub fn file_open(&self, comm: Comm, filename: &str, amode: i32, info: Info) -> Result<File> {
        let parent = self.with(|s| s.objects.comms.intra_core(comm))?;
        let nodes = self.with(|s| {
            let nodes = parent.group().places().iter().map(|p| Ok(s.dev.node_of(*p)?));
            nodes.collect::<Result<HashSet<u64>>>().map(|nodes| nodes.len() as u64)
        });
        let mut hints = Hints::default();
        hints.nodes = (nodes.clone().unwrap_or(1) * AGGREGATORS).min(parent.size().into());
        hints.window = window(parent.size().into());
        let pairs = self.with(|s| Ok(s.objects.anytime.infos().pairs(info)?.to_vec()));
        let name = bare(filename);
        let checked = check_mode(amode).and(name.clone().map(|_| ())).and(pairs.clone().map(|_| ()));
        // A process whose arguments are wrong takes part, since the others do.
        let (one_node, checked) = (nodes == Ok(1), checked.and(nodes.map(|_| ())));
        hints.take(&pairs.unwrap_or_default());
        let name = name.unwrap_or_default().to_owned();
        let (opened, shared, start) = (Mutex::new(None), Mutex::new(None), AtomicU64::new(0));
        let wanted = Arc::new(Wanted { name, amode, one_node, opened, shared, start });
        // All steps are on the communicator, which all have: a process in which one has failed may
        // not know the file's context, and the others notice a loss or a revocation at each step.
        let agreement = Agreement::new(Party::of_all(&parent), true);
        let mut task = Collective::blocking(&parent, 0, |port| open(port, Arc::clone(&wanted), checked));
        let of_file = |mut e: Box<MpiError>| {
            // The handler of files is told, not the communicator's.
            e.comm = None;
            e
        };
        let core = self.file_core(&parent, agreement).map_err(of_file)?;
        let done = self.run_task(&mut task);
        drop(task);
        let opened = done.and_then(|_| self.file_made(&core, &wanted, hints));
        if opened.is_err() {
            self.end_file_core(core)?;
        }
        opened
    }

    /// Adds an open file.
    fn file_made(&self, core: &Arc<CommCore>, wanted: &Wanted, hints: Hints) -> Result<File> {
        let position = wanted.start.load(Ordering::Relaxed);
        let shared = wanted.shared.lock().take().unwrap_or(Shared::Own(Mutex::new(position)));
        let disk = wanted.opened.lock().take().map(Arc::new);
        self.with(|s| {
            let State { objects, .. } = s;
            let byte = objects.types.desc(BYTE)?;
            let view = Arc::new(View::new(0, &byte, &byte, Rep::Native, "native", false)?);
            let settings = Settings { view, position, atomic: false, hints };
            let file = Arc::new(OpenFile {
                core: Arc::clone(core),
                amode: wanted.amode,
                name: wanted.name.clone(),
                disk: Mutex::new(disk),
                settings: Mutex::new(settings),
                shared,
                split: Mutex::new(None),
                handle: AtomicU32::new(0),
            });
            let errhandler = objects.files.errhandler;
            objects.anytime.errhandlers().hold(errhandler)?;
            let handle = objects.files.table.insert(Entry { file: Arc::clone(&file), errhandler })?;
            file.handle.store(handle.0, Ordering::Relaxed);
            Ok(handle)
        })
    }

    /// Closes a file in all processes and sets the handle to null (`MPI_File_close`).
    ///
    /// # Errors
    /// A bad handle; what the file system says: the file is closed all the same.
    pub fn file_close(&self, fh: &mut File) -> Result<()> {
        let file = self.with(|s| s.objects.files.get(*fh))?;
        let (core, name) = (Arc::clone(&file.core), file.name.clone());
        let mut task = Collective::blocking(&core, fh.0, |port| close(port, file, name));
        let done = self.run_task(&mut task);
        drop(task);
        self.with(|s| {
            let State { objects, .. } = s;
            let gone = objects.files.table.remove(*fh)?;
            // The error goes to the handler of the file, which is gone.
            if done.is_err() {
                objects.files.closed = Some((*fh, objects.anytime.errhandlers().get(gone.errhandler)?));
            }
            objects.anytime.errhandlers().release(gone.errhandler);
            *fh = File::NULL;
            Ok(())
        })?;
        self.end_file_core(core)?;
        done.map(|_| ())
    }

    /// Deletes a file (`MPI_File_delete`).
    ///
    /// # Errors
    /// A bad name or info; what the file system says.
    pub fn file_delete(&self, filename: &str, info: Info) -> Result<()> {
        self.with(|s| s.objects.anytime.infos().pairs(info).map(|_| ()))?;
        storage::delete(bare(filename)?)
    }
}
