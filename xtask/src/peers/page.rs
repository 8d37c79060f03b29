//! The dated page of a run, with its pictures.

use std::path::Path;
use std::process::Command;

use super::cells::Cell;
use super::comparison::Comparison;
use super::heatmap::{Column, Field};
use super::summary::{Measured, Used, cores, sums};
use super::verdict::Verdict;
use super::{heatmap, table};
use crate::command::{output, root};

/// Day, revision and machine of a run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The day, as 2026-11-27.
    date: String,
    /// The commit of this tree, and whether the library may be of another.
    revision: String,
    machine: String,
    runs: usize,
    rounds: usize,
}

impl Run {
    /// Returns what holds now. `from` is the folder with a library that was built before.
    ///
    /// # Errors
    /// If git or date cannot say it.
    pub(crate) fn now(runs: usize, rounds: usize, from: Option<&Path>) -> Result<Run, String> {
        let line = |text: String| text.trim().to_owned();
        let date = line(output(Command::new("date").args(["-u", "+%F"]))?);
        let mut git = Command::new("git");
        git.args(["describe", "--always", "--dirty", "--exclude=*"]).current_dir(root());
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let machine = machine(&read("/proc/cpuinfo"), &read("/proc/sys/kernel/osrelease"));
        let mut revision = line(output(&mut git)?);
        if let Some(from) = from {
            revision += &format!(", with the library that was in {}", from.display());
        }
        Ok(Run { date, revision, machine, runs, rounds })
    }

    /// Returns how often all was measured.
    pub(crate) fn count(&self) -> String {
        let some = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!("{} of {}", some(self.runs, "run"), some(self.rounds, "round"))
    }
}

fn machine(cpuinfo: &str, release: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor without a name", |(_, model)| model);
    let processors = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let virtual_one = if cpuinfo.contains(" hypervisor") { " of a virtual machine" } else { "" };
    format!("{model}, {processors} processors{virtual_one}, Linux {}", release.trim())
}

/// Writes the page and the pictures into a folder, and returns the name of the page.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(folder: &Path, run: &Run, measured: &[Measured]) -> Result<String, String> {
    for measured in measured {
        let title = format!("Ours by the best peer, {}, {}", measured.netmod.name(), run.date);
        let of_pairs = measured.cells.iter().filter(|cell| cell.operation.is_pair());
        let field = |cell: &Cell| Field {
            name: cell.operation.name.to_owned(),
            column: Column::Bytes(cell.bytes),
            ratio: cell.judged(),
            failed: cell.verdict() == Verdict::Failed,
        };
        let fields: Vec<_> = of_pairs.map(field).collect();
        put(folder, &picture(run, measured), &heatmap::draw(&title, &fields))?;
    }
    let name = format!("programs-{}.md", run.date);
    put(folder, &name, &page(run, measured))?;
    Ok(name)
}

