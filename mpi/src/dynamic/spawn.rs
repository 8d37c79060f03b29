//! Jobs that this one starts. They connect to a port that the root opens for them, as
//! `MPI_Comm_connect` does, while they initialize.

use std::cell::Cell;

use ch3_shim::{PARENT_PORT, Spawn, SpawnProgram};

use super::meet::{Plan, Way};
use super::ports;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Info};
use crate::instance::Mpi;

/// Longest name of a port that launchers pass on, in bytes.
const MAX_NAME: usize = 900;

/// A program to start.
#[derive(Clone, Debug)]
pub struct Command {
    /// Path of the program, or its name.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Number of its processes.
    pub maxprocs: i32,
    /// Wishes, such as `wdir`, `path` and `host`.
    pub info: Info,
}

fn failed(text: impl Into<String>) -> Box<MpiError> {
    MpiError::new(Class::SPAWN, text)
}

impl Mpi {
    /// Starts programs as a job, and makes an intercommunicator with its processes
    /// (`MPI_Comm_spawn_multiple`, `MPI_Comm_spawn`). `commands` is called at the root. If it
    /// fails, `asked` is the number of processes that the root has asked for.
    ///
    /// # Errors
    /// A bad argument; programs that cannot be started, or that end before they have initialized
    /// MPI; a launcher that starts none.
    pub fn comm_spawn_multiple(
        &self,
        commands: impl FnOnce() -> Result<Vec<Command>>,
        root: i32,
        comm: Comm,
        asked: &Cell<u32>,
    ) -> Result<Comm> {
        self.meet_asked(comm, root, asked, || {
            let commands = commands()?;
            asked.set(commands.iter().map(|c| u32::try_from(c.maxprocs).unwrap_or(0)).sum());
            let programs = self.programs_of(&commands)?;
            self.with(|s| {
                let port = s.dev.open_port()?;
                let started = s.dev.short_name(&port, MAX_NAME).and_then(|name| {
                    let values = vec![(PARENT_PORT.to_owned(), name.to_string())];
                    s.dev.spawn(&Spawn { programs, values })
                });
                match started {
                    Ok(job) => Ok(Plan { way: Way::Spawned(port, job), limit: None }),
                    Err(e) => {
                        s.dev.close_port(&port)?;
                        Err(failed(e.to_string()))
                    }
                }
            })
        })
    }

    fn programs_of(&self, commands: &[Command]) -> Result<Vec<SpawnProgram>> {
        if commands.is_empty() {
            return Err(MpiError::new(Class::COUNT, "count is 0: there is no program to start"));
        }
        let program = |command: &Command| {
            let Command { program, args, maxprocs, info } = command;
            if program.is_empty() {
                return Err(failed("the command is empty: it is the path or the name of a program"));
            }
            let ranks = u32::try_from(*maxprocs).ok().filter(|ranks| *ranks > 0).ok_or_else(|| {
                failed(format!("maxprocs is {maxprocs} for \"{program}\"; it is at least 1"))
            })?;
            let info = self.with(|s| Ok(s.objects.anytime.infos().pairs(*info)?.to_vec()))?;
            Ok(SpawnProgram { path: program.clone(), args: args.clone(), ranks, info })
        };
        commands.iter().map(program).collect()
    }

    /// Connects to those who have asked for this job, as all its processes do at their start. Its
    /// rank 0 has the name of their port.
    ///
    /// # Errors
    /// As [`Mpi::comm_connect`].
    pub(crate) fn connect_to_parent(&self, port: Option<&str>) -> Result<()> {
        let parent = self.meet_over(Comm::WORLD, 0, || {
            let name = port.ok_or_else(|| failed("the launcher does not tell who has asked for this job"))?;
            Ok(Plan { way: Way::Connect(ports::parse(name)?), limit: Some(ports::PATIENCE) })
        })?;
        self.comm_set_name(parent, "MPI_COMM_PARENT")?;
        self.with(|s| {
            s.objects.comms.get_mut(parent)?.is_parent = true;
            Ok(())
        })
    }

    /// Returns the communicator with the processes that have asked for this job; null if there are
    /// none, or if it was freed (`MPI_Comm_get_parent`).
    ///
    /// # Errors
    /// None; the signature is that of all functions.
    pub fn comm_get_parent(&self) -> Result<Comm> {
        self.with(|s| {
            let found = s.objects.comms.iter().find(|(_, comm)| comm.is_parent);
            Ok(found.map_or(Comm::NULL, |(parent, _)| parent))
        })
    }
}
