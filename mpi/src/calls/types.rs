//! Datatypes: constructors, what is asked of them, and what is counted with them.

use std::sync::Arc;

use crate::consts::{MAX_OBJECT_NAME, UNDEFINED};
use crate::datatype::{Combiner, Contents, Darray, Form, TypeDesc, Types};
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;
use crate::instance::Mpi;
use crate::status::Status;

impl Mpi {
    /// Makes a type of another.
    fn derive(
        &self,
        old: Datatype,
        make: impl FnOnce(&Arc<TypeDesc>) -> Result<TypeDesc>,
    ) -> Result<Datatype> {
        self.with(|s| {
            let made = make(&s.objects.types.desc(old)?)?;
            s.objects.types.add(made)
        })
    }

    /// Creates a type of `count` elements in a row (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn type_contiguous(&self, count: i64, old: Datatype, form: Form) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::contiguous(count, old, form))
    }

    /// Creates a type of blocks with a stride in elements (`MPI_Type_vector`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn type_vector(
        &self,
        count: i64,
        blocklen: i64,
        stride: i64,
        old: Datatype,
        form: Form,
    ) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::vector(count, blocklen, stride, old, form))
    }

    /// Creates a type of blocks with a stride in bytes (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn type_create_hvector(
        &self,
        count: i64,
        blocklen: i64,
        stride: i64,
        old: Datatype,
        form: Form,
    ) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::hvector(count, blocklen, stride, old, form))
    }

    /// Creates a type of blocks at displacements in elements (`MPI_Type_indexed`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn type_indexed(
        &self,
        blocklens: &[i64],
        displs: &[i64],
        old: Datatype,
        form: Form,
    ) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::indexed(blocklens, displs, old, form))
    }

    /// Creates a type of blocks at displacements in bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn type_create_hindexed(
        &self,
        blocklens: &[i64],
        displs: &[i64],
        old: Datatype,
        form: Form,
    ) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::hindexed(blocklens, displs, old, form))
    }

    /// Creates a type of equal blocks at displacements in elements
    /// (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn type_create_indexed_block(
        &self,
        blocklen: i64,
        displs: &[i64],
        old: Datatype,
        form: Form,
    ) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::indexed_block(blocklen, displs, old, form))
    }

    /// Creates a type of equal blocks at displacements in bytes
    /// (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn type_create_hindexed_block(
        &self,
        blocklen: i64,
        displs: &[i64],
        old: Datatype,
        form: Form,
    ) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::hindexed_block(blocklen, displs, old, form))
    }

    /// Creates a type of blocks of several types (`MPI_Type_create_struct`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn type_create_struct(
        &self,
        blocklens: &[i64],
        displs: &[i64],
        types: &[Datatype],
        form: Form,
    ) -> Result<Datatype> {
        self.with(|s| {
            let all = &mut s.objects.types;
            let parts = types.iter().map(|t| all.desc(*t)).collect::<Result<Vec<_>>>()?;
            all.add(TypeDesc::structure(blocklens, displs, &parts, form)?)
        })
    }

    /// Creates a type with another lower bound and extent (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_create_resized(&self, old: Datatype, lb: i64, extent: i64, form: Form) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::resized(lb, extent, old, form))
    }

    /// Creates the type of a part of an array (`MPI_Type_create_subarray`).
    ///
    /// # Errors
    /// A bad handle, sizes that do not fit, an unknown order.
    pub fn type_create_subarray(
        &self,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: i32,
        old: Datatype,
        form: Form,
    ) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::subarray(sizes, subsizes, starts, order, old, form))
    }

    /// Creates the type of a process's part of a distributed array (`MPI_Type_create_darray`).
    ///
    /// # Errors
    /// A bad handle, or a bad argument.
    pub fn type_create_darray(&self, args: &Darray<'_>, old: Datatype, form: Form) -> Result<Datatype> {
        self.derive(old, |old| TypeDesc::darray(args, old, form))
    }

    /// Creates a copy of a type, with those of its attributes that are copied (`MPI_Type_dup`).
    ///
    /// # Errors
    /// A bad handle; what a copy function returns.
    pub fn type_dup(&self, old: Datatype) -> Result<Datatype> {
        let copied = self.copied_attrs(old)?;
        self.with(|s| {
            let new = s.objects.types.dup(old, Form::Int)?;
            s.objects.adopt_attrs(new, copied)?;
            Ok(new)
        })
    }

    /// Allows a type to be used to move data (`MPI_Type_commit`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_commit(&self, datatype: &mut Datatype) -> Result<()> {
        self.with(|s| s.objects.types.commit(*datatype))
    }

    /// Frees a type, and makes its handle null (`MPI_Type_free`). Operations that use it go on.
    ///
    /// # Errors
    /// A bad handle, a predefined type; what a delete function returns.
    pub fn type_free(&self, datatype: &mut Datatype) -> Result<()> {
        let handle = *datatype;
        self.with(|s| s.objects.types.check_free(handle))?;
        self.delete_all_attrs(handle)?;
        self.with(|s| s.objects.types.remove(handle).map(drop))?;
        *datatype = Datatype::NULL;
        Ok(())
    }

    fn of_type<T>(&self, datatype: Datatype, ask: impl FnOnce(&TypeDesc) -> T) -> Result<T> {
        self.with(|s| s.objects.types.get(datatype).map(|entry| ask(&entry.desc)))
    }

    /// Returns the bytes of data in an element (`MPI_Type_size`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_size(&self, datatype: Datatype) -> Result<i64> {
        self.of_type(datatype, |desc| desc.size() as i64)
    }

    /// Tells of the runs of data of one element in packed order, neighbours joined: displacements
    /// and bytes, until that returns false (`MPIX_Type_iov`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_each_run(&self, datatype: Datatype, tell: impl FnMut(i64, u64) -> bool) -> Result<()> {
        let desc = self.with(|s| s.objects.types.desc(datatype))?;
        desc.each_run(tell);
        Ok(())
    }

    /// Returns lower bound and extent (`MPI_Type_get_extent`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_get_extent(&self, datatype: Datatype) -> Result<(i64, i64)> {
        self.of_type(datatype, |desc| (desc.lb(), desc.extent()))
    }

    /// Returns lower bound and extent of the data (`MPI_Type_get_true_extent`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_get_true_extent(&self, datatype: Datatype) -> Result<(i64, i64)> {
        self.of_type(datatype, |desc| (desc.true_lb(), desc.true_extent()))
    }

    /// Returns the numbers of integers, addresses, large counts and types that
    /// [`Mpi::type_get_contents`] gives, and the constructor (`MPI_Type_get_envelope_c`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_get_envelope(&self, datatype: Datatype) -> Result<([i64; 4], Combiner)> {
        self.of_type(datatype, |desc| {
            let Contents { integers, addresses, counts } = desc.envelope.contents();
            let numbers = [integers.len(), addresses.len(), counts.len(), desc.parts.len()];
            (numbers.map(|n| n as i64), desc.envelope.combiner)
        })
    }

    /// Returns the arguments of a type's constructor, with new handles of types that are not
    /// predefined (`MPI_Type_get_contents`).
    ///
    /// # Errors
    /// A bad handle, a predefined type.
    pub fn type_get_contents(&self, datatype: Datatype) -> Result<(Contents, Vec<Datatype>)> {
        self.with(|s| s.objects.types.contents(datatype))
    }

    /// Returns the name of a type; empty if it has none (`MPI_Type_get_name`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_get_name(&self, datatype: Datatype) -> Result<String> {
        // MPI names the null type, though it is none.
        if datatype.is_null() {
            return Ok("MPI_DATATYPE_NULL".to_owned());
        }
        self.with(|s| s.objects.types.get(datatype).map(|entry| entry.name.clone()))
    }

    /// Names a type (`MPI_Type_set_name`).
    ///
    /// # Errors
    /// A bad handle, or a name that is too long.
    pub fn type_set_name(&self, datatype: Datatype, name: &str) -> Result<()> {
        if name.len() >= MAX_OBJECT_NAME {
            let text = format!("the name has {} bytes, and may have {}", name.len(), MAX_OBJECT_NAME - 1);
            return Err(MpiError::new(Class::ARG, text));
        }
        self.with(|s| {
            name.clone_into(&mut s.objects.types.get_mut(datatype)?.name);
            Ok(())
        })
    }

    /// Returns the predefined type of a class and a size (`MPI_Type_match_size`).
    ///
    /// # Errors
    /// If there is none.
    pub fn type_match_size(&self, class: i32, size: i32) -> Result<Datatype> {
        Types::match_size(class, size)
    }

    /// Returns the pair of a value and an index; null if there is none
    /// (`MPI_Type_get_value_index`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn type_get_value_index(&self, value: Datatype, index: Datatype) -> Result<Datatype> {
        self.with(|s| s.objects.types.pair_of(value, index))
    }

    /// Returns the real type of a precision and a range (`MPI_Type_create_f90_real`).
    ///
    /// # Errors
    /// If there is none.
    pub fn type_create_f90_real(&self, p: i32, r: i32) -> Result<Datatype> {
        self.with(|s| s.objects.types.f90_float(p, r, false))
    }

    /// Returns the complex type of a precision and a range (`MPI_Type_create_f90_complex`).
    ///
    /// # Errors
    /// If there is none.
    pub fn type_create_f90_complex(&self, p: i32, r: i32) -> Result<Datatype> {
        self.with(|s| s.objects.types.f90_float(p, r, true))
    }

    /// Returns the integer type of a number of digits (`MPI_Type_create_f90_integer`).
    ///
    /// # Errors
    /// If there is none.
    pub fn type_create_f90_integer(&self, r: i32) -> Result<Datatype> {
        self.with(|s| s.objects.types.f90_integer(r))
    }

    /// Returns how many elements of a type a message has (`MPI_Get_count`), or [`UNDEFINED`] if it
    /// is no whole number.
    ///
    /// # Errors
    /// A bad handle.
    pub fn get_count(&self, status: &Status, datatype: Datatype) -> Result<i64> {
        let bytes = status.count_bytes.max(0) as u64;
        self.of_type(datatype, |desc| number(desc.count_of(bytes)))
    }

    /// Returns how many basic elements of a type a message has (`MPI_Get_elements`), or
    /// [`UNDEFINED`] if it is no whole number.
    ///
    /// # Errors
    /// A bad handle.
    pub fn get_elements(&self, status: &Status, datatype: Datatype) -> Result<i64> {
        let bytes = status.count_bytes.max(0) as u64;
        self.of_type(datatype, |desc| number(desc.elements_of(bytes)))
    }

    /// Returns the bytes that `count` elements need when they are packed (`MPI_Pack_size`).
    ///
    /// # Errors
    /// A bad handle or count.
    pub fn pack_size(&self, count: i64, datatype: Datatype) -> Result<i64> {
        self.with(|s| s.objects.types.pack_size(count, datatype))
    }
}

fn number(of: Option<u64>) -> i64 {
    of.map_or(i64::from(UNDEFINED), |n| i64::try_from(n).unwrap_or(i64::from(UNDEFINED)))
}
