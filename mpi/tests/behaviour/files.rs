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
        mpi.type_commit(&mut filetype).expect("commit");
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

#[test]
fn the_shared_pointer_gives_each_place_once() {
    let path = Path::new();
    let name = path.text();
    run(3, move |mpi, me| {
        let mut file = open(mpi, &name, MODE_CREATE | MODE_RDWR);
        mpi.file_set_view(file, 0, INT, INT, "native", Info::NULL).expect("a view");
        for i in 0..20 {
            let mut data = [me * 1000 + i; 3];
            assert_eq!(mpi.file_write_shared(file, ints(&mut data)).expect("write").count_bytes, 12);
        }
        mpi.barrier(WORLD).expect("barrier");
        assert_eq!(mpi.file_get_position_shared(file), Ok(180));
        // In the order of ranks, with different lengths.
        let mut data = vec![-me - 1; 1 + me as usize];
        mpi.file_write_ordered(file, ints(&mut data)).expect("write");
        mpi.file_write_ordered_begin(file, ints(&mut data[..1])).expect("begin");
        let error = mpi.file_read_ordered_begin(file, ints(&mut [0])).expect_err("another is active");
        assert!(error.text.contains("MPI_File_write_ordered_end first"), "{}", error.text);
        assert_eq!(mpi.file_write_ordered_end(file).expect("end").count_bytes, 4);
        let error = mpi.file_write_ordered_end(file).expect_err("it has ended");
        assert_eq!(error.class, Class::IO);
        mpi.file_seek_shared(file, 180, SEEK_SET).expect("seek");
        let mut back = vec![0; 1 + me as usize];
        mpi.file_read_ordered(file, ints(&mut back)).expect("read");
        assert_eq!(back, data);
        assert_eq!(mpi.file_get_position_shared(file), Ok(186));
        mpi.barrier(WORLD).expect("barrier");
        let error = mpi.file_seek_shared(file, me.into(), SEEK_SET).expect_err("different places");
        assert_eq!(error.class, Class::NOT_SAME);
        mpi.file_seek_shared(file, -1, SEEK_END).expect("seek");
        let mut last = [0];
        if me == 1 {
            let mut request = mpi.file_iread_shared(file, ints(&mut last)).expect("start");
            assert_eq!(mpi.wait(&mut request).expect("read").count_bytes, 4);
            assert_eq!(last, [-3]);
        }
        mpi.file_close(&mut file).expect("close");
    });
    let all = numbers(&path);
    assert_eq!(all[180..], [-1, -2, -2, -3, -3, -3, -1, -2, -3]);
    let mut blocks: Vec<i32> = all[..180]
        .as_chunks::<3>()
        .0
        .iter()
        .map(|block| {
            assert_eq!([block[0]; 3], *block, "a block in one piece");
            block[0]
        })
        .collect();
    blocks.sort_unstable();
    let expected: Vec<i32> = (0..3).flat_map(|r| (0..20).map(move |i| r * 1000 + i)).collect();
    assert_eq!(blocks, expected);
}

/// A generator of pseudo-random numbers, the same at all processes.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n) as i64
    }
}

/// Sets hints with which an access of few bytes goes in several windows of several aggregators.
fn hints(mpi: &Mpi, random: &mut Random) -> Info {
    let info = mpi.anytime().info_create().expect("an info");
    let mode = ["automatic", "enable", "disable"][random.below(3) as usize];
    let sieve = ["enable", "disable"][random.below(2) as usize];
    let pairs = [
        ("romio_cb_write", mode.to_owned()),
        ("romio_cb_read", mode.to_owned()),
        ("romio_ds_read", sieve.to_owned()),
        ("romio_ds_write", sieve.to_owned()),
        ("cb_nodes", (1 + random.below(4)).to_string()),
        ("cb_buffer_size", (1 + random.below(3000)).to_string()),
    ];
    for (key, value) in pairs {
        mpi.anytime().info_set(info, key, &value).expect("a hint");
    }
    info
}

