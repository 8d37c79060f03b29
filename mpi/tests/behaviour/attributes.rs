//! Attributes, whose functions call MPI again.

use std::sync::Arc;
use std::sync::Mutex;

use netmod_mpi::handle::{Comm, Keyval};
use netmod_mpi::{AttrFns, AttrValue, Class, Mpi, MpiError, Result, SetValue};

use crate::job::{WORLD, run};

/// Functions that call MPI, and note what they were called with.
struct Noted {
    mpi: *const Mpi,
    calls: Mutex<Vec<(&'static str, u32, usize)>>,
    /// Value at which both fail.
    fails_at: usize,
}

// SAFETY: the process outlives its attributes.
unsafe impl Send for Noted {}
// SAFETY: as above.
unsafe impl Sync for Noted {}

impl Noted {
    fn new(mpi: &Mpi, fails_at: usize) -> Arc<Noted> {
        Arc::new(Noted { mpi, calls: Mutex::new(Vec::new()), fails_at })
    }

    fn note(&self, what: &'static str, object: u32, value: usize) -> Result<()> {
        // SAFETY: as above.
        let mpi = unsafe { &*self.mpi };
        mpi.comm_size(Comm(object)).expect("the object exists");
        if object == Comm::SELF.0 {
            // Its attributes would be copied by this function again.
            self.calls.lock().expect("calls").push((what, object, value));
            return Ok(());
        }
        let mut own = mpi.comm_dup(Comm::SELF).expect("dup");
        mpi.comm_free(&mut own).expect("free");
        self.calls.lock().expect("calls").push((what, object, value));
        if value == self.fails_at { Err(MpiError::of_user(Class::OTHER, 1234, "it fails")) } else { Ok(()) }
    }

    fn calls(&self) -> Vec<(&'static str, u32, usize)> {
        std::mem::take(&mut *self.calls.lock().expect("calls"))
    }
}

fn address(value: &SetValue) -> usize {
    match value {
        SetValue::Address(at) => *at,
        SetValue::Number(_) => panic!("no test sets a number"),
    }
}

impl AttrFns for Noted {
    fn copy(&self, object: u32, _keyval: Keyval, value: &SetValue) -> Result<Option<SetValue>> {
        let value = address(value);
        self.note("copy", object, value)?;
        Ok((value != 5).then_some(SetValue::Address(value + 100)))
    }

    fn delete(&self, object: u32, _keyval: Keyval, value: &SetValue) -> Result<()> {
        self.note("delete", object, address(value))
    }
}

#[test]
fn functions_may_call_mpi() {
    run(2, |mpi, _| {
        let noted = Noted::new(mpi, 66);
        let (mut a, mut b) = (
            mpi.comm_create_keyval(noted.clone()).expect("keyval"),
            mpi.comm_create_keyval(noted.clone()).expect("keyval"),
        );
        let comm = mpi.comm_dup(WORLD).expect("dup");
        mpi.comm_set_attr(comm, a, 1).expect("set");
        mpi.comm_set_attr(comm, b, 5).expect("set");
        mpi.comm_set_attr(comm, a, 2).expect("set");
        assert_eq!(noted.calls(), [("delete", comm.0, 1)]);
        let copy = mpi.comm_dup(comm).expect("dup");
        assert_eq!(noted.calls(), [("copy", comm.0, 2), ("copy", comm.0, 5)]);
        assert_eq!(mpi.comm_get_attr(copy, a), Ok(Some(AttrValue::Pointer(102))));
        assert_eq!(mpi.comm_get_attr(copy, b), Ok(None));
        // A freed keyval lives as long as an attribute has it.
        let kept = a;
        mpi.comm_free_keyval(&mut a).expect("free");
        assert_eq!((a, mpi.comm_get_attr(copy, kept)), (Keyval::NULL, Ok(Some(AttrValue::Pointer(102)))));
        assert_eq!(mpi.comm_set_attr(copy, kept, 9).expect_err("freed").class, Class::KEYVAL);
        mpi.comm_free_keyval(&mut { kept }).expect("once more");
        mpi.comm_free(&mut { copy }).expect("free");
        assert_eq!(noted.calls(), [("delete", copy.0, 102)]);
        mpi.comm_delete_attr(comm, b).expect("delete");
        assert_eq!(mpi.comm_delete_attr(comm, b).expect_err("gone").class, Class::KEYVAL);
        mpi.comm_free_keyval(&mut b).expect("free");
        mpi.comm_free(&mut { comm }).expect("free");
        assert_eq!(noted.calls(), [("delete", comm.0, 5), ("delete", comm.0, 2)]);
    });
}

#[test]
fn what_a_function_returns_is_the_call_s_error() {
    run(1, |mpi, _| {
        let noted = Noted::new(mpi, 66);
        let keyval = mpi.comm_create_keyval(noted.clone()).expect("keyval");
        let mut comm = mpi.comm_dup(WORLD).expect("dup");
        mpi.comm_set_attr(comm, keyval, 66).expect("set");
        let failed = mpi.comm_dup(comm).expect_err("its copy function fails");
        assert_eq!((failed.user_code, mpi.error_code(&failed)), (1234, 1234));
        assert_eq!(mpi.comm_idup(comm).expect_err("it fails").user_code, 1234);
        assert_eq!(mpi.comm_set_attr(comm, keyval, 7).expect_err("it fails").user_code, 1234);
        let failed = mpi.comm_free(&mut comm).expect_err("its delete function fails");
        assert_eq!((failed.user_code, comm.is_null()), (1234, false));
        assert_eq!(mpi.comm_get_attr(comm, keyval), Ok(Some(AttrValue::Pointer(66))));
    });
}

#[test]
fn attributes_of_self_are_deleted_at_the_end() {
    let seen: Arc<Mutex<Vec<Arc<Noted>>>> = Arc::default();
    let kept = Arc::clone(&seen);
    run(1, move |mpi, _| {
        let noted = Noted::new(mpi, 66);
        for value in 1..=3 {
            let keyval = mpi.comm_create_keyval(noted.clone()).expect("keyval");
            mpi.comm_set_attr(Comm::SELF, keyval, value).expect("set");
        }
        seen.lock().expect("list").push(noted);
    });
    let calls: Vec<usize> = kept.lock().expect("list")[0].calls().iter().map(|call| call.2).collect();
    assert_eq!(calls, [3, 2, 1]);
}

#[test]
fn predefined_attributes_are_read_only() {
    run(2, |mpi, _| {
        let integer = |keyval| match mpi.comm_get_attr(WORLD, keyval) {
            Ok(Some(AttrValue::Integer(value))) => value,
            other => panic!("{other:?}"),
        };
        assert_eq!(integer(Keyval::TAG_UB), i64::from(i32::MAX));
        assert_eq!(integer(Keyval::UNIVERSE_SIZE), 2);
        let last = integer(Keyval::LASTUSEDCODE);
        let class = mpi.add_error_class().expect("a class");
        assert_eq!(integer(Keyval::LASTUSEDCODE), i64::from(class));
        assert!(last < i64::from(class));
        for refused in [mpi.comm_set_attr(WORLD, Keyval::TAG_UB, 1), mpi.comm_delete_attr(WORLD, Keyval::IO)]
        {
            assert_eq!(refused.expect_err("predefined").class, Class::KEYVAL);
        }
        assert_eq!(
            mpi.comm_free_keyval(&mut Keyval::HOST.clone()).expect_err("predefined").class,
            Class::KEYVAL
        );
    });
}
