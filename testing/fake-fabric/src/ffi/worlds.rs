//! All worlds of the process, and the handling of tests' requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::closed::ClosedObject;
use crate::model::State;
use crate::request::{Reply, Request};

/// A world, with the objects to be freed when it ends.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Closed objects; `None` after the world has ended.
    closed_objects: Mutex<Option<Vec<ClosedObject>>>,
}

impl Shared {
    /// Locks the state. A panic within a call, a defect of this crate, has aborted the process at
    /// the C boundary.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a closed object until the world ends. Frees it at once if that has happened.
    pub(super) fn retire(&self, object: ClosedObject) {
        let mut closed_objects = self.closed_objects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(closed_objects) = closed_objects.as_mut() {
            closed_objects.push(object);
        }
    }
}

static WORLDS: Mutex<BTreeMap<u64, Arc<Shared>>> = Mutex::new(BTreeMap::new());

fn worlds() -> MutexGuard<'static, BTreeMap<u64, Arc<Shared>>> {
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns all worlds, in order of creation.
pub(super) fn all() -> Vec<Arc<Shared>> {
    worlds().values().cloned().collect()
}

/// Finds a world by name.
pub(super) fn find(name: &str) -> Option<Arc<Shared>> {
    all().into_iter().find(|world| world.lock().name == name)
}

/// Handles a test's request.
pub(super) fn answer(request: &[u8]) -> Reply {
    match serde_json::from_slice(request) {
        Ok(request) => obey(request).unwrap_or_else(Reply::Refused),
        Err(error) => Reply::Refused(format!("a request that cannot be read: {error}")),
    }
}

fn obey(request: Request) -> Result<Reply, String> {
    let world = |id: u64| worlds().get(&id).cloned().ok_or_else(|| format!("there is no world {id}"));
    Ok(match request {
        Request::New(settings) => {
            static NEXT: Mutex<u64> = Mutex::new(1);
            let id = {
                let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
                *next += 1;
                *next - 1
            };
            let state = State::new(id, *settings);
            let name = state.name.clone();
            let shared = Shared { state: Mutex::new(state), closed_objects: Mutex::new(Some(Vec::new())) };
            worlds().insert(id, Arc::new(shared));
            Reply::World(id, name)
        }
        Request::Violations(id) => Reply::Texts(world(id)?.lock().violations().to_vec()),
        Request::Nodes(id) => Reply::Nodes(world(id)?.lock().nodes()),
        Request::Stats(id) => Reply::Stats(world(id)?.lock().stats.clone()),
        Request::Kill(id, node) => world(id)?.lock().kill(&node).map(|()| Reply::Done)?,
        Request::Stall(id, node, on) => world(id)?.lock().stall(&node, on).map(|()| Reply::Done)?,
        Request::FailNext(id, kind, count) => {
            world(id)?.lock().order_failure(kind, count);
            Reply::Done
        }
        Request::Close(id) => {
            let world = worlds().remove(&id).ok_or_else(|| format!("there is no world {id}"))?;
            let leaks = {
                let mut state = world.lock();
                let leaks = state.leaks();
                state.end();
                leaks
            };
            let closed_objects = world.closed_objects.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(closed_objects);
            Reply::Leaks(leaks)
        }
    })
}
