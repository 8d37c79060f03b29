//! Files: what all processes of a job see of one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use netmod_mpi::consts::{
    MODE_APPEND, MODE_CREATE, MODE_DELETE_ON_CLOSE, MODE_EXCL, MODE_RDONLY, MODE_RDWR, MODE_WRONLY, SEEK_CUR,
    SEEK_END, SEEK_SET,
};
use netmod_mpi::datatype::Form;
use netmod_mpi::handle::{Comm, File, Info};
use netmod_mpi::{Class, Mpi};

use crate::job::{INT, WORLD, ints, run};

/// A path that no other test has, which is gone with it.
struct Path(PathBuf);

impl Path {
    fn new() -> Path {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Path(std::env::temp_dir().join(format!("netmod-files-{}-{number}", std::process::id())))
    }

    fn text(&self) -> String {
        self.0.to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // It may have been deleted by what is tested.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn numbers(path: &Path) -> Vec<i32> {
    let bytes = std::fs::read(&path.0).expect("the file");
    bytes.as_chunks().0.iter().map(|b| i32::from_ne_bytes(*b)).collect()
}

fn open(mpi: &Mpi, name: &str, amode: i32) -> File {
    mpi.file_open(WORLD, name, amode, Info::NULL).expect("open")
}

#[test]
fn interleaved_views_make_one_file() {
    let path = Path::new();
    let name = path.text();
    run(3, move |mpi, me| {
        let mut file = open(mpi, &name, MODE_CREATE | MODE_RDWR);
        // Each rank has two integers of six.
        let pair = mpi.type_vector(1, 2, 1, INT, Form::Int).expect("a type");
        let mut filetype = mpi.type_create_resized(pair, 0, 24, Form::Int).expect("a type");
        mpi.type_commit(filetype).expect("commit");
        mpi.file_set_view(file, i64::from(me) * 8, INT, filetype, "native", Info::NULL).expect("a view");
        let mut data: Vec<i32> = (0..6).map(|i| me * 100 + i).collect();
        assert_eq!(mpi.file_write_all(file, ints(&mut data[..4])).expect("write").count_bytes, 16);
        assert_eq!(mpi.file_get_position(file), Ok(4));
        assert_eq!(mpi.file_write(file, ints(&mut data[4..])).expect("write").count_bytes, 8);
        assert_eq!(mpi.file_get_byte_offset(file, 3), Ok(i64::from(me) * 8 + 28));
        mpi.file_sync(file).expect("sync");
        mpi.barrier(WORLD).expect("barrier");
        assert_eq!(mpi.file_get_size(file), Ok(72));
        let mut room = [-1; 8];
        let status = mpi.file_read_at_all(file, 1, ints(&mut room)).expect("read");
        assert_eq!(status.count_bytes, 20, "the file ends before the buffer does");
        assert_eq!(room[..5], data[1..]);
        assert_eq!(room[5..], [-1; 3]);
        mpi.file_seek(file, -1, SEEK_END).expect("seek");
        assert_eq!(mpi.file_get_position(file), Ok(5));
        mpi.file_seek(file, -2, SEEK_CUR).expect("seek");
        let mut request = mpi.file_iread_all(file, ints(&mut room[..2])).expect("start");
        assert_eq!(mpi.wait(&mut request).expect("read").count_bytes, 8);
        assert_eq!(room[..2], data[3..5]);
        assert_eq!(mpi.file_seek(file, -9, SEEK_SET).expect_err("before the beginning").class, Class::ARG);
        mpi.type_free(&mut filetype).expect("free");
        let (disp, etype, filetype, datarep) = mpi.file_get_view(file).expect("the view");
        assert_eq!((disp, etype, &*datarep), (i64::from(me) * 8, INT, "native"));
        assert_eq!(mpi.type_get_extent(filetype), Ok((0, 24)));
        mpi.file_close(&mut file).expect("close");
        assert_eq!(file, File::NULL);
    });
    let expected: Vec<i32> =
        (0..3).flat_map(|i| (0..3).flat_map(move |r| [r * 100 + 2 * i, r * 100 + 2 * i + 1])).collect();
    assert_eq!(numbers(&path), expected);
}

#[test]
fn a_failure_at_one_process_is_told_to_all() {
    let path = Path::new();
    let name = path.text();
    run(3, move |mpi, me| {
        let class = |amode| mpi.file_open(WORLD, &name, amode, Info::NULL).expect_err("no file").class;
        assert_eq!(class(MODE_RDONLY), Class::NO_SUCH_FILE);
        assert_eq!(class(if me == 1 { 0 } else { MODE_RDONLY }), Class::AMODE);
        assert_eq!(class(if me == 1 { MODE_RDWR } else { MODE_RDONLY }), Class::NOT_SAME);
        assert_eq!(class(MODE_RDONLY | MODE_CREATE), Class::AMODE);
        let mut file = open(mpi, &name, MODE_CREATE | MODE_EXCL | MODE_WRONLY);
        assert_eq!(class(MODE_CREATE | MODE_EXCL | MODE_WRONLY), Class::FILE_EXISTS);
        let mut data = [me; 4];
        let error = mpi.file_read_at_all(file, 0, ints(&mut data)).expect_err("only writes");
        assert_eq!(error.class, Class::ACCESS);
        // Only one process gives an offset that is wrong.
        let offset = if me == 2 { -1 } else { 16 * i64::from(me) };
        let error = mpi.file_write_at_all(file, offset, ints(&mut data)).expect_err("a wrong offset");
        assert_eq!(error.class, Class::ARG);
        assert_eq!(error.comm, Some(file.0), "the file's handler is called");
        assert!(error.text.contains("offset is -1"), "{}", error.text);
        assert_eq!(me != 2, error.text.starts_with("rank 2 of the file's group has failed"));
        let error = mpi.file_set_size(file, i64::from(me)).expect_err("different sizes");
        assert_eq!(error.class, Class::NOT_SAME);
        mpi.file_set_size(file, 400).expect("a size");
        assert_eq!(mpi.file_get_size(file), Ok(400));
        mpi.file_preallocate(file, 500).expect("space");
        assert_eq!(mpi.file_get_size(file), Ok(500));
        mpi.file_close(&mut file).expect("close");
        assert_eq!(mpi.file_close(&mut file).expect_err("closed").class, Class::FILE);
    });
}

#[test]
fn modes_do_what_they_say() {
    let path = Path::new();
    let name = path.text();
    std::fs::write(&path.0, [7; 10]).expect("a file");
    run(2, move |mpi, _| {
        let mut file = open(mpi, &name, MODE_RDWR | MODE_APPEND);
        assert_eq!(mpi.file_get_position(file), Ok(10));
        assert_eq!(mpi.file_get_amode(file), Ok(MODE_RDWR | MODE_APPEND));
        mpi.file_set_atomicity(file, 1).expect("atomic mode");
        assert_eq!(mpi.file_get_atomicity(file), Ok(true));
        let info = mpi.file_get_info(file).expect("hints");
        assert_eq!(mpi.anytime().info_get(info, "romio_ds_write"), Ok(Some("disable".to_owned())));
        mpi.anytime().info_set(info, "romio_ds_write", "enable").expect("a hint");
        mpi.anytime().info_set(info, "no_such_hint", "1").expect("a hint");
        mpi.file_set_info(file, info).expect("hints");
        let used = mpi.file_get_info(file).expect("hints");
        assert_eq!(mpi.anytime().info_get(used, "romio_ds_write"), Ok(Some("enable".to_owned())));
        assert_eq!(mpi.anytime().info_get(used, "no_such_hint"), Ok(None));
        let mut data = [1, 2];
        mpi.file_write_at(file, 0, ints(&mut data)).expect("an atomic write");
        let mut back = [0; 2];
        let mut request = mpi.file_iread_at(file, 0, ints(&mut back)).expect("start");
        assert_eq!(mpi.wait(&mut request).expect("read").count_bytes, 8);
        assert_eq!(back, data);
        let group = mpi.file_get_group(file).expect("the group");
        assert_eq!(mpi.group_size(group), Ok(2));
        mpi.file_close(&mut file).expect("close");
        let mut file = open(mpi, &name, MODE_RDONLY | MODE_DELETE_ON_CLOSE);
        let error = mpi.file_write(file, ints(&mut data)).expect_err("only reads");
        assert_eq!(error.class, Class::READ_ONLY);
        mpi.file_close(&mut file).expect("close");
        let error = mpi.file_delete(&name, Info::NULL).expect_err("it was deleted");
        assert_eq!(error.class, Class::NO_SUCH_FILE);
        assert!(error.text.contains(&name), "{}", error.text);
        let own = mpi.file_open(Comm::SELF, "/", MODE_RDONLY, Info::NULL).expect_err("a folder");
        assert_eq!(own.class, Class::BAD_FILE);
    });
}
