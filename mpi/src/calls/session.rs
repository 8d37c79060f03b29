//! Sessions: uses of the library that need no `MPI_COMM_WORLD`.
//!
//! A session has error handler and hints. Its groups are those of the named sets of processes; a
//! communicator is made of a group alone, by processes that tell it apart by a text. They agree in
//! a context that is nobody else's.

use std::sync::Arc;

use crate::buffers::Owner;
use crate::comm::CommCore;
use crate::consts::{THREAD_FUNNELED, THREAD_MULTIPLE, THREAD_SERIALIZED, THREAD_SINGLE};
use crate::context::{Agreement, channels};
use crate::errh::Handler;
use crate::error::{Class, MpiError, Result};
use crate::exchange::Party;
use crate::handle::{Comm, Errhandler, Group, Info, Session};
use crate::instance::Mpi;
use crate::ranks::Ranks;
use crate::session::Entry;
use crate::target::OwnTarget;

/// Names of the sets of processes: all of the job, and this one alone.
pub(super) const PSETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// The key of an info that has a thread level.
const LEVEL: &str = "thread_level";
/// The thread levels, and their names in an info.
const LEVELS: [(i32, &str); 4] = [
    (THREAD_SINGLE, "MPI_THREAD_SINGLE"),
    (THREAD_FUNNELED, "MPI_THREAD_FUNNELED"),
    (THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"),
    (THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"),
];

/// Returns the name of a thread level.
fn level_name(level: i32) -> &'static str {
    // No other is given at init.
    LEVELS.iter().find(|(known, _)| *known == level).map_or("unknown", |(_, name)| name)
}

/// Checks that a hint for a thread level names one.
fn check_level(hints: &[(String, String)]) -> Result<()> {
    match hints.iter().find(|(key, _)| key == LEVEL) {
        Some((_, asked)) if !LEVELS.iter().any(|(_, name)| name == asked) => {
            let text = format!(
                "{LEVEL} is {asked:?}; the levels are MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED and _MULTIPLE"
            );
            Err(MpiError::new(Class::INFO_VALUE, text))
        }
        _ => Ok(()),
    }
}

/// Returns a tag for a text, the same in all processes (FNV-1a).
fn tag_of(text: &str) -> i32 {
    let hash =
        text.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 2).cast_signed()
}

#[cold]
fn no_pset(name: &str) -> Box<MpiError> {
    MpiError::new(Class::ARG, format!("pset_name is {name:?}; the sets are {} and {}", PSETS[0], PSETS[1]))
}

#[cold]
fn not_member() -> Box<MpiError> {
    MpiError::new(Class::GROUP, "this process is not in the group; only members make its communicator")
}

impl Mpi {
    /// Opens a session (`MPI_Session_init`).
    ///
    /// # Errors
    /// A bad handle; a hint for a thread level that there is not; too many sessions.
    pub fn session_init(&self, info: Info, errhandler: Errhandler) -> Result<Session> {
        self.with(|s| {
            let hints = s.objects.anytime.infos().pairs(info)?.to_vec();
            check_level(&hints)?;
            s.objects.anytime.errhandlers().hold(errhandler)?;
            s.objects.sessions.insert(Entry { errhandler, hints })
        })
    }

    /// Waits until the messages in its buffer have left, closes a session, and sets the handle to
    /// null (`MPI_Session_finalize`).
    ///
    /// # Errors
    /// A bad handle; the failure of a message, after which the session is closed all the same.
    pub fn session_finalize(&self, session: &mut Session) -> Result<()> {
        let sent = self.session_flush_buffer(*session);
        self.with(|s| {
            let gone = s.objects.sessions.remove(*session)?;
            s.objects.anytime.errhandlers().release(gone.errhandler);
            s.objects.buffers.end(Owner::Session(*session));
            Ok(())
        })?;
        *session = Session::NULL;
        sent
    }

    /// Returns the number of sessions that are open.
    ///
    /// # Errors
    /// After finalize.
    pub fn open_sessions(&self) -> Result<usize> {
        self.with(|s| Ok(s.objects.sessions.len()))
    }