/// Collective accesses of random views against a model.
fn collectives(ranks: u32, seeds: std::ops::Range<u64>) {
    let path = Path::new();
    let name = path.text();
    run(ranks, move |mpi, me| {
        let n = i64::from(mpi.comm_size(WORLD).expect("size"));
        let mut file = open(mpi, &name, MODE_CREATE | MODE_RDWR);
        for seed in seeds.clone() {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let mut info = hints(mpi, &mut random);
            mpi.file_set_size(file, 0).expect("size");
            // Each process has some of the blocks of a row; rows repeat, perhaps with a gap.
            let len = 1 + random.below(40);
            let row = n + random.below(4);
            let owners: Vec<i64> = (0..row).map(|_| random.below(n as u64 + 1)).collect();
            let mine: Vec<i64> = (0..row).filter(|i| owners[*i as usize] == i64::from(me)).collect();
            let displs: Vec<i64> = mine.iter().map(|i| i * len).collect();
            let count = random.below(30) as usize;
            let count = if displs.is_empty() { 0 } else { count * displs.len() * len as usize };
            let displs = if displs.is_empty() { vec![0] } else { displs };
            let blocks = mpi.type_create_indexed_block(len, &displs, INT, Form::Int).expect("a type");
            let mut filetype = mpi.type_create_resized(blocks, 0, row * len * 4, Form::Int).expect("a type");
            mpi.type_commit(&mut filetype).expect("commit");
            mpi.file_set_view(file, 8, INT, filetype, "native", info).expect("a view");
            let mut data: Vec<i32> = (0..count as i32).map(|i| (me + 1) << 20 | i).collect();
            // Every other element of memory.
            let mut memory = mpi.type_create_resized(INT, 0, 8, Form::Int).expect("a type");
            mpi.type_commit(&mut memory).expect("commit");
            let mut spread: Vec<i32> = data.iter().flat_map(|i| [*i, -1]).collect();
            let scattered = random.below(2) == 0;
            // SAFETY: the vector has so many elements, and outlives the access.
            let from = unsafe { netmod_mpi::Buf::new(spread.as_mut_ptr().cast(), count as i64, memory) };
            let from = if scattered { from } else { ints(&mut data) };
            let status = if random.below(2) == 0 {
                mpi.file_write_all(file, from).expect("write")
            } else {
                let mut request = mpi.file_iwrite_at_all(file, 0, from).expect("start");
                mpi.wait(&mut request).expect("write")
            };
            assert_eq!(status.count_bytes, count as i64 * 4, "seed {seed}");
            let size = mpi.file_get_size(file).expect("size");
            mpi.barrier(WORLD).expect("barrier");
            // Alone, each reads what it has written.
            let mut back = vec![0; count];
            mpi.file_read_at(file, 0, ints(&mut back)).expect("read");
            assert_eq!(back, data, "seed {seed}");
            // Together, from somewhere on and beyond the end.
            let from = random.below(50).min(count as i64);
            let mut room = vec![-7; count + 5];
            let mut alone = room.clone();
            let end = mpi.file_read_at(file, from, ints(&mut alone)).expect("read");
            let status = if random.below(2) == 0 {
                mpi.file_read_at_all(file, from, ints(&mut room)).expect("read")
            } else {
                mpi.file_read_at_all_begin(file, from, ints(&mut room)).expect("begin");
                mpi.file_read_at_all_end(file).expect("end")
            };
            assert_eq!((status.count_bytes, &room), (end.count_bytes, &alone), "seed {seed}, size {size}");
            for mut handle in [filetype, blocks, memory] {
                mpi.type_free(&mut handle).expect("free");
            }
            mpi.anytime().info_free(&mut info).expect("free");
        }
        mpi.file_close(&mut file).expect("close");
    });
}

#[test]
fn collective_accesses_do_what_single_ones_do() {
    collectives(1, 0..20);
    collectives(2, 0..150);
    collectives(3, 200..300);
    collectives(5, 300..360);
}

/// A representation of the program: a type has twice its bytes, with a mark behind each byte.
struct Doubled;

impl netmod_mpi::UserDatarep for Doubled {
    fn extent(&self, _datatype: netmod_mpi::handle::Datatype) -> netmod_mpi::Result<i64> {
        // The test has integers alone.
        Ok(8)
    }

    fn converts(&self, _reads: bool) -> bool {
        true
    }

    unsafe fn read(
        &self,
        memory: *mut u8,
        _: netmod_mpi::handle::Datatype,
        count: i64,
        file: *mut u8,
    ) -> netmod_mpi::Result<()> {
        for i in 0..count as usize * 4 {
            // SAFETY: the caller gives so many integers, which have twice their bytes in the file.
            unsafe {
                assert_eq!(file.add(2 * i + 1).read(), 0x55);
                memory.add(i).write(file.add(2 * i).read());
            }
        }
        Ok(())
    }

