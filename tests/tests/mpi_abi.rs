//! The two binary interfaces of the MPI library: names, constants, sizes, and programs that use
//! what only one of them has.

use std::collections::BTreeMap;
use std::process::Command;

use netmod_tests::jobs::launch::{Outcome, find_program, run, skip};
use netmod_tests::jobs::mpi::{Abi, Prefix, Starter, exported, installed};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const CONSTANTS: &str = include_str!("../../mpi-abi/constants.tsv");

fn prefix() -> &'static Prefix {
    installed(JOB)
}

/// The functions that a header of the standard's interface declares.
fn declared() -> BTreeMap<String, String> {
    let folder = prefix().file("include/standard");
    let headers = std::fs::read_dir(folder).expect("headers").map(|file| file.expect("a header").path());
    let generated =
        headers.filter(|file| !file.ends_with("mpi.h") && !file.ends_with("netmod_mpi_constants.h"));
    let text: String = generated.map(|file| std::fs::read_to_string(file).expect("a header")).collect();
    let before = text.match_indices('(').map(|(at, _)| &text[..at]);
    let names = before.filter_map(|text| text.rsplit([' ', '\n', '*']).next());
    let is_function = |name: &&str| name.starts_with("MPI_") || name.starts_with("PMPI_");
    names.filter(is_function).map(|name| (name.to_owned(), "function".to_owned())).collect()
}

#[test]
fn the_standard_library_exports_the_functions_of_its_header_and_nothing_else() {
    let Some(nm) = find_program("nm") else {
        return skip("SKIPPED: exported names: nm not installed (apt-get install binutils)");
    };
    let names = declared();
    // 503 functions, of which 161 have a form with large counts, each under two names.
    assert_eq!(names.len(), 2 * (503 + 161));
    let exported = exported(&nm, &prefix().file("lib/libmpi_abi.so.1"));
    let missing: Vec<_> = names.keys().filter(|name| !exported.contains_key(*name)).collect();
    let further: Vec<_> = exported.iter().filter(|(name, what)| names.get(*name) != Some(*what)).collect();
    assert!(missing.is_empty() && further.is_empty(), "missing: {missing:?}; further: {further:?}");
}

#[test]
fn the_standard_library_has_the_name_that_programs_ask_for() {
    let library = prefix().file("lib/libmpi_abi.so.1");
    let said = Command::new("readelf").arg("-d").arg(library).output().expect("readelf");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("soname: [libmpi_abi.so.1]") && text.contains("NODELETE"), "{text}");
}

/// The constants of an interface by their names, from the table, as numbers of so many bits.
fn table(abi: Abi, bits: u32) -> BTreeMap<String, u64> {
    let rows = CONSTANTS.lines().filter(|line| !line.starts_with('#'));
    let columns = rows.map(|line| line.split('\t').collect::<Vec<_>>());
    let value = |columns: &[&str]| columns[if abi == Abi::Mpich { 3 } else { 4 }].to_owned();
    let known = columns.map(|c| (c[1].to_owned(), value(&c))).filter(|(_, value)| value != "-");
    known
        .map(|(name, value)| {
            let number = match value.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            (name, number.expect("a number").cast_unsigned() & (u64::MAX >> (64 - bits)))
        })
        .collect()
}

/// Names in the headers beside those of the table, and their values in both interfaces.
const OTHERS: &[(&str, i64, i64)] = &[
    ("MPI_FILE_NULL", 0, 0x118),
    ("MPI_DISPLACEMENT_CURRENT", -54_278_278, -1),
    ("MPI_BOTTOM", 0, 0),
    ("MPI_IN_PLACE", -1, 1),
    ("MPI_BUFFER_AUTOMATIC", -2, 2),
    ("MPI_STATUS_IGNORE", 1, 0),
    ("MPI_STATUSES_IGNORE", 1, 0),
    ("MPI_ERRCODES_IGNORE", 0, 0),
    ("MPI_ARGV_NULL", 0, 0),
    ("MPI_ARGVS_NULL", 0, 0),
    ("MPI_COMM_NULL_COPY_FN", 0, 0),
    ("MPI_TYPE_NULL_DELETE_FN", 0, 0),
    ("MPI_T_PVAR_HANDLE_NULL", 0, 0),
    ("sizeof(MPI_Comm)", 4, 8),
    ("sizeof(MPI_Datatype)", 4, 8),
    ("sizeof(MPI_Errhandler)", 4, 8),
    ("sizeof(MPI_File)", 8, 8),
    ("sizeof(MPI_Group)", 4, 8),
    ("sizeof(MPI_Info)", 4, 8),
    ("sizeof(MPI_Message)", 4, 8),
    ("sizeof(MPI_Op)", 4, 8),
    ("sizeof(MPI_Request)", 4, 8),
    ("sizeof(MPI_Session)", 4, 8),
    ("sizeof(MPI_Win)", 4, 8),
    ("sizeof(MPI_Status)", 20, 32),
    ("offsetof(MPI_Status, MPI_SOURCE)", 8, 0),
    ("offsetof(MPI_Status, MPI_TAG)", 12, 4),
    ("offsetof(MPI_Status, MPI_ERROR)", 16, 8),
    ("sizeof(MPI_Aint)", 8, 8),
    ("sizeof(MPI_Count)", 8, 8),
    ("sizeof(MPI_Offset)", 8, 8),
];
/// The same for what only the standard's header has as a constant.
const OF_STANDARD: &[(&str, i64)] = &[
    ("MPI_VERSION", 5),
    ("MPI_SUBVERSION", 0),
    ("MPI_ABI_VERSION", 1),
    ("MPI_ABI_SUBVERSION", 0),
    ("MPI_UNWEIGHTED", 10),
    ("MPI_WEIGHTS_EMPTY", 11),
    ("MPI_COMM_DUP_FN", 1),
    ("MPI_TYPE_DUP_FN", 1),
    ("MPI_WIN_DUP_FN", 1),
    ("MPI_DUP_FN", 1),
    ("MPI_T_PVAR_ALL_HANDLES", 1),
];

