//! IMB of Intel's MPI benchmarks: its arguments and its tables.

use super::cells::Figure;

/// Columns of a table that are of use.
const COLUMNS: [&str; 4] = ["t[usec]", "t_max[usec]", "Msg/sec", "t_pure[usec]"];

/// Returns the arguments that run benchmarks with messages of `2^first` to `2^last` bytes.
///
/// Each size runs `iterations` times, or less often so that no more than `volume` bytes go.
pub(crate) fn arguments(
    benchmarks: &[&str],
    iterations: u32,
    volume: u64,
    (first, last): (u32, u32),
) -> Vec<String> {
    let mut words: Vec<String> = benchmarks.iter().map(|name| (*name).to_owned()).collect();
    let volume = volume >> 20;
    words.extend(["-npmin".into(), "2".into(), "-msglog".into(), format!("{first}:{last}")]);
    words.extend(["-iter".into(), format!("{iterations},{volume}"), "-zero_size".into(), "off".into()]);
    words
}

/// Reads all tables of an output: microseconds, or messages a second, for each size but 0, which
/// stands for what has no sizes.
///
/// # Errors
/// If there is a table with none of the known columns, or with a line that is not of it.
pub(crate) fn parse(output: &str) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    let (mut benchmark, mut column, mut has_sizes, mut mode) = (None, None, true, "");
    for line in output.lines() {
        let strange = || Err(format!("IMB says {line:?}, which is not a result"));
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), benchmark, column) {
            (["#", "Benchmarking", name, ..], _, _) => (benchmark, column, mode) = (Some(*name), None, ""),
            // One-sided benchmarks have two tables; the other mode is the usual one.
            (["#", "MODE:", "AGGREGATE"], _, _) => mode = ", aggregate",
            // A barrier has no sizes.
            (["#bytes" | "#repetitions", ..], Some(_), _) => {
                has_sizes = words[0] == "#bytes";
                column = words.iter().position(|word| COLUMNS.contains(word));
                if column.is_none() {
                    return strange();
                }
            }
            ([], _, _) => column = None,
            ([size, ..], Some(name), Some(at)) => {
                let value = words.get(at).and_then(|word| word.parse::<f64>().ok());
                let (Ok(bytes), Some(value)) = (size.parse::<usize>(), value) else { return strange() };
                if bytes > 0 {
                    let bytes = if has_sizes { bytes } else { 0 };
                    figures.push(Figure { operation: format!("{name}{mode}"), bytes, value });
                }
            }
            _ => {}
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
#----------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.11, MPI-1 part
# Minimum message length in bytes:   0
# List of Benchmarks to run:

# PingPong

#---------------------------------------------------
# Benchmarking PingPong 
# #processes = 2 
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         0.24         0.00
            1         1000         0.25         3.98
      4194304           10       325.26     12895.29

#---------------------------------------------------
# Benchmarking Uniband 
# #processes = 2 
#---------------------------------------------------
       #bytes #repetitions   Mbytes/sec      Msg/sec
            8           10        47.38      5922721

#-----------------------------------------------------------------------------
# Benchmarking Sendrecv 
# #processes = 2 
#-----------------------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec
            2           10         3.39         3.49         3.44         1.15

#---------------------------------------------------
# Benchmarking Barrier 
# #processes = 2 
#---------------------------------------------------
 #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1000         0.37         0.38         0.38


# All processes entering MPI_Finalize
";

    #[test]
    fn each_table_gives_its_sizes() {
        let figures = parse(OUTPUT).expect("tables");
        let of = |figure: &Figure| (figure.operation.clone(), figure.bytes, figure.value);
        let wanted = [("PingPong", 1, 0.25), ("PingPong", 4 << 20, 325.26), ("Uniband", 8, 5922721.0)];
        let wanted = wanted.into_iter().chain([("Sendrecv", 2, 3.49), ("Barrier", 0, 0.38)]);
        let wanted: Vec<_> = wanted.map(|(name, bytes, value)| (name.to_owned(), bytes, value)).collect();
        assert_eq!(figures.iter().map(of).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn strange_lines_in_tables_are_errors() {
        for (from, to) in [("3.98\n", "3.98\nerror\n"), ("t[usec]", "time"), ("0.25", "fast")] {
            let why = parse(&OUTPUT.replace(from, to)).expect_err("not a table");
            assert!(why.contains("not a result"), "{why}");
        }
    }

    #[test]
    fn the_mode_of_one_sided_benchmarks_is_told() {
        let table = |mode| {
            format!(
                "# Benchmarking Unidir_put \n#\n#    MODE: {mode} \n#\n #bytes #repetitions t[usec]\n 8 100 0.03\n\n"
            )
        };
        let figures = parse(&[table("NON-AGGREGATE"), table("AGGREGATE")].concat()).expect("tables");
        let names: Vec<_> = figures.iter().map(|figure| figure.operation.as_str()).collect();
        assert_eq!(names, ["Unidir_put", "Unidir_put, aggregate"]);
    }

    #[test]
    fn counts_and_sizes_become_arguments() {
        let words = arguments(&["PingPong"], 100, 200 << 20, (0, 22)).join(" ");
        assert_eq!(words, "PingPong -npmin 2 -msglog 0:22 -iter 100,200 -zero_size off");
    }
}
