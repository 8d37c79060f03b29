//! Attributes: values that the program, or a library of it, hangs on objects.
//!
//! Copy and delete functions are the program's. They run while nothing is borrowed: what is to be
//! called is taken out first ([`Keyvals::functions`], [`Attrs::values`]).

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::{Class, MpiError, Result};
use crate::handle::{Keyval, Table};

/// The functions of a key.
pub trait AttrFns: Any + Send + Sync {
    /// Copies a value when its object is duplicated; `None` if the new object has no such
    /// attribute.
    ///
    /// # Errors
    /// If the program's function fails.
    fn copy(&self, object: u32, keyval: Keyval, value: &SetValue) -> Result<Option<SetValue>>;

    /// Takes leave of a value when it is removed or replaced, or when its object is freed.
    ///
    /// # Errors
    /// If the program's function fails; the value stays then.
    fn delete(&self, object: u32, keyval: Keyval, value: &SetValue) -> Result<()>;
}

/// A value as the program has set it.
#[derive(Clone, Debug)]
pub enum SetValue {
    /// An address, in C.
    Address(usize),
    /// A number, in Fortran. C gets the address of its place, which lasts as long as the attribute.
    Number(Arc<AtomicI64>),
}

impl SetValue {
    /// Returns a number in a place of its own.
    pub fn number(number: i64) -> SetValue {
        SetValue::Number(Arc::new(AtomicI64::new(number)))
    }
}

impl From<usize> for SetValue {
    fn from(at: usize) -> SetValue {
        SetValue::Address(at)
    }
}

impl From<&SetValue> for AttrValue {
    fn from(value: &SetValue) -> AttrValue {
        match value {
            SetValue::Address(at) => AttrValue::Pointer(*at),
            SetValue::Number(place) => AttrValue::Placed {
                number: place.load(Ordering::Relaxed),
                place: place.as_ptr().expose_provenance(),
                is_wide: true,
            },
        }
    }
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrValue {
    /// The address that the program gave.
    Pointer(usize),
    /// A number of the library.
    Integer(i64),
    /// A number of the library or of Fortran that has a place, of 8 bytes.
    Placed {
        /// The number.
        number: i64,
        /// The address of the place.
        place: usize,
        /// True if programs read an address-sized integer there, and not an `int`.
        is_wide: bool,
    },
}

/// The kinds of objects that have attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Communicators.
    Comm,
    /// Datatypes.
    Datatype,
    /// Windows.
    Win,
}

/// A key, and how often it is used: by its handle, and by attributes.
struct Key {
    functions: Arc<dyn AttrFns>,
    of: Of,
    uses: usize,
    /// False once the program has freed it: no new attribute may be set.
    live: bool,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { functions: _, of, uses, live } = self;
        f.debug_struct("Key").field("of", of).field("uses", uses).field("live", live).finish_non_exhaustive()
    }
}

/// All keys of a process.
#[derive(Debug, Default)]
pub struct Keyvals {
    table: Table<Keyval, Key>,
}

impl Keyvals {
    /// Creates a key.
    ///
    /// # Errors
    /// If no more can exist.
    pub fn create(&mut self, of: Of, functions: Arc<dyn AttrFns>) -> Result<Keyval> {
        self.table.insert(Key { functions, of, uses: 1, live: true })
    }

    /// Frees a key, and makes its handle invalid. Attributes that are set keep it; as long as there
    /// are any, freeing it once more changes nothing.
    ///
    /// # Errors
    /// If it does not exist, or is not for this kind of object.
    pub fn free(&mut self, of: Of, keyval: &mut Keyval) -> Result<()> {
        self.check(of, *keyval)?;
        if std::mem::replace(&mut self.table.get_mut(*keyval)?.live, false) {
            self.release(*keyval);
        }
        *keyval = Keyval::NULL;
        Ok(())
    }

    /// Checks that a key exists and is for this kind of object. One that was freed exists as long
    /// as an attribute has it.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, of: Of, keyval: Keyval) -> Result<()> {
        if self.table.get(keyval)?.of != of {
            let text = format!("the keyval {:#010x} is one for other objects; {of:?} is needed", keyval.0);
            return Err(MpiError::new(Class::KEYVAL, text));
        }
        Ok(())
    }

    /// Checks that an attribute of a key may be set.
    ///
    /// # Errors
    /// As [`Keyvals::check`]; if it was freed.
    pub fn check_live(&self, of: Of, keyval: Keyval) -> Result<()> {
        self.check(of, keyval)?;
        if !self.table.get(keyval)?.live {
            let text = format!("the keyval {:#010x} was freed; set attributes before", keyval.0);
            return Err(MpiError::new(Class::KEYVAL, text));
        }
        Ok(())
    }

    /// Returns the functions of a key, which may be freed if an attribute has it.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn functions(&self, keyval: Keyval) -> Result<Arc<dyn AttrFns>> {
        self.table.get(keyval).map(|key| key.functions.clone())
    }

    /// Adds a use: an attribute of this key is set.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn hold(&mut self, keyval: Keyval) -> Result<()> {
        self.table.get_mut(keyval)?.uses += 1;
        Ok(())
    }

    /// Ends a use: an attribute of this key is gone. The key goes with its last use.
    pub fn release(&mut self, keyval: Keyval) {
        let Some(key) = self.table.find_mut(keyval) else { return };
        key.uses -= 1;
        if key.uses == 0 && self.table.remove(keyval).is_err() {
            unreachable!("it was found above");
        }
    }

    /// Returns the keys that were not freed, or that attributes have.
    pub fn live(&self) -> usize {
        self.table.len()
    }
}

