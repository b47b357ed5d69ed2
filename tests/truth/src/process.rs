//! A program that ends when this process does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs its arguments as a program, and kills that program when standard input closes. A
/// closed pipe is the one sign of a parent's end that comes however the parent ended. Who ends a whole group of
/// processes politely does not end the one that waits for it: a server may take a minute over its last words.
const SUPERVISOR: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- &
child=$!
( trap '' TERM; read -r _ <&3; kill -KILL "$child" ) 2>/dev/null &
watcher=$!
wait "$child"
status=$?
kill -KILL "$watcher" 2>/dev/null
exit "$status"
"#;

/// Removes the folder that is its argument when standard input closes without a word: the
/// parent ended and could not tidy up. The pause lets programs die that still write there.
const JANITOR: &str = r#"
read -r word
[ "$word" = done ] || { sleep 1; rm -rf "$1"; }
"#;

/// How many last lines of a log an error shows.
const LOG_LINES_SHOWN: usize = 15;

/// A running program. Dropping it kills the program and waits for its end.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    shell: Child,
}

impl Process {
    /// Starts `program` with its output going to `<name>.log` in `folder`.
    ///
    /// # Errors
    /// Where the log cannot be written or there is no `sh`.
    pub fn start(name: &str, program: &Path, arguments: &[String], folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let output =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = output.try_clone().context("cannot share the log file")?;
        let shell = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot run {} under sh", program.display()))?;
        Ok(Self { name: name.to_owned(), log, shell })
    }

    /// The process id of the shell above the program, which has no other program below it.
    #[must_use]
    pub fn supervisor_id(&self) -> u32 {
        self.shell.id()
    }

    /// Where the program writes its log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// An error, with the end of the log, where the program has ended by itself.
    ///
    /// # Errors
    /// Where the program is no longer running.
    pub fn check(&mut self) -> Result<()> {
        let ended = self.shell.try_wait().context("cannot look after a program")?;
        match ended {
            None => Ok(()),
            Some(status) => {
                bail!("{} ended by itself ({status}); {}", self.name, self.log_tail())
            }
        }
    }

    /// The last lines of the log, and where the whole is.
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        format!("its log {} ends with:\n{}", self.log.display(), tail.join("\n"))
    }
}

impl Process {
    /// Kills the program and waits for its end.
    pub(crate) fn end(&mut self) {
        drop(self.shell.stdin.take());
        // The shell ends right after the program that was just killed.
        let _ = self.shell.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A folder for logs and data that goes away with this process, or is kept on request.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    janitor: Child,
    kept: bool,
}

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("gantry-truth-")
            .tempdir()
            .context("cannot create a temporary folder")?;
        let path = folder.keep();
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run sh")?;
        Ok(Self { path, janitor, kept: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is, for someone to read the logs.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed stays in the system's temporary folder: no harm done.
            let _ = fs::remove_dir_all(&self.path);
        }
        if let Some(mut words) = self.janitor.stdin.take() {
            let _ = std::io::Write::write_all(&mut words, b"done\n");
        }
        let _ = self.janitor.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn shell(folder: &Folder, script: &str) -> Process {
        let arguments = ["-c".to_owned(), script.to_owned()];
        Process::start("script", Path::new("/bin/sh"), &arguments, folder.path()).unwrap()
    }

    fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition() {
            assert!(Instant::now() < deadline, "{what} within 10 s");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn pid_written(path: &Path) -> u32 {
        wait_for("a process id", || {
            fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'))
        });
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }

    #[test]
    fn a_program_ends_with_its_handle() {
        let folder = Folder::new().unwrap();
        let mut process = shell(&folder, "echo $$; exec sleep 1000");
        let pid = pid_written(process.log());
        process.check().unwrap();
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_program_that_ends_by_itself_is_an_error_with_its_last_words() {
        let folder = Folder::new().unwrap();
        let mut process = shell(&folder, "echo port in use; exit 3");
        wait_for("an end", || process.check().is_err());
        let error = process.check().unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("port in use"), "{error}");
    }

    #[test]
    fn a_folder_goes_away_unless_kept() {
        let folder = Folder::new().unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());

        let mut folder = Folder::new().unwrap();
        folder.keep();
        let path = folder.path().to_owned();
        drop(folder);
        assert!(path.exists());
        fs::remove_dir_all(path).unwrap();
    }
}
