//! The datatypes of a process, by handle.

use std::sync::Arc;

use super::basic::{BASICS, basic, place};
use super::envelope::{Combiner, Item};
use super::{Contents, TypeDesc};
use crate::attr::Attrs;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Datatype, Table, invalid};

/// A datatype with what is kept by handle.
#[derive(Debug)]
pub struct TypeEntry {
    /// The type itself.
    pub desc: Arc<TypeDesc>,
    /// True if it may be used to move data.
    pub committed: bool,
    /// Its name; empty if it has none.
    pub name: String,
    /// Its attributes.
    pub attrs: Attrs,
}

/// All datatypes of a process.
#[derive(Debug)]
pub struct Types {
    /// The predefined types, in the order of [`BASICS`].
    basics: Vec<TypeEntry>,
    derived: Table<Datatype, TypeEntry>,
    /// Types that Fortran has asked for, which are not freed.
    f90: Vec<Datatype>,
}

/// `MPI_TYPECLASS_REAL`.
pub const TYPECLASS_REAL: i32 = 1;
/// `MPI_TYPECLASS_INTEGER`.
pub const TYPECLASS_INTEGER: i32 = 2;
/// `MPI_TYPECLASS_COMPLEX`.
pub const TYPECLASS_COMPLEX: i32 = 3;

impl TypeEntry {
    fn new(desc: Arc<TypeDesc>, committed: bool, name: &str) -> TypeEntry {
        TypeEntry { desc, committed, name: name.into(), attrs: Attrs::default() }
    }
}

impl Default for Types {
    fn default() -> Types {
        Types::new()
    }
}

impl Types {
    /// Creates the predefined types.
    pub fn new() -> Types {
        let named = |b| TypeEntry::new(Arc::new(TypeDesc::named(b)), true, b.name);
        let mut derived = Table::new();
        // The pairs that are numbered apart have the handles of the first types made at run time,
        // which these places keep from being given away.
        let mut apart: Vec<_> = BASICS.iter().filter(|b| b.handle.0 >> 30 == 0b10).collect();
        apart.sort_by_key(|b| b.handle.0);
        for b in apart {
            let handle = derived.insert(named(b));
            debug_assert_eq!(handle, Ok(b.handle), "{} has a place of its own", b.name);
        }
        Types { basics: BASICS.iter().map(named).collect(), derived, f90: Vec::new() }
    }

    /// Returns what a handle names; `None` if it names nothing.
    #[inline]
    pub fn find(&self, handle: Datatype) -> Option<&TypeEntry> {
        match place(handle) {
            Some(i) => Some(&self.basics[i]),
            None => self.derived.find(handle),
        }
    }

    /// Returns what a handle names.
    ///
    /// # Errors
    /// [`Class::TYPE`] if it names nothing.
    #[inline]
    pub fn get(&self, handle: Datatype) -> Result<&TypeEntry> {
        self.find(handle).ok_or_else(|| invalid(handle))
    }

    /// Returns what a handle names.
    ///
    /// # Errors
    /// [`Class::TYPE`] if it names nothing.
    pub fn get_mut(&mut self, handle: Datatype) -> Result<&mut TypeEntry> {
        match place(handle) {
            Some(i) => Ok(&mut self.basics[i]),
            None => self.derived.get_mut(handle),
        }
    }

    /// Returns a type that may only be described, not used to move data.
    ///
    /// # Errors
    /// [`Class::TYPE`] if the handle names nothing.
    pub fn desc(&self, handle: Datatype) -> Result<Arc<TypeDesc>> {
        self.get(handle).map(|t| Arc::clone(&t.desc))
    }

    /// Returns a type with which `count` elements are moved. No element has any type: also
    /// `MPI_DATATYPE_NULL` then, as with MPICH.
    ///
    /// # Errors
    /// [`Class::TYPE`] if the handle names nothing or the type is not committed, [`Class::COUNT`]
    /// if the count is negative or so many elements are more than an address space holds.
    #[inline]
    pub fn committed(&self, handle: Datatype, count: i64) -> Result<&Arc<TypeDesc>> {
        let is_none = count == 0 && handle == Datatype::NULL;
        let entry = self.get(if is_none { Datatype::BYTE } else { handle })?;
        if !entry.committed {
            return Err(uncommitted(handle));
        }
        if !entry.desc.fits(count) {
            return Err(wrong_count(count, &entry.desc));
        }
        Ok(&entry.desc)
    }

    /// Adds a type; it is not committed.
    ///
    /// # Errors
    /// If no more can exist.
    pub fn add(&mut self, desc: TypeDesc) -> Result<Datatype> {
        self.derived.insert(TypeEntry::new(Arc::new(desc), false, ""))
    }

