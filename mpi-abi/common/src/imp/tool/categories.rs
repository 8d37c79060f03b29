//! Categories.

use core::ffi::{c_char, c_int};

use netmod_mpi::Class;
use netmod_mpi::tool::Answer;
use netmod_mpi::tool::categories::Category;

use super::{code, give, index, name, put, put_count, put_text, tool};

fn category(number: c_int) -> Answer<&'static Category> {
    let at = index(number)?;
    tool().lists()?.categories.get(at).ok_or(Class::T_INVALID_INDEX)
}

/// Tells how often the categories have changed: they never do.
pub unsafe fn t_category_changed(number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().lists().and_then(|_| unsafe { put(number, 0) }))
}

pub unsafe fn t_category_get_num(number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().lists().and_then(|lists| unsafe { put_count(number, lists.categories.len()) }))
}

pub unsafe fn t_category_get_index(text: *const c_char, result: *mut c_int) -> c_int {
    // SAFETY: the caller's string and memory.
    code(unsafe {
        tool().lists().and_then(|lists| {
            let name = name(text)?;
            let found = lists.categories.iter().position(|category| category.name == name);
            put_count(result, found.ok_or(Class::T_INVALID_NAME)?)
        })
    })
}

#[expect(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn t_category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    controls: *mut c_int,
    figures: *mut c_int,
    categories: *mut c_int,
) -> c_int {
    code(category(cat_index).map(|category| {
        // SAFETY: the caller's memory.
        unsafe {
            put_text(name, name_len, &category.name);
            put_text(desc, desc_len, &category.meaning);
            give(controls, category.controls.len() as c_int);
            give(figures, category.figures.len() as c_int);
            give(categories, category.categories.len() as c_int);
        }
    }))
}

pub unsafe fn t_category_get_num_events(cat_index: c_int, number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(category(cat_index).and_then(|category| unsafe { put_count(number, category.events.len()) }))
}

/// Functions that write as many of a category's members as there is room for.
macro_rules! members {
    ($($name:ident $members:ident)*) => {
        $(pub unsafe fn $name(cat_index: c_int, room: c_int, indices: *mut c_int) -> c_int {
            code(category(cat_index).and_then(|category| {
                let room = usize::try_from(room).map_err(|_| Class::T_INVALID)?;
                for (at, member) in category.$members.iter().take(room).enumerate() {
                    // SAFETY: the caller's array, which has so many places.
                    unsafe { put_count(indices.wrapping_add(at), *member)? };
                }
                Ok(())
            }))
        })*
    };
}

members! {
    t_category_get_cvars controls
    t_category_get_pvars figures
    t_category_get_events events
    t_category_get_categories categories
}
