//! Settings of an open file, and questions about it: MPI's functions.

use std::sync::Arc;

use super::file::OpenFile;
use super::port::{Collective, Port};
use super::rep::{Rep, UserDatarep};
use super::storage::Disk;
use super::view::View;
use crate::consts::{
    DISPLACEMENT_CURRENT, MAX_DATAREP_STRING, MODE_SEQUENTIAL, SEEK_CUR, SEEK_END, SEEK_SET,
};
use crate::datatype::{TypeDesc, external};
use crate::errh::{Handler, UserErrhandler};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Datatype, Errhandler, File, Group, Info};
use crate::instance::{Mpi, State};
use crate::status::Status;

/// The representations that have data as memory does.
const NATIVE: [&str; 2] = ["native", "internal"];

/// Changes a file in all processes, all of which give the same size: rank 0 does it.
async fn change(
    port: Port,
    size: Result<u64>,
    disk: Result<Arc<Disk>>,
    work: fn(&Disk, u64) -> Result<()>,
) -> Result<Status> {
    let size = port.settle(size).await?;
    let disk = port.settle(disk).await?;
    port.same("size", size.cast_signed()).await?;
    let me = port.me;
    let done = port.outside(move || if me == 0 { work(&disk, size) } else { Ok(()) }).await;
    port.settle(done).await.map(|()| Status::EMPTY)
}

/// Transfers a file to the device from all processes.
async fn sync(port: Port, disk: Result<Arc<Disk>>) -> Result<Status> {
    let done = match disk {
        Ok(disk) => port.outside(move || disk.sync()).await,
        Err(e) => Err(e),
    };
    port.settle(done).await.map(|()| Status::EMPTY)
}

/// Reserves space without changing what the file has.
fn preallocate(disk: &Disk, size: u64) -> Result<()> {
    if size == 0 { Ok(()) } else { disk.allocate(size) }
}

impl Mpi {
    fn open_file(&self, fh: File) -> Result<Arc<OpenFile>> {
        self.with(|s| s.objects.files.get(fh))
    }

    /// Runs `f` on an open file, outside of the lock.
    fn on_file<T>(&self, fh: File, f: impl FnOnce(&OpenFile) -> Result<T>) -> Result<T> {
        let file = self.open_file(fh)?;
        f(&file).map_err(|e| file.raised(e))
    }

    /// Runs a collective of a file's group.
    fn with_all<F>(&self, file: &OpenFile, function: impl FnOnce(Port) -> F) -> Result<()>
    where
        F: Future<Output = Result<Status>> + Send + 'static,
    {
        self.run_task(&mut Collective::blocking(&file.core, file.number(), function)).map(|_| ())
    }

    /// Cuts or extends a file (`MPI_File_set_size`).
    ///
    /// # Errors
    /// In all processes: a bad size, or another one than others give; what the file system says.
    pub fn file_set_size(&self, fh: File, size: i64) -> Result<()> {
        let file = self.open_file(fh)?;
        let size = file.check_writable().and_then(|()| file.natural("size", size));
        let disk = file.disk();
        self.with_all(&file, |port| change(port, size, disk, Disk::set_len))
    }

    /// Reserves space for a file (`MPI_File_preallocate`).
    ///
    /// # Errors
    /// As [`Mpi::file_set_size`].
    pub fn file_preallocate(&self, fh: File, size: i64) -> Result<()> {
        let file = self.open_file(fh)?;
        let size = file.check_writable().and_then(|()| file.natural("size", size));
        let disk = file.disk();
        self.with_all(&file, |port| change(port, size, disk, preallocate))
    }

    /// Transfers what was written to the device (`MPI_File_sync`).
    ///
    /// # Errors
    /// In all processes: what the file system says.
    pub fn file_sync(&self, fh: File) -> Result<()> {
        let file = self.open_file(fh)?;
        let disk = file.disk();
        self.with_all(&file, |port| sync(port, disk))
    }

    /// Returns the size of a file in bytes (`MPI_File_get_size`).
    ///
    /// # Errors
    /// A bad handle; what the file system says.
    pub fn file_get_size(&self, fh: File) -> Result<i64> {
        self.on_file(fh, |file| file.disk()?.len().map(u64::cast_signed))
    }