    /// Adds a copy of a type, which is committed if the type is.
    ///
    /// # Errors
    /// [`Class::TYPE`] if the handle names nothing; if no more can exist.
    pub fn dup(&mut self, handle: Datatype, form: super::Form) -> Result<Datatype> {
        let old = self.get(handle)?;
        let entry = TypeEntry::new(Arc::new(TypeDesc::dup(&old.desc, form)), old.committed, "");
        self.derived.insert(entry)
    }

    /// Adds another handle of a type that lives on though its handle was freed.
    ///
    /// # Errors
    /// If no more can exist.
    pub(crate) fn lend(&mut self, desc: &Arc<TypeDesc>) -> Result<Datatype> {
        self.derived.insert(TypeEntry::new(Arc::clone(desc), true, ""))
    }

    /// Allows a type to be used to move data, and compiles the moves.
    ///
    /// # Errors
    /// [`Class::TYPE`] if the handle names nothing.
    pub fn commit(&mut self, handle: Datatype) -> Result<()> {
        let entry = self.get_mut(handle)?;
        entry.desc.layout.compile();
        entry.committed = true;
        Ok(())
    }

    /// Checks that a type may be freed.
    ///
    /// # Errors
    /// [`Class::TYPE`] if the handle names nothing or a predefined type.
    pub fn check_free(&self, handle: Datatype) -> Result<()> {
        if let Some(b) = basic(handle) {
            let text = format!("{} is predefined and cannot be freed; free types that were made", b.name);
            return Err(MpiError::new(Class::TYPE, text));
        }
        if self.get(handle)?.desc.is_f90() && self.f90.contains(&handle) {
            let text = format!("{:#010x} is a type of a Fortran kind; it cannot be freed", handle.0);
            return Err(MpiError::new(Class::TYPE, text));
        }
        Ok(())
    }

    /// Adds a type that is not freed.
    pub(super) fn add_f90(&mut self, desc: TypeDesc) -> Result<Datatype> {
        let handle = self.derived.insert(TypeEntry::new(Arc::new(desc), true, ""))?;
        self.f90.push(handle);
        Ok(handle)
    }

    /// Returns the type that was made by the same request of Fortran.
    pub(super) fn f90_of(&self, combiner: Combiner, items: &[Item]) -> Option<Datatype> {
        let is_it = |handle: &&Datatype| {
            let envelope = self.derived.find(**handle).map(|entry| &entry.desc.envelope);
            envelope.is_some_and(|e| e.combiner == combiner && e.items == items)
        };
        self.f90.iter().find(is_it).copied()
    }

    /// Returns the handle of a type that is predefined.
    fn predefined(&self, desc: &TypeDesc) -> Option<Datatype> {
        desc.handle().or_else(|| self.f90_of(desc.envelope.combiner, &desc.envelope.items))
    }

    /// Removes a type. Whatever uses it goes on with it.
    ///
    /// # Errors
    /// [`Class::TYPE`] if the handle names nothing or a predefined type.
    pub fn remove(&mut self, handle: Datatype) -> Result<TypeEntry> {
        self.check_free(handle)?;
        self.derived.remove(handle)
    }

    /// Number of types that were made and not freed.
    pub fn live(&self) -> usize {
        let stay = BASICS.iter().filter(|b| b.handle.0 >> 30 == 0b10).count() + self.f90.len();
        self.derived.len() - stay
    }

    /// Names of the types that were made and not freed, or their handles.
    pub(crate) fn live_names(&self) -> impl Iterator<Item = String> {
        let made = |handle: &Datatype| basic(*handle).is_none() && !self.f90.contains(handle);
        self.derived.iter().filter(move |(handle, _)| made(handle)).map(|(handle, entry)| match &entry.name {
            name if name.is_empty() => format!("datatype {:#010x}", handle.0),
            name => name.clone(),
        })
    }

    /// Returns the arguments that made a type: the numbers, and handles of the types. Types that
    /// are not predefined get new handles.
    ///
    /// # Errors
    /// [`Class::TYPE`] if the handle names nothing or a predefined type, which has no contents.
    pub fn contents(&mut self, handle: Datatype) -> Result<(Contents, Vec<Datatype>)> {
        let desc = self.desc(handle)?;
        if desc.envelope.combiner == Combiner::Named {
            let text = "a predefined datatype has no contents; ask for its envelope first";
            return Err(MpiError::new(Class::TYPE, text));
        }
        let part = |part: &Arc<TypeDesc>| match self.predefined(part) {
            Some(predefined) => Ok(predefined),
            None => self.derived.insert(TypeEntry::new(Arc::clone(part), true, "")),
        };
        let types = desc.parts.iter().map(part).collect::<Result<_>>()?;
        Ok((desc.envelope.contents(), types))
    }

