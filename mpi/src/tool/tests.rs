//! The tool interface without a device.

use std::sync::Arc;

use super::sessions::Action;
use super::{Tool, Value};
use crate::error::Class;

fn tool() -> Arc<Tool> {
    let tool = Arc::new(Tool::default());
    assert!(tool.lists().is_err_and(|class| class == Class::T_NOT_INITIALIZED));
    tool.begin();
    tool
}

#[test]
fn each_variable_is_in_one_category_and_found_by_its_name() {
    let tool = tool();
    let lists = tool.lists().expect("in use");
    for (at, control) in lists.controls.iter().enumerate() {
        assert_eq!(tool.control_index(control.name), Ok(at));
        assert_eq!(lists.categories.iter().filter(|c| c.controls.contains(&at)).count(), 1);
        assert!(control.enumeration.is_none_or(|e| e < lists.enums.len()));
        assert_eq!(
            control.enumeration.is_some(),
            matches!(control.default, Value::Int(_)),
            "{}",
            control.name
        );
    }
    for (at, figure) in lists.figures.iter().enumerate() {
        assert_eq!(lists.figures.iter().position(|f| f.name == figure.name), Some(at));
        assert_eq!(lists.categories.iter().filter(|c| c.figures.contains(&at)).count(), 1);
    }
    assert_eq!(lists.categories[0].categories.len() + 1, lists.categories.len());
    assert!(lists.categories.iter().all(|c| c.name != "everything" && !c.name.is_empty()));
}

#[test]
fn handles_end_with_their_session_and_the_last_tool() {
    let tool = tool();
    let session = tool.session_create().expect("a session");
    let handle = tool.handle_alloc(None, session, 0).expect("a handle");
    assert_eq!(tool.handle_read(None, (session, handle)), Ok(Value::Number(0)));
    assert_eq!(tool.handle_read(None, (handle, handle)), Err(Class::T_INVALID_SESSION));
    assert_eq!(tool.handle_do(None, (session, handle), Action::Start), Err(Class::T_PVAR_NO_STARTSTOP));
    assert_eq!(tool.handle_readreset(None, (session, handle)), Err(Class::T_PVAR_NO_ATOMIC));
    assert_eq!(tool.handle_write(None, (session, handle), Clone::clone), Err(Class::T_PVAR_NO_WRITE));
    assert_eq!(tool.session_do(None, session, Action::Start), Ok(()));
    assert_eq!(tool.handle_free(session, handle), Ok(()));
    assert_eq!(tool.handle_read(None, (session, handle)), Err(Class::T_INVALID_HANDLE));
    tool.begin();
    assert_eq!(tool.end(), Ok(()));
    assert!(tool.handle_alloc(None, session, 0).is_ok());
    assert_eq!(tool.end(), Ok(()));
    assert_eq!(tool.end(), Err(Class::T_NOT_INITIALIZED));
    tool.begin();
    assert_eq!(tool.handle_alloc(None, session, 0), Err(Class::T_INVALID_SESSION));
}

#[test]
fn what_is_written_before_the_start_is_taken_once() {
    let tool = tool();
    let index = tool.control_index("NETMOD_MPI_LEAKS").expect("a setting");
    let (handle, count) = tool.control_alloc(index).expect("a handle");
    assert_eq!((count, tool.control_read(None, handle)), (1, Ok(Value::Int(0))));
    assert_eq!(tool.control_write(None, handle, &Value::Int(123)), Err(Class::T_INVALID));
    assert_eq!(tool.control_write(None, handle, &Value::Int(1)), Ok(()));
    assert_eq!(tool.control_read(None, handle), Ok(Value::Int(1)));
    assert_eq!(tool.written(), [("NETMOD_MPI_LEAKS".to_owned(), "yes".to_owned())]);
    assert_eq!(tool.written(), []);
    assert_eq!(tool.control_free(handle), Ok(()));
    assert_eq!(tool.control_read(None, handle), Err(Class::T_INVALID_HANDLE));
}

#[test]
fn incidents_are_watched_while_an_event_has_a_handle() {
    let tool = tool();
    assert!(!tool.watches());
    let first = tool.event_alloc(None, 0).expect("a handle");
    let second = tool.event_alloc(None, 2).expect("a handle");
    assert_eq!(tool.event_alloc(None, 3), Err(Class::T_INVALID_INDEX));
    assert_eq!(tool.event_free(first), Ok(()));
    assert!(tool.watches());
    assert_eq!(tool.event_register(second, 4, None), Err(Class::T_INVALID));
    assert_eq!(tool.event_free(second), Ok(()));
    assert!(!tool.watches());
    assert_eq!(tool.event_free(second), Err(Class::T_INVALID_HANDLE));
}