    /// Returns the access mode (`MPI_File_get_amode`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_get_amode(&self, fh: File) -> Result<i32> {
        self.on_file(fh, |file| Ok(file.amode))
    }

    /// Returns the group of a file, to be freed (`MPI_File_get_group`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_get_group(&self, fh: File) -> Result<Group> {
        self.with(|s| {
            let core = Arc::clone(&s.objects.files.get(fh)?.core);
            s.objects.groups.insert(Arc::clone(core.group().places()), core.session)
        })
    }

    /// Sets hints (`MPI_File_set_info`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_set_info(&self, fh: File, info: Info) -> Result<()> {
        let pairs = self.with(|s| Ok(s.objects.anytime.infos().pairs(info)?.to_vec()));
        let file = self.open_file(fh)?;
        if let Ok(pairs) = &pairs {
            file.settings.lock().hints.take(pairs);
        }
        let own = pairs.map(|_| ());
        self.with_all(&file, |port| async move { port.settle(own).await.map(|()| Status::EMPTY) })
    }

    /// Returns the hints that are used, as an info to be freed (`MPI_File_get_info`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_get_info(&self, fh: File) -> Result<Info> {
        let pairs = self.on_file(fh, |file| Ok(file.settings.lock().hints.pairs()))?;
        self.anytime().infos().create_of(pairs)
    }

    /// Sets the atomic mode (`MPI_File_set_atomicity`).
    ///
    /// # Errors
    /// In all processes: another mode than others give.
    pub fn file_set_atomicity(&self, fh: File, atomic: i32) -> Result<()> {
        let file = self.open_file(fh)?;
        let atomic = atomic != 0;
        self.with_all(&file, |port| async move {
            port.same("flag", atomic.into()).await.map(|()| Status::EMPTY)
        })?;
        file.settings.lock().atomic = atomic;
        Ok(())
    }

    /// Returns true in atomic mode (`MPI_File_get_atomicity`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_get_atomicity(&self, fh: File) -> Result<bool> {
        self.on_file(fh, |file| Ok(file.settings.lock().atomic))
    }

    /// Sets the view of this process, and its file pointer to 0 (`MPI_File_set_view`).
    ///
    /// # Errors
    /// In all processes: a bad handle, displacement, type or data representation.
    pub fn file_set_view(
        &self,
        fh: File,
        disp: i64,
        etype: Datatype,
        filetype: Datatype,
        datarep: &str,
        info: Info,
    ) -> Result<()> {
        let file = self.open_file(fh)?;
        let pairs = self.with(|s| Ok(s.objects.anytime.infos().pairs(info)?.to_vec()));
        let own_file = Arc::clone(&file);
        let view = self.made_view(&file, disp, [etype, filetype], datarep);
        let own = pairs.clone().and(view.clone().map(|_| ()));
        let unit = view.as_ref().map_or(0, |view| view.unit().cast_signed());
        self.with_all(&file, |port| async move {
            port.settle(own).await?;
            port.same("the number of bytes of the etype", unit).await?;
            let first = port.me == 0;
            let reset = port.outside(move || if first { own_file.shared.set(0) } else { Ok(()) }).await;
            // Nobody has to use the shared file pointer; who does is told why there is none.
            port.numbers(reset.map_or(1, |()| 0)).await.map(|_| Status::EMPTY)
        })?;
        let mut settings = file.settings.lock();
        settings.hints.take(&pairs?);
        settings.view = Arc::new(view?);
        settings.position = 0;
        Ok(())
    }

    /// Makes the view that the arguments of a call describe.
    fn made_view(&self, file: &OpenFile, disp: i64, types: [Datatype; 2], datarep: &str) -> Result<View> {
        if disp == DISPLACEMENT_CURRENT && file.amode & MODE_SEQUENTIAL == 0 {
            let text = "MPI_DISPLACEMENT_CURRENT is for files that are open with MPI_MODE_SEQUENTIAL; give a number of bytes";
            return Err(MpiError::new(Class::ARG, text));
        }
        let disp = match disp {
            DISPLACEMENT_CURRENT => {
                let view = Arc::clone(&file.settings.lock().view);
                view.byte_offset(file.shared.get()?)?
            }
            disp => file.natural("the displacement of the view", disp)?,
        };
        let rep = self.representation(datarep)?;
        let find = |s: &mut State, handle| s.objects.types.committed(handle, 1).map(Arc::clone);
        let [etype, filetype] = types;
        let (etype, filetype) = self.with(|s| Ok((find(s, etype)?, find(s, filetype)?)))?;
        View::new(disp, &etype, &filetype, rep, datarep, file.check_writable().is_err())
    }

    /// Returns the data representation of a name.
    fn representation(&self, name: &str) -> Result<Rep> {
        if NATIVE.contains(&name) {
            return Ok(Rep::Native);
        }
        if name == external::NAME {
            return Ok(Rep::External32);
        }
        let found = self.with(|s| {
            let all = &s.objects.files.datareps;
            Ok(all.iter().find(|(known, _)| known == name).map(|(_, functions)| Arc::clone(functions)))
        })?;
        found.map(Rep::User).ok_or_else(|| {
            let text = format!(
                "the data representation {name:?} is not known; give native, internal, external32, or one of \
                 MPI_Register_datarep"
            );
            MpiError::new(Class::UNSUPPORTED_DATAREP, text)
        })
    }

    /// Adds a data representation of the program (`MPI_Register_datarep`), which stays.
    ///
    /// # Errors
    /// A name that is too long, or that one has already.
    pub fn register_datarep(&self, name: &str, functions: Arc<dyn UserDatarep>) -> Result<()> {
        if name.is_empty() || name.len() >= MAX_DATAREP_STRING {
            let text = format!(
                "the name of the data representation has {} bytes; it has from 1 to {}",
                name.len(),
                MAX_DATAREP_STRING - 1
            );
            return Err(MpiError::new(Class::ARG, text));
        }
        self.with(|s| {
            let all = &mut s.objects.files.datareps;
            if NATIVE.contains(&name) || name == external::NAME || all.iter().any(|(known, _)| known == name)
            {
                let text =
                    format!("the data representation {name:?} is registered already; give another name");
                return Err(MpiError::new(Class::DUP_DATAREP, text));
            }
            all.push((name.to_owned(), functions));
            Ok(())
        })
    }

    /// Moves the shared file pointer (`MPI_File_seek_shared`).
    ///
    /// # Errors
    /// In all processes: a bad `whence` or place, or others than others give; if there is no shared
    /// file pointer.
    pub fn file_seek_shared(&self, fh: File, offset: i64, whence: i32) -> Result<()> {
        let file = self.open_file(fh)?;
        let own = Arc::clone(&file);
        self.with_all(&file, |port| async move {
            port.same("offset", offset).await?;
            port.same("whence", whence.into()).await?;
            let first = port.me == 0;
            let moved =
                port.outside(move || if first { own.seek_shared(offset, whence) } else { Ok(()) }).await;
            port.settle(moved).await.map(|()| Status::EMPTY)
        })
    }

    /// Returns the shared file pointer in etypes (`MPI_File_get_position_shared`).
    ///
    /// # Errors
    /// A bad handle; if there is no shared file pointer.
    pub fn file_get_position_shared(&self, fh: File) -> Result<i64> {
        self.on_file(fh, |file| file.shared.get().map(u64::cast_signed))
    }

    /// Returns the view: displacement, etype, filetype and data representation
    /// (`MPI_File_get_view`). Types that are not predefined are to be freed.
    ///
    /// # Errors
    /// A bad handle; too many datatypes.
    pub fn file_get_view(&self, fh: File) -> Result<(i64, Datatype, Datatype, String)> {
        let view = self.on_file(fh, |file| Ok(Arc::clone(&file.settings.lock().view)))?;
        let handle = |desc: &Arc<TypeDesc>| match desc.handle() {
            Some(predefined) => Ok(predefined),
            None => self.with(|s| s.objects.types.lend(desc)),
        };
        let (etype, filetype) = (handle(&view.etype)?, handle(&view.filetype)?);
        Ok((view.disp.cast_signed(), etype, filetype, view.datarep.clone()))
    }

    /// Moves the individual file pointer (`MPI_File_seek`).
    ///
    /// # Errors
    /// A bad handle or `whence`; a place before the beginning.
    pub fn file_seek(&self, fh: File, offset: i64, whence: i32) -> Result<()> {
        self.on_file(fh, |file| {
            file.check_random()?;
            let position = file.settings.lock().position;
            let place = file.sought(offset, whence, position)?;
            file.settings.lock().position = place;
            Ok(())
        })
    }

    /// Returns the individual file pointer in etypes (`MPI_File_get_position`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_get_position(&self, fh: File) -> Result<i64> {
        self.on_file(fh, |file| {
            file.check_random()?;
            Ok(file.settings.lock().position.cast_signed())
        })
    }

    /// Returns the byte of the file at which an etype of the view begins
    /// (`MPI_File_get_byte_offset`).
    ///
    /// # Errors
    /// A bad handle or offset.
    pub fn file_get_byte_offset(&self, fh: File, offset: i64) -> Result<i64> {
        self.on_file(fh, |file| {
            file.check_random()?;
            let view = Arc::clone(&file.settings.lock().view);
            view.byte_offset(file.natural("offset", offset)?).map(u64::cast_signed)
        })
    }

    /// Returns the extent that a type has in the file (`MPI_File_get_type_extent`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_get_type_extent(&self, fh: File, datatype: Datatype) -> Result<i64> {
        let (file, desc) = self.with(|s| Ok((s.objects.files.get(fh)?, s.objects.types.desc(datatype))))?;
        let rep = file.settings.lock().view.rep.clone();
        let extent = desc.and_then(|desc| rep.in_file(&desc)).map(|desc| desc.extent());
        extent.map_err(|e| file.raised(e))
    }

    /// Creates an error handler of a function (`MPI_File_create_errhandler`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn file_create_errhandler(&self, function: Arc<dyn UserErrhandler>) -> Result<Errhandler> {
        self.with(|s| s.objects.anytime.errhandlers().create(function))
    }

    /// Sets the error handler of a file; of `MPI_FILE_NULL`, that of files which are opened later.
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_set_errhandler(&self, file: File, errhandler: Errhandler) -> Result<()> {
        self.with(|s| {
            let place = s.objects.files.errhandler(file)?;
            s.objects.anytime.errhandlers().replace(place, errhandler)
        })
    }

    /// Returns the error handler of a file, as a handle to be freed.
    ///
    /// # Errors
    /// A bad handle.
    pub fn file_get_errhandler(&self, file: File) -> Result<Errhandler> {
        self.with(|s| {
            let handle = *s.objects.files.errhandler(file)?;
            s.objects.anytime.errhandlers().hold(handle)?;
            Ok(handle)
        })
    }

    /// Returns what is done about an error of a call on this file; for one that does not exist,
    /// that of `MPI_FILE_NULL`.
    pub fn file_handler(&self, file: File) -> Handler {
        let found = self.with(|s| {
            let files = &mut s.objects.files;
            if let Some((_, handler)) = files.closed.as_ref().filter(|(closed, _)| *closed == file) {
                return Ok(handler.clone());
            }
            let default = files.errhandler;
            let handle = files.errhandler(file).map_or(default, |place| *place);
            s.objects.anytime.errhandlers().get(handle)
        });
        found.unwrap_or(Handler::Return)
    }

    /// Returns the name by which errors call a file.
    pub fn file_title(&self, file: File) -> String {
        let name = self.with(|s| s.objects.files.get(file).map(|file| file.name.clone()));
        name.map_or_else(|_| "MPI_FILE_NULL".to_owned(), |name| format!("file {name}"))
    }
}

impl OpenFile {
    /// Moves the shared file pointer.
    ///
    /// # Errors
    /// As [`OpenFile::sought`]; if there is no shared file pointer.
    fn seek_shared(&self, offset: i64, whence: i32) -> Result<()> {
        self.shared.update(|old| self.sought(offset, whence, old)).map(|_| ())
    }

    /// Returns the place of a seek, in etypes.
    ///
    /// # Errors
    /// A bad `whence`; a place before the beginning or beyond all files.
    fn sought(&self, offset: i64, whence: i32, position: u64) -> Result<u64> {
        let from = match whence {
            SEEK_SET => 0,
            SEEK_CUR => position,
            SEEK_END => {
                let end = self.disk()?.len()?;
                self.settings.lock().view.offset_of(end)
            }
            _ => {
                let text = format!("whence is {whence}; it is MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END");
                return Err(MpiError::new(Class::ARG, text));
            }
        };
        from.checked_add_signed(offset).ok_or_else(|| {
            let text = format!(
                "file {}: a seek by {offset} etypes from {from} ends before the beginning of the view; give a \
                 greater offset",
                self.name
            );
            MpiError::new(Class::ARG, text)
        })
    }
}