/// Writes the page of a comparison and its pictures into a folder, and returns its name.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_comparison(
    folder: &Path,
    run: &Run,
    used: &[Used],
    comparison: &dyn Comparison,
) -> Result<String, String> {
    let Run { date, revision, machine, .. } = run;
    let (distances, what) = comparison.distances();
    let mut text = format!(
        "# {} on this library and on its peers, {date}\n\n\
         `cargo xtask peers --programs --filter {}` at {revision}. {machine}. {}, in each of which the \
         libraries run in turn; medians.\n\n{}\n\n{}\n{}\n\n",
        comparison.title(),
        comparison.name(),
        run.count(),
        comparison.note(),
        libraries(used),
        cores(distances, what)
    );
    comparison.sums().iter().for_each(|sum| text += &format!("- {sum}\n"));
    let page = comparison.page(date);
    for picture in comparison.pictures(date) {
        let name = format!("{page}{}.svg", picture.ending);
        put(folder, &name, &picture.svg)?;
        text += &format!("\n![{}]({name})\n", picture.about);
    }
    text += &format!("\n{}", comparison.markdown());
    let name = format!("{page}.md");
    put(folder, &name, &text)?;
    Ok(name)
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn libraries(used: &[Used]) -> String {
    let mut text = String::from("| library | version | transport, as it says |\n|---|---|---|\n");
    for (library, version, transport) in used {
        text += &format!("| {} | {} | {transport} |\n", library.name(), version.replace('|', "\\|"));
    }
    text
}

fn picture(run: &Run, measured: &Measured) -> String {
    format!("programs-{}-{}.svg", run.date, measured.netmod.name())
}

fn page(run: &Run, measured: &[Measured]) -> String {
    let Run { date, revision, machine, .. } = run;
    let mut text = format!(
        "# MPI programs on this library and on its peers, {date}\n\n\
         `cargo xtask peers --programs` at {revision}. {machine}. {}, in each of which the libraries \
         run in turn; medians, of rates those of the better half.\n\n{}\n",
        run.count(),
        table::NOTE
    );
    for measured in measured {
        text += &format!("\n## {}\n\n{}", measured.netmod.name(), libraries(&measured.used));
        text += &format!("\n{}\n", measured.cores());
        text += &format!("\n![ratios by operation and size]({})\n\n", picture(run, measured));
        for (title, sum) in sums(&measured.cells) {
            text += &format!("- {title}: {}\n", sum.words());
        }
        text += &format!("\n{}", table::markdown(&measured.cells));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::library::{Library, Netmod};
    use super::super::table::tests::some;
    use super::super::{applications, collectives, layouts, windows};
    use super::*;

    fn run() -> Run {
        let (date, revision, machine) = ("2026-01-02".into(), "abc".into(), "a machine".into());
        Run { date, revision, machine, runs: 1, rounds: 5 }
    }

    fn measured() -> Measured {
        let used = vec![(Library::Intel, "1|2".into(), "shm segments".into())];
        Measured { netmod: Netmod::Shm, used, distances: Vec::new(), cells: some() }
    }

    #[test]
    fn the_page_names_machine_versions_transports_and_pictures() {
        let folder = std::env::temp_dir().join(format!("netmod-page-{}", std::process::id()));
        assert_eq!(write(&folder, &run(), &[measured()]).as_deref(), Ok("programs-2026-01-02.md"));
        let page = std::fs::read_to_string(folder.join("programs-2026-01-02.md")).expect("the page");
        for part in [
            "at abc. a machine. 1 run of 5 rounds",
            "| Intel MPI | 1\\|2 | shm segments |",
            "](programs-2026-01-02-shm.svg)",
            "- point to point: goal not reached: 1 of 2 cells fail",
            "| PingPong | 8 |",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(folder.join("programs-2026-01-02-shm.svg").is_file());
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }

    #[test]
    fn the_page_of_layouts_names_the_command_and_the_rows_that_fail() {
        let folder = std::env::temp_dir().join(format!("netmod-layouts-{}", std::process::id()));
        let used = [(Library::Intel, "1|2".into(), "shm segments".into())];
        let name = write_comparison(&folder, &run(), &used, &layouts::tests::some());
        assert_eq!(name.as_deref(), Ok("layouts-2026-01-02.md"));
        let page = std::fs::read_to_string(folder.join("layouts-2026-01-02.md")).expect("the page");
        for part in [
            "--filter layouts` at abc. a machine. 1 run",
            "| 1\\|2 |",
            "1 of 1 rows with a goal fail",
            "| a | pack |",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }

    #[test]
    fn the_page_of_collectives_has_a_picture_for_each_number_of_ranks() {
        let folder = std::env::temp_dir().join(format!("netmod-collectives-{}", std::process::id()));
        let name = write_comparison(&folder, &run(), &[], &collectives::tests::some());
        assert_eq!(name.as_deref(), Ok("programs-2026-01-02-collectives.md"));
        let page =
            std::fs::read_to_string(folder.join("programs-2026-01-02-collectives.md")).expect("the page");
        for part in ["at abc. a machine. 1 run", "- 8 ranks: 1 of 1 cells fail", "| 2 | Bcast |"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        for ranks in [2, 8] {
            let picture = format!("programs-2026-01-02-collectives-{ranks}.svg");
            assert!(page.contains(&format!("]({picture})")) && folder.join(&picture).is_file(), "{picture}");
        }
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }

    #[test]
    fn the_page_of_applications_has_a_picture() {
        let folder = std::env::temp_dir().join(format!("netmod-applications-{}", std::process::id()));
        let name = write_comparison(&folder, &run(), &[], &applications::tests::some());
        assert_eq!(name.as_deref(), Ok("programs-2026-01-02-applications.md"));
        let page =
            std::fs::read_to_string(folder.join("programs-2026-01-02-applications.md")).expect("the page");
        let picture = "programs-2026-01-02-applications.svg";
        for part in [
            "--filter applications` at abc",
            "- 1 of 2 rows fail",
            "| LAMMPS melt: inside MPI | 8 |",
            picture,
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(folder.join(picture).is_file());
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }

    #[test]
    fn the_page_of_windows_has_means_and_the_table() {
        let folder = std::env::temp_dir().join(format!("netmod-windows-{}", std::process::id()));
        let name = write_comparison(&folder, &run(), &[], &windows::tests::some());
        assert_eq!(name.as_deref(), Ok("programs-2026-01-02-windows.md"));
        let page = std::fs::read_to_string(folder.join("programs-2026-01-02-windows.md")).expect("the page");
        for part in [
            "--filter windows` at abc. a machine. 1 run",
            "- all: geometric mean",
            "| Unidir_put | 8 |",
            "](programs-2026-01-02-windows.svg)",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(folder.join("programs-2026-01-02-windows.svg").is_file());
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }

    #[test]
    fn a_library_that_was_built_before_is_named() {
        let run = Run::now(1, 5, Some(Path::new("built"))).expect("git and date");
        assert!(run.revision.ends_with(", with the library that was in built"), "{run:?}");
        assert_eq!(run.date.split('-').map(str::len).collect::<Vec<_>>(), [4, 2, 2]);
        assert_eq!(run.count(), "1 run of 5 rounds");
    }

    #[test]
    fn a_machine_has_a_model_and_processors() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A B\nflags\t\t: fpu hypervisor\nprocessor\t: 1\n";
        assert_eq!(machine(cpuinfo, "6.1\n"), "A B, 2 processors of a virtual machine, Linux 6.1");
        assert_eq!(machine("", "6.1"), "a processor without a name, 0 processors, Linux 6.1");
    }
}
