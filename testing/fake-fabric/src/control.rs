//! The tests' interface to the loaded library, and to a world in it.

#![allow(unsafe_code)]

use core::ffi::c_void;
use std::path::{Path, PathBuf};

use crate::ffi::{CONTROL, ControlFn};
use crate::request::{Leaks, Node, NodeState, Operation, Reply, Request, Stats};
use crate::settings::Settings;
use libfabric_sys::Library;

const FILE: &str = "libnetmod_fake_fabric.so";

/// Returns the path of the shared library: beside the running program, or near it, where cargo puts
/// build outputs.
///
/// # Panics
/// If it is missing: the program is no test of a crate that has this one among its
/// dev-dependencies.
pub fn library_path() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folders = program.ancestors().skip(1).take(3);
    let places: Vec<PathBuf> =
        folders.flat_map(|folder| [folder.join(FILE), folder.join("deps").join(FILE)]).collect();
    let found = places.iter().find(|place| place.is_file());
    found.cloned().unwrap_or_else(|| {
        panic!(
            "{FILE} is in none of {}: the crate of this test needs netmod-fake-fabric among its dev-dependencies, \
             which makes cargo build the file",
            places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
        )
    })
}

/// Control function of a loaded library.
#[derive(Clone, Copy, Debug)]
pub struct Control(ControlFn);

impl Control {
    /// Finds the control function of a library that was loaded from [`library_path`].
    ///
    /// # Panics
    /// If it is another library.
    pub fn of(library: &Library) -> Control {
        let symbol = library.symbol(CONTROL).expect("a library from netmod_fake_fabric::library_path()");
        // SAFETY: only this crate's library has a function of that name, and it has this type.
        Control(unsafe { core::mem::transmute::<*mut c_void, ControlFn>(symbol) })
    }

    /// Loads the library from a file, and finds its control function.
    ///
    /// # Panics
    /// If it cannot be loaded.
    pub fn load(path: &Path) -> (Library, Control) {
        let library = Library::load(Some(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let control = Control::of(&library);
        (library, control)
    }

    fn ask(self, request: &Request) -> Reply {
        unsafe extern "C" fn receive(to: *mut c_void, bytes: *const u8, len: usize) {
            // SAFETY: `to` is the Vec below, and the library hands over `len` bytes.
            unsafe { (*to.cast::<Vec<u8>>()).extend_from_slice(core::slice::from_raw_parts(bytes, len)) };
        }
        let request = serde_json::to_vec(request).expect("requests are plain data");
        let mut answer: Vec<u8> = Vec::new();
        // SAFETY: the bytes of the request, and a function that gets the expected Vec, within this
        // call.
        unsafe { (self.0)(request.as_ptr(), request.len(), receive, (&raw mut answer).cast()) };
        match serde_json::from_slice(&answer).expect("the library is of the same version") {
            Reply::Refused(why) => panic!("netmod-fake-fabric: {why}"),
            reply => reply,
        }
    }
}

/// A network with one domain. Endpoints of the domain reach each other, whichever process they
/// stand for.
///
/// All methods panic if their argument does not exist.
#[derive(Debug)]
pub struct World {
    control: Control,
    id: u64,
    name: String,
    open: bool,
}

impl World {
    /// Makes a world; the provider lists it from now on.
    pub fn new(control: &Control, settings: Settings) -> World {
        match control.ask(&Request::New(Box::new(settings))) {
            Reply::World(id, name) => World { control: *control, id, name, open: true },
            other => panic!("netmod-fake-fabric: an answer to another question: {other:?}"),
        }
    }

    /// Returns the name of its domain and fabric.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the violations of a strict provider's rules, in order.
    pub fn violations(&self) -> Vec<String> {
        match self.control.ask(&Request::Violations(self.id)) {
            Reply::Texts(texts) => texts,
            other => panic!("netmod-fake-fabric: an answer to another question: {other:?}"),
        }
    }

    /// Returns its endpoints, in order of creation.
    pub fn nodes(&self) -> Vec<NodeState> {
        match self.control.ask(&Request::Nodes(self.id)) {
            Reply::Nodes(nodes) => nodes,
            other => panic!("netmod-fake-fabric: an answer to another question: {other:?}"),
        }
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> Stats {
        match self.control.ask(&Request::Stats(self.id)) {
            Reply::Stats(stats) => stats,
            other => panic!("netmod-fake-fabric: an answer to another question: {other:?}"),
        }
    }

    /// Kills the process of an endpoint, with all endpoints of its domain: its messages and
    /// operations in flight are lost, and its memory is not accessed any more.
    /// [`Settings::to_the_dead`] decides about other processes' operations.
    pub fn kill(&self, node: Node) {
        self.order(&Request::Kill(self.id, node));
    }

    /// Stops all data to an endpoint, and to and from its memory; or resumes it.
    pub fn stall(&self, node: Node, on: bool) {
        self.order(&Request::Stall(self.id, node, on));
    }

    /// Makes the next operations of a kind fail; for receives, those that get a message.
    pub fn fail_next(&self, kind: Operation, count: u64) {
        self.order(&Request::FailNext(self.id, kind, count));
    }

    /// Ends the world, and returns what was not closed. Lent memory is not accessed any more.
    pub fn close(mut self) -> Leaks {
        self.open = false;
        match self.control.ask(&Request::Close(self.id)) {
            Reply::Leaks(leaks) => leaks,
            other => panic!("netmod-fake-fabric: an answer to another question: {other:?}"),
        }
    }

    fn order(&self, request: &Request) {
        let reply = self.control.ask(request);
        assert!(matches!(reply, Reply::Done), "netmod-fake-fabric: an answer to another question: {reply:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.open {
            self.control.ask(&Request::Close(self.id));
        }
    }
}
