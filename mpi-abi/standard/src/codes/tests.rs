use netmod_mpi::MpiError;

use super::*;

/// Makes a code of the library, and returns what the program sees of it.
fn raised(class: Class, text: &str) -> c_int {
    code_out(CODES.code(&MpiError::new(class, text)))
}

fn string(code: c_int) -> String {
    CODES.string(code_in(code)).expect("a code")
}

#[test]
fn a_code_is_small_and_keeps_its_class_and_text() {
    for (class, number, name) in [
        (Class::RANK, 6, "MPI_ERR_RANK"),
        (Class::ROOT, 8, "MPI_ERR_ROOT"),
        (Class::REQUEST, 7, "MPI_ERR_REQUEST"),
        (Class::ABI, 62, "MPI_ERR_ABI"),
    ] {
        let code = raised(class, "what is wrong");
        assert!(code > CLASS && code < LASTCODE, "{name}: {code}");
        assert_eq!(code & CLASS, number, "{name}");
        assert_eq!(CODES.class(code_in(code)), Ok(class.0), "{name}");
        assert_eq!(string(code), format!("{name}: what is wrong"));
        assert_eq!(code_out(code_in(code)), code, "{name}");
    }
}

#[test]
fn failed_processes_keep_their_texts_in_the_class_that_the_standard_has() {
    for (class, shown, name) in [
        (Class::PROC_FAILED, Class::PROC_ABORTED, "MPI_ERR_PROC_ABORTED"),
        (Class::PROC_FAILED_PENDING, Class::PROC_ABORTED, "MPI_ERR_PROC_ABORTED"),
        (Class::REVOKED, Class::COMM, "MPI_ERR_COMM"),
        (Class::EAGAIN, Class::OTHER, "MPI_ERR_OTHER"),
    ] {
        let code = raised(class, "rank 3 is gone");
        assert_eq!(CODES.class(code_in(code)), Ok(shown.0), "{class:?}");
        assert_eq!(code_out(shown.0), code & CLASS, "{class:?}");
        assert_eq!(string(code), format!("{name}: rank 3 is gone"));
        // The class alone is what the program compares with.
        assert_eq!(code_out(class.0), code_out(shown.0), "{class:?}");
    }
}

#[test]
fn classes_of_the_tool_interface_stand_alone() {
    let code = raised(Class::T_INVALID_INDEX, "variable 7");
    assert_eq!(code, 1007);
    assert_eq!(CODES.class(code_in(code)), Ok(Class::T_INVALID_INDEX.0));
    assert!(string(code).starts_with("MPI_T_ERR_INVALID_INDEX: "));
}

#[test]
fn codes_of_the_program_follow_the_last_one_of_the_library() {
    assert_eq!(code_out(consts::LASTCODE), LASTCODE, "none was added");
    let class = CODES.add_class();
    let code = CODES.add_code(class).expect("a class");
    assert!(code_out(class) > LASTCODE && code_out(code) > code_out(class));
    for number in [class, code] {
        assert_eq!(code_in(code_out(number)), number);
    }
}

#[test]
fn a_number_that_is_no_code_gets_no_meaning() {
    // Numbers that the library knows, between those of this interface, and codes without a class.
    for number in [-1, c_int::MIN, 63, 64, 101, 129, 200, 1000, 1019, 1023, 20 << 6, LASTCODE, c_int::MAX] {
        let inner = code_in(number);
        assert!(inner != 0, "{number}");
        assert!(CODES.class(inner).is_err(), "{number} has the class {:?}", CODES.class(inner));
    }
}