    /// Returns the hints of a session and its thread level as an info, to be freed
    /// (`MPI_Session_get_info`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn session_get_info(&self, session: Session) -> Result<Info> {
        let level = level_name(self.thread_level());
        self.with(|s| {
            let hints = s.objects.sessions.get(session)?.hints.clone();
            let mut infos = s.objects.anytime.infos();
            let info = infos.create_of(hints)?;
            infos.set(info, LEVEL, level)?;
            Ok(info)
        })
    }

    /// Returns the number of named sets of processes (`MPI_Session_get_num_psets`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn session_get_num_psets(&self, session: Session, info: Info) -> Result<i32> {
        self.with(|s| {
            s.objects.sessions.get(session)?;
            s.objects.anytime.infos().pairs(info)?;
            Ok(PSETS.len() as i32)
        })
    }

    /// Returns the name of a set (`MPI_Session_get_nth_pset`).
    ///
    /// # Errors
    /// A bad handle or number.
    pub fn session_get_nth_pset(&self, session: Session, info: Info, n: i32) -> Result<&'static str> {
        self.session_get_num_psets(session, info)?;
        let found = usize::try_from(n).ok().and_then(|n| PSETS.get(n));
        found.copied().ok_or_else(|| {
            MpiError::new(Class::ARG, format!("n is {n}; there are {} sets, from 0 on", PSETS.len()))
        })
    }

    /// Returns the processes of a set.
    fn pset(&self, session: Session, name: &str) -> Result<Arc<[u32]>> {
        self.with(|s| {
            s.objects.sessions.get(session)?;
            // Names do not distinguish cases.
            match PSETS.iter().position(|set| set.eq_ignore_ascii_case(name)) {
                Some(0) => Ok(Arc::clone(s.objects.contexts.sessions().group().places())),
                Some(_) => Ok(Arc::from([s.dev.rank()])),
                None => Err(no_pset(name)),
            }
        })
    }

    /// Returns what is known of a set as an info, to be freed: its size
    /// (`MPI_Session_get_pset_info`).
    ///
    /// # Errors
    /// A bad handle or name.
    pub fn session_get_pset_info(&self, session: Session, name: &str) -> Result<Info> {
        let places = self.pset(session, name)?;
        let known = vec![("mpi_size".to_owned(), places.len().to_string())];
        self.with(|s| s.objects.anytime.infos().create_of(known))
    }

    /// Returns the group of a set, to be freed (`MPI_Group_from_session_pset`).
    ///
    /// # Errors
    /// A bad handle or name.
    pub fn group_from_session_pset(&self, session: Session, name: &str) -> Result<Group> {
        let places = self.pset(session, name)?;
        self.with(|s| s.objects.groups.insert(places, session))
    }

    /// Returns the error handler of a session, to be freed (`MPI_Session_get_errhandler`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn session_get_errhandler(&self, session: Session) -> Result<Errhandler> {
        self.with(|s| {
            let handle = s.objects.sessions.get(session)?.errhandler;
            s.objects.anytime.errhandlers().hold(handle)?;
            Ok(handle)
        })
    }

    /// Sets the error handler of a session (`MPI_Session_set_errhandler`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn session_set_errhandler(&self, session: Session, errhandler: Errhandler) -> Result<()> {
        self.with(|s| {
            let place = &mut s.objects.sessions.get_mut(session)?.errhandler;
            s.objects.anytime.errhandlers().replace(place, errhandler)
        })
    }

    /// Returns what is done about an error of a call on this session.
    ///
    /// For one that does not exist it is that of `MPI_COMM_SELF`.
    pub fn session_handler(&self, session: Session) -> Handler {
        let found = self.with(|s| {
            let entry = s.objects.sessions.find(session);
            Ok(entry.and_then(|entry| s.objects.anytime.errhandlers().get(entry.errhandler).ok()))
        });
        found.ok().flatten().unwrap_or_else(|| self.comm_handler(Comm::SELF))
    }

    /// Makes a communicator of a group, whose members alone call it (`MPI_Comm_create_from_group`).
    /// Null for an empty group.
    ///
    /// # Errors
    /// A bad handle; a group without this process; no context id.
    pub fn comm_create_from_group(
        &self,
        group: Group,
        stringtag: &str,
        info: Info,
        errhandler: Errhandler,
    ) -> Result<Comm> {
        let (core, session, places, me) = self.with(|s| {
            s.objects.anytime.errhandlers().get(errhandler)?;
            let places = Arc::clone(s.objects.groups.members(group)?);
            let own = s.dev.rank();
            let me = places.iter().position(|place| *place == own);
            let session = s.objects.groups.session(group)?;
            Ok((Arc::clone(s.objects.contexts.sessions()), session, places, me))
        })?;
        if places.is_empty() {
            return Ok(Comm::NULL);
        }
        let me = me.ok_or_else(not_member)?;
        let tag = CommCore::group_tag(tag_of(stringtag));
        let party = Party { core, places: Arc::clone(&places), me, tag };
        let agreed = self.agree(Agreement::new(party, true))?;
        let comm = self.with(|s| {
            let group = Arc::new(Ranks::new(places));
            let channels = channels(&mut s.dev, agreed.id, &group)?;
            let mut core = CommCore::intra(agreed, channels, group, me as u32);
            core.session = session;
            s.objects.add_comm_with(errhandler, core)
        })?;
        self.comm_set_info(comm, info)?;
        Ok(comm)
    }

    /// Makes an intercommunicator of two groups, whose members alone call it
    /// (`MPI_Intercomm_create_from_groups`).
    ///
    /// # Errors
    /// A bad handle or rank; a local group without this process; groups with a common process; no
    /// context id.
    #[allow(clippy::too_many_arguments)]
    pub fn intercomm_create_from_groups(
        &self,
        local_group: Group,
        local_leader: i32,
        remote_group: Group,
        remote_leader: i32,
        stringtag: &str,
        info: Info,
        errhandler: Errhandler,
    ) -> Result<Comm> {
        let (core, remote) = self.with(|s| {
            let remote = Arc::clone(s.objects.groups.members(remote_group)?);
            Ok((Arc::clone(s.objects.contexts.sessions()), remote))
        })?;
        let Some(place) = usize::try_from(remote_leader).ok().and_then(|rank| remote.get(rank)) else {
            let text =
                format!("remote_leader is {remote_leader}; the remote group has {} members", remote.len());
            return Err(MpiError::new(Class::RANK, text));
        };
        let partner = OwnTarget { place: place.cast_signed(), tag: tag_of(stringtag), core };
        let mut local = self.comm_create_from_group(local_group, stringtag, info, errhandler)?;
        let joined = self.join(local, local_leader, |_| Ok(partner));
        self.comm_free(&mut local)?;
        let comm = joined?;
        self.comm_set_info(comm, info)?;
        Ok(comm)
    }
}
