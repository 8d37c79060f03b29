use super::*;

fn error(class: Class, text: &str) -> Box<MpiError> {
    MpiError::new(class, text)
}

#[test]
fn a_code_has_its_class_and_its_text() {
    let codes = Codes::new();
    let rank = codes.code(&error(Class::RANK, "dest 5 is not in the communicator"));
    let tag = codes.code(&error(Class::TAG, "tag -3"));
    assert_ne!(rank, Class::RANK.0);
    assert_eq!(codes.class(rank), Ok(6));
    assert_eq!(codes.string(rank).expect("a text"), "MPI_ERR_RANK: dest 5 is not in the communicator");
    assert_eq!(codes.string(tag).expect("a text"), "MPI_ERR_TAG: tag -3");
    assert_eq!(codes.string(Class::RANK.0).expect("a text"), "MPI_ERR_RANK: invalid rank");
    assert_eq!((codes.class(0), codes.string(0)), (Ok(0), Ok("no error".to_owned())));
}

#[test]
fn old_codes_keep_their_class_alone() {
    let codes = Codes::new();
    let first = codes.code(&error(Class::COMM, "first"));
    for i in 0..RECENT {
        let code = codes.code(&error(Class::TYPE, &format!("number {i}")));
        assert!(codes.string(code).expect("a text").ends_with(&format!("number {i}")));
    }
    assert_eq!(codes.class(first), Ok(Class::COMM.0));
    assert_eq!(codes.string(first).expect("a text"), "MPI_ERR_COMM: invalid communicator");
}

#[test]
fn the_numbers_of_texts_begin_anew_without_meeting_a_bare_class() {
    let codes = Codes::new();
    codes.lock().latest = TEXTS - 2;
    for text in ["last", "first"] {
        let code = codes.code(&error(Class::OP, text));
        assert!(code > CLASS && code <= LASTCODE, "{code:#x}");
        assert_eq!(codes.string(code).expect("a text"), format!("MPI_ERR_OP: {text}"));
    }
}

#[test]
fn classes_of_the_tool_interface_and_beyond_mpi_have_their_names() {
    let said = Codes::new().string(Class::T_INVALID_INDEX.0).expect("a class");
    assert!(said.starts_with("MPI_T_ERR_INVALID_INDEX: "), "{said}");
    assert_eq!(format!("{:?}", Class::T_NOT_INITIALIZED), "MPI_T_ERR_NOT_INITIALIZED");
    assert_eq!(format!("{:?}", Class::PROC_FAILED), "MPIX_ERR_PROC_FAILED");
    assert_eq!(format!("{:?}", Class::ABI), "MPI_ERR_ABI");
}

#[test]
fn no_code_is_an_error() {
    let codes = Codes::new();
    for code in [-1, i32::MIN, 54, 127, 256, LASTCODE, LASTCODE + 1, i32::MAX] {
        assert_eq!(codes.class(code).expect_err("no code").class, Class::ARG, "{code}");
        assert_eq!(codes.string(code).expect_err("no code").class, Class::ARG, "{code}");
    }
}

#[test]
fn the_latest_code_is_found_by_the_remainder_of_its_number() {
    let codes = Codes::new();
    let same: fn(Class) -> Class = |class| class;
    let failed_as_aborted: fn(Class) -> Class =
        |class| if class == Class::PROC_FAILED { Class::PROC_ABORTED } else { class };
    assert_eq!(codes.latest(Class::TAG, same, 3, 240), Class::TAG.0, "there was none");
    let made: Vec<i32> = (0..500).map(|i| codes.code(&error(Class::TAG, &format!("tag {i}")))).collect();
    for code in &made[260..] {
        let (class, text) = Codes::parts(*code);
        assert_eq!(codes.latest(class, same, text % 240, 240), *code);
    }
    let failed = codes.code(&error(Class::PROC_FAILED, "rank 3 is gone"));
    let (_, text) = Codes::parts(failed);
    assert_eq!(codes.latest(Class::PROC_ABORTED, same, text % 240, 240), Class::PROC_ABORTED.0);
    let found = codes.latest(Class::PROC_ABORTED, failed_as_aborted, text % 240, 240);
    assert_eq!(codes.class(found), Ok(Class::PROC_ABORTED.0));
    assert_eq!(codes.string(found), Ok("MPI_ERR_PROC_ABORTED: rank 3 is gone".to_owned()));
}

#[test]
fn users_add_classes_codes_and_texts() {
    let codes = Codes::new();
    assert_eq!(codes.last_used(), LASTCODE);
    let class = codes.add_class();
    let code = codes.add_code(class).expect("a class");
    let other = codes.add_code(Class::ARG.0).expect("a class");
    assert_eq!(codes.last_used(), other);
    assert_eq!([codes.class(class), codes.class(code), codes.class(other)], [Ok(class), Ok(class), Ok(12)]);
    assert_eq!(codes.string(code), Ok(String::new()));
    codes.add_string(code, "too hot").expect("a code of the user");
    assert_eq!(codes.string(code), Ok("too hot".to_owned()));
    for wrong in [codes.add_code(code).map(|_| ()), codes.add_string(Class::ARG.0, "x")] {
        assert_eq!(wrong.expect_err("not the user's").class, Class::ARG);
    }
    let raised = MpiError::of_user(Class::OTHER, code, "the copy function returned an error");
    assert_eq!(codes.code(&raised), code);
}

#[test]
fn users_remove_what_they_added() {
    let codes = Codes::new();
    let class = codes.add_class();
    let code = codes.add_code(class).expect("a class");
    assert!(codes.remove_class(class).expect_err("it has a code").text.contains("1 codes"));
    assert!(codes.remove_class(code).is_err());
    assert!(codes.remove_code(class).expect_err("a class").text.contains("MPI_Remove_error_class"));
    codes.add_string(code, "text").expect("a code");
    assert!(codes.remove_code(code).expect_err("it has a text").text.contains("MPI_Remove_error_string"));
    codes.remove_string(code).expect("a code");
    assert_eq!(codes.string(code), Ok(String::new()));
    codes.remove_code(code).expect("a code");
    assert!(codes.class(code).is_err());
    codes.add_string(class, "text").expect("a class");
    assert!(codes.remove_class(class).expect_err("it has a text").text.contains("MPI_Remove_error_string"));
    codes.remove_string(class).expect("a class");
    codes.remove_class(class).expect("no code is left");
    assert!(codes.class(class).is_err());
    assert_eq!(codes.last_used(), LASTCODE);
    assert!(codes.remove_code(Class::ARG.0).is_err());
    // Numbers below one in use are not given again.
    let (low, high) = (codes.add_class(), codes.add_class());
    assert_eq!(low, class, "nothing is left of the others");
    codes.remove_class(low).expect("a class");
    assert_eq!((codes.add_class(), codes.class(high)), (high + 1, Ok(high)));
}

#[test]
fn errors_of_the_device_have_their_classes() {
    let of = |e: DeviceError| Box::<MpiError>::from(e).class;
    assert_eq!(of(DeviceError::Rank { rank: 7, size: 2 }), Class::RANK);
    assert_eq!(of(DeviceError::Tag(-2)), Class::TAG);
    let status = ch3_shim::Status::default();
    assert_eq!(of(DeviceError::Truncated { status, sent: 9 }), Class::TRUNCATE);
    assert_eq!(of(DeviceError::Usage(String::new())), Class::OTHER);
    assert_eq!(of(DeviceError::ProcessesFailed(Vec::new())), Class::PROC_FAILED);
}