/// Compiles a program that a test has written, and runs it without a launcher.
fn run_source(abi: Abi, name: &str, source: &str) -> Outcome {
    let folder = std::env::temp_dir().join(format!("netmod-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(name);
    std::fs::write(&file, source).expect("a program");
    let mut program = Command::new(prefix().compiled_file(abi, &file, &[]));
    let done = run(program.env("LD_LIBRARY_PATH", prefix().file("lib")));
    assert!(done.status.success(), "{done}");
    std::fs::remove_dir_all(&folder).expect("an end");
    done
}

#[test]
fn every_class_of_errors_has_its_name_in_its_text() {
    let rows = CONSTANTS.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let errors: Vec<_> = rows.filter(|columns| columns[0] == "error").collect();
    for (abi, column) in [(Abi::Mpich, 3), (Abi::Standard, 4)] {
        let names: Vec<&str> = errors.iter().filter(|c| c[column] != "-").map(|c| c[1]).collect();
        assert!(names.len() > 70, "{abi:?}: {}", names.len());
        let mut source = "#include <mpi.h>\n#include <stdio.h>\n\n\
                          static void tell(const char *name, int error)\n{\n\
                          \x20   int class = -1, length;\n    char text[MPI_MAX_ERROR_STRING] = \"none\";\n\
                          \x20   MPI_Error_class(error, &class);\n    MPI_Error_string(error, text, &length);\n\
                          \x20   printf(\"%s\\t%d\\t%s\\n\", name, class == error, text);\n}\n\n\
                          int main(void)\n{\n"
            .to_owned();
        names.iter().for_each(|name| source += &format!("    tell(\"{name}\", {name});\n"));
        let done = run_source(abi, "classes.c", &(source + "    return 0;\n}\n"));
        for name in names {
            let text = if name == "MPI_SUCCESS" { "no error".to_owned() } else { format!("{name}: ") };
            let start = format!("{name}\t1\t{text}");
            assert!(done.output.lines().any(|line| line.starts_with(&start)), "{abi:?}: {name}: {done}");
        }
    }
}

#[test]
fn constants_and_sizes_of_both_headers_are_those_of_the_tables() {
    for abi in Abi::ALL {
        let mut wanted = table(abi, 64);
        for (name, mpich, standard) in OTHERS {
            let value = if abi == Abi::Mpich { mpich } else { standard };
            wanted.insert((*name).to_owned(), value.cast_unsigned());
        }
        if abi == Abi::Standard {
            wanted.extend(OF_STANDARD.iter().map(|(n, v)| ((*n).to_owned(), v.cast_unsigned())));
        }
        // Handles of MPICH are numbers of 32 bits that have no sign.
        let narrow = table(abi, 32);
        let mut source = "#include <mpi.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n\n\
                          int main(void)\n{\n"
            .to_owned();
        for name in wanted.keys() {
            source += &format!("    printf(\"%s\\t%lld\\n\", \"{name}\", (long long)(intptr_t)({name}));\n");
        }
        source += "    return 0;\n}\n";
        let done = run_source(abi, "constants.c", &source);
        let told: BTreeMap<&str, u64> = done
            .output
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(name, value)| (name, value.parse::<i64>().expect("a number").cast_unsigned()))
            .collect();
        assert_eq!(told.len(), wanted.len(), "{abi:?}");
        for (name, value) in wanted {
            let got = told[name.as_str()];
            let same = got == value || narrow.get(&name).is_some_and(|low| got & u64::from(u32::MAX) == *low);
            assert!(same, "{abi:?}: {name} is {got:#x}, not {value:#x}");
        }
    }
}

#[test]
fn what_the_standard_has_of_its_own_and_in_other_numbers() {
    let program = prefix().compiled_for(Abi::Standard, "standard.c");
    for ranks in [1, 2, 3] {
        let test = "what_the_standard_has_of_its_own_and_in_other_numbers";
        let Some(mut job) = prefix().job(test, Starter::Nmrun, ranks, &program) else { continue };
        run(&mut job).expect_ok("standard", ranks);
    }
}

#[test]
fn another_mpi_library_in_the_process_is_told() {
    let system = std::path::Path::new("/usr/lib/x86_64-linux-gnu/libmpich.so.12");
    for (abi, other) in [(Abi::Mpich, Abi::Standard), (Abi::Standard, Abi::Mpich)] {
        let program = prefix().compiled_for(abi, "beside.c");
        let mut others = vec![prefix().file("lib").join(other.soname())];
        others.extend(Some(system.to_owned()).filter(|file| file.is_file()));
        for other in others {
            let mut start = Command::new(&program);
            let done = run(start.arg(&other).env("LD_LIBRARY_PATH", prefix().file("lib")));
            done.expect_ok("beside", 1);
            let told = format!("another MPI library is loaded beside this one, {}", other.display());
            assert!(done.output.contains(&told), "{told}: {done}");
        }
        // Under its other name it is still the same one.
        let own = prefix().file(if abi == Abi::Mpich { "lib/libmpich.so.12" } else { "lib/libmpi_abi.so" });
        let mut start = Command::new(&program);
        let done = run(start.arg(own).env("LD_LIBRARY_PATH", prefix().file("lib")));
        done.expect_ok("beside", 1);
        assert!(!done.output.contains("another MPI library"), "{done}");
    }
}
