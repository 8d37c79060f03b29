//! Requests that concern other jobs: names that are published, and programs to start.
//!
//! These calls wait for the launcher's reply, which may never come. So each has a thread of its
//! own, and a time limit.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::ffi::{Library, Started};
use super::value::{Datum, Status};
use super::{PmixClient, is_miss};
use crate::{PmiError, Spawn, SpawnProgram, wire::quote};

const PUBLISHING: &str = "publishing a name (PMIx_Publish)";
const LOOKING: &str = "looking a name up (PMIx_Lookup)";
const UNPUBLISHING: &str = "unpublishing a name (PMIx_Unpublish)";
const STARTING: &str = "starting programs (PMIx_Spawn)";

/// Time in which the launcher replies.
const LIMIT: Duration = Duration::from_secs(120);

/// The status of a launcher that does not serve a call.
const NOT_SUPPORTED: Status = -47;

/// Begins the keys of names of services. Those of the launcher's own begin with `pmix`.
const SERVICE: &str = "mpi-service:";

/// Begins the variables with the values of a job that was asked for. Launchers that such a job
/// starts itself pass on none that begin with `PMI_`.
const VALUE: &str = "PMI_NETMOD_";

/// The variable with the namespace of the job that has asked.
const ASKED_BY: &str = "PMI_NETMOD_ASKED_BY";

/// Beginnings of the names of the variables that programs are given as the asking process has them:
/// the settings of this library, and the folders of libraries.
const PASSED: [&str; 2] = ["NETMOD", "LD_LIBRARY_PATH"];

/// Returns true if another job of the same launcher has asked for the job of this namespace.
///
/// Open MPI's launcher does not say so. A launcher that a process of such a job starts, in turn,
/// passes the variables on to jobs of its own.
pub(super) fn is_asked_for(namespace: &str) -> bool {
    let by = std::env::var(ASKED_BY).unwrap_or_default();
    !by.is_empty() && by != namespace && launcher_of(&by) == launcher_of(namespace)
}

/// Returns what the namespaces of a launcher's jobs have in common: what is before the last `@`
/// (PRRTE), or the upper half of a number of 32 bits (Open MPI 4).
fn launcher_of(namespace: &str) -> String {
    match (namespace.rsplit_once('@'), namespace.parse::<u32>()) {
        (Some((launcher, _)), _) => launcher.to_owned(),
        (None, Ok(number)) => (number >> 16).to_string(),
        (None, Err(_)) => namespace.to_owned(),
    }
}

/// Returns the value that those who have asked for this job have given it.
pub(super) fn value_from_parent(key: &str) -> Option<String> {
    std::env::var(format!("{VALUE}{key}")).ok().filter(|value| !value.is_empty())
}

fn service_key(service: &str) -> Result<CString, PmiError> {
    let argument = |why: String| PmiError::Argument { key: quote(service.as_bytes()), why };
    super::ffi::key(&format!("{SERVICE}{service}"))
        .ok_or_else(|| argument("it is too long, or has a zero byte".to_owned()))
}

fn text(value: impl Into<Vec<u8>>, call: &'static str) -> Result<CString, PmiError> {
    let zero = |_| PmiError::Unsupported { call, why: "a text has a zero byte in it".to_owned() };
    CString::new(value).map_err(zero)
}

/// Returns a program as libpmix takes it. `values` are those of the new job, for which the job `by`
/// asks.
fn started(program: &SpawnProgram, values: &[(String, String)], by: &str) -> Result<Started, PmiError> {
    let call = "spawn";
    let of = |names: &[&str]| {
        let found = program.info.iter().find(|(key, _)| names.contains(&key.as_str()));
        found.map(|(_, value)| value.as_str())
    };
    let folders = of(&["path"]).into_iter().flat_map(|path| path.split([':', ' ']));
    let found = folders.map(|folder| Path::new(folder).join(&program.path)).find(|path| path.is_file());
    let path = found.map_or_else(|| OsString::from(&program.path), Into::into);
    let own_folder = || std::env::current_dir().map(|folder| folder.into_os_string().into_vec());
    let folder = match of(&["wdir", "wd"]) {
        Some(folder) => folder.as_bytes().to_vec(),
        None => own_folder().map_err(|source| PmiError::Io { doing: "asking for the folder", source })?,
    };
    let mut arguments = vec![text(path.into_vec(), call)?];
    for argument in &program.args {
        arguments.push(text(argument.as_bytes(), call)?);
    }
    let mut variables = vec![text(format!("{ASKED_BY}={by}"), call)?];
    for (key, value) in values {
        variables.push(text(format!("{VALUE}{key}={value}"), call)?);
    }
    for (name, value) in std::env::vars_os() {
        let name = name.into_vec();
        if PASSED.iter().any(|passed| name.starts_with(passed.as_bytes())) {
            variables.push(text([&name, &b"="[..], &value.into_vec()].concat(), call)?);
        }
    }
    let attributes = match of(&["host"]) {
        Some(hosts) => vec![(c"pmix.host".to_owned(), text(hosts, call)?)],
        None => Vec::new(),
    };
    let folder = text(folder, call)?;
    let processes = i32::try_from(program.ranks).unwrap_or(i32::MAX);
    Ok(Started { arguments, variables, folder, processes, attributes })
}

