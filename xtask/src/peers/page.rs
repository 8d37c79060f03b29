//! The dated page of a run, with a picture for each transport.

use std::path::Path;
use std::process::Command;

use super::summary::{Measured, sums};
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
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    for measured in measured {
        let title = format!("Ours by the best peer, {}, {}", measured.netmod.name(), run.date);
        put(&picture(run, measured), &heatmap::draw(&title, &measured.cells))?;
    }
    let name = format!("programs-{}.md", run.date);
    put(&name, &page(run, measured))?;
    Ok(name)
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
        text += &format!(
            "\n## {}\n\n| library | version | transport, as it says |\n|---|---|---|\n",
            measured.netmod.name()
        );
        for (library, version, transport) in &measured.used {
            let version = version.replace('|', "\\|");
            text += &format!("| {} | {version} | {transport} |\n", library.name());
        }
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
