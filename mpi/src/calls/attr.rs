//! Attributes of communicators. The program's functions are called while nothing is locked.

use std::sync::Arc;

use crate::attr::{AttrFns, AttrValue, Attrs, Of, SetValue};
use crate::consts::{ANY_SOURCE, PROC_NULL, TAG_UB};
use crate::error::{Class, MpiError, Result};
use crate::guest;
use crate::handle::{Comm, Datatype, Handle, Keyval, invalid};
use crate::instance::Mpi;
use crate::objects::Objects;

/// The functions of attributes, for messages.
const COPY: &str = "the copy function of an attribute";
const DELETE: &str = "the delete function of an attribute";

/// An object with attributes.
pub(crate) trait Attributed: Handle {
    /// The kind that its keyvals are for.
    const OF: Of;

    /// Returns its attributes.
    ///
    /// # Errors
    /// A bad handle.
    fn attrs(self, objects: &mut Objects) -> Result<&mut Attrs>;
}

impl Attributed for Comm {
    const OF: Of = Of::Comm;

    fn attrs(self, objects: &mut Objects) -> Result<&mut Attrs> {
        Ok(&mut objects.comms.get_mut(self)?.attrs)
    }
}

impl Attributed for Datatype {
    const OF: Of = Of::Datatype;

    fn attrs(self, objects: &mut Objects) -> Result<&mut Attrs> {
        Ok(&mut objects.types.get_mut(self)?.attrs)
    }
}

fn check(objects: &Objects, of: Of, keyval: Keyval) -> Result<()> {
    if keyval.is_predefined() {
        let text = format!("keyval {:#x} is predefined: its value can only be read", keyval.0);
        return Err(MpiError::new(Class::KEYVAL, text));
    }
    objects.keyvals.check(of, keyval)
}

impl Objects {
    /// Gives a new object the copies of attributes.
    ///
    /// # Errors
    /// A bad handle.
    pub(crate) fn adopt_attrs<H: Attributed>(
        &mut self,
        object: H,
        copies: Vec<(Keyval, SetValue)>,
    ) -> Result<()> {
        for (keyval, value) in copies {
            if object.attrs(self)?.set(keyval, value) {
                self.keyvals.hold(keyval)?;
            }
        }
        Ok(())
    }
}

