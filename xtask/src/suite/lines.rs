//! Lists of tests, as MPICH's suite has them: a program, its number of ranks, and words
//! `KEY=VALUE`.

/// The way in which a test tells that it has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expects {
    /// Ends with status 0, and prints that there were no errors and nothing else.
    NoErrors,
    /// Ends with another status, and prints what it likes.
    Failure,
    /// Ends with another status, and prints that there were no errors and nothing else.
    FailureNoErrors,
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Test {
    /// The folder of the list, in the suite.
    pub(crate) list: String,
    pub(crate) program: String,
    pub(crate) ranks: u32,
    pub(crate) arguments: Vec<String>,
    /// Arguments of the launcher.
    pub(crate) launcher: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// Seconds after which the launcher ends it, if the list says so.
    pub(crate) limit: Option<u64>,
    pub(crate) expects: Expects,
    /// GB of memory that all ranks need.
    pub(crate) memory: f64,
}

impl Test {
    /// Returns its place in the suite, which lines of other ranks or arguments share.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.list, self.program)
    }

    /// Returns its name: path, ranks, variables and arguments.
    pub(crate) fn name(&self) -> String {
        let mut name = format!("{} {}", self.path(), self.ranks);
        for (variable, value) in &self.environment {
            name += &format!(" {variable}={value}");
        }
        for argument in &self.arguments {
            name += &format!(" {argument}");
        }
        name
    }
}

/// Reads a list.
///
/// # Errors
/// In words, if a line has a key or a value that is not known.
pub(crate) fn read(list: &str, text: &str) -> Result<Vec<Test>, String> {
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or_default().trim());
    let lines = lines.filter(|l| !l.is_empty());
    lines.map(|l| line(list, l).map_err(|why| format!("{list}/testlist: {l}: {why}"))).collect()
}

fn line(list: &str, line: &str) -> Result<Test, String> {
    let mut words = line.split_whitespace();
    let mut test = Test {
        list: list.into(),
        program: words.next().unwrap_or_default().into(),
        ranks: 2,
        arguments: Vec::new(),
        launcher: Vec::new(),
        environment: Vec::new(),
        limit: None,
        expects: Expects::NoErrors,
        memory: 0.0,
    };
    if let Some(ranks) = words.next() {
        test.ranks = ranks.parse().map_err(|_| format!("{ranks} is no number of ranks"))?;
    }
    // Words without a value are comments of the suite.
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        let fault = || format!("{key} cannot be {value}");
        match key {
            "arg" => test.arguments.push(value.into()),
            "mpiexecarg" => test.launcher.push(value.into()),
            "env" => {
                let (name, value) = value.split_once('=').ok_or_else(fault)?;
                test.environment.push((name.into(), value.into()));
            }
            "timeLimit" => test.limit = Some(value.parse().map_err(|_| fault())?),
            "mem" => test.memory = value.parse().map_err(|_| fault())?,
            "resultTest" => {
                test.expects = match value {
                    "TestStatus" | "TestErrFatal" => Expects::Failure,
                    "TestStatusNoErrors" => Expects::FailureNoErrors,
                    _ => return Err(fault()),
                }
            }
            // These tests run, too: MPICH's known failures, those beyond MPI, those that lock
            // parallel runs out, and those of a version of MPI.
            "xfail" | "strict" | "mpix" | "lock" | "mpiversion" => {}
            _ => return Err(format!("{key} is not known")),
        }
    }
    Ok(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_all_that_they_ask_for() {
        let text = "# a comment\n\nring 4\n\
            pair\n\
            more 2 some/path arg=-n arg=-list=a,b env=ONE=1 env=TWO=a=b timeLimit=600 mem=6.5 xfail=t1 # why\n\
            die 3 mpiexecarg=-go-on strict=false resultTest=TestStatus\n";
        let tests = read("a/b", text).expect("a sound list");
        let names: Vec<_> = tests.iter().map(Test::name).collect();
        let more = "a/b/more 2 ONE=1 TWO=a=b -n -list=a,b";
        assert_eq!(names, ["a/b/ring 4", "a/b/pair 2", more, "a/b/die 3"]);
        assert_eq!((tests[2].limit, tests[2].memory), (Some(600), 6.5));
        assert_eq!((tests[0].limit, tests[0].expects), (None, Expects::NoErrors));
        assert_eq!((tests[3].expects, &*tests[3].launcher), (Expects::Failure, &["-go-on".to_owned()][..]));
    }

    #[test]
    fn strange_lines_are_errors() {
        for line in ["a b", "a 2 what=1", "a 2 env=ONE", "a 2 timeLimit=x", "a 2 mem=x", "a 2 resultTest=x"] {
            let why = read("l", line).expect_err(line);
            assert!(why.starts_with("l/testlist: a "), "{why}");
        }
    }
}