impl PmixClient {
    /// Calls libpmix on a thread of its own, and waits for its end.
    fn call<T: Send + 'static>(
        &self,
        doing: &'static str,
        body: impl FnOnce(&Library) -> Result<T, Status> + Send + 'static,
    ) -> Result<Result<T, Status>, PmiError> {
        let library = Arc::clone(&self.library);
        let (sender, answer) = mpsc::channel();
        std::thread::Builder::new()
            .name("pmix-call".to_owned())
            .spawn(move || sender.send(body(&library)))
            .map_err(|source| PmiError::Io { doing, source })?;
        answer.recv_timeout(LIMIT).map_err(|_| PmiError::Timeout { doing, after: LIMIT })
    }

    fn failed(&self, call: &'static str, doing: &'static str, status: Status) -> PmiError {
        if status == NOT_SUPPORTED {
            let why =
                "its PMIx server does not serve it; start the program by mpiexec (nmrun) or mpiexec.hydra";
            return PmiError::Unsupported { call, why: why.to_owned() };
        }
        self.error(doing, status)
    }

    pub(super) fn publish(&self, service: &str, port: &str) -> Result<(), PmiError> {
        let (name, port) = (service_key(service)?, text(port, "publish_name")?);
        let done = self.call(PUBLISHING, move |library| library.publish(&name, &port))?;
        done.map_err(|status| self.failed("publish_name", PUBLISHING, status))
    }

    pub(super) fn lookup(&self, service: &str) -> Result<Option<String>, PmiError> {
        let name = service_key(service)?;
        match self.call(LOOKING, move |library| library.lookup(&name))? {
            Ok(Datum::Text(port)) => Ok(Some(port)),
            Ok(other) => {
                let why = format!("it is {other:?}, no text");
                Err(PmiError::Corrupt { key: quote(service.as_bytes()), why })
            }
            Err(status) if is_miss(status) => Ok(None),
            Err(status) => Err(self.failed("lookup_name", LOOKING, status)),
        }
    }

    /// Takes a name back. Launchers do not tell whether it was published, so that it is looked up
    /// before.
    pub(super) fn unpublish(&self, service: &str) -> Result<(), PmiError> {
        let name = service_key(service)?;
        if self.lookup(service)?.is_none() {
            let line = format!("\"{}\" is not published", quote(service.as_bytes()));
            return Err(PmiError::Refused { doing: UNPUBLISHING, line });
        }
        let done = self.call(UNPUBLISHING, move |library| library.unpublish(&name))?;
        done.map_err(|status| self.failed("unpublish_name", UNPUBLISHING, status))
    }

    pub(super) fn start(&self, spawn: &Spawn) -> Result<Option<String>, PmiError> {
        let programs = spawn.programs.iter().map(|program| started(program, &spawn.values, &self.namespace));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        let done = self.call(STARTING, move |library| library.spawn(&programs))?;
        done.map(Some).map_err(|status| self.failed("spawn", STARTING, status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_described_with_its_wishes() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut program = SpawnProgram {
            path: "sh".into(),
            args: vec!["-c".into(), String::new()],
            ranks: 3,
            info: vec![pair("wdir", "/"), pair("host", "a,b"), pair("path", "/no/such:/bin"), pair("x", "y")],
        };
        let values = [pair("PORT", "netmod-port:abc")];
        let described = started(&program, &values, "7@1").expect("a program");
        assert_eq!(described.arguments, [c"/bin/sh".to_owned(), c"-c".to_owned(), c"".to_owned()]);
        assert_eq!(described.attributes, [(c"pmix.host".to_owned(), c"a,b".to_owned())]);
        assert_eq!((described.folder.as_c_str(), described.processes), (c"/", 3));
        assert_eq!(described.variables[0].as_c_str(), c"PMI_NETMOD_ASKED_BY=7@1");
        assert_eq!(described.variables[1].as_c_str(), c"PMI_NETMOD_PORT=netmod-port:abc");
        program.args[1] = "a\0b".into();
        assert!(matches!(started(&program, &values, "7@1"), Err(PmiError::Unsupported { .. })));
    }

    #[test]
    fn jobs_of_one_launcher_have_names_that_begin_alike() {
        for (one, other, same) in [
            ("1798832129", "1798832130", true),
            ("1798832129", "1798963201", false),
            ("prterun-host-77@1", "prterun-host-77@2", true),
            ("prterun-host-77@1", "prterun-host-78@1", false),
            ("slurm.pmix.1.0", "slurm.pmix.1.1", false),
        ] {
            assert_eq!(launcher_of(one) == launcher_of(other), same, "{one} {other}");
        }
    }

    #[test]
    fn names_of_services_are_no_keys_of_the_launcher() {
        assert_eq!(service_key("pmix.range").expect("a key").as_c_str(), c"mpi-service:pmix.range");
        for bad in ["a\0b".to_owned(), "n".repeat(600)] {
            assert!(matches!(service_key(&bad), Err(PmiError::Argument { .. })));
        }
    }
}