impl Mpi {
    /// Creates a keyval for attributes of communicators (`MPI_Comm_create_keyval`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn comm_create_keyval(&self, functions: Arc<dyn AttrFns>) -> Result<Keyval> {
        self.create_keyval(Of::Comm, functions)
    }

    /// Frees a keyval of communicators and makes it invalid. Attributes that have it keep it.
    ///
    /// # Errors
    /// A bad keyval.
    pub fn comm_free_keyval(&self, keyval: &mut Keyval) -> Result<()> {
        self.free_keyval(Of::Comm, keyval)
    }

    /// Sets an attribute of a communicator; an old value is deleted first.
    ///
    /// # Errors
    /// A bad handle or keyval; what the delete function returns.
    pub fn comm_set_attr(&self, comm: Comm, keyval: Keyval, value: impl Into<SetValue>) -> Result<()> {
        self.set_attr(comm, keyval, value.into())
    }

    /// Returns the value of an attribute of a communicator.
    ///
    /// # Errors
    /// A bad handle or keyval.
    pub fn comm_get_attr(&self, comm: Comm, keyval: Keyval) -> Result<Option<AttrValue>> {
        if keyval.is_predefined() {
            self.with(|s| s.objects.comms.get(comm).map(|_| ()))?;
            return self.predefined_attr(keyval);
        }
        self.get_attr(comm, keyval)
    }

    /// Deletes an attribute of a communicator.
    ///
    /// # Errors
    /// A bad handle or keyval; an attribute that is not there; what the delete function returns.
    pub fn comm_delete_attr(&self, comm: Comm, keyval: Keyval) -> Result<()> {
        self.delete_attr(comm, keyval)
    }

    /// Returns the functions of a keyval.
    ///
    /// # Errors
    /// A bad or predefined keyval.
    pub fn keyval_functions(&self, keyval: Keyval) -> Result<Arc<dyn AttrFns>> {
        self.with(|s| s.objects.keyvals.functions(keyval))
    }

    /// Creates a keyval for attributes of datatypes (`MPI_Type_create_keyval`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn type_create_keyval(&self, functions: Arc<dyn AttrFns>) -> Result<Keyval> {
        self.create_keyval(Of::Datatype, functions)
    }

    /// Frees a keyval of datatypes and makes it invalid. Attributes that have it keep it.
    ///
    /// # Errors
    /// A bad keyval.
    pub fn type_free_keyval(&self, keyval: &mut Keyval) -> Result<()> {
        self.free_keyval(Of::Datatype, keyval)
    }

    /// Sets an attribute of a datatype; an old value is deleted first.
    ///
    /// # Errors
    /// As [`Mpi::comm_set_attr`].
    pub fn type_set_attr(
        &self,
        datatype: Datatype,
        keyval: Keyval,
        value: impl Into<SetValue>,
    ) -> Result<()> {
        self.set_attr(datatype, keyval, value.into())
    }

    /// Returns the value of an attribute of a datatype.
    ///
    /// # Errors
    /// A bad handle or keyval.
    pub fn type_get_attr(&self, datatype: Datatype, keyval: Keyval) -> Result<Option<AttrValue>> {
        self.get_attr(datatype, keyval)
    }

    /// Deletes an attribute of a datatype.
    ///
    /// # Errors
    /// As [`Mpi::comm_delete_attr`].
    pub fn type_delete_attr(&self, datatype: Datatype, keyval: Keyval) -> Result<()> {
        self.delete_attr(datatype, keyval)
    }

    /// Creates a keyval for attributes of one kind of objects.
    pub(crate) fn create_keyval(&self, of: Of, functions: Arc<dyn AttrFns>) -> Result<Keyval> {
        self.with(|s| s.objects.keyvals.create(of, functions))
    }

    /// Frees a keyval of one kind of objects.
    pub(crate) fn free_keyval(&self, of: Of, keyval: &mut Keyval) -> Result<()> {
        self.with(|s| {
            check(&s.objects, of, *keyval)?;
            s.objects.keyvals.free(of, keyval)
        })
    }

    fn predefined_attr(&self, keyval: Keyval) -> Result<Option<AttrValue>> {
        let value = match keyval {
            Keyval::TAG_UB => TAG_UB.into(),
            Keyval::HOST => PROC_NULL.into(),
            // Every process can do what the C language offers.
            Keyval::IO => ANY_SOURCE.into(),
            Keyval::WTIME_IS_GLOBAL => 0,
            Keyval::UNIVERSE_SIZE => {
                return Ok(self.universe_size().map(|size| AttrValue::Integer(size.into())));
            }
            Keyval::LASTUSEDCODE => self.codes().last_used().into(),
            Keyval::APPNUM => return Ok(self.appnum().map(|number| AttrValue::Integer(number.into()))),
            _ => return Err(invalid(keyval)),
        };
        Ok(Some(AttrValue::Integer(value)))
    }

    pub(crate) fn set_attr<H: Attributed>(&self, object: H, keyval: Keyval, value: SetValue) -> Result<()> {
        let (old, functions) = self.with(|s| {
            let objects = &mut s.objects;
            object.attrs(objects)?;
            check(objects, H::OF, keyval)?;
            objects.keyvals.check_live(H::OF, keyval)?;
            Ok((object.attrs(objects)?.get(keyval).cloned(), objects.keyvals.functions(keyval)?))
        })?;
        if let Some(old) = old {
            guest::call(DELETE, || functions.delete(object.raw(), keyval, &old))?;
        }
        self.with(|s| {
            s.objects.keyvals.check_live(H::OF, keyval)?;
            if object.attrs(&mut s.objects)?.set(keyval, value) {
                s.objects.keyvals.hold(keyval)?;
            }
            Ok(())
        })
    }

    pub(crate) fn get_attr<H: Attributed>(&self, object: H, keyval: Keyval) -> Result<Option<AttrValue>> {
        self.with(|s| {
            object.attrs(&mut s.objects)?;
            check(&s.objects, H::OF, keyval)?;
            Ok(object.attrs(&mut s.objects)?.get(keyval).map(AttrValue::from))
        })
    }

    pub(crate) fn delete_attr<H: Attributed>(&self, object: H, keyval: Keyval) -> Result<()> {
        self.with(|s| {
            object.attrs(&mut s.objects)?;
            check(&s.objects, H::OF, keyval)
        })?;
        if !self.take_attr(object, keyval)? {
            let text = format!("the object has no attribute of keyval {:#x}: nothing was deleted", keyval.0);
            return Err(MpiError::new(Class::KEYVAL, text));
        }
        Ok(())
    }

    /// Calls the delete function of an attribute and removes it. Returns false if it is not there.
    fn take_attr<H: Attributed>(&self, object: H, keyval: Keyval) -> Result<bool> {
        let found = self.with(|s| match object.attrs(&mut s.objects)?.get(keyval).cloned() {
            None => Ok(None),
            Some(value) => Ok(Some((value, s.objects.keyvals.functions(keyval)?))),
        })?;
        let Some((value, functions)) = found else { return Ok(false) };
        guest::call(DELETE, || functions.delete(object.raw(), keyval, &value))?;
        self.with(|s| {
            if object.attrs(&mut s.objects)?.remove(keyval) {
                s.objects.keyvals.release(keyval);
            }
            Ok(true)
        })
    }

    /// Deletes all attributes of an object, the one that was set last first.
    ///
    /// # Errors
    /// What a delete function returns: that attribute stays, and those that were set before it.
    pub(crate) fn delete_all_attrs<H: Attributed>(&self, object: H) -> Result<()> {
        loop {
            let last =
                self.with(|s| Ok(object.attrs(&mut s.objects)?.values().last().map(|(keyval, _)| *keyval)))?;
            let Some(keyval) = last else { return Ok(()) };
            self.take_attr(object, keyval)?;
        }
    }

    /// Returns copies of the attributes of an object, for a duplicate of it.
    ///
    /// # Errors
    /// A bad handle; what a copy function returns.
    pub(crate) fn copied_attrs<H: Attributed>(&self, object: H) -> Result<Vec<(Keyval, SetValue)>> {
        let list = self.with(|s| {
            let values = object.attrs(&mut s.objects)?.values();
            let functions = |(keyval, value)| Ok((keyval, value, s.objects.keyvals.functions(keyval)?));
            values.into_iter().map(functions).collect::<Result<Vec<_>>>()
        })?;
        let copy = |(keyval, value, functions): (Keyval, SetValue, Arc<dyn AttrFns>)| {
            let copied = guest::call(COPY, || functions.copy(object.raw(), keyval, &value));
            copied.map(|value| value.map(|value| (keyval, value))).transpose()
        };
        list.into_iter().filter_map(copy).collect()
    }
}
