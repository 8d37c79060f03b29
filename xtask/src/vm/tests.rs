//! Tests of everything but the machine itself.

use super::*;

#[test]
fn libraries_are_those_that_the_loader_finds() {
    let said = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1)\n\
                \t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n";
    let found = linked(said).expect("all are there");
    assert_eq!(
        found,
        [Path::new("/lib/x86_64-linux-gnu/libc.so.6"), Path::new("/lib64/ld-linux-x86-64.so.2")]
    );
    assert_eq!(place(&found[1]), "/usr/lib64/ld-linux-x86-64.so.2");
    assert_eq!(place(Path::new("/opt/lib/x.so")), "/opt/lib/x.so");
    assert_eq!(linked("\tlibx.so => not found\n"), Err("libx.so => not found".into()));
    assert_eq!(linked("\tnot a dynamic executable\n"), Ok(Vec::new()));
}

#[test]
fn the_verdict_is_the_guests_if_there_is_one() {
    assert_eq!(judge("exit 0\n", Some(0)), Ok(0));
    assert_eq!(judge("exit 3\r\n", Some(0)), Ok(3));
    let said = |said, ended| judge(said, ended).expect_err("no verdict");
    assert!(said("setup insmod /modules/dummy.ko", Some(0)).contains("could not insmod /modules/dummy.ko"));
    assert!(said("", Some(124)).contains("ended after"));
    assert!(said("", Some(0)).contains("without a verdict"));
    assert!(said("exit", Some(1)).contains("status 1"));
    assert!(said("", None).contains("killed"));
}

/// Runs a script with this host's shell: name and arguments of the functions in front of it.
fn output(text: &str) -> (String, Option<i32>) {
    let done = Command::new("sh").args(["-c", text]).output().expect("a shell");
    (String::from_utf8_lossy(&done.stdout).into_owned(), done.status.code())
}

#[test]
fn one_command_keeps_its_words() {
    let run = ["printf", "[%s]", "a b", "it's", "$HOME"].map(str::to_owned);
    assert_eq!(output(&script(&run)), ("[a b][it's][$HOME]".into(), Some(0)));
    assert_eq!(output(&script(&["echo a | tr a b; exit 5".to_owned()])), ("b\n".into(), Some(5)));
    assert_eq!(output(&script(&[format!("echo ${NO_SKIP}")])), ("1\n".into(), Some(0)));
}

#[cfg(target_os = "linux")]
#[test]
fn all_steps_run_and_one_that_fails_fails_the_job() {
    // A host that has none of the programs.
    let text =
        format!("PATH=/nonexistent; timeout() {{ return 1; }}; awk() {{ echo 1.0; }}\n{}", script(&[]));
    let (said, status) = output(&text);
    assert_eq!(status, Some(1));
    for (name, _) in STEPS {
        assert!(said.contains(&format!("vm: {name}: FAILED with status 1, 1.0 s")), "{said}");
    }
    let text = text.replace("return 1;", "return 0;");
    let (said, status) = output(&text);
    assert_eq!((status, said.matches(": ok, 1.0 s").count()), (Some(0), STEPS.len()), "{said}");
}

#[test]
fn cargo_names_the_program() {
    let message = r#"{"reason":"compiler-artifact","target":{"name":"real"},"executable":"/t/debug/deps/real-1f","fresh":true}"#;
    assert_eq!(executable(message, "real"), Some("/t/debug/deps/real-1f".into()));
    assert_eq!(executable(message, "other"), None);
    assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null}"#, "real"), None);
}

#[test]
fn a_step_that_names_no_test_is_found() {
    let here = std::env::current_exe().expect("this program");
    assert_eq!(names_tests(&here, " --include-ignored -q a_step_that_names_no_test"), Ok(()));
    let said = names_tests(&here, " -q by_magic").expect_err("no such test");
    assert!(said.contains("`-q by_magic`; was one renamed"), "{said}");
    assert!(names_tests(Path::new("/nonexistent"), "").expect_err("no such program").contains("cannot run"));
}

#[cfg(target_os = "linux")]
#[test]
fn what_killed_runs_have_left_is_removed() {
    let folder = std::env::temp_dir().join(format!("netmod-sweep-{}", std::process::id()));
    fs::create_dir_all(folder.join("image-4294967295")).expect("a folder");
    let live = format!("initrd-{}", std::process::id());
    for name in ["verdict-4294967295", "image", "initrd-x", &live] {
        fs::write(folder.join(name), "").expect("a file");
    }
    sweep(&folder);
    let mut left: Vec<String> = fs::read_dir(&folder)
        .expect("the folder")
        .map(|f| f.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    let mut expected = ["image".to_owned(), live, "initrd-x".to_owned()];
    expected.sort();
    assert_eq!(left, expected);
    fs::remove_dir_all(&folder).expect("it can be removed");
}