    unsafe fn write(
        &self,
        memory: *mut u8,
        _: netmod_mpi::handle::Datatype,
        count: i64,
        file: *mut u8,
    ) -> netmod_mpi::Result<()> {
        for i in 0..count as usize * 4 {
            // SAFETY: as above.
            unsafe {
                file.add(2 * i).write(memory.add(i).read());
                file.add(2 * i + 1).write(0x55);
            }
        }
        Ok(())
    }
}

#[test]
fn representations_are_converted() {
    let path = Path::new();
    let name = path.text();
    run(2, move |mpi, me| {
        let mut file = open(mpi, &name, MODE_CREATE | MODE_RDWR);
        mpi.register_datarep("doubled", std::sync::Arc::new(Doubled)).expect("a new one");
        for known in ["doubled", "native", "external32"] {
            let error = mpi.register_datarep(known, std::sync::Arc::new(Doubled)).expect_err("known");
            assert_eq!(error.class, Class::DUP_DATAREP);
        }
        let mut pair = mpi.type_vector(2, 1, 2, INT, Form::Int).expect("a type");
        mpi.type_commit(&mut pair).expect("commit");
        for (datarep, size) in [("external32", 4), ("doubled", 8)] {
            // Integers of both processes, one after the other.
            let mut filetype = mpi.type_create_resized(INT, 0, 2 * size, Form::Int).expect("a type");
            mpi.type_commit(&mut filetype).expect("commit");
            mpi.file_set_view(file, i64::from(me) * size, INT, filetype, datarep, Info::NULL)
                .expect("a view");
            assert_eq!(mpi.file_get_type_extent(file, INT), Ok(size));
            let mut data = [me * 10 + 1, me * 10 + 2, me * 10 + 3, me * 10 + 4];
            mpi.file_write_all(file, ints(&mut data)).expect("write");
            let mut back = [0; 6];
            let status = mpi.file_read_at_all(file, 0, ints(&mut back)).expect("read");
            assert_eq!(
                (status.count_bytes, &back[..]),
                (16, &[data[0], data[1], data[2], data[3], 0, 0][..])
            );
            // The representation of the test has integers in a row alone.
            if datarep == "external32" {
                // SAFETY: the array has the type's integers, and outlives the access.
                let scattered = unsafe { netmod_mpi::Buf::new(back.as_mut_ptr().cast(), 1, pair) };
                let mut request = mpi.file_iread_at_all(file, 2, scattered).expect("start");
                assert_eq!(mpi.wait(&mut request).expect("read").count_bytes, 8);
                assert_eq!(back[..3], [data[2], data[1], data[3]]);
            }
            mpi.barrier(WORLD).expect("barrier");
        }
        let error = mpi.file_set_view(file, 0, INT, INT, "nothing", Info::NULL).expect_err("not known");
        assert_eq!(error.class, Class::UNSUPPORTED_DATAREP);
        mpi.file_close(&mut file).expect("close");
    });
    let bytes = std::fs::read(&path.0).expect("the file");
    assert_eq!(bytes[..4], [1, 0x55, 0, 0x55], "the last representation");
}

#[test]
fn a_full_device_is_told_to_all() {
    run(3, |mpi, me| {
        let full = "/dev/full";
        let mut file = open(mpi, full, MODE_WRONLY);
        let mut data = [me; 64];
        for mode in ["enable", "disable"] {
            let mut info = mpi.anytime().info_create().expect("an info");
            for (key, value) in [("romio_cb_write", mode), ("cb_nodes", "1"), ("cb_buffer_size", "100")] {
                mpi.anytime().info_set(info, key, value).expect("a hint");
            }
            mpi.file_set_info(file, info).expect("hints");
            mpi.anytime().info_free(&mut info).expect("free");
            // Only the last process has something to write.
            let some = if me == 2 { 64 } else { 0 };
            for nonblocking in [false, true] {
                let data = ints(&mut data[..some]);
                let failed = if nonblocking {
                    let mut request = mpi.file_iwrite_at_all(file, 256 * i64::from(me), data).expect("start");
                    mpi.wait(&mut request)
                } else {
                    mpi.file_write_at_all(file, 256 * i64::from(me), data)
                };
                let error = failed.expect_err("no space");
                assert_eq!((error.class, error.comm), (Class::NO_SPACE, Some(file.0)), "{}", error.text);
                assert!(error.text.contains("/dev/full: writing"), "{}", error.text);
                assert!(error.text.contains("free space on the device"), "{}", error.text);
            }
        }
        let error = mpi.file_write_ordered(file, ints(&mut data)).expect_err("no space");
        assert_eq!(error.class, Class::NO_SPACE);
        mpi.file_close(&mut file).expect("close");
    });
}
