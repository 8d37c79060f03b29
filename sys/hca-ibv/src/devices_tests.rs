//! Tests of loading the library and listing devices, on machines with and without either.

use super::*;

#[test]
fn without_a_library_the_packages_are_named() {
    let error = Devices::load(Some(Path::new("/nonexistent/libibverbs.so.1"))).expect_err("it is not there");
    assert!(matches!(error, DevicesError::Library(_)), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("/nonexistent/libibverbs.so.1"), "{error}");
    assert!(error.contains("apt-get install libibverbs1 ibverbs-providers"), "{error}");
}

#[test]
fn devices_have_names_or_it_is_said_why_there_are_none() {
    // Another test covers machines without the library.
    let Ok(devices) = Devices::load(None) else { return };
    let there = match devices.names() {
        Ok(names) => names,
        Err(why) => {
            let why = why.to_string();
            assert!(why.contains("modprobe ib_uverbs") || why.contains("/sys/class/infiniband"), "{why}");
            return;
        }
    };
    assert!(there.iter().all(|name| !name.is_empty()));
    let error = devices.open("none of that name").expect_err("there is none");
    assert_eq!(error.to_string(), not_there("none of that name", &there));
}

#[test]
fn errors_name_the_device_and_a_way_out() {
    assert!(no_list(Errno(libc::ENOSYS)).contains("modprobe ib_uverbs"));
    assert!(no_list(Errno(libc::EACCES)).contains("/dev/infiniband"));
    assert!(not_there("mlx5_7", &[]).contains("none at all"));
    let text = not_there("mlx5_7", &["mlx5_0".into(), "rxe0".into()]);
    assert_eq!(text, "no RDMA device mlx5_7; there are: mlx5_0, rxe0");
    for (why, part) in [
        (libc::EACCES, "uverbs"),
        (libc::EMFILE, "ulimit -n"),
        (libc::ENODEV, "removed"),
        (libc::ENOMEM, "rxe0"),
    ] {
        let text = not_opened("rxe0", Errno(why));
        assert!(text.contains(part) && text.contains("ibv_open_device on rxe0"), "{text}");
    }
    assert!(fork_refused(Errno(libc::EINVAL)).contains("RDMAV_FORK_SAFE=1"));
    assert!(fork_refused(Errno(libc::ENOSYS)).contains("2.6.17"));
}