/// The attributes of one object, in the order in which they were set.
#[derive(Clone, Debug, Default)]
pub struct Attrs {
    values: Vec<(Keyval, SetValue)>,
}

impl Attrs {
    /// Returns a value.
    pub fn get(&self, keyval: Keyval) -> Option<&SetValue> {
        self.values.iter().find(|(key, _)| *key == keyval).map(|(_, value)| value)
    }

    /// Sets a value. Returns true if there was none; the caller then holds the key.
    pub fn set(&mut self, keyval: Keyval, value: SetValue) -> bool {
        match self.values.iter_mut().find(|(key, _)| *key == keyval) {
            Some((_, old)) => {
                *old = value;
                false
            }
            None => {
                self.values.push((keyval, value));
                true
            }
        }
    }

    /// Removes a value. Returns true if there was one; the caller then releases the key.
    pub fn remove(&mut self, keyval: Keyval) -> bool {
        let before = self.values.len();
        self.values.retain(|(key, _)| *key != keyval);
        self.values.len() < before
    }

    /// Returns the values in the order in which they were set. Copy functions run in this order,
    /// and the delete functions of an object that is freed in the opposite one.
    pub fn values(&self) -> Vec<(Keyval, SetValue)> {
        self.values.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl AttrFns for Nothing {
        fn copy(&self, _object: u32, _keyval: Keyval, value: &SetValue) -> Result<Option<SetValue>> {
            Ok(Some(value.clone()))
        }

        fn delete(&self, _object: u32, _keyval: Keyval, _value: &SetValue) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_key_lives_as_long_as_an_attribute_has_it() {
        let mut keys = Keyvals::default();
        let key = keys.create(Of::Comm, Arc::new(Nothing)).expect("room");
        let mut attrs = Attrs::default();
        assert!(attrs.set(key, SetValue::Address(7)));
        keys.hold(key).expect("a key");
        assert!(!attrs.set(key, SetValue::Address(8)));
        assert!(matches!(attrs.get(key), Some(SetValue::Address(8))));
        assert!(matches!(attrs.values()[..], [(of, SetValue::Address(8))] if of == key));
        let mut handle = key;
        keys.free(Of::Comm, &mut handle).expect("a key");
        assert_eq!(handle, Keyval::NULL);
        // Its functions are still to be called, and nothing may be set any more.
        assert!(keys.functions(key).is_ok());
        assert_eq!(keys.check_live(Of::Comm, key).expect_err("freed").class, Class::KEYVAL);
        assert!(keys.check(Of::Comm, key).is_ok(), "the attribute may be read and deleted");
        assert!(keys.free(Of::Comm, &mut { key }).is_ok(), "a second time");
        assert!(attrs.remove(key) && !attrs.remove(key));
        keys.release(key);
        assert_eq!(keys.live(), 0);
        assert_eq!(keys.check(Of::Comm, key).expect_err("gone").class, Class::KEYVAL);
    }

    #[test]
    fn a_number_stays_at_its_place_and_its_copies_have_others() {
        let mut attrs = Attrs::default();
        let key = Keyval(0x2400_0000);
        attrs.set(key, SetValue::number(-3));
        let place = |attrs: &Attrs| match attrs.get(key).map(AttrValue::from) {
            Some(AttrValue::Placed { number: -3, place, is_wide: true }) => place,
            other => panic!("{other:?}"),
        };
        let first = place(&attrs);
        let other = attrs.clone();
        assert_eq!((place(&other), place(&attrs)), (first, first));
        attrs.set(key, SetValue::number(-3));
        assert_ne!(place(&attrs), first);
    }

    #[test]
    fn a_key_is_for_one_kind_of_object() {
        let mut keys = Keyvals::default();
        let mut key = keys.create(Of::Datatype, Arc::new(Nothing)).expect("room");
        assert!(keys.check(Of::Datatype, key).is_ok());
        for of in [Of::Comm, Of::Win] {
            assert_eq!(keys.check(of, key).expect_err("another kind").class, Class::KEYVAL);
            assert!(keys.free(of, &mut key).is_err());
        }
        assert_eq!(keys.check(Of::Comm, Keyval::NULL).expect_err("null").class, Class::KEYVAL);
    }
}