    /// Returns the predefined type of a class and a size (`MPI_Type_match_size`).
    ///
    /// # Errors
    /// [`Class::ARG`] if there is none.
    pub fn match_size(class: i32, size: i32) -> Result<Datatype> {
        let prefix = match class {
            TYPECLASS_REAL => "MPI_REAL",
            TYPECLASS_INTEGER => "MPI_INTEGER",
            TYPECLASS_COMPLEX => "MPI_COMPLEX",
            _ => {
                let text = format!("typeclass {class} is none of MPI_TYPECLASS_REAL, _INTEGER and _COMPLEX");
                return Err(MpiError::new(Class::ARG, text));
            }
        };
        let name = format!("{prefix}{size}");
        let text = || format!("there is no {name}: no type of this class has {size} bytes");
        let found = BASICS.iter().find(|b| b.name == name);
        found.map(|b| b.handle).ok_or_else(|| MpiError::new(Class::ARG, text()))
    }
}

#[cold]
fn uncommitted(handle: Datatype) -> Box<MpiError> {
    let text = format!("the datatype {:#010x} is not committed; call MPI_Type_commit first", handle.0);
    MpiError::new(Class::TYPE, text)
}

#[cold]
fn wrong_count(count: i64, desc: &TypeDesc) -> Box<MpiError> {
    let text = if count < 0 {
        format!("count is {count}: it must not be negative")
    } else {
        let extent = desc.extent();
        format!("count is {count}: so many elements with an extent of {extent} bytes do not exist")
    };
    MpiError::new(Class::COUNT, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Form;

    const INT: Datatype = Datatype(0x4c00_0405);
    const DOUBLE_INT: Datatype = Datatype(0x8c00_0001);

    #[test]
    fn predefined_types_are_there_and_stay() {
        let mut types = Types::new();
        for b in BASICS {
            assert_eq!(types.get(b.handle).unwrap().name, b.name);
            assert!(types.committed(b.handle, 3).is_ok());
            assert_eq!(types.remove(b.handle).unwrap_err().class, Class::TYPE);
        }
        let made = types.add(TypeDesc::contiguous(2, &types.desc(INT).unwrap(), Form::Int).unwrap());
        assert_eq!(made, Ok(Datatype(0x8c00_0005)), "behind the pairs");
        assert_eq!(types.live(), 1);
    }

    #[test]
    fn a_type_lives_from_its_constructor_to_its_end() {
        let mut types = Types::new();
        let old = types.desc(DOUBLE_INT).unwrap();
        let t = types.add(TypeDesc::vector(2, 1, 3, &old, Form::Int).unwrap()).unwrap();
        let error = types.committed(t, 1).unwrap_err();
        assert_eq!(error.class, Class::TYPE);
        assert!(error.text.contains("MPI_Type_commit"), "{}", error.text);
        types.commit(t).unwrap();
        assert!(types.committed(t, 1).is_ok());
        for count in [-1, i64::MAX] {
            assert_eq!(types.committed(t, count).unwrap_err().class, Class::COUNT, "{count}");
        }
        let copy = types.dup(t, Form::Int).unwrap();
        assert!(types.committed(copy, 1).is_ok(), "a copy is committed as its original is");
        let (numbers, parts) = types.contents(t).unwrap();
        assert_eq!((numbers.integers, parts), (vec![2, 1, 3], vec![DOUBLE_INT]));
        let (_, parts) = types.contents(copy).unwrap();
        assert_eq!(types.desc(parts[0]).unwrap().size(), 24);
        assert_eq!(types.contents(INT).unwrap_err().class, Class::TYPE);
        types.remove(t).unwrap();
        assert_eq!(types.get(t).unwrap_err().class, Class::TYPE);
        assert_eq!(types.get(Datatype::NULL).unwrap_err().class, Class::TYPE);
        assert_eq!(types.live(), 2);
    }

    #[test]
    fn nothing_stays_of_types_that_are_made_again_and_again() {
        let mut types = Types::new();
        let int = types.desc(INT).unwrap();
        let users = Arc::strong_count(&int);
        for _ in 0..1000 {
            let irregular: Vec<i64> = (0..50).map(|i| i * i).collect();
            let desc = TypeDesc::indexed_block(1, &irregular, &int, Form::Int).unwrap();
            let layout = Arc::downgrade(&desc.layout);
            let handle = types.add(desc).unwrap();
            types.commit(handle).unwrap();
            drop(types.remove(handle).unwrap());
            assert!(layout.upgrade().is_none());
        }
        assert_eq!((types.live(), Arc::strong_count(&int)), (0, users));
    }

    #[test]
    fn sizes_are_matched() {
        assert_eq!(Types::match_size(TYPECLASS_REAL, 8), Ok(Datatype(0x4c00_0829)));
        assert_eq!(Types::match_size(TYPECLASS_INTEGER, 4), Ok(Datatype(0x4c00_0430)));
        assert_eq!(Types::match_size(TYPECLASS_COMPLEX, 16), Ok(Datatype(0x4c00_102a)));
        assert_eq!(Types::match_size(TYPECLASS_REAL, 3).unwrap_err().class, Class::ARG);
        assert_eq!(Types::match_size(7, 4).unwrap_err().class, Class::ARG);
    }
}
